// What the theme's scripts and Sphinx's leave to do.
(() => {
  "use strict";
  // For these they write code into the page, which a strict policy forbids.
  document.addEventListener("click", (event) => {
    const on = (selector) => event.target.closest(selector);
    if (on(".btn-download-pdf-button")) print();
    if (on(".btn-fullscreen-button")) toggleFullScreen();
    if (on("#searchbox a")) {
      event.preventDefault();
      SphinxHighlight.hideSearchWords();
    }
  });
  // A sidebar over the page would hide where its link leads.
  const closeSidebar = ({ target }) =>
    target.closest("dialog .page-toc a")?.closest("dialog").close("followed");
  document.addEventListener("click", closeSidebar, true);
  // They take the focus from the button that opens a sidebar, so that it has nowhere to return to.
  const giveBack = ({ target }) => {
    const [, side] = target.id.match(/^pst-(primary|secondary)-sidebar-modal$/) ?? [];
    if (side && target.returnValue !== "followed")
      document.querySelector(`.${side}-toggle`).focus({ preventScroll: true });
    target.returnValue = "";
  };
  document.addEventListener("close", giveBack, true);
  // Sphinx marks the words of a search in a div.body, or else in all that a page has, its scripts
  // included. It looks for one as soon as its own script runs, which comes next.
  const text = document.querySelector("div.bd-article-container");
  text?.classList.add("body");
  document.addEventListener("DOMContentLoaded", () => {
    text?.classList.remove("body");
    document.querySelector(".bd-search-container input")?.focus();
    if (typeof Search === "undefined") return;
    // It takes excerpts of a page from its contents, too, which are there for print.
    const { htmlToText } = Search;
    Search.htmlToText = (page, anchor) => {
      const { outerHTML } = new DOMParser().parseFromString(page, "text/html").querySelector("article");
      return htmlToText(`<div role="main">${outerHTML}</div>`, anchor);
    };
  });
  // Whoever has searched reads on where all the words are, or else where the first of them is.
  function goToMarks() {
    if (!document.querySelector(".highlight-link")) return;
    const marks = [...document.querySelectorAll("article span.highlighted")].filter((mark) =>
      mark.checkVisibility(),
    );
    const words = [...new Set(marks.map((mark) => mark.textContent.toLowerCase()))];
    const hasAll = (mark) => {
      const around = mark.closest("p, li, tr, pre, dt, h1, h2, h3") ?? mark.parentElement;
      return words.every((word) => around.textContent.toLowerCase().includes(word));
    };
    if (!marks.length) SphinxHighlight.hideSearchWords();
    else if (!location.hash) (marks.find(hasAll) ?? marks[0]).scrollIntoView({ block: "center" });
  }
  addEventListener("load", () => setTimeout(goToMarks, 20)); // by then they are there
  // A formula that has room is no stop for the Tab key.
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const box = target.closest("div.math");
      box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
    }
  });
  document.querySelectorAll("div.math, div.math mjx-math").forEach((e) => observer.observe(e));
  // The search may not read the pages that it finds when they are files, and says so in vain.
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
})();

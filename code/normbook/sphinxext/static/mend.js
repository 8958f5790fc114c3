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
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".bd-search-container input")?.focus();
  });
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

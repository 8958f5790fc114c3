// Loaded before the page is painted: light or dark, and what the style sheet can't do.
(() => {
  "use strict";
  const page = document.documentElement;

  // In a sandbox, or where the reader lets no page store anything, to look is an error, at which
  // Sphinx's scripts would end. Then what they store lasts as long as the page.
  try {
    localStorage.getItem("theme");
  } catch {
    const stored = new Map();
    const value = {
      getItem: (key) => stored.get(key) ?? null,
      setItem: (key, text) => stored.set(key, `${text}`),
      removeItem: (key) => stored.delete(key),
    };
    Object.defineProperty(window, "localStorage", { value });
  }

  // As chosen at an earlier visit; the style sheet knows what the reader's system wants.
  const themes = ["light", "dark", "system"];
  page.dataset.theme = localStorage.getItem("theme") ?? "system";
  function switchTheme() {
    page.dataset.theme = themes[(themes.indexOf(page.dataset.theme) + 1) % 3];
    localStorage.setItem("theme", page.dataset.theme);
  }

  // A page read from its top has its first screen and its widgets laid out first, the rest once it
  // has loaded (the style is in book.css). Elsewhere, the height of what is above must be known.
  if (performance.getEntriesByType("navigation")[0]?.type === "navigate" && !location.hash) {
    page.classList.add("nb-loading");
    addEventListener("load", () => page.classList.remove("nb-loading"));
  }

  document.addEventListener("click", (event) => {
    const on = (selector) => event.target.closest(selector);
    if (on(".theme-switch")) switchTheme();
    on("[popover] a")?.closest("[popover]").hidePopover(); // it would hide where its link leads
    if (on(".highlight-link")) {
      event.preventDefault(); // a strict policy forbids the code that Sphinx writes into the link
      SphinxHighlight.hideSearchWords();
    }
  });

  addEventListener("keydown", ({ key }) => {
    if (key === "Escape") document.querySelector(":popover-open")?.hidePopover(); // else Sphinx has it
  });

  // What scrolls inside itself is a stop for the Tab key, and nothing else of its kind is.
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const box = target.closest(SCROLLS);
      box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
    }
  });
  const SCROLLS = "pre, div.math, .cell_output, .table-box";
  document.addEventListener("DOMContentLoaded", () => {
    for (const box of document.querySelectorAll(SCROLLS))
      for (const part of [box, ...box.children]) observer.observe(part);
  });

  // Whoever has searched reads on where all the words are, or else where the first of them is.
  function goToMarks() {
    const marks = document.querySelectorAll("span.highlighted");
    const seen = [...marks].filter((mark) => mark.checkVisibility());
    const words = [...new Set(seen.map((mark) => mark.textContent.toLowerCase()))];
    const hasAll = (mark) => {
      const around = mark.closest("p, li, tr, pre, dt, h1, h2, h3") ?? mark.parentElement;
      return words.every((word) => around.textContent.toLowerCase().includes(word));
    };
    const to = seen.find(hasAll) ?? seen[0];
    if (to && !location.hash) to.scrollIntoView({ block: "center" });
  }
  addEventListener("load", () => setTimeout(goToMarks, 20)); // by then they are there
})();

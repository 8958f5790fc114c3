// What must be known before the page is first painted.
(() => {
  "use strict";
  const page = document.documentElement;

  // Light or dark, as chosen at an earlier visit, else as the reader's system. The theme's own
  // script, which comes later, switches.
  const { dataset } = page;
  dataset.mode = localStorage.getItem("mode") ?? "auto";
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  dataset.theme = dataset.mode === "auto" ? dark : dataset.mode;

  // A page read from its top has its first screen and its widgets laid out first, the rest once it
  // has loaded (the style is in book.css). Elsewhere, the height of what is above must be known.
  if (performance.getEntriesByType("navigation")[0]?.type === "navigate" && !location.hash) {
    page.classList.add("nb-loading");
    addEventListener("load", () => page.classList.remove("nb-loading"));
  }
})();

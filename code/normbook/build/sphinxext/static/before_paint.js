// What must be known before the page is first painted.
(() => {
  "use strict";
  const page = document.documentElement;

  // In a sandbox, or where the reader lets no page store anything, to look is an error, at which
  // the scripts would end. Then what they store lasts as long as the page.
  for (const name of ["localStorage", "sessionStorage"]) {
    try {
      window[name].getItem("mode");
    } catch {
      const stored = new Map();
      const value = {
        getItem: (key) => stored.get(key) ?? null,
        setItem: (key, text) => stored.set(key, `${text}`),
        removeItem: (key) => stored.delete(key),
      };
      Object.defineProperty(window, name, { value });
    }
  }

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

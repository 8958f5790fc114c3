// Before the page is first painted: light or dark, as chosen at an earlier visit, else as the
// reader's system. The theme's own script, which comes later, switches.
(() => {
  "use strict";
  const { dataset } = document.documentElement;
  dataset.mode = localStorage.getItem("mode") ?? "auto";
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  dataset.theme = dataset.mode === "auto" ? dark : dataset.mode;
})();

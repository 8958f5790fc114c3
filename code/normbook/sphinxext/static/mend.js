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
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".bd-search-container input")?.focus();
  });
  // The search may not read the pages that it finds when they are files, and says so in vain.
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
})();

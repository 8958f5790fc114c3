// What the theme's scripts and Sphinx's leave to do.
(() => {
  "use strict";
  // For these buttons the theme writes code into the page, which a strict policy forbids.
  document.addEventListener("click", ({ target }) => {
    if (target.closest(".btn-download-pdf-button")) print();
    if (target.closest(".btn-fullscreen-button")) toggleFullScreen();
  });
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".bd-search-container input")?.focus();
  });
  // The search may not read the pages that it finds when they are files, and says so in vain.
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
})();

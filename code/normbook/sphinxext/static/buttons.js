// The buttons for whose clicks the theme writes code into the page, which a strict policy forbids.
(() => {
  "use strict";
  document.addEventListener("click", ({ target }) => {
    if (target.closest(".btn-download-pdf-button")) print();
    if (target.closest(".btn-fullscreen-button")) toggleFullScreen();
  });
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".bd-search-container input")?.focus();
  });
})();

// Sphinx's own scores, but a section whose title has all that was typed comes before other pages.
var Scorer = {
  score(result) {
    const [document, title, anchor, description, score] = result;
    // Sphinx writes titles as HTML, and the names of files into addresses, as they are.
    const escape = (text) => text.replace(/[&<]/g, (c) => `&#${c.charCodeAt()};`);
    result[0] = document.split("/").map(encodeURIComponent).join("/");
    result[1] = escape(title);
    if (description) result[3] = escape(description);
    return anchor && !description ? score + 20 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
// The search may not read the pages that it finds when they are files, and says so in vain.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
stopwords.push("constructor", "__proto__"); // every object has them, so Sphinx would stop there

// Sphinx's own scores, but a section whose title has all that was typed comes before other pages.
var Scorer = {
  score: ([, , anchor, description, score]) => (anchor && !description ? score + 20 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

"""Links to single entries of the bibliography.

Chapters cite by ``[Ba et al., 2016](bibliography.md#ba2016)``, which is a link in every notebook
reader. MyST looks such an anchor up among the headings of the page, so the entries are added
there. ``bibtex_cite_id: "{key}"`` in ``_config.yml`` makes the key the entry's anchor.
"""


def note_entries(app, doctree):
    """Let MyST find the bibliography entries of the page just read, by their BibTeX key."""
    docname = app.env.docname
    for place, bibliography in app.env.get_domain("cite").bibliographies.items():
        if place.docname != docname:
            continue
        # Headings are shared with the parser's own record, so a copy is stored.
        anchors = dict(app.env.metadata[docname].get("myst_slugs", {}))
        for key, node in bibliography.citation_nodes.items():
            anchors[key] = (bibliography.line, node["ids"][0], key)
        app.env.metadata[docname]["myst_slugs"] = anchors


def setup(app):
    app.connect("doctree-read", note_entries)

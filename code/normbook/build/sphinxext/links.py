"""Links that Sphinx alone would not find: from outputs to pages, and to the bibliography's entries.

An output such as a quiz links to ``batch_norm.ipynb#running-statistics``, which is right in a
notebook reader; Sphinx doesn't look into HTML that a cell has made. Chapters cite by
``[Ba et al., 2016](bibliography.md#ba2016)``: MyST looks such an anchor up among the headings of a
page, so the entries are added there.
"""

import html
import re
from posixpath import dirname, join

from docutils import nodes
from sphinx.util import logging

logger = logging.getLogger(__name__)

LINK = re.compile(r'(?<=<a href=")([\w-]+)\.ipynb(?:#([^"]*))?(?=")')


def lead_to_pages(app, doctree, docname):
    def page(match):
        name, slug = match[1], match[2] and html.unescape(match[2])
        target = join(dirname(docname), name)
        headings = app.env.metadata.get(target, {}).get("myst_slugs", {})
        if target not in app.env.found_docs or (slug and slug not in headings):
            problem = f"an output links to {match[0]}, which isn't there"
            logger.warning(problem, location=docname, type="normbook", subtype="links")
            return match[0]
        # The anchor that Sphinx gave to the heading of this name.
        return f"{name}.html#{headings[slug][1]}" if slug else f"{name}.html"

    for node in list(doctree.findall(nodes.raw)):
        if node.get("format") == "html" and LINK.search(node.astext()):
            text = LINK.sub(page, node.astext())
            node.replace_self(nodes.raw("", text, format="html", classes=node["classes"]))


def note_entries(app, doctree):
    """Let MyST find the bibliography entries of the page just read, by their BibTeX key."""
    metadata = app.env.metadata[app.env.docname]
    for place, bibliography in app.env.get_domain("cite").bibliographies.items():
        if place.docname == app.env.docname:
            # Headings are shared with the parser's own record, so a copy is stored.
            metadata["myst_slugs"] = dict(metadata.get("myst_slugs", {})) | {
                key: (bibliography.line, node["ids"][0], key)
                for key, node in bibliography.citation_nodes.items()
            }


def setup(app):
    app.connect("doctree-resolved", lead_to_pages)
    app.connect("doctree-read", note_entries)

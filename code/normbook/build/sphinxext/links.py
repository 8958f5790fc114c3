"""Links within outputs lead to pages, as those within the text do.

An output such as a quiz links to ``batch_norm.ipynb#running-statistics``, which is right in a
notebook reader. Sphinx doesn't look into HTML that a cell has made.
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
            logger.warning(
                "an output links to %s, which isn't there", match[0], location=docname,
                type="normbook", subtype="links",
            )  # fmt: skip
            return match[0]
        # The anchor that Sphinx gave to the heading of this name.
        return f"{name}.html#{headings[slug][1]}" if slug else f"{name}.html"

    for node in list(doctree.findall(nodes.raw)):
        if node.get("format") == "html" and LINK.search(node.astext()):
            text = LINK.sub(page, node.astext())
            node.replace_self(nodes.raw("", text, format="html", classes=node["classes"]))


def setup(app):
    app.connect("doctree-resolved", lead_to_pages)

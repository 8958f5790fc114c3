"""What a page tells of itself to search engines, and to whoever shows a preview of a link to it.

The description is the page's first paragraph. Addresses must be absolute there, so they are left
out until ``html_baseurl`` says where the book is; Sphinx then names the canonical ones, too.
"""

from textwrap import shorten

from docutils import nodes

LONGEST = 200  # characters; what is longer would be cut off
LEADS = ("Question. ",)  # which say nothing outside the page


def describe(doctree: nodes.document) -> str:
    """The first paragraph of the page in one line, shortened if it is long; "" if there is none."""
    paragraph = next(iter(doctree.findall(nodes.paragraph)), None)
    text = paragraph.astext() if paragraph else ""
    for lead in LEADS:
        text = text.removeprefix(lead)
    return shorten(text, LONGEST, placeholder=" …")


def add_metadata(app, pagename, templatename, context, doctree):
    title, site = context.get("pagetitle"), app.config.html_title
    if doctree is None:  # the search has no text of its own
        title, description = "Search", f"Search the book “{site}”."
    else:
        description = describe(doctree)
    preview = {
        "og:type": "website" if pagename == app.config.root_doc else "article",
        "og:title": title,
        "og:description": description,
        "og:site_name": site,
        "og:url": context.get("pageurl"),
    }
    context["page_description"] = description
    context["link_preview"] = {name: value for name, value in preview.items() if value}


def setup(app):
    # After the themes, which have other ideas of both.
    app.connect("html-page-context", add_metadata, priority=900)

"""The book's own theme, in ``theme/``: one layout, one style sheet, one script."""

from pathlib import Path
from textwrap import shorten

from docutils import nodes
from markupsafe import escape
from sphinx.errors import ExtensionError

FOLDER = Path(__file__).with_name("theme")
SCRIPT = "_static/theme.js"  # decides on light or dark before the page is painted
LONGEST = 200  # characters of a description; what is longer would be cut off
LEAD = "Question. "  # says nothing outside the page
FOLD = '<summary aria-label="Toggle hidden content">'  # as myst-nb writes it


def describe(doctree: nodes.document) -> str:
    """The first paragraph of the page in one line, shortened if it is long; "" if there is none."""
    paragraph = next(iter(doctree.findall(nodes.paragraph)), None)
    text = paragraph.astext().removeprefix(LEAD) if paragraph else ""
    return shorten(text, LONGEST, placeholder=" …")


def prepare_page(app, pagename, templatename, context, doctree):
    context["description"] = describe(doctree) if doctree else f"Search {app.config.html_title}."
    for script in context["script_files"]:
        if script.filename not in (None, SCRIPT):
            script.attributes.setdefault("defer", "defer")
    # book.css has what is needed of it.
    kept = [css for css in context["css_files"] if "mystnb." not in css.filename]
    if len(kept) != len(context["css_files"]) - 1:
        raise ExtensionError("myst-nb's style sheet isn't where theme.py expects it")
    context["css_files"] = kept
    # Folded code is named by what is to be read there, such as "Show the code".
    if '<details class="admonition hide' in context.get("body", "") and FOLD not in context["body"]:
        raise ExtensionError("myst-nb writes folds otherwise than theme.py expects")
    context["body"] = context.get("body", "").replace(FOLD, "<summary>")


def box_tables(app, doctree, docname):
    """A table that is wider than its page scrolls in a box of its own."""
    for table in list(doctree.findall(nodes.table)):
        table.replace_self(nodes.container("", table.deepcopy(), classes=["table-box"]))


def write_start(app, exception):
    """Write the ``index.html`` that leads to the first page, whatever the name of its file."""
    if not exception and app.builder.name == "html" and app.config.root_doc != "index":
        address = escape(app.builder.get_target_uri(app.config.root_doc))
        text = f'<meta http-equiv="Refresh" content="0; url={address}" />\n'
        Path(app.outdir, "index.html").write_text(text, encoding="utf8")


def setup(app):
    app.add_html_theme("normbook", FOLDER)
    app.add_js_file("theme.js", priority=1)
    app.config.html_search_scorer = str(FOLDER / "search_scorer.js")
    app.connect("html-page-context", prepare_page)
    app.connect("doctree-resolved", box_tables)
    app.connect("build-finished", write_start)

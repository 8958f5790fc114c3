"""The theme as the book has it: templates in ``templates/`` go before the theme's."""

from pathlib import Path
from urllib.parse import quote

from markupsafe import escape

FOLDER = Path(__file__).parent
FOLD = '<summary aria-label="Toggle hidden content">'  # as myst-nb writes it


def add_templates(app, config):
    config.templates_path.insert(0, str(FOLDER / "templates"))


def choose_scores(app, config):
    config.html_search_scorer = str(FOLDER / "search_scorer.js")


def keep_own_scripts(app, pagename, templatename, context, doctree):
    """Of the scripts that extensions put on pages, keep what belongs to a page itself."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if script.attributes.get("type", "").startswith("application/vnd.jupyter")
        or script.filename == "_static/widget_host.js"
    ]


def escape_names(app, pagename, templatename, context, doctree):
    """Titles and names of files, which the theme writes into a page as they are, stay text."""
    for name in {"pagetitle", "root_title"} & context.keys():
        context[name] = escape(context[name])  # once: templates know that it is
    for button in context["header_buttons"]:
        for link in button.get("buttons", [button]):
            if "url" in link:
                # What is an address already stays; so does "%", unless it is in a file's name.
                local = link["url"].startswith(context["pathto"]("_sources", 1))
                link["url"] = quote(link["url"], safe="/" if local else "/:?=&#%+@~")


def name_folds(app, pagename, templatename, context, doctree):
    """Folded code is named by what is to be read there, such as "Show the code"."""
    if "body" in context:
        context["body"] = context["body"].replace(FOLD, "<summary>")


def write_start(app, exception):
    """Write the ``index.html`` that leads to the first page, if that has another name."""
    root = app.config.root_doc
    if exception or app.builder.name != "html" or root == "index":
        return
    address = escape(app.builder.get_target_uri(root))
    text = f'<meta http-equiv="Refresh" content="0; url={address}" />\n'
    Path(app.outdir, "index.html").write_text(text, encoding="utf8")


def setup(app):
    app.connect("config-inited", add_templates)
    app.connect("config-inited", choose_scores)
    app.connect("html-page-context", keep_own_scripts, priority=900)
    app.connect("html-page-context", escape_names, priority=900)
    app.connect("html-page-context", name_folds)
    app.connect("build-finished", write_start)

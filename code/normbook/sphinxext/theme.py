"""The theme as the book has it: templates in ``templates/`` go before the theme's."""

from pathlib import Path

FOLDER = Path(__file__).parent


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


def setup(app):
    app.connect("config-inited", add_templates)
    app.connect("config-inited", choose_scores)
    app.connect("html-page-context", keep_own_scripts, priority=900)

"""Widgets that live in the built page, with no kernel and no network.

myst-nb writes the state of a notebook's widgets into its page, and a tag for each view of one.
``static/widget_host.js`` runs them there: the anywidgets, not the controls of ipywidgets, whose
code would be a megabyte. Only pages with widgets load it. This module prepares the page:

- The front-end code is the one on disk, even if the notebook ran before it was edited. It is
  minified, and written once, however many widgets run it.
- The picture that the class draws (``_repr_html_``, ``_repr_svg_`` or ``_repr_png_``) stays before
  the view: for readers without JavaScript, for print, and in case that the widget fails.
- What would be dead in the page is warned of.
"""

import json
import re
from functools import partial
from importlib import import_module
from pathlib import Path

from anywidget._file_contents import FileContents
from docutils import nodes
from myst_nb.core.render import WIDGET_VIEW_MIMETYPE
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from normbook.build.sphinxext.minify import minify

logger = logging.getLogger(__name__)

PICTURES = ("text/html", "image/svg+xml", "image/png")  # the first that there is will do
RUN_BY_HOST = {"AnyModel", "LayoutModel", "LinkModel", "DirectionalLinkModel"}

# Front-end code that names something to load. A page has no network, and no folder of the code.
LOADS = {
    "_esm": re.compile(
        r"""\A\s*https?://\S+
        | (?: ^ | [;}] | \*/ ) \s* (?: import | (?:import|export)\b [^;'"()]*? \bfrom ) \s*
          ["'] (?!data:|blob:) [^"']+
        | \b(?:import|fetch) \s* \( \s* ["'`] (?!data:|blob:) [^"'`]+
        """,
        re.MULTILINE | re.VERBOSE,
    ),
    "_css": re.compile(
        r"""\A\s*https?://\S+
        | @import \s+ ["'] [^"']+
        | \burl\( \s* ["']? (?!data:|[#"']) [^"')]+
        """,
        re.VERBOSE,
    ),
}


def prepare_page(app, doctree):
    """Make the widgets of the page just read ready for the host; warn of those it can't run."""
    env, docname = app.env, app.env.docname
    _, state_tag = NbMetadataCollector.get_js_files(env, docname).get(
        "ipywidgets_state", (None, {"body": '{"state": {}}'})
    )
    page = json.loads(state_tag["body"])

    for view in doctree.findall(_is_view):
        if _model_id(view) not in page["state"]:
            _warn("a view of a widget that has no state in this page", view)
    models = page["state"].values()
    if dead := {model["model_name"] for model in models} - RUN_BY_HOST:
        _warn(f"{', '.join(sorted(dead))}: without a kernel nothing runs them", docname)

    codes = {}
    for state in (model["state"] for model in models if model["model_name"] == "AnyModel"):
        _refresh_code(state, env)
        for key in [key for key in LOADS if key in state]:
            code = state[key]
            load = LOADS[key].search(code)
            if load and code not in codes:
                _warn(f"{state['_anywidget_id']} loads: {load.group().strip()}", docname)
            state[key] = codes.setdefault(code, len(codes))
    if models:
        # "<" would let a "</script>" or a "<!--" within a string end the tag or swallow the page.
        body = json.dumps(page | {"code": list(codes)}).replace("<", r"\u003c")
        add_script = partial(NbMetadataCollector.add_js_file, env, docname)
        add_script("ipywidgets_state", None, state_tag | {"body": body})
        add_script("widget_host", "widget_host.js", {"async": "async"})


def _refresh_code(state, env):
    """Take the front-end code in ``state`` from its files, if the class has it in files."""
    module, name = state["_anywidget_id"].rsplit(".", 1)
    if module == "__main__":  # the notebook's own, so it ran as it is now
        return
    try:
        widget_class = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        _warn(f"{module}.{name} can't be imported, so its code may be out of date", env.docname)
        return
    for key in LOADS:
        source = getattr(widget_class, key, None)
        if isinstance(source, FileContents | str):
            state[key] = minify(str(source), {"_esm": "js", "_css": "css"}[key])
        if isinstance(source, FileContents):
            files = [source._path]
        else:  # what the class has joined from files tells them
            files = getattr(source, "files", ())
        for file in files:
            env.note_dependency(str(file))


def _is_view(node):
    return isinstance(node, nodes.container) and node.get("mime_type") == WIDGET_VIEW_MIMETYPE


def _model_id(view):
    return json.loads(re.search(r">(.*)<", view.astext()).group(1))["model_id"]


def _warn(problem, location):
    logger.warning(
        "dead in the page: %s", problem, location=location, type="normbook", subtype="widgets"
    )


class KeepPicture(SphinxPostTransform):
    """Keep the picture beside the view, of which myst-nb would keep the view alone."""

    default_priority = 3  # before myst-nb's own choice, at 4
    formats = ("html",)

    def run(self, **kwargs):
        for view in list(self.document.findall(_is_view)):
            bundle = view.parent
            outputs = {child["mime_type"]: child.children for child in bundle}
            box = nodes.container(classes=["nb-widget"])
            picture = next((outputs[kind] for kind in PICTURES if kind in outputs), None)
            if picture:
                box += nodes.container("", *picture, classes=["nb-widget-picture"])
            box += view.children
            bundle.replace_self(box)


def add_static_files(app, config):
    folder = Path(app.doctreedir, "normbook-static")
    folder.mkdir(parents=True, exist_ok=True)
    for file in Path(__file__).with_name("static").iterdir():
        text = minify(file.read_text(encoding="utf8"), file.suffix[1:])
        (folder / file.name).write_text(text, encoding="utf8")
    config.html_static_path.append(str(folder))


def setup(app):
    app.connect("config-inited", add_static_files)
    app.connect("doctree-read", prepare_page)
    app.add_post_transform(KeepPicture)

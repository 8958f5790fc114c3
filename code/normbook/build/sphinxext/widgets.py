"""Widgets that live in the built page, with no kernel and no network.

myst-nb writes the state of a notebook's widgets into its page, and a tag for each view of one.
``theme/static/widget_host.js`` runs them there: the anywidgets, and boxes of them, not the controls
of ipywidgets, whose code would be a megabyte. Only pages with widgets load it. Here the page is
prepared:

- The front-end code is the one on disk, even if the notebook ran before it was edited. It is
  written once, however many widgets run it.
- The picture that the class draws (``_repr_html_``, ``_repr_svg_`` or ``_repr_png_``) stays before
  the view: for readers without JavaScript, for print, and in case that the widget fails.
- What would be dead in the page is warned of.
"""

import inspect
import json
import re
from functools import partial
from importlib import import_module
from pathlib import Path

from docutils import nodes
from myst_nb.core.render import WIDGET_VIEW_MIMETYPE
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from normbook.build.sphinxext.minify import minify

logger = logging.getLogger(__name__)

CODE = {"_esm": "js", "_css": "css"}  # where a widget's state has code, and which
PICTURES = ("text/html", "image/svg+xml", "image/png")  # the first that there is will do
KINDS = ("Any", "Box", "HBox", "VBox", "Layout", "Link", "DirectionalLink")
RUN_BY_HOST = {f"{kind}Model" for kind in KINDS}


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
        for key in filter(state.__contains__, CODE):  # in this order, in every build
            state[key] = codes.setdefault(minify(CODE[key], state[key]), len(codes))
    if models:
        # "<" would let a "</script>" or a "<!--" within a string end the tag or swallow the page.
        body = json.dumps(page | {"code": list(codes)}).replace("<", r"\u003c")
        add_script = partial(NbMetadataCollector.add_js_file, env, docname)
        add_script("ipywidgets_state", None, state_tag | {"body": body})
        add_script("widget_host", "widget_host.js", {"async": "async"})


def _refresh_code(state, env):
    """Take the front-end code in ``state`` from its class, as that is on disk now."""
    module, name = state["_anywidget_id"].rsplit(".", 1)
    if module == "__main__":  # the notebook's own, so it ran as it is now
        return
    try:
        widget_class = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        _warn(f"{module}.{name} can't be imported, so its code may be out of date", env.docname)
        return
    state.update((key, str(getattr(widget_class, key))) for key in CODE.keys() & state.keys())
    for file in Path(inspect.getfile(widget_class)).parent.glob("**/*.[jc]s*"):
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


def setup(app):
    app.connect("doctree-read", prepare_page)
    app.add_post_transform(KeepPicture)

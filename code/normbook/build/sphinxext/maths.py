"""Formulas typeset while the book is built, so that a page needs no script for them.

MathJax comes with the package sphinx-mathjax-offline and runs in V8, which comes with mini-racer.
What it makes of a formula is stored with the formula: elements in HTML and, for screen readers,
MathML. The style sheet of its fonts is part of the pages' (see ``page_assets.py``).
"""

import json
from importlib.metadata import distribution
from pathlib import Path

from docutils import nodes
from py_mini_racer import MiniRacer
from sphinx.util import logging

logger = logging.getLogger(__name__)

COMPONENTS = (
    "startup",
    "core",
    "adaptors/liteDOM",
    "input/tex-full",
    "output/chtml",
    "output/chtml/fonts/tex",
    "a11y/assistive-mml",
)
START = """
var window = globalThis;
var MathJax = {
    startup: { ready() {} },
    tex: {
        packages: ["base", "ams", "boldsymbol", "cancel", "newcommand"],
        formatError(jax, error) { throw error; },
    },
    chtml: { fontURL: %s, adaptiveCSS: false },
};
"""
READY = """
MathJax.config.loader.load = ["adaptors/liteDOM"];
MathJax.startup.getComponents();
MathJax.startup.makeMethods();
"""
TYPESET = """
(([tex, display]) => {
    try {
        return MathJax.startup.adaptor.outerHTML(MathJax.tex2chtml(tex, { display }));
    } catch (error) {
        if (error.id) return JSON.stringify(error.message);
        throw error;
    }
})
"""


def mathjax_folder() -> Path:
    """Where the installed package keeps MathJax."""
    package = distribution("sphinx-mathjax-offline")
    return Path(package.locate_file("sphinx-mathjax-offline/static/mathjax"))


def font_folder() -> Path:
    return mathjax_folder() / "output/chtml/fonts/woff-v2"


class MathJax:
    """MathJax with its TeX reader and HTML writer, within a ``with`` statement.

    ``fonts`` is the address of the fonts' folder, as the style sheet is to name it.
    """

    def __init__(self, fonts: str = ""):
        self.fonts = fonts

    def __enter__(self):
        self.engine = MiniRacer()
        self._run(START % json.dumps(self.fonts))
        for name in COMPONENTS:
            self._run((mathjax_folder() / f"{name}.js").read_text(encoding="utf8"))
        self._run(READY)
        return self

    def __exit__(self, *problem):
        self.engine.close()

    def _run(self, script):
        self.engine.eval(f"{script};0")  # a number, rather than an object to look after

    def typeset(self, tex: str, display: bool = False) -> str:
        """The formula in HTML.

        Raises
        ------
        ValueError
            MathJax doesn't understand it; the message is MathJax's.
        """
        result = self.engine.eval(f"{TYPESET}({json.dumps([tex, display])})")
        if result.startswith('"'):
            raise ValueError(json.loads(result))
        return result

    def style_sheet(self) -> str:
        """The style sheet of all that MathJax can write."""
        return self.engine.eval("MathJax.startup.adaptor.textContent(MathJax.chtmlStylesheet())")


def typeset_formulas(app, doctree):
    """Typeset the formulas of the page just read."""
    formulas = list(doctree.findall(lambda n: isinstance(n, nodes.math | nodes.math_block)))
    if not formulas:
        return
    with MathJax() as mathjax:
        for formula in formulas:
            tex = formula.astext()
            try:
                formula["typeset"] = mathjax.typeset(tex, isinstance(formula, nodes.math_block))
            except ValueError as error:
                logger.warning(
                    "the formula %s: %s", tex, error, location=formula,
                    type="normbook", subtype="maths",
                )  # fmt: skip


def visit_math(translator, node):
    _write(translator, node, "span")


def visit_math_block(translator, node):
    # A wide formula scrolls, by keyboard, too.
    _write(translator, node, "div", tabindex="0")


def _write(translator, node, tag, **attributes):
    content = node.get("typeset") or translator.encode(node.astext())
    start = translator.starttag(node, tag, "", CLASS="math notranslate", **attributes)
    translator.body.append(f"{start}{content}</{tag}>")
    raise nodes.SkipNode


def choose_renderer(app, config):
    config.html_math_renderer = "ahead"


def setup(app):
    app.add_html_math_renderer("ahead", (visit_math, None), (visit_math_block, None))
    app.connect("config-inited", choose_renderer)
    app.connect("doctree-read", typeset_formulas)

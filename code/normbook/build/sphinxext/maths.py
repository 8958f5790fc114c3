"""Formulas typeset while the book is built, so that a page needs no script for them.

MathJax comes with the package sphinx-mathjax-offline and runs in V8, which comes with mini-racer.
What it makes of a formula is stored with the formula: elements in HTML and, for screen readers,
MathML. ``maths.css`` has the rules of the glyphs that the book uses, and the fonts no others.
"""

import json
import re
from functools import cache, partial
from importlib.metadata import distribution
from pathlib import Path

from docutils import nodes
from fontTools import subset
from fontTools.ttLib import TTFont
from py_mini_racer import MiniRacer
from sphinx.util import logging

logger = logging.getLogger(__name__)

MATHJAX = Path(
    distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax")
)
COMPONENTS = (
    "startup", "core", "adaptors/liteDOM", "input/tex-full", "output/chtml",
    "output/chtml/fonts/tex", "a11y/assistive-mml",
)  # fmt: skip
START = """var window = globalThis;
var MathJax = {
    startup: { ready() {} },
    tex: {
        packages: ["base", "ams", "boldsymbol", "cancel", "newcommand"],
        formatError(jax, error) { throw error; },
    },
    chtml: { fontURL: "fonts", adaptiveCSS: false },
};"""
READY = """MathJax.config.loader.load = ["adaptors/liteDOM"];
MathJax.startup.getComponents(); MathJax.startup.makeMethods();"""
TYPESET = """(([tex, display]) => {
    try {
        return MathJax.startup.adaptor.outerHTML(MathJax.tex2chtml(tex, { display }));
    } catch (error) {
        if (error.id) return JSON.stringify(error.message);
        throw error;
    }
})"""
STYLE_SHEET = "MathJax.startup.adaptor.textContent(MathJax.chtmlStylesheet())"

RULE = re.compile(r"""([^{}]+)\{(?:"[^"]*"|[^{}"])*\}\s*""")
GLYPH = re.compile(r"\bmjx-c([0-9A-F]+)\b(?:[. ](TEX-\w+))?")  # and the font, if not the main one
CONTENT = re.compile(r'content: "(?:\\([0-9A-F]+)|(.))')
FONT = re.compile(r"fonts/([\w-]+)\.woff\"\) format\(\"woff\"\)")


@cache
def mathjax() -> MiniRacer:
    """MathJax with its TeX reader and HTML writer."""
    engine = MiniRacer()
    parts = [(MATHJAX / f"{name}.js").read_text(encoding="utf8") for name in COMPONENTS]
    for script in (START, *parts, READY):
        engine.eval(f"{script};0")  # a number, rather than an object to look after
    return engine


def typeset(tex: str, display: bool = False) -> str:
    """The formula in HTML.

    Raises
    ------
    ValueError
        MathJax doesn't understand it; the message is MathJax's.
    """
    result = mathjax().eval(f"{TYPESET}({json.dumps([tex, display])})")
    if result.startswith('"'):
        raise ValueError(json.loads(result))
    return result


def write_style_sheet(folder: Path, glyphs: set[tuple[str, str]]) -> None:
    """Write ``maths.css`` and ``fonts/`` into the folder: MathJax's, for these glyphs alone."""
    rules = [
        rule[0]
        for rule in RULE.finditer(mathjax().eval(STYLE_SHEET))
        if glyphs.issuperset(GLYPH.findall(rule[1]))
    ]
    css = "".join(rules)
    characters = {int(code, 16) if code else ord(sign) for code, sign in CONTENT.findall(css)}
    (folder / "fonts").mkdir(parents=True, exist_ok=True)
    fonts = FONT.findall(css)
    if not fonts or not (characters or not glyphs):
        raise RuntimeError("MathJax's style sheet has another form than maths.py expects")
    for name in fonts:
        font = TTFont(MATHJAX / f"output/chtml/fonts/woff-v2/{name}.woff", recalcTimestamp=False)
        subsetter = subset.Subsetter(subset.Options(drop_tables=["FFTM"]))
        known = font.getBestCmap()
        subsetter.populate(unicodes=characters.intersection(known) or known)
        subsetter.subset(font)
        font.flavor = "woff2"
        font.save(folder / f"fonts/{name}.woff2")
    css = FONT.sub(r'fonts/\1.woff2") format("woff2")', css)
    (folder / "maths.css").write_text(css, encoding="utf8")


def typeset_formulas(app, doctree):
    """Typeset the formulas of the page just read, and note their glyphs."""
    glyphs = set()
    for formula in doctree.findall(lambda node: isinstance(node, nodes.math | nodes.math_block)):
        tex = formula.astext()
        try:
            formula["typeset"] = typeset(tex, isinstance(formula, nodes.math_block))
            glyphs.update(GLYPH.findall(formula["typeset"]))
        except ValueError as error:
            logger.warning(
                "the formula %s: %s", tex, error, location=formula, type="normbook", subtype="maths"
            )
    app.env.metadata[app.env.docname]["glyphs"] = glyphs


def add_style_sheet(app, env):
    glyphs = set().union(*(data.get("glyphs", ()) for data in env.metadata.values()))
    folder = Path(app.doctreedir, "maths")
    write_style_sheet(folder, glyphs)
    app.config.html_static_path.append(str(folder))


def visit_math(translator, node, tag="span"):
    content = node.get("typeset") or translator.encode(node.astext())
    start = translator.starttag(node, tag, "", CLASS="math notranslate")
    translator.body.append(f"{start}{content}</{tag}>")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("ahead", (visit_math, None), (partial(visit_math, tag="div"), None))
    app.add_css_file("maths.css")
    app.connect("doctree-read", typeset_formulas)
    app.connect("env-updated", add_style_sheet)

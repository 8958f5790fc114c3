"""What pages load: one style sheet, one script, and fonts, with no more than the pages use.

The theme's style sheets and scripts are for all that a site may have; the one for icons alone has a
megabyte and a half. So when the pages are there, the style sheets are joined, without the rules
that match on none of them; the scripts are joined; and fonts keep the characters that the style
sheet writes. ``templates/layout.html`` loads what results.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import tinycss2
from fontTools import subset

from normbook.build.sphinxext.maths import MathJax, font_folder
from normbook.build.sphinxext.minify import minify

# It tells of every table of every font, where another package has asked all loggers to talk.
logging.getLogger(subset.__name__).setLevel(logging.WARNING)

# In the folder _static, in the order that counts. Between them stands that of the formulas.
THEME_STYLE_SHEETS = (
    "basic.css",
    "styles/theme.css",
    "styles/pydata-sphinx-theme.css",
    "pygments.css",
    "styles/sphinx-book-theme.css",
    "copybutton.css",
    "mystnb.*.css",
)
STYLE_SHEET = "book.css"
SCRIPTS = (
    "documentation_options.js",
    "doctools.js",
    "theme_fixes.js",
    "sphinx_highlight.js",
    "clipboard.min.js",
    "copybutton.js",
    "scripts/sphinx-book-theme.js",
    "scripts/bootstrap.js",
    "scripts/pydata-sphinx-theme.js",
    "print.js",
)
# What pages load apart: before they are painted, for the search, and for widgets.
OTHER_SCRIPTS = ("before_paint.js", "searchtools.js", "language_data.js", "widget_host.js")

WORD = re.compile(r"[\w-]+")
VARIABLE = re.compile(r"(--[\w-]+)\s*[,)]")  # in var()
# What a style sheet writes: strings, as values of content or of a variable.
WRITTEN = re.compile(r"""(?:content|--[\w-]+)\s*:\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
ESCAPED = re.compile(r"\\([0-9a-fA-F]{1,6})\s?")
FONT = re.compile(r"""url\(["']?([^"')]*?([^"')/]+)\.woff2?)["']?\)""")

# In a page: the files above, with what tells browsers that one has changed.
LOADED = re.compile(r'(?<=/_static/)([\w.]+\.(?:js|css))(\?v=\w*)?(?=")')


# Style sheets. A rule is its head, such as ".a,.b" or "@media print", and what its braces hold:
# either declarations or rules.

Rule = tuple[str, list]


def lighten(css: str, words: set[str]) -> str:
    """The rules of ``css`` that may match on a page whose code has these words alone.

    A rule goes that names a class, an id or an element of MathJax which is none of the words; then
    variables and fonts go that nothing uses.
    """
    rules = _matching(tinycss2.parse_stylesheet(css, True, True), words)
    while unused := _variables(rules) - set(VARIABLE.findall(_write(rules))) - words:
        rules = _without(rules, unused)
    faces = [rule for rule in rules if rule[0] == "@font-face"]
    text = _write(rule for rule in rules if rule[0] != "@font-face")
    families = re.sub(r"""[\\"']""", "", text)
    return _write(face for face in faces if _family(face) in families) + text


def _matching(nodes: Iterable, words: set[str]) -> list[Rule]:
    rules = []
    for node in nodes:
        if node.type == "at-rule" and node.content is not None:  # no @charset, no @import
            head = f"@{node.at_keyword}{tinycss2.serialize(node.prelude).rstrip()}"
            if node.at_keyword in ("media", "supports"):
                inner = tinycss2.parse_rule_list(node.content, True, True)
                content = _matching(inner, words)
            elif node.at_keyword == "font-face":
                content = _declarations(node)
            else:
                content = [tinycss2.serialize(node.content)]
            rules.append((head, content))
        elif node.type == "qualified-rule":
            selectors = [
                tinycss2.serialize(selector).strip()
                for selector in _split(node.prelude)
                if all(words.issuperset(WORD.findall(name)) for name in _names(selector))
            ]
            rules.append((",".join(selectors), _declarations(node)))
    return [(head, content) for head, content in rules if head and content]


def _split(tokens: Iterable) -> Iterator[list]:
    part = []
    for token in tokens:
        if token == ",":
            yield part
            part = []
        elif token.type != "comment":
            part.append(token)
    yield part


def _names(selector: list) -> Iterator[str]:
    """The names of the selector, but not those within ``:not()`` and its like."""
    before = None
    for token in selector:
        is_class = token.type == "ident" and before == "."
        if is_class or token.type == "hash" or (token.type == "ident" and "mjx-" in token.value):
            yield token.value
        before = token


def _declarations(node) -> list[str]:
    parts = tinycss2.parse_blocks_contents(node.content, True, True)
    return [part.serialize() for part in parts if part.type == "declaration"]


def _name(declaration: str) -> str:
    return declaration.split(":")[0].strip()


def _variables(rules: list[Rule]) -> set[str]:
    found = set()
    for _, content in rules:
        if isinstance(content[0], str):
            found |= {_name(part) for part in content if part.startswith("--")}
        else:
            found |= _variables(content)
    return found


def _without(rules: list[Rule], variables: set[str]) -> list[Rule]:
    kept = []
    for head, content in rules:
        if isinstance(content[0], str):
            content = [part for part in content if _name(part) not in variables]
        else:
            content = _without(content, variables)
        if content:
            kept.append((head, content))
    return kept


def _family(face: Rule) -> str:
    (family,) = (part.split(":")[1] for part in face[1] if _name(part) == "font-family")
    return re.sub(r"""[\\"']""", "", family).strip()


def _write(rules: Iterable[Rule]) -> str:
    return "".join(
        f"{head}{{{';'.join(content) if isinstance(content[0], str) else _write(content)}}}\n"
        for head, content in rules
    )


# Fonts


def written_characters(css: str) -> set[str]:
    """The characters that a style sheet writes by itself: icons, and those of formulas."""
    strings = "".join(string[1:-1] for string in WRITTEN.findall(css))
    return {chr(int(code, 16)) for code in ESCAPED.findall(strings)} | set(ESCAPED.sub("", strings))


def write_font(source: Path, target: Path, characters: Iterable[str]) -> None:
    """Write the font in WOFF 2, with no more than those of the characters that it has."""
    options = subset.Options(flavor="woff2", layout_features=[])
    options.drop_tables.append("FFTM")  # the times of an editor; else there is a message about it
    with subset.load_font(source, options) as font:
        subsetter = subset.Subsetter(options)
        known = set(font.getBestCmap())
        # A font with none of them is there for its metrics.
        subsetter.populate(unicodes=known & {ord(character) for character in characters} or known)
        subsetter.subset(font)
        target.parent.mkdir(exist_ok=True)
        subset.save_font(font, target, options)


# The book


def write_style_sheet(folder: Path, words: set[str]) -> None:
    """Write ``page.css`` and its fonts into ``folder``, the pages' _static."""
    theme = [file for name in THEME_STYLE_SHEETS for file in sorted(folder.glob(name))]
    with MathJax(fonts=font_folder().as_posix()) as mathjax:
        formulas = mathjax.style_sheet()
    sources = [*(_read(file) for file in theme), formulas, _read(folder / STYLE_SHEET)]
    css = lighten("\n".join(sources), words)
    characters = written_characters(css)
    # One format will do: every browser that the theme is for reads it.
    css = re.sub(r",\s*url\([^)]*\.ttf[\"']?\)\s*format\([^)]*\)", "", css)

    def add_font(match):
        address, name = match.groups()
        write_font(folder / "styles" / address, folder / f"fonts/{name}.woff2", characters)
        return f'url("fonts/{name}.woff2")'

    css = FONT.sub(add_font, css).replace('format("woff")', 'format("woff2")')
    (folder / "page.css").write_text(minify(css, "css"), encoding="utf8")


def _read(file):
    return file.read_text(encoding="utf8")


def join_assets(app, exception):
    """Write what the pages load, and name its versions in them."""
    if exception or app.builder.name != "html":
        return
    folder = Path(app.outdir, "_static")
    pages = sorted(Path(app.outdir).rglob("*.html"))
    texts = {page: _read(page) for page in pages if folder not in page.parents}
    scripts = [_read(folder / name) for name in SCRIPTS]
    others = [_read(folder / name) for name in OTHER_SCRIPTS]
    words = set()
    for text in (*texts.values(), *scripts, *others):
        words |= set(WORD.findall(text))
    write_style_sheet(folder, words)
    # A script that ends in a comment, or without a semicolon, must not reach into the next.
    script = "\n;".join(scripts)
    (folder / "page.js").write_text(minify(script, "js"), encoding="utf8")

    def with_version(match):
        content = (folder / match[1]).read_bytes()
        return f"{match[1]}?v={sha256(content).hexdigest()[:8]}"

    for page, text in texts.items():
        changed = LOADED.sub(with_version, text)
        if changed != text:
            page.write_text(changed, encoding="utf8")


def setup(app):
    app.connect("build-finished", join_assets, priority=900)  # the theme mends its colors then

"""What pages load, and how much that is."""

import gzip
import re
from urllib.parse import unquote, urlsplit

import pytest
from fontTools.ttLib import TTFont

from helpers import PAGES
from normbook.build.sphinxext.maths import font_folder
from normbook.build.sphinxext.page_assets import lighten, write_font, written_characters

BUDGET = 250_000  # bytes, compressed, without images
ASSETS = {"_static/page.css", "_static/page.js", "_static/before_paint.js"}
SEARCH = {"_static/language_data.js", "_static/searchtools.js", "searchindex.js"}


def squeezed(css):
    return re.sub(r"\s+", "", css)


@pytest.mark.parametrize(
    ("css", "kept"),
    [
        (".a { x: 1 } .b { x: 2 }", ".a{x:1}"),
        (".a.b, .a > .c, p .a { x: 1 }", "p.a{x:1}"),
        ("#a { x: 1 } #b { x: 2 } p#b.a { x: 3 }", "#a{x:1}"),
        ("p:not(.b) { x: 1 } .a:is(.b, .c) { x: 2 }", "p:not(.b){x:1}.a:is(.b,.c){x:2}"),
        ('[data-x="b"] .a { x: 1 }', '[data-x="b"].a{x:1}'),
        ("@media print { .a { x: 1 } .b { x: 2 } } @media screen { .b { x: 3 } }",
         "@mediaprint{.a{x:1}}"),
        ("mjx-a { x: 1 } mjx-b { x: 2 }", "mjx-a{x:1}"),
        ('@charset "UTF-8"; @import "x.css"; /* why */ .a { x: 1; /* why */ y: 2 }',
         ".a{x:1;y:2}"),
        # A variable that only an unused one uses goes, too.
        (".a { --b: 1; --c: var(--b); --d: 2; x: var( --d, 3) }", ".a{--d:2;x:var(--d,3)}"),
        (".a { --b: 1 }", ""),
        ("@font-face { font-family: F\\ 1; src: url(f) } @font-face { font-family: G; src: url(g) }"
         '.a { font: 1em "F 1" }', '@font-face{font-family:F\\1;src:url(f)}.a{font:1em"F1"}'),
        ("@keyframes k { from { x: 1 } to { x: 2 } }", "@keyframesk{from{x:1}to{x:2}}"),
        ('.a { x: url("data:a;b,{c}") }', '.a{x:url("data:a;b,{c}")}'),
    ],
)  # fmt: skip
def test_rules_that_match_nothing_go(css, kept):
    assert squeezed(lighten(css, {"a", "mjx-a", "k"})) == kept


def test_a_variable_that_a_script_reads_stays():
    assert squeezed(lighten(".a { --b: 1 }", {"a", "--b"})) == ".a{--b:1}"


def test_characters_that_a_style_sheet_writes():
    css = """.a { content: "x\\f062 y" } .b { --icon: '\\2212' } .c { color: red; x: "not" }"""
    assert written_characters(css) == set("xy\uf062\u2212")


def test_a_font_keeps_the_characters_alone(tmp_path):
    source = font_folder() / "MathJax_Math-Italic.woff"
    target = tmp_path / "fonts/font.woff2"
    write_font(source, target, "xy☃")
    font = TTFont(target)
    assert set(font.getBestCmap()) == {ord("x"), ord("y")}
    assert font["hmtx"]["x"] == TTFont(source)["hmtx"]["x"]
    assert target.stat().st_size < source.stat().st_size / 10


def test_a_font_with_none_of_the_characters_stays_whole(tmp_path):
    source = font_folder() / "MathJax_Zero.woff"
    write_font(source, tmp_path / "fonts/font.woff2", "x")
    assert TTFont(tmp_path / "fonts/font.woff2").getBestCmap() == TTFont(source).getBestCmap()


# The book


@pytest.mark.parametrize("page", [*PAGES, "search"])
def test_a_page_is_light_and_all_it_loads_is_there(page, book, browser):
    with browser.new_context() as context:
        opened = context.new_page()
        loaded = []
        opened.on("request", lambda request: loaded.append(request.url))
        opened.goto((book / f"{page}.html").as_uri())
        opened.evaluate("document.fonts.ready.then(() => null)")
        paths = {unquote(urlsplit(url).path) for url in loaded if url.startswith("file:")}
    names = {path.removeprefix(book.as_posix()).lstrip("/") for path in paths}
    files = [book / name for name in names]
    assert [file for file in files if not file.is_file()] == []
    code = {name for name in names if name.endswith((".js", ".css"))}
    assert code - {"_static/widget_host.js"} == ASSETS | (SEARCH if page == "search" else set())
    weights = {
        file.name: len(gzip.compress(file.read_bytes()))
        for file in files
        if file.suffix not in (".png", ".svg")
    }
    assert sum(weights.values()) <= BUDGET, weights


def test_every_icon_has_a_character_in_its_font(book, visit):
    """Drawn, that is: the character of no font would be as wide as a box."""
    page = visit(book / f"{PAGES[1]}.html").page
    icons = page.evaluate(
        """[...document.querySelectorAll("[class*='fa-']")].map(icon => {
            const { content, fontFamily } = getComputedStyle(icon, "::before");
            return [icon.className, content, fontFamily];
        })"""
    )
    assert icons
    font = TTFont(book / "_static/fonts/fa-solid-900.woff2")
    for name, content, family in icons:
        assert "Font Awesome" in family, name
        assert ord(content.strip('"')) in font.getBestCmap(), name


def test_fonts_are_written_in_silence(build):
    assert "fontTools" not in build.stdout

import re

import pytest
from fontTools.ttLib import TTFont

from helpers import build_book, copy_configuration, write_notebook
from normbook.build.sphinxext import maths
from normbook.build.sphinxext.maths import GLYPH, typeset, write_style_sheet


def test_a_formula_is_elements_and_mathml():
    html = typeset(r"\frac{x - \mu}{\sigma}")
    assert html.startswith("<mjx-container")
    assert "<mjx-frac" in html
    assert "<mfrac><mrow><mi>x</mi><mo>−</mo><mi>μ</mi></mrow><mi>σ</mi></mfrac>" in html
    assert 'display="true"' not in html


def test_display():
    assert 'display="true"' in typeset("x", display=True)
    html = typeset(r"\begin{aligned} a &= b \\ c &= d \end{aligned} \tag{7}", display=True)
    assert html.count("<mjx-mtr") >= 2
    assert "<mtext>(7)</mtext>" in html


def test_the_same_formula_gives_the_same():
    assert typeset(r"\hat x_{n,t}") == typeset(r"\hat x_{n,t}")


@pytest.mark.parametrize(
    ("tex", "message"),
    [
        (r"\frac{1", "Missing close brace"),
        (r"\nosuch", r"Undefined control sequence \\nosuch"),
        ("a_b_c", "Double subscripts"),
        (r"\href{javascript:alert(1)}{x}", r"Undefined control sequence \\href"),
    ],
)
def test_what_is_wrong_is_told(tex, message):
    with pytest.raises(ValueError, match=message):
        typeset(tex)


def test_markup_in_a_formula_stays_text():
    html = typeset(r"\text{<script>} < 1")
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_the_style_sheet_has_the_glyphs_in_use_and_their_fonts(tmp_path):
    glyphs = set(GLYPH.findall(typeset(r"\sqrt{x} \{")))
    assert ("1D465", "TEX-I") in glyphs
    write_style_sheet(tmp_path, glyphs)
    css = (tmp_path / "maths.css").read_text(encoding="utf8")
    assert "mjx-c.mjx-c1D465.TEX-I::before" in css
    assert "mjx-c.mjx-c7B::before" in css
    assert "1D466" not in css
    assert "mjx-container" in css
    fonts = re.findall(r'url\("([^"]+)"\) format\("woff2"\)', css)
    assert len(fonts) > 10
    characters = {name: set(TTFont(tmp_path / name).getBestCmap()) for name in fonts}
    assert characters["fonts/MathJax_Math-Italic.woff2"] == {ord("x")}
    assert {ord("{"), ord("√")} < characters["fonts/MathJax_Main-Regular.woff2"]
    assert len(characters["fonts/MathJax_Main-Regular.woff2"]) < 10
    # One with none of the characters stays whole: browsers refuse a font that is empty.
    assert characters["fonts/MathJax_Zero.woff2"]


def test_a_style_sheet_of_another_form_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(maths, "STYLE_SHEET", "'mjx-c { color: red }'")
    with pytest.raises(RuntimeError, match="another form"):
        write_style_sheet(tmp_path, {("1D465", "TEX-I")})


@pytest.mark.slow
def test_a_wrong_formula_fails_the_build_and_stays_readable(tmp_path):
    copy_configuration(tmp_path)
    write_notebook(tmp_path / "chapters/page.ipynb", "1 + 1")
    (tmp_path / "intro.md").write_text("# A\n\nWrong: $\\nosuch{x}$, and right: $x^2$\n")
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: intro\nchapters:\n  - file: chapters/page"
    )
    build = build_book(tmp_path)
    assert build.returncode != 0
    assert r"the formula \nosuch{x}: Undefined control sequence \nosuch" in build.stdout
    page = (tmp_path / "_build/html/intro.html").read_text(encoding="utf8")
    assert r'class="math notranslate">\nosuch{x}</span>' in page
    assert page.count("<mjx-container") == 1

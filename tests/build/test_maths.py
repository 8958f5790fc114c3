import re

import pytest

from helpers import build_book, copy_configuration, write_notebook
from normbook.build.sphinxext.maths import MathJax, font_folder


@pytest.fixture(scope="module")
def mathjax():
    with MathJax(fonts="the-fonts") as mathjax:
        yield mathjax


def test_a_formula_is_elements_and_mathml(mathjax):
    html = mathjax.typeset(r"\frac{x - \mu}{\sigma}")
    assert html.startswith("<mjx-container")
    assert "<mjx-frac" in html
    assert "<mfrac><mrow><mi>x</mi><mo>−</mo><mi>μ</mi></mrow><mi>σ</mi></mfrac>" in html
    assert 'display="true"' not in html


def test_display(mathjax):
    assert 'display="true"' in mathjax.typeset("x", display=True)
    html = mathjax.typeset(r"\begin{aligned} a &= b \\ c &= d \end{aligned} \tag{7}", display=True)
    assert html.count("<mjx-mtr") >= 2
    assert "<mtext>(7)</mtext>" in html


def test_the_same_formula_gives_the_same(mathjax):
    assert mathjax.typeset(r"\hat x_{n,t}") == mathjax.typeset(r"\hat x_{n,t}")


@pytest.mark.parametrize(
    ("tex", "message"),
    [
        (r"\frac{1", "Missing close brace"),
        (r"\nosuch", r"Undefined control sequence \\nosuch"),
        ("a_b_c", "Double subscripts"),
        (r"\href{javascript:alert(1)}{x}", r"Undefined control sequence \\href"),
    ],
)
def test_what_is_wrong_is_told(tex, message, mathjax):
    with pytest.raises(ValueError, match=message):
        mathjax.typeset(tex)


def test_markup_in_a_formula_stays_text(mathjax):
    html = mathjax.typeset(r"\text{<script>} < 1")
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_style_sheet_names_fonts_that_are_there(mathjax):
    fonts = re.findall(r'url\("the-fonts/([^"]+)"\)', mathjax.style_sheet())
    assert len(fonts) > 10
    for font in fonts:
        assert (font_folder() / font).is_file()


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

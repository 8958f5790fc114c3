"""Highlighted code in the built pages."""

import pytest
from bs4 import BeautifulSoup
from pygments.styles import get_style_by_name
from pygments.token import Keyword, Text
from sphinx.highlighting import PygmentsBridge

from normbook.build.sphinxext.highlight import PLAIN, setup

STYLES = ("a11y-high-contrast-light", "a11y-high-contrast-dark")
CODE = 'import numpy as np\n\nx = np.ones((2, 3))\nprint(f"{x.mean():.3f}")  # a comment\n'


@pytest.fixture
def bridge(monkeypatch):
    monkeypatch.setattr(PygmentsBridge, "html_formatter", PygmentsBridge.html_formatter)
    setup(None)
    return PygmentsBridge("html", STYLES[0])


def test_only_what_has_a_color_of_its_own_is_marked(bridge):
    soup = BeautifulSoup(bridge.highlight_block(CODE, "python"), "html.parser")
    assert soup.get_text().rstrip() == CODE.rstrip()
    marked = {tag["class"][0]: tag.get_text() for tag in soup.select("pre span[class]")}
    assert marked["kn"] == "import"
    assert marked["c1"] == "# a comment"
    assert {"n", "nn", "p", "w"}.isdisjoint(marked)


@pytest.mark.parametrize("name", STYLES)
def test_what_is_not_marked_looks_like_text(name):
    style = get_style_by_name(name)
    assert all(style.style_for_token(kind) == style.style_for_token(Text) for kind in PLAIN)


def test_the_pages_have_these_styles_and_spans(book):
    sheet = (book / "_static" / "pygments.css").read_text(encoding="utf8").lower()
    for name in STYLES:
        color = get_style_by_name(name).style_for_token(Keyword)["color"].lower()
        assert f".highlight .k {{ color: #{color} }}" in sheet
    page = (book / "chapters" / "batch_norm.html").read_text(encoding="utf8")
    assert '<span class="kn">import</span> numpy' in page

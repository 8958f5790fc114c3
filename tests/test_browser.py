"""The built pages in a real browser, from file:// and without network."""

from pathlib import Path

import axe_playwright_python
import pytest
from helpers import PAGES

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
# The theme puts the book's title outside of any landmark.
AXE_OPTIONS = {"rules": {"region": {"enabled": False}}, "preload": False}

pages = pytest.mark.parametrize("page", [*PAGES, "search"])
widths = pytest.mark.parametrize("width", [1280, 360])
color_schemes = pytest.mark.parametrize("color_scheme", ["light", "dark"])


@pages
@widths
@color_schemes
def test_page(page, width, color_scheme, book, visit):
    visit = visit(book / f"{page}.html", width, color_scheme)
    page = visit.page
    assert page.evaluate("document.documentElement.dataset.theme") == color_scheme
    # A page as wide as the window: wide content scrolls inside itself.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert_maths(page)
    page.evaluate(AXE.read_text(encoding="utf8"))
    violations = page.evaluate("options => axe.run(document, options)", AXE_OPTIONS)["violations"]
    assert [(v["id"], [node["html"] for node in v["nodes"]]) for v in violations] == []
    assert visit.requests == []
    assert visit.console == []


def assert_maths(page):
    """Every formula is typeset, without an error, in MathJax's own fonts."""
    formulas = page.locator(".math").count()
    assert page.locator("mjx-container").count() == formulas
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    if formulas:
        fonts = page.evaluate(
            """document.fonts.ready.then(fonts =>
                [...fonts].filter(f => f.family.includes("MJX")).map(f => f.status))"""
        )
        assert "loaded" in fonts
        assert "error" not in fonts


def test_the_root_opens_the_first_page(book, visit):
    page = visit(book / "index.html").page
    page.wait_for_url((book / f"{PAGES[0]}.html").as_uri())


def test_the_network_is_blocked_and_recorded(tmp_path, visit):
    """Otherwise the tests above would prove nothing."""
    file = tmp_path / "page.html"
    file.write_text('<!doctype html><img src="https://example.org/image.png">')
    visit = visit(file)
    assert visit.requests == ["https://example.org/image.png"]
    assert visit.console

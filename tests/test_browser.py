"""The built pages in a real browser, from file:// and without network."""

import pytest

from helpers import PAGES, check_page

pages = pytest.mark.parametrize("page", [*PAGES, "search"])
widths = pytest.mark.parametrize("width", [1280, 360])
color_schemes = pytest.mark.parametrize("color_scheme", ["light", "dark"])


@pages
@widths
@color_schemes
def test_page(page, width, color_scheme, book, visit):
    check_page(visit(book / f"{page}.html", width, color_scheme), color_scheme)


def test_the_root_opens_the_first_page(book, visit):
    page = visit(book / "index.html").page
    page.wait_for_url((book / f"{PAGES[0]}.html").as_uri())


def test_search_works_from_a_file(book, visit):
    page = visit(book / "search.html").page
    page.goto((book / "search.html").as_uri() + "?q=normalization")
    results = page.locator("#search-results li a")
    for title in ("Layer normalization for images", "Batch normalization"):
        results.filter(has_text=title).first.wait_for()


def test_the_network_is_blocked_and_recorded(tmp_path, visit):
    """Otherwise the tests above would prove nothing."""
    file = tmp_path / "page.html"
    file.write_text('<!doctype html><img src="https://example.org/image.png">')
    visit = visit(file)
    assert visit.requests == ["https://example.org/image.png"]
    assert visit.console

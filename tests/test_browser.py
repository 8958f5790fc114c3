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


# Each page's own tensor: what is read there when this cell, by its number, is pointed at.
READINGS = {
    "index": ("μ = (10 + 20 + 30 + 40 + 50)/5 = 150/5 = 30", 7),
    "before_you_start": ("μ = (0 + 3 + 6)/3 = 9/3 = 3", 1),
    "motivation": ("σ² = Σ(x − μ)²/5 = 3.075635/5 = 0.615127", 7),
    "batch_norm": ("μ = 8/8 = 1", 3),
    "layer_norm_cnn": ("μ = 37/75 = 0.493333", 1),
    "layer_norm_nlp": ("μ = (1 + 1 + 2)/3 = 4/3 = 1.333333", 2),
    "rnn": ("μ = (4 − 4 − 1)/3 = −1/3 = −0.333333", 12),
    "transformer": ("μ = (2 + 0 + 0)/3 = 2/3 = 0.666667", 5),
}


def test_every_chapter_has_a_tensor_to_touch():
    assert {f"chapters/{name}" for name in READINGS} == set(PAGES) - {"chapters/bibliography"}


@pytest.mark.parametrize("name", READINGS)
def test_tensor_is_alive(name, book, visit):
    reading, cell = READINGS[name]
    visit = visit(book / f"chapters/{name}.html")
    widget = visit.page.locator(".nb-widget .ss").first
    widget.wait_for()
    widget.locator("[role=gridcell]").nth(cell).hover()
    widget.get_by_text(reading, exact=True).wait_for()
    assert visit.requests == []
    assert visit.console == []


def test_formula_of_the_image_chapter(book, visit):
    """The worked example of document 002, read off the page."""
    page = visit(book / "chapters/layer_norm_cnn.html").page
    page.locator(".ss [role=gridcell]").nth(1).hover()
    read = page.locator(".ss .ss-read").first
    read.get_by_text("x̂ = (2 − 0.4933333)/√(0.3566222 + 1e-05) = 2.522940").wait_for()
    assert "= 0.356622" in read.inner_text()


@pytest.mark.parametrize("name", READINGS)
def test_picture_stands_in_without_scripts(name, book, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((book / f"chapters/{name}.html").as_uri())
    picture = page.locator(".nb-widget figure svg[role=img]").first
    assert picture.is_visible()
    assert page.locator(".nb-widget .ss").count() == 0
    context.close()

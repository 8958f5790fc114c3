"""The built pages in a real browser, from file:// and without network."""

import re
from urllib.parse import urlencode

import pytest

from helpers import PAGES, PAPER, check_fit, check_page, wait_for_widgets
from tensors import WITH_TENSOR, WITH_WIDGET, reading, shown_tensors

pages = pytest.mark.parametrize("page", [*PAGES, "search"])


# Enlarged to 200 % and 400 %, a window of 1280 × 1024 px is as large as these.
@pages
@pytest.mark.parametrize(
    ("width", "color_scheme", "enlarged"), [(1280, "light", (640, 512)), (360, "dark", (320, 256))]
)
def test_page(page, width, color_scheme, enlarged, book, visit):
    visit = visit(book / f"{page}.html", width, color_scheme)
    check_page(visit, color_scheme)
    wait_for_widgets(visit.page)
    check_enlarged(visit.page, *enlarged)


def check_enlarged(page, width, height):
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    check_fit(page)
    header = page.locator(".bar").bounding_box()
    assert header["height"] < height / 4  # it stays while the text scrolls


@pytest.mark.parametrize("name", ["index", "rnn", "api_layers", "formula_sheet"])
def test_letters_of_twice_the_size(name, book, visit):
    page = visit(book / f"chapters/{name}.html").page
    wait_for_widgets(page)
    page.add_style_tag(content="html { font-size: 200% !important }")
    check_enlarged(page, 1280, 1024)


@pytest.mark.parametrize("name", ["rnn", "batch_norm"])
def test_what_was_folded_fits_a_phone(name, book, visit):
    page = visit(book / f"chapters/{name}.html", width=360).page
    wait_for_widgets(page)
    page.evaluate("document.querySelectorAll('details').forEach((e) => (e.open = true))")
    check_enlarged(page, 320, 640)


def test_tables_fit_a_phone(book, visit):
    """So that the ✓ at the end of a row is seen; only wider ones scroll."""
    page = visit(book / "chapters/batch_norm.html", width=360).page
    tables = page.locator(".nb-verify")
    assert tables.count() > 20
    assert not any(
        table.evaluate("(table) => table.getBoundingClientRect().right > innerWidth")
        for table in tables.all()
    )


@pytest.mark.parametrize(("width", "color_scheme"), [(1280, "dark"), (360, "light")])
def test_what_surrounds_a_page(width, color_scheme, book, visit):
    """Sidebars and bars are the same on all pages."""
    check_page(visit(book / f"{PAGES[0]}.html", width, color_scheme), color_scheme)


def test_the_root_opens_the_first_page(book, visit):
    page = visit(book / "index.html").page
    page.wait_for_url((book / f"{PAGES[0]}.html").as_uri())


def test_search_works_from_a_file(book, visit):
    page = visit(book / "search.html").page
    page.goto((book / "search.html").as_uri() + "?q=normalization")
    results = page.locator("#search-results li a")
    for title in ("Layer normalization for images", "Batch normalization"):
        results.filter(has_text=title).first.wait_for()


def test_search_finds_errors_by_their_own_words(book, visit):
    page = visit(book / "chapters" / "symptoms.html").page
    outputs = page.locator("#error-texts pre").all_inner_texts()
    errors = [text for text in outputs if "Error: " in text]
    assert len(errors) >= 12
    for error in errors:
        words = " ".join(error.split()[1:])  # without the type
        page.goto(f"{(book / 'search.html').as_uri()}?{urlencode({'q': words})}")
        page.locator("#search-results li a", has_text="Symptoms").first.wait_for()


def test_the_network_is_blocked_and_recorded(tmp_path, visit):
    """Otherwise the tests above would prove nothing."""
    file = tmp_path / "page.html"
    file.write_text('<!doctype html><img src="https://example.org/image.png">')
    visit = visit(file)
    assert visit.requests == ["https://example.org/image.png"]
    assert visit.console


def test_every_page_with_a_widget_is_read(book):
    pages = {page for page in PAGES if "nb-widget" in (book / f"{page}.html").read_text("utf8")}
    assert pages == {f"chapters/{name}" for name in WITH_WIDGET}


@pytest.mark.parametrize("name", WITH_TENSOR)
def test_tensor_is_alive(name, executions, book, visit):
    cell, line = reading(shown_tensors(executions[name])[0])
    visit = visit(book / f"chapters/{name}.html")
    widget = visit.page.locator(".nb-widget .ss").first
    widget.wait_for()
    widget.locator("[role=gridcell]").nth(cell).hover()
    widget.get_by_text(line, exact=True).wait_for()
    assert visit.requests == []
    assert visit.console == []


@pytest.mark.parametrize("name", WITH_WIDGET)
def test_explorers_are_alive(name, book, visit):
    """Another member of the family shows other values."""
    visit = visit(book / f"chapters/{name}.html")
    for number in range(visit.page.locator(".nb-widget .ex").count()):
        explorer = visit.page.locator(".nb-widget .ex").nth(number)
        values = explorer.locator("li")
        before = values.all_inner_texts()
        assert before
        control = explorer.locator(".ex-control").first
        if control.locator("input").count():
            control.locator("input").focus()
            visit.page.keyboard.press("Home")
            before = values.all_inner_texts()
            visit.page.keyboard.press("End")
        else:
            control.locator("button[aria-pressed=false]").first.click()
        visit.page.wait_for_function(
            "([number, before]) => String([...document.querySelectorAll('.nb-widget .ex')[number]"
            ".querySelectorAll('li')].map(e => e.innerText)) !== String(before)",
            arg=[number, before],
        )
    assert visit.console == []


def test_formula_of_the_image_chapter(book, visit):
    """The worked example of document 002, read off the page."""
    page = visit(book / "chapters/layer_norm_cnn.html").page
    page.locator(".ss [role=gridcell]").nth(1).hover()
    read = page.locator(".ss .ss-read").first
    read.get_by_text("x̂ = (2 − 0.4933333)/√(0.3566222 + 1e-05) = 2.522940").wait_for()
    assert "= 0.356622" in read.inner_text()


# The pictures of the widgets that can be seen, the live views that can, and how many there are.
SEEN = """() => {
    const all = (part) => [...document.querySelectorAll(`.nb-widget ${part}`)];
    const seen = (part) => all(part).filter((e) => e.checkVisibility() && e.clientHeight).length;
    return [seen("> .nb-widget-picture > *"), seen("> .nb-widget-view"), all("> script").length];
}"""


@pytest.mark.parametrize("name", WITH_WIDGET)
def test_pictures_stand_in_without_scripts(name, book, browser):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto((book / f"chapters/{name}.html").as_uri())
        pictures, views, widgets = page.evaluate(SEEN)
    assert pictures == widgets > 0
    assert views == 0


@pytest.mark.parametrize("name", WITH_WIDGET)
def test_pictures_stand_in_on_paper(name, book, visit):
    page = visit(book / f"chapters/{name}.html").page
    wait_for_widgets(page)
    pictures, views, widgets = page.evaluate(SEEN)
    assert (pictures, views) == (0, widgets)
    page.emulate_media(media="print")
    pictures, views, widgets = page.evaluate(SEEN)
    assert (pictures, views) == (widgets, 0)


def test_paper_is_light(book, visit):
    page = visit(book / f"{PAGES[0]}.html", color_scheme="dark").page
    page.locator(".theme-switch").click(click_count=2)  # light, dark: as if it had been chosen
    look = "['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])"
    assert page.evaluate(look)[1] == PAPER["dark"]
    page.emulate_media(media="print", color_scheme="dark")
    color, background = page.evaluate(look)
    assert background == PAPER["light"]
    assert sum(map(int, re.findall(r"\d+", color))) < 3 * 64


@pytest.mark.parametrize("name", ["rnn", "formula_sheet", "symptoms"])
def test_paper_has_nothing_to_press(name, book, visit):
    page = visit(book / f"chapters/{name}.html").page
    wait_for_widgets(page)
    page.emulate_media(media="print")
    controls = page.locator(":is(button, select, input, nav, header):not(.nb-quiz *)")
    assert controls.count() > 5
    assert [c.evaluate("(e) => e.outerHTML") for c in controls.all() if c.is_visible()] == []

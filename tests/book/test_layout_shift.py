"""What a reader sees first stays in its place while the rest of a page comes to life.

The measure is the browser's layout shift score (https://web.dev/articles/cls).
"""

import pytest

from helpers import open_page, wait_for_widgets
from tensors import WITH_WIDGET

WATCH = """
window.score = 0;
new PerformanceObserver(list => list.getEntries().forEach(({ value }) => { score += value; }))
    .observe({ type: "layout-shift", buffered: true });
"""
SETTLED = "new Promise(done => requestAnimationFrame(() => setTimeout(done, 200)))"


def score(browser, path, width=1280):
    page = open_page(browser, path.as_uri(), width=width, script=WATCH).page
    wait_for_widgets(page)
    page.evaluate(SETTLED)
    result = page.evaluate("score")
    page.context.close()
    return result


@pytest.mark.parametrize("name", WITH_WIDGET)
@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_jumps(name, width, book, browser):
    assert score(browser, book / f"chapters/{name}.html", width) < 0.02


SKIPPED = """[...document.querySelectorAll("article > section > section")].map(
    section => getComputedStyle(section).contentVisibility === "auto")"""
# Runs before the page: asks as it has loaded, before its own scripts hear of it.
ASK = f"""addEventListener("load", () => {{ window.skipped = {SKIPPED}; }})"""
PLACES = """[...document.querySelectorAll("article *")].flatMap(element => {
    const { x, y, width } = element.getBoundingClientRect();
    return width && y < innerHeight ? [[element.tagName, x, y, width]] : [];
})"""


def test_sections_further_down_are_laid_out_once_the_page_has_loaded(book, browser):
    address = (book / "chapters/rnn.html").as_uri()
    page = open_page(browser, address, script=ASK).page
    first, *others = page.evaluate("skipped")
    assert not first
    assert others and all(others)
    assert not any(page.evaluate(SKIPPED))
    # Whoever comes back, or to a section, needs the height of what is above.
    page.reload()
    assert not any(page.evaluate("skipped"))
    page.context.close()
    page = open_page(browser, f"{address}#summary", script=ASK).page
    assert not any(page.evaluate("skipped"))
    page.context.close()


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_in_view_moves_when_the_rest_is_laid_out(width, book, visit):
    page = visit(book / "chapters/before_you_start.html", width=width).page
    page.set_viewport_size({"width": width, "height": 2500})  # some of the sections
    wait_for_widgets(page)
    places = page.evaluate(PLACES)
    page.evaluate("document.documentElement.classList.add('nb-loading')")
    page.evaluate(SETTLED)
    assert page.evaluate(SKIPPED).count(True) > 1
    assert page.evaluate(PLACES) == places


def test_a_jump_would_be_noticed(tmp_path, browser):
    """Otherwise the test above would prove nothing."""
    (tmp_path / "page.html").write_text(
        """<!doctype html><p>one</p><p style="height: 300px">two</p><script>
        requestAnimationFrame(() => requestAnimationFrame(() => {
            document.querySelector("p").style.height = "200px";
        }))</script>"""
    )
    assert score(browser, tmp_path / "page.html") > 0.02

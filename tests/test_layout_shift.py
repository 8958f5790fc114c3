"""What a reader sees first stays in its place while the rest of a page comes to life.

The measure is the browser's layout shift score (https://web.dev/articles/cls).
"""

import pytest

from helpers import READINGS, open_page, wait_for_widgets

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


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_jumps(name, width, book, browser):
    assert score(browser, book / f"chapters/{name}.html", width) < 0.02


def test_a_jump_would_be_noticed(tmp_path, browser):
    """Otherwise the test above would prove nothing."""
    (tmp_path / "page.html").write_text(
        """<!doctype html><p>one</p><p style="height: 300px">two</p><script>
        requestAnimationFrame(() => requestAnimationFrame(() => {
            document.querySelector("p").style.height = "200px";
        }))</script>"""
    )
    assert score(browser, tmp_path / "page.html") > 0.02

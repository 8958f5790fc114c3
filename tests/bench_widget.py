"""How long SharedStatistics takes from a move of the pointer to the new layout.

The cells are visited all over the tensor; some moves come
to a group for the first time, most come back to one. No frame is painted between them: a renderer
in software would take the processor from what is measured.
"""

import tempfile

import numpy as np
from playwright.sync_api import sync_playwright

from bench import Row, show
from normbook.build.pdf import launch_chromium
from normbook.core.scheme import BATCH_NORM_2D
from normbook.widgets import SharedStatistics
from widget_page import write_page

SHAPES = {600: (2, 3, 10, 10), 4096: (4, 4, 16, 16)}  # by the number of cells
MOVES = 400

MOVE = """moves => {
    const cells = [...document.querySelectorAll("[role=gridcell]")], times = [];
    for (let k = 0; k < moves; k++) {
        const cell = cells[(k * 7919) % cells.length], start = performance.now();
        cell.dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
        document.querySelector(".ss").getBoundingClientRect(); // style and layout, now
        times.push(performance.now() - start);
    }
    return times;
}"""


def hover_times(browser, shape, scheme=BATCH_NORM_2D):
    """The times of all moves in ms: handler, style and layout."""
    x = np.random.default_rng(0).integers(0, 5, shape)
    page = browser.new_page(viewport={"width": 800, "height": 900})
    with tempfile.TemporaryDirectory() as folder:
        page.goto(write_page(SharedStatistics(x, scheme), folder).as_uri())
        page.wait_for_function("window.ready")
        times = page.evaluate(MOVE, MOVES)
    page.close()
    return times


def rows():
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        for cells, shape in SHAPES.items():
            half, most = np.percentile(hover_times(browser, shape), (50, 95))
            yield Row(f"move of the pointer, {cells} cells, median", half, "ms")
            yield Row(f"move of the pointer, {cells} cells, 95th percentile", most, "ms")
        browser.close()


if __name__ == "__main__":
    show(rows())

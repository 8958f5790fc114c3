"""Pages that may store nothing in the browser: all works, and is forgotten with the page."""

from pathlib import Path

import pytest

from helpers import PAGES
from tensors import reading, shown_tensors

# What a look at the storage gives.
STORAGE = """for (const name of ["localStorage", "sessionStorage"])
    Object.defineProperty(window, name, {{ configurable: true, get() {{ {} }} }});"""
LOOKS = {"an error": 'throw new DOMException("no", "SecurityError");', "nothing": "return null;"}


@pytest.mark.parametrize("look", LOOKS)
def test_a_page_without_storage(look, executions, book, visit):
    script = STORAGE.format(LOOKS[look])
    opened = visit(book / f"{PAGES[0]}.html", color_scheme="dark", script=script)
    page = opened.page
    root = "document.documentElement.dataset"
    assert page.evaluate(f"{root}.theme") == "dark"
    for mode in ("light", "dark", "auto"):
        page.locator(".theme-switch-button").first.click()
        assert page.evaluate(f"{root}.mode") == mode
    cell, line = reading(shown_tensors(executions[Path(PAGES[0]).stem])[0])
    widget = page.locator(".nb-widget .ss").first
    widget.locator("[role=gridcell]").nth(cell).hover()
    widget.get_by_text(line, exact=True).wait_for()
    # One of the last scripts has run, too.
    page.evaluate("window.print = () => { window.printed = true; }")
    page.locator(".btn-download-pdf-button").evaluate("button => button.click()")
    assert page.evaluate("window.printed")
    assert opened.console == []


def test_a_search_without_storage(book, visit):
    opened = visit(book / "search.html", script=STORAGE.format(LOOKS["an error"]))
    opened.page.locator(".bd-search-container input").fill("normalization")
    opened.page.keyboard.press("Enter")
    opened.page.locator("#search-results li a").first.click()
    opened.page.locator("article section > h1").wait_for()
    assert opened.console == []

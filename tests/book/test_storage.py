"""Pages that may store nothing in the browser: all works, and is forgotten with the page."""

from pathlib import Path

import pytest

from helpers import PAGES, PAPER
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
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == PAPER["dark"]
    for theme in ("light", "dark", "dark"):  # the last is the reader's system's
        page.locator(".theme-switch").click()
        assert page.evaluate(paper) == PAPER[theme]
    cell, line = reading(shown_tensors(executions[Path(PAGES[0]).stem])[0])
    widget = page.locator(".nb-widget .ss").first
    widget.locator("[role=gridcell]").nth(cell).hover()
    widget.get_by_text(line, exact=True).wait_for()
    page.locator("button.copybtn").first.wait_for(state="attached")  # by one of the last scripts
    assert opened.console == []


def test_a_search_without_storage(book, visit):
    opened = visit(book / "search.html", script=STORAGE.format(LOOKS["an error"]))
    opened.page.locator("form.search input").fill("normalization")
    opened.page.keyboard.press("Enter")
    opened.page.locator("#search-results li a").first.click()
    opened.page.locator("article section > h1").wait_for()
    assert opened.console == []

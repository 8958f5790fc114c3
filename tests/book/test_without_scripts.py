"""Pages in a browser that runs no scripts: the text, the formulas and the pictures are there."""

import pytest

from helpers import PAGES, PAPER

# Formulas as wide as they should be, in MathJax's fonts; and those without.
FORMULAS = """() => {
    const all = [...document.querySelectorAll(".math")];
    const drawn = all.filter(({ lastElementChild: formula }) => {
        const glyph = getComputedStyle(formula.querySelector("mjx-c"), "::before");
        return formula.getBoundingClientRect().width > 3 && glyph.fontFamily.includes("MJXTEX");
    });
    return [drawn.length, all.length];
}"""
PAPER_NOW = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("page", PAGES)
def test_page_without_scripts(page, book, browser):
    with browser.new_context(java_script_enabled=False, color_scheme="dark") as context:
        opened = context.new_page()
        opened.goto((book / f"{page}.html").as_uri())
        drawn, formulas = opened.evaluate(FORMULAS)
        assert drawn == formulas
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert opened.evaluate(PAPER_NOW) == PAPER["dark"]
        # What could do nothing isn't shown.
        assert opened.locator(".needs-script:visible, .copybtn:visible").count() == 0

"""What several test modules share."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import axe_playwright_python
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import Page
from sphinx_external_toc.parsing import parse_toc_yaml

from normbook.build.execute import toc_notebooks

ROOT = Path(__file__).parents[1]
TOC = parse_toc_yaml(ROOT / "_toc.yml")
PAGES = list(TOC)  # document names, such as chapters/index
NOTEBOOKS = toc_notebooks(PAGES, ROOT)
CHAPTERS = [path.stem for path in toc_notebooks(TOC.root.subtrees[0].items, ROOT)]  # the first part

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")

VECTORS_FILE = Path(__file__).with_name("vectors.json")
VECTORS = {v["id"]: v for v in json.loads(VECTORS_FILE.read_text(encoding="utf8"))["vectors"]}


@cache
def read_notebook(path):
    return nbformat.read(path, nbformat.NO_CONVERT)


def about(tested, identifier):
    """Marks a test of one vector, and hands it the vector's inputs and expected values.

    The set ``tested`` remembers that it is.
    """
    tested.add(identifier)
    vector = VECTORS[identifier]
    return pytest.mark.parametrize(
        ("inputs", "expected"), [(vector["inputs"], vector["expected"])], ids=[identifier]
    )


def build_book(source, *options):
    """Build the book in the folder ``source`` strictly; returns the finished process."""
    script = Path(sys.executable).with_name("jupyter-book")
    command = [script, "build", source, "-W", "-n", "--keep-going", *options]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf8"
    )


def write_notebook(path, *sources):
    """A notebook whose code cells are ``sources``, after a heading."""
    cells = [new_markdown_cell(f"# {path.stem}", id="heading-01")]
    cells += [new_code_cell(source, id=f"step-{n:02}") for n, source in enumerate(sources, 1)]
    path.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC}), path)
    return path


def copy_configuration(folder):
    """Make ``folder`` a book like this one, but for its pages and their table of contents."""
    for name in ("_config.yml", "references.bib", "requirements.txt"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "assets", folder / "assets")


SMALL_TOC = """
format: jb-book
root: chapters/first
chapters:
  - file: chapters/second
  - file: chapters/bibliography
"""


def write_small_book(folder):
    """Make ``folder`` a book with the configuration of this one and two notebooks of its own."""
    copy_configuration(folder)
    write_notebook(folder / "chapters" / "first.ipynb", "1 + 1")
    write_notebook(folder / "chapters" / "second.ipynb", "print('two')")
    shutil.copy(ROOT / "chapters" / "bibliography.md", folder / "chapters")
    (folder / "_toc.yml").write_text(SMALL_TOC)
    return folder


PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 31)"}
PATIENCE = 180  # s, for a slow machine: what is waited for usually comes much sooner
LOCAL = ("file://", "http://127.0.0.1", "data:", "blob:")


@dataclass
class Visit:
    """A page open in the browser, what its console said, and what it asked of other hosts."""

    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def open_page(browser, address, width=1280, color_scheme="light", script=""):
    """Open the address in a context of its own, whose requests to other hosts are refused.

    ``script`` runs before those of the page.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=color_scheme
    )
    context.set_default_navigation_timeout(1000 * PATIENCE)
    context.add_init_script(script)
    visit = Visit(context.new_page())

    def refuse(route):
        if route.request.url.startswith(LOCAL):
            route.continue_()
        else:
            visit.requests.append(route.request.url)
            route.abort()

    def note(message):
        if message.type in ("error", "warning"):
            visit.console.append(message.text)

    context.route("**/*", refuse)
    visit.page.on("console", note)
    visit.page.on("pageerror", lambda error: visit.console.append(str(error)))
    visit.page.goto(address, wait_until="load")
    return visit


def check_page(visit, color_scheme):
    """What holds for every page of the book, opened by the fixture ``visit``."""
    page = visit.page
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == PAPER[color_scheme]
    check_fit(page)
    check_maths(page)
    check_accessibility(page)
    assert visit.requests == []
    assert visit.console == []


# What can be seen and is cut off: beyond the window's edge, or in a box that hides it. What only
# screen readers read, in a formula or in a box of one pixel, can't be seen.
CUT_OFF = """() => {
    const hides = (e) => /hidden|clip/.test(getComputedStyle(e).overflowX);
    const scrolls = (e) => e && (getComputedStyle(e).overflowX !== "visible"
        || scrolls(e.parentElement));
    const isCutOff = (e) => e.getBoundingClientRect().width > 1 && (
        hides(e) && e.scrollWidth > e.clientWidth + 1 && !e.matches(".math, .math *")
        || e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e));
    return [...document.querySelectorAll("body *")]
        .filter((e) => e.checkVisibility({ visibilityProperty: true }) && isCutOff(e))
        .map((e) => `<${e.localName} class="${e.className}"> ${e.textContent.slice(0, 40)}`);
}"""


def check_fit(page):
    """The page is as wide as the window: wide content scrolls inside itself."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(CUT_OFF) == []
    formulas_cut_off = page.evaluate(
        """[...document.querySelectorAll("span.math")].filter((box) => {
            const edge = box.getBoundingClientRect().right + 1;
            const parts = [...box.querySelectorAll("mjx-c")];
            return parts.some((part) => part.getBoundingClientRect().right > edge);
        }).map((box) => box.textContent)"""
    )
    assert formulas_cut_off == []


WIDGETS_ARE_SETTLED = """[...document.querySelectorAll(".nb-widget")].every(
    (box) => box.matches(".nb-widget-live") || box.querySelector(".nb-widget-error"))"""


def wait_for_widgets(page):
    """Wait until every widget of a built page lives or has failed."""
    page.wait_for_function(WIDGETS_ARE_SETTLED)


# Rules that axe leaves out by itself: names hold the words that are read, and a finger hits.
AXE_OPTIONS = {
    "preload": False,
    "rules": {rule: {"enabled": True} for rule in ("label-content-name-mismatch", "target-size")},
}


def check_accessibility(page, within="html"):
    """axe, with all its rules, finds nothing on the page as it is now, or in a part of it."""
    page.evaluate(AXE.read_text(encoding="utf8"))
    run = "([within, options]) => axe.run(within, options)"
    found = page.evaluate(run, [within, AXE_OPTIONS])["violations"]
    assert [(v["id"], [node["html"] for node in v["nodes"]]) for v in found] == []


def check_maths(page):
    """Every formula is typeset, without an error, in MathJax's own fonts."""
    formulas = page.locator(".math").count()
    assert page.locator("mjx-container").count() == formulas
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    # One that is wider than its box can be scrolled to from its very beginning.
    cut_off = page.evaluate(
        """[...document.querySelectorAll("div.math")].filter(box => {
            const left = box.getBoundingClientRect().left - 1;
            const parts = [...box.querySelectorAll("mjx-container, mjx-mi, mjx-mo, mjx-mn")];
            return parts.some(part => part.getBoundingClientRect().left < left);
        }).map(box => box.textContent)"""
    )
    assert cut_off == []
    if formulas:
        fonts = page.evaluate(
            """document.fonts.ready.then(fonts =>
                [...fonts].filter(f => f.family.includes("MJX")).map(f => f.status))"""
        )
        assert "loaded" in fonts
        assert "error" not in fonts

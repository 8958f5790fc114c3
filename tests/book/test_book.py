"""The built HTML, read as files."""

import gzip
import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from helpers import NOTEBOOKS, PAGES, ROOT

# Where a page names what it loads by itself.
LOADED = {
    "script": "src",
    "link": "href",
    "img": "src",
    "source": "src",
    "iframe": "src",
    "object": "data",
    "image": "href",
    "use": "href",
}

pages = pytest.mark.parametrize("page", PAGES)


@cache
def parse(file):
    return BeautifulSoup(Path(file).read_text(encoding="utf8"), "html.parser")


def is_remote(address):
    return bool(urlsplit(address).netloc)


def test_builds_without_a_warning(build):
    assert build.returncode == 0, build.stdout[-5000:]
    assert "build succeeded." in build.stdout


@pages
def test_every_page_of_the_toc_is_there(page, book):
    assert parse(book / f"{page}.html").find("h1").get_text(strip=True)


def test_the_root_leads_to_the_first_page(book):
    refresh = parse(book / "index.html").find("meta", {"http-equiv": "Refresh"})
    address = refresh["content"].split("url=")[1]
    assert (book / address) == book / f"{PAGES[0]}.html"


def test_nothing_is_loaded_from_another_host(book):
    for file in book.rglob("*.html"):
        soup = parse(file)
        for tag, attribute in LOADED.items():
            for element in soup.find_all(tag):
                assert not is_remote(element.get(attribute, "")), (file.name, element)
    for file in book.rglob("*.css"):
        addresses = re.findall(r"url\(([^)]*)\)", file.read_text(encoding="utf8"))
        assert not [a for a in addresses if is_remote(a.strip("\"'"))], file.name


def broken_links(folder):
    """Links between the pages in ``folder`` that lead nowhere, as (page, address)."""
    broken = []
    for file in folder.rglob("*.html"):
        for element in parse(file).find_all("a", href=True):
            address = urlsplit(element["href"])
            if address.scheme or address.netloc:
                continue
            target = (file.parent / unquote(address.path)).resolve() if address.path else file
            anchors = {unquote(address.fragment)} - {""}
            if not target.is_file():
                broken.append((file.name, element["href"]))
            elif target.suffix == ".html" and anchors:
                soup = parse(target)
                if not soup.find(id=list(anchors)) and not soup.find(attrs={"name": list(anchors)}):
                    broken.append((file.name, element["href"]))
    return broken


def test_broken_links_finds(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="there"><a href="#there"></a><a href="a.html#not"></a><a href="b.html"></a></p>'
    )
    assert broken_links(tmp_path) == [("a.html", "a.html#not"), ("a.html", "b.html")]


def test_no_link_within_the_book_is_broken(book):
    assert broken_links(book) == []


def test_every_reference_has_an_anchor(book):
    keys = re.findall(r"@\w+\{([^,]+),", (ROOT / "references.bib").read_text(encoding="utf8"))
    page = parse(book / "chapters" / "bibliography.html")
    assert keys
    for key in keys:
        assert page.find(id=key), key


@pages
def test_what_runs_the_widgets_is_light(page, book):
    """The host, and the code of the page's widgets, as they go over the wire."""
    host = (book / "_static" / "widget_host.js").read_bytes()
    tags = parse(book / f"{page}.html").select('script[type$="widget-state+json"]')
    code = "".join(code for tag in tags for code in json.loads(tag.string)["code"])
    assert len(gzip.compress(host, 9)) + len(gzip.compress(code.encode(), 9)) <= 22 * 1024


@pages
def test_formulas_are_typeset_without_a_script(page, book):
    soup = parse(book / f"{page}.html")
    for formula in soup.select(".math"):
        assert formula.select_one("mjx-container mjx-math"), formula
        assert formula.select_one("mjx-assistive-mml math"), formula
    assert not soup.find_all("script", src=re.compile("(?i)mathjax"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_downloads_are_the_notebooks_without_outputs(path, book):
    download = book / "_sources" / path.relative_to(ROOT)
    assert download.read_bytes() == path.read_bytes()
    assert all(not cell.get("outputs") for cell in json.loads(download.read_text("utf8"))["cells"])
    # The page itself offers it.
    page = book / path.relative_to(ROOT).with_suffix(".html")
    links = [page.parent / a["href"] for a in parse(page).find_all("a", href=True)]
    assert download.resolve() in [link.resolve() for link in links]


@pages
def test_no_figure_needs_a_pattern_of_a_hidden_picture(page, book):
    """A widget that lives hides its picture, and browsers take the first pattern of a name."""
    soup = parse(book / f"{page}.html")
    hidden = {pattern["id"] for pattern in soup.select(".nb-widget-picture pattern")}
    shown = {pattern["id"] for pattern in soup.select("pattern:not(.nb-widget-picture *)")}
    assert hidden.isdisjoint(shown)

"""The layout of all pages: what they load, and what they tell of themselves."""

import gzip
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from docutils import nodes

from helpers import PAGES, build_book, copy_configuration
from normbook.build.sphinxext.theme import LONGEST, describe

pages = pytest.mark.parametrize("page", [*PAGES, "search"])


@cache
def parse(file):
    return BeautifulSoup(Path(file).read_text(encoding="utf8"), "html.parser")


def read(soup, **attributes):
    """The content of the one <meta> with these attributes."""
    (tag,) = soup.find_all("meta", attributes)
    return tag["content"]


def document(*paragraphs):
    section = nodes.section("", nodes.title("", "A title"))
    section += [nodes.paragraph("", text) for text in paragraphs]
    return nodes.document(None, None, "", section)


def test_description_is_the_first_paragraph_in_one_line():
    assert describe(document("One\nline. ", "Another.")) == "One line."
    assert describe(document("Question. Why?")) == "Why?"
    assert describe(document()) == ""


def test_long_descriptions_end_with_a_word():
    text = describe(document("words " * 100))
    assert text.endswith("words …")
    assert LONGEST - 8 < len(text) <= LONGEST


@pages
def test_a_page_has_a_title_and_a_description(page, book):
    soup = parse(book / f"{page}.html")
    heading = soup.select_one("h1")
    if link := heading.find(class_="headerlink"):
        link.extract()
    own = " ".join(heading.get_text().split())
    title = soup.title.get_text(strip=True)
    assert title == (own if page == PAGES[0] else f"{own} — Shared Statistics")
    description = read(soup, name="description")
    assert 15 < len(description) <= LONGEST
    assert read(soup, property="og:description") == description
    assert read(soup, property="og:title") == own
    assert read(soup, property="og:site_name") == "Shared Statistics"
    assert read(soup, property="og:type") == ("website" if page == PAGES[0] else "article")
    # No address is made up as long as the book has none.
    assert not soup.find("meta", property="og:url")
    assert not soup.find("link", rel="canonical")


def test_titles_and_descriptions_tell_pages_apart(book):
    soups = [parse(book / f"{page}.html") for page in PAGES]
    assert len({soup.title.get_text() for soup in soups}) == len(PAGES)
    assert len({read(soup, name="description") for soup in soups}) == len(PAGES)


@pages
def test_headings_are_in_order(page, book):
    levels = [
        int(tag.name[1])
        for tag in parse(book / f"{page}.html").select("[role=main] :is(h1, h2, h3, h4)")
    ]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.slow
def test_addresses_are_told_once_the_book_has_one(tmp_path):
    copy_configuration(tmp_path)
    configuration = tmp_path / "_config.yml"
    text = configuration.read_text(encoding="utf8")
    address = "https://example.org/book/"
    changed = text.replace("\nhtml:\n", f"\nhtml:\n  baseurl: {address}\n")
    assert changed != text
    configuration.write_text(changed, encoding="utf8")
    (tmp_path / "intro.md").write_text('# The *title*\n\nWhat "it" is & <was>.\n')
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: intro\n")
    build = build_book(tmp_path)
    assert build.returncode == 0, build.stdout[-3000:]
    soup = parse(tmp_path / "_build/html/intro.html")
    assert soup.find("link", rel="canonical")["href"] == f"{address}intro.html"
    assert read(soup, property="og:url") == f"{address}intro.html"
    assert read(soup, property="og:title") == "The title"
    assert read(soup, name="description") == "What “it” is & <was>."


BUDGET = 180_000  # bytes over the wire
SEARCH = {"language_data.js", "searchtools.js", "searchindex.js"}
LOADED = {
    "book.css", "clipboard.min.js", "copybutton.css", "copybutton.js", "doctools.js",
    "documentation_options.js", "maths.css", "pygments.css", "sphinx_highlight.js", "theme.js",
    "widget_host.js",
}  # fmt: skip


@pages
def test_a_page_is_light(page, book, browser):
    """All that it loads is there, and needed, and weighs little."""
    with browser.new_context() as context:
        opened = context.new_page()
        loaded = []
        opened.on("request", lambda request: loaded.append(request.url))
        opened.goto((book / f"{page}.html").as_uri())
        opened.evaluate("document.fonts.ready.then(() => null)")
        paths = {unquote(urlsplit(url).path) for url in loaded if url.startswith("file:")}
    files = [Path(path) for path in paths]
    assert [file for file in files if not file.is_file()] == []
    code = {file.name for file in files if file.suffix in (".js", ".css")}
    assert code - {"widget_host.js"} == LOADED - {"widget_host.js"} | (
        SEARCH if page == "search" else set()
    )
    weights = {file.name: len(gzip.compress(file.read_bytes())) for file in files}
    assert sum(weights.values()) <= BUDGET, weights

"""The book on paper: as the browser prints its pages, and as one PDF."""

import re
import subprocess
import sys
from io import BytesIO
from unicodedata import normalize
from urllib.parse import unquote, urldefrag

import pytest
from bs4 import BeautifulSoup
from pypdf import PdfReader

from helpers import PAGES

SHEET = 673  # px: the width of A4 between the margins
CHINESE = r"[\u2e80-\u9fff\uff00-\uffef]"
BOX = "\0"  # what pypdf reads where the PDF has the glyph for a missing one
SHOWN = ":is(rect, path, line, circle, polyline, polygon)"


def print_pdf(folder, file, *options):
    """Run the command; returns the PDF and what the command said."""
    command = [sys.executable, "-m", "normbook.build.pdf", folder, file, *options]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert result.returncode == 0, result.stdout
    return PdfReader(file), result.stdout


def links(sheet):
    """The links of a sheet: the positions of sheets, and addresses."""
    for reference in sheet.get("/Annots", []):
        link = reference.get_object()
        yield link["/A"]["/URI"] if "/A" in link else link["/Dest"][0].get_object()


def bookmarks(pdf):
    """The title of each page of the book, and the position of its first sheet."""
    return [
        (item.title, pdf.get_destination_page_number(item))
        for item in pdf.outline
        if not isinstance(item, list)
    ]


def squeeze(text):
    """The text without spaces and ligatures, and with boxes for Chinese, for comparison."""
    return re.sub(CHINESE, BOX, re.sub(r"\s+", "", normalize("NFKC", text)))


# A book of two pages, with what is made of it besides its text.

SMALL_PAGE = """<!doctype html><meta charset="utf8"><style>@page {{ margin: 18mm }}</style>
<a class="navbar-brand">A small book</a>
<nav id="chapters" style="display: none"><p class="caption">The part</p>
<a class="reference internal" href="a.html#">First</a>
<a class="reference internal" href="b.html">Second</a></nav>
<article>{}</article>
<footer><p>By nobody</p></footer>"""
FIRST = """<h1>First</h1><p><a href="b.html#down">down</a> <a href="#here">here</a>
<a href="b.html">second</a> <a href="https://example.org/">away</a> <a href="file.zip">file</a></p>
<section id="here" style="break-before: page"><h2>Here<a href="#here">#</a></h2></section>
<div class="tag_solution"><details><summary>Solution</summary>the answer</details></div>
<details><summary>Folded</summary>the folded code</details>"""
SECOND = """<h1>Second</h1><svg width="90" height="90"><defs>
<pattern id="p" width="8" height="8" patternUnits="userSpaceOnUse">
<path d="M0 0H8V8H0z" fill="red" fill-opacity=".3"/>
<path d="M0 8L8 0" stroke="red"/></pattern></defs>
<rect x="5" y="5" width="80" height="80" fill="url(#p)"/></svg>
<section id="down" style="break-before: page"><h2>Down</h2><p>down here</p></section>"""


@pytest.fixture(scope="module")
def small_book(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    (folder / "index.html").write_text('<meta http-equiv="Refresh" content="0; url=a.html">')
    (folder / "a.html").write_text(SMALL_PAGE.format(FIRST), encoding="utf8")
    (folder / "b.html").write_text(SMALL_PAGE.format(SECOND), encoding="utf8")
    return folder


@pytest.fixture(scope="module")
def small_pdf(small_book, tmp_path_factory):
    return print_pdf(small_book, tmp_path_factory.mktemp("pdf") / "small.pdf")[0]


def test_sheets_and_their_numbers(small_pdf):
    assert small_pdf.page_labels == ["i", "1", "2", "3", "4"]
    front, *sheets = [sheet.extract_text() for sheet in small_pdf.pages]
    assert [line.split() for line in front.splitlines()] == [
        ["A", "small", "book"],
        ["By", "nobody"],
        ["The", "part"],
        ["First", "1"],
        ["Second", "3"],
    ]
    for number, text in enumerate(sheets, 1):
        assert str(number) in text.split()
    assert small_pdf.metadata.title == "A small book"
    assert small_pdf.metadata.author == "nobody"


def test_links_lead_to_sheets(small_pdf):
    sheets = [sheet.indirect_reference for sheet in small_pdf.pages]
    assert [sheets.index(link.indirect_reference) for link in links(small_pdf.pages[0])] == [1, 3]
    *inside, away = links(small_pdf.pages[1])
    assert [sheets.index(link.indirect_reference) for link in inside] == [4, 2, 3]
    assert away == "https://example.org/"


def test_bookmarks(small_pdf):
    assert bookmarks(small_pdf) == [("First", 1), ("Second", 3)]
    inner = [item for item in small_pdf.outline if isinstance(item, list)]
    places = [(i.title, small_pdf.get_destination_page_number(i)) for part in inner for i in part]
    assert places == [("Here", 2), ("Down", 4)]


def test_patterns_are_drawn_not_painted(small_pdf):
    assert list(small_pdf.pages[3].images) == []
    assert len(re.findall(rb"\bS\b", small_pdf.pages[3].get_contents().get_data())) >= 100


def test_solutions_unfold_on_request(small_pdf, small_book, tmp_path):
    unfolded, _ = print_pdf(small_book, tmp_path / "small.pdf", "--solutions")
    assert "the answer" not in small_pdf.pages[2].extract_text()
    assert "the answer" in unfolded.pages[2].extract_text()
    assert "the folded code" not in unfolded.pages[2].extract_text()


# The book


@pytest.fixture(scope="module")
def printed(book, tmp_path_factory):
    return print_pdf(book, tmp_path_factory.mktemp("pdf") / "book.pdf")


@pytest.fixture(scope="module")
def sheets_of(printed):
    """The sheets of each page of the book, by document name."""
    pdf, _ = printed
    starts = [start for _, start in bookmarks(pdf)]
    assert len(starts) == len(PAGES)
    ends = [*starts[1:], len(pdf.pages)]
    return {
        page: pdf.pages[start:end] for page, start, end in zip(PAGES, starts, ends, strict=True)
    }


@pytest.fixture(scope="module")
def texts(sheets_of):
    return {
        page: "\n".join(sheet.extract_text() for sheet in sheets)
        for page, sheets in sheets_of.items()
    }


pages = pytest.mark.parametrize("page", PAGES)


def parse(book, page):
    return BeautifulSoup((book / f"{page}.html").read_text(encoding="utf8"), "html.parser")


@pages
def test_page_is_in_the_pdf_with_its_title(page, book, sheets_of, texts):
    heading = parse(book, page).select_one("article section h1")
    heading.find(class_="headerlink").extract()
    assert squeeze(heading.get_text()) in squeeze(sheets_of[page][0].extract_text())


@pages
def test_nothing_is_cut_off_and_every_glyph_is_there(page, book, printed, texts, visit):
    paper = visit(book / f"{page}.html", width=SHEET).page
    paper.emulate_media(media="print")
    cut_off = paper.evaluate(
        """width => [...document.querySelectorAll(
                "article :is(pre, table, svg, img, figure, p, mjx-container)")]
            .filter(element => element.getBoundingClientRect().right > width + 1)
            .map(element => element.outerHTML.slice(0, 100))""",
        SHEET,
    )
    assert cut_off == []
    beyond_the_figure = paper.evaluate(
        """[...document.querySelectorAll("article svg text")].filter(text => {
            const [inner, outer] = [text, text.ownerSVGElement].map(e => e.getBoundingClientRect());
            return inner.left < outer.left - 1 || inner.right > outer.right + 1;
        }).map(text => text.textContent)"""
    )
    assert beyond_the_figure == []
    if "no font of this machine has Chinese characters" not in printed[1]:
        assert BOX not in texts[page]
        return
    # Without those, none is missing.
    paper.evaluate(
        """pattern => {
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) {
                const { currentNode } = texts;
                currentNode.data = currentNode.data.replace(new RegExp(pattern, "g"), "x");
            }
        }""",
        CHINESE,
    )
    sheets = PdfReader(BytesIO(paper.pdf(format="A4"))).pages
    assert [sheet.extract_text() for sheet in sheets if BOX in sheet.extract_text()] == []


@pages
def test_figures_are_drawn(page, book, sheets_of, texts):
    figures = parse(book, page).select("article figure.nb-figure")
    text = squeeze(texts[page])
    for figure in figures:
        for label in [*figure.select("svg text"), *figure.select("figcaption")]:
            assert squeeze(label.get_text()) in text, label
    shapes = sum(len(figure.select(f"svg {SHOWN}")) for figure in figures)
    data = b"\n".join(sheet.get_contents().get_data() for sheet in sheets_of[page])
    assert len(re.findall(rb"(?<=[\s\d])(?:f\*?|B\*?|S|s|b\*?)(?=\s)", data)) >= shapes


@pages
def test_links_to_other_pages_lead_to_their_sheets(page, book, sheets_of):
    owner = {
        sheet.indirect_reference: name for name, sheets in sheets_of.items() for sheet in sheets
    }
    found = {
        owner[link.indirect_reference]
        for sheet in sheets_of[page]
        for link in links(sheet)
        if not isinstance(link, str)
    }
    folder = (book / page).parent
    linked = {
        (folder / unquote(urldefrag(link["href"])[0])).resolve()
        for link in parse(book, page).select("article p a[href$='.html'], article p a[href*='#']")
        if not link["href"].startswith("#") and "://" not in link["href"]
    }
    names = {file.relative_to(book.resolve()).with_suffix("").as_posix() for file in linked}
    assert names <= found | {page}


def test_pdf_names_no_file_of_the_machine(printed):
    pdf, _ = printed
    addresses = [link for sheet in pdf.pages for link in links(sheet) if isinstance(link, str)]
    assert [address for address in addresses if not re.match("https?:", address)] == []
    assert len(pdf.stream.getvalue()) < 30e6

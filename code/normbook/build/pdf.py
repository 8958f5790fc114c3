"""The whole book as one PDF: its built pages, printed by a browser without a window.

Run as ``python -m normbook.build.pdf HTML PDF``, with the folder of the built pages and the file to
write; ``--solutions`` unfolds those of the exercises. How a page looks on paper is up to the book's
style sheet. Links lead to pages of the PDF.
"""

import argparse
import html
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urldefrag

from playwright.sync_api import Browser, Playwright, sync_playwright
from playwright.sync_api import Page as BrowserPage
from pypdf import PageObject, PdfReader, PdfWriter
from pypdf.generic import Destination, Fit, NameObject, TextStringObject

# In the order of the sidebar: the captions of parts, and the links to pages.
CONTENTS = """[...document.querySelectorAll("#chapters :is(p.caption, a.reference.internal)")]
    .map(entry => [entry.textContent.trim(), entry.href?.split("#")[0]])"""

IMPRINT = """[...document.querySelectorAll("footer > p")]
    .map(item => item.innerText.trim())"""

# The browser tells where an anchor is if a link on the page leads there. Returns the headings.
MARK_ANCHORS = """() => {
    const links = document.createElement("nav");
    links.style.display = "none";
    for (const { id } of document.querySelectorAll("article [id]"))
        links.append(Object.assign(document.createElement("a"), { href: "#" + id }));
    document.body.append(links);
    return [...document.querySelectorAll("article section[id] > h2")].map(heading => [
        heading.firstChild.textContent.trim(), heading.parentElement.id]);
}"""

# Of every shape that is filled with a pattern, the browser would print an image of its own: tens of
# megabytes. So the strokes are drawn, tile by tile; the first child of a pattern is its ground.
DRAW_PATTERNS = """() => {
    const make = (name, attributes, ...children) => {
        const element = document.createElementNS("http://www.w3.org/2000/svg", name);
        for (const name in attributes) element.setAttribute(name, attributes[name]);
        element.append(...children);
        return element;
    };
    for (const shape of document.querySelectorAll("rect[fill^='url(#']")) {
        const pattern = document.getElementById(shape.getAttribute("fill").slice(5, -1));
        const [ground, ...strokes] = pattern.children;
        const tile = Number(pattern.getAttribute("width"));
        const [x, y, width, height] = ["x", "y", "width", "height"]
            .map(name => Number(shape.getAttribute(name)));
        // A nested <svg> cuts off what is beyond its edges.
        const box = make("svg", { x, y, width, height, viewBox: [x, y, width, height].join(" ") });
        for (let i = Math.floor(x / tile) * tile; i < x + width; i += tile)
            for (let j = Math.floor(y / tile) * tile; j < y + height; j += tile)
                box.append(make("g", { transform: `translate(${i} ${j})` },
                    ...strokes.map(stroke => stroke.cloneNode())));
        shape.before(box);
        for (const name of ["fill", "fill-opacity"])
            shape.setAttribute(name, ground.getAttribute(name));
    }
}"""

# A glyph that no font has is drawn as a box, whatever the character.
HAS_CHINESE = """() => {
    const draw = character => {
        const context = document.createElement("canvas").getContext("2d");
        context.fillText(character, 10, 20);
        return context.canvas.toDataURL();
    };
    return draw("归") !== draw("一");
}"""

FRONT = """<!doctype html><title>{title}</title><style>
    @page {{ margin: 18mm 16mm }}
    body {{ font: 11pt/1.5 system-ui, sans-serif; color: #222832 }}
    h1 {{ font-size: 28pt; font-weight: 400; margin: 30mm 0 4mm }}
    h2 {{ font-size: 11pt; margin: 5mm 0 1mm }}
    a {{ color: inherit; display: flex; justify-content: space-between; text-decoration: none }}
    p {{ margin: 0 }}
    .imprint {{ color: #48566b; margin-bottom: 12mm }}
</style><h1>{title}</h1><div class="imprint">{imprint}</div>{contents}"""

NUMBERS = """@page {{ @bottom-center {{ content: counter(page); font: 9pt sans-serif }} }}
@page :first {{ counter-set: page {first} }}"""


@dataclass
class Printed:
    """A page of the book as it was printed: sheets of paper, and where on them its anchors are."""

    address: str
    title: str
    reader: PdfReader
    first: int  # the position of its first sheet in the whole
    headings: list[tuple[str, str]] = field(default_factory=list)

    @property
    def sheets(self) -> list[PageObject]:
        return list(self.reader.pages)

    def place(self, anchor: str) -> tuple[int, Fit]:
        """The sheet of an anchor, and what to show of it; the top of the page without an anchor."""
        destination = self.reader.named_destinations.get(f"/{anchor}")
        if destination is None:
            return self.first, Fit.fit()
        number = self.reader.get_destination_page_number(destination)
        return self.first + number, Fit.xyz(top=destination.top)


def launch_chromium(playwright: Playwright) -> Browser:
    """The system's Chromium, else the one that ``playwright install chromium`` gets."""
    return playwright.chromium.launch(executable_path=shutil.which("chromium"))


def print_book(
    folder: Path, target: Path, solutions: bool = False, report: Callable[[str], object] = print
) -> None:
    """Print the book in `folder`, its built HTML, to the file `target`.

    Parameters
    ----------
    solutions
        whether to unfold the solutions of the exercises.
    report
        gets a line for each page, and one if this machine has no font with Chinese characters.
    """
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        page = browser.new_page(color_scheme="light")
        _open(page, (folder / "index.html").resolve().as_uri())
        book = page.locator(".navbar-brand").first.inner_text().strip()
        imprint = page.evaluate(IMPRINT)
        if not page.evaluate(HAS_CHINESE):
            report("no font of this machine has Chinese characters: they will be boxes")
        contents = page.evaluate(CONTENTS)
        printed = []
        for title, address in contents:
            if address is None:
                continue
            report(f"printing {title}")
            first = sum(len(other.sheets) for other in printed)
            _open(page, address)
            if solutions:
                page.evaluate(
                    "document.querySelectorAll('.tag_solution details').forEach(d => d.open = true)"
                )
            page.evaluate(DRAW_PATTERNS)
            headings = page.evaluate(MARK_ANCHORS)
            page.add_style_tag(content=NUMBERS.format(first=first + 1))
            printed.append(Printed(address, title, _print(page), first, headings))
        numbers = {other.address: other.first + 1 for other in printed}
        page.set_content(_front(book, imprint, contents, numbers))
        front = Printed("", book, _print(page), 0)
        browser.close()
    for other in printed:
        other.first += len(front.sheets)
    _bind(front, printed, imprint).write(target)


def _open(page: BrowserPage, address: str) -> None:
    page.goto(address, wait_until="load")
    page.wait_for_selector("article")  # the first page of the folder leads on to the book's
    page.evaluate("document.fonts.ready.then(() => null)")


def _print(page: BrowserPage) -> PdfReader:
    return PdfReader(BytesIO(page.pdf(format="A4", print_background=True)))


def _front(book, imprint, contents, numbers) -> str:
    """The first sheet: title, imprint, and contents with the numbers of pages."""

    def entry(title, address):
        if address is None:
            return f"<h2>{html.escape(title)}</h2>"
        number = f"<span>{numbers[address]}</span>"
        return f'<a href="{html.escape(address)}"><span>{html.escape(title)}</span>{number}</a>'

    return FRONT.format(
        title=html.escape(book),
        imprint="".join(f"<p>{html.escape(line)}</p>" for line in imprint),
        contents="".join(entry(*item) for item in contents),
    )


def _bind(front: Printed, printed: list[Printed], imprint: list[str]) -> PdfWriter:
    """All sheets in one file, with its links, bookmarks and page numbers."""
    writer = PdfWriter()
    links = []  # of each sheet
    for part in [front, *printed]:
        for sheet in part.sheets:
            links.append([(part, reference.get_object()) for reference in sheet.get("/Annots", [])])
            for key in ("/Annots", "/StructParents"):
                sheet.pop(key, None)
            writer.add_page(sheet)
    places = {unquote(other.address): other for other in printed}
    for number, found in enumerate(links):
        for part, link in found:
            if target := _target(link, part, places, writer):
                kept = {key: link[key] for key in ("/Type", "/Subtype", "/Rect", "/Border")}
                writer.add_annotation(number, kept | target)
    for part in printed:
        bookmark = writer.add_outline_item(title=part.title, page_number=part.first, is_open=False)
        for heading, anchor in part.headings:
            number, fit = part.place(anchor)
            writer.add_outline_item(title=heading, page_number=number, parent=bookmark, fit=fit)
    count = len(front.sheets)
    writer.set_page_label(0, count - 1, style="/r", start=1)
    writer.set_page_label(count, len(writer.pages) - 1, style="/D", start=1)
    writer.add_metadata({"/Title": front.title, "/Author": imprint[0].removeprefix("By ")})
    writer.root_object[NameObject("/Lang")] = TextStringObject("en")
    writer.compress_identical_objects()
    return writer


def _target(link, part, places, writer):
    """Where a link leads to in the whole; None if to a file that isn't in it."""
    if "/Dest" in link:
        place = part.place(str(link["/Dest"]).removeprefix("/"))
    else:
        address = str(link["/A"]["/URI"])
        if not address.startswith("file:"):
            return {"/A": link["/A"].clone(writer)}
        address, anchor = urldefrag(unquote(address))
        if address not in places:
            return None
        place = places[address].place(anchor)
    number, fit = place
    destination = Destination("", writer.pages[number].indirect_reference, fit)
    return {"/Dest": destination.dest_array}


def main():
    parser = argparse.ArgumentParser(prog="python -m normbook.build.pdf", description=__doc__)
    parser.add_argument("html", type=Path, help="the folder of the built pages")
    parser.add_argument("pdf", type=Path, help="the file to write")
    parser.add_argument("--solutions", action="store_true", help="unfold the solutions")
    options = parser.parse_args()
    if not (options.html / "index.html").is_file():
        parser.error(f"there is no book in {options.html}: build it first")
    print_book(options.html, options.pdf, options.solutions)


if __name__ == "__main__":
    main()

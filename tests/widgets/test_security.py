"""Text stays text: nothing of what a notebook says, whatever its words, runs in a page."""

import os
import re
from urllib.parse import quote, unquote, urlsplit

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
import yaml
from nbformat.v4 import new_markdown_cell, new_notebook

from helpers import KERNELSPEC, ROOT, build_book, copy_configuration
from normbook.core.scheme import Scheme
from normbook.experiments.comparison import Comparison
from normbook.experiments.verdicts import verdicts
from normbook.page.figures import STYLE, Flow, draw_figure, draw_flow, draw_sharing, strip_plot
from normbook.page.quiz import Answer, Quiz, right, wrong
from normbook.page.verify import raises, refute, verify
from normbook.widgets import Explorer, SharedStatistics

PAYLOADS = [
    "</script><script>pwned=1</script>",
    "<!--<script>pwned=1</script>-->",
    "<svg onload=pwned=1></svg>",
    '"><img src=x onerror="pwned=1">',
    "' autofocus onfocus='pwned=1' x='",
    "</title></style></textarea><svg/onload=alert(1)>",
    "`<img src=x onerror=pwned=1>`",
    '<a href="javascript:pwned=1">click</a>',
]


def outputs(text):
    """All that a notebook shows with words of its own, each with these words everywhere."""
    layer = Scheme(text, "n d", stats="n", params="d")
    y = np.ones((1, 1, 2))
    labels = {"x_label": text, "y_label": text}
    comparison = Comparison(text, text, text, 10, 5, 4, 0.1, -0.7, 0.9, text)
    with plt.rc_context(STYLE):
        fig, ax = plt.subplots()
        strip_plot(ax, [("a", text, [1, 2])])
        ax.set(title=text, xlabel=text, ylabel=text)
        ax.legend()

    def fail():
        raise ValueError(text)

    return [
        draw_sharing(layer, x=np.ones((2, 3)), caption=text),
        draw_flow(Flow(text, (text, text)), caption=text),
        draw_figure(fig, caption=text),
        verify((text, text, text), source=text),
        refute((text, text, "another"), source=text),
        raises(ValueError, fail),
        verdicts((text, comparison)),
        Quiz((text, right(text, text), wrong(text, text, see=f"page.html#{text}"))),
        SharedStatistics(np.ones((2, 3)), layer, label=text),
        Explorer(
            y, [0, 1], parameters={text: [text]}, curves=[text], title=text, band=text,
            low=y, high=y, **labels,
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("text", PAYLOADS)
def test_outputs_run_nothing(visit, tmp_path, text):
    page = "".join(output._repr_html_() for output in outputs(text))
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>Outputs</title>{page}", encoding="utf8")
    opened = visit(path)
    dialogs = []
    opened.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    opened.page.reload()  # with an ear for dialogs
    for link in opened.page.locator("a:visible").all():
        link.click()
    opened.page.evaluate("new Promise((done) => setTimeout(done, 50))")  # for images to fail
    assert opened.page.evaluate("window.pwned") is None
    assert dialogs == []
    # The words are there, as words, and made no element.
    assert opened.page.locator("script, img, [onload], [onerror], [onfocus]").count() == 0
    assert text.strip("`") in opened.page.locator("body").text_content()


@pytest.mark.parametrize(
    "see", ["javascript:alert(1)", "JavaScript:x", "data:text/html,x", "\tx:y"]
)
def test_a_quiz_links_to_no_code(see):
    with pytest.raises(ValueError, match="expected a page of the book"):
        Answer("text", "why", see=see)


# A book whose notebooks are called as the payloads, and so are their files.

# Windows has no such names.
NAMES = [
    f"{n}? {text.replace('/', '')} | a & b" if os.name == "posix" else f"{n}"
    for n, text in enumerate(PAYLOADS)
]
ADDRESSES = [f"chapters/{quote(name)}.html" for name in NAMES]


@pytest.fixture(scope="module")
def book_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    copy_configuration(folder)
    (folder / "chapters").mkdir()
    for n, (name, text) in enumerate(zip(NAMES, PAYLOADS, strict=True)):
        # As code it keeps its quotes; as prose it gets those of a printer.
        both = f"`` {text} `` " + re.sub(r"([^\w ])", r"\\\1", text)
        source = f"# Title{n} {both}\n\nFirst of all {both}\n\n## Heading{n} {both}\n\nText."
        source += f"\n\n{text}\n\nText with {text}\n\n### {text}\n\nThe end."  # as it is
        source += "\n\n[Link](javascript:pwned=1) and <javascript:pwned=1>"
        notebook = new_notebook(
            cells=[new_markdown_cell(source, id="all-01")], metadata={"kernelspec": KERNELSPEC}
        )
        nbformat.write(notebook, folder / "chapters" / f"{name}.ipynb")
    status = (ROOT / "chapters" / "status.md").read_text(encoding="utf8")
    (folder / "chapters" / "status.md").write_text(status, encoding="utf8")
    first, *others = [{"file": f"chapters/{name}"} for name in [*NAMES, "status"]]
    part = {"caption": PAYLOADS[2], "chapters": others}
    toc = {"format": "jb-book", "root": first["file"], "parts": [part]}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf8")
    build = build_book(folder)
    assert build.returncode == 0, build.stdout[-3000:]
    return folder / "_build" / "html"


def check_nothing_ran(page):
    page.evaluate("new Promise((done) => setTimeout(done, 50))")  # for images to fail
    assert page.evaluate("window.pwned") is None
    made = "img, script:not([src]), [onload], [onerror], [onfocus], [href^='javascript:pwned']"
    assert page.locator(made).evaluate_all("all => all.map((e) => e.outerHTML)") == []


@pytest.fixture
def open_address(book_folder, visit):
    """Opens a page of the book; where it leads in the end is looked at, too."""
    visits = []

    def open_address(address):
        file = book_folder / unquote(urlsplit(address).path)
        visits.append(visit(file, script="window.alert = () => { window.pwned = 1; };"))
        if query := urlsplit(address).query:
            visits[-1].page.goto(f"{file.as_uri()}?{query}")
        return visits[-1].page

    yield open_address
    for opened in visits:
        check_nothing_ran(opened.page)
        assert opened.console == []


def test_titles_are_text_wherever_a_page_shows_them(open_address):
    for n, (address, text) in enumerate(zip(ADDRESSES, PAYLOADS, strict=True)):
        page = open_address(address)
        assert text in page.title()
        for shown in ("h1", "h2"):
            headings = page.locator(f"#content section {shown}")
            assert text in "".join(headings.all_text_contents())
        contents = page.locator("#chapters a").all_text_contents()
        assert all(t in entry for t, entry in zip(PAYLOADS[1:], contents, strict=False))
        assert len(contents) == len(PAYLOADS)
        assert page.locator("#chapters .caption-text").text_content() == PAYLOADS[2]
        assert text in page.locator("#on-this-page a").first.text_content()
        for name in ("name=description", "property='og:title'", "property='og:description'"):
            assert text in page.locator(f"meta[{name}]").get_attribute("content")
        around = page.locator(".turn a").all_text_contents()
        assert len(around) == 2 - (n == 0)
        assert all(t in "".join(around) for t in PAYLOADS[max(0, n - 1) : n + 2] if t != text)


def test_titles_are_text_among_the_results_of_a_search(open_address):
    for n, text in enumerate(PAYLOADS):
        page = open_address(f"search.html?q={quote(f'Heading{n} {text}')}")
        page.locator("#search-results .search-summary").get_by_text("matching").wait_for()
        results = page.locator("#search-results li > a")
        assert text in results.first.text_content()
        check_nothing_ran(page)
        results.first.click()
        page.locator("article section > h1", has_text=f"Title{n}").first.wait_for()


def test_names_of_files_are_text_in_addresses(book_folder, open_address):
    page = open_address("index.html")
    for n in range(len(NAMES)):
        page.locator("article section > h1", has_text=f"Title{n}").first.wait_for()
        source = page.locator("a[download]").get_attribute("href")
        assert (book_folder / "chapters" / unquote(source)).is_file()
        page.locator(".turn .next").click()
    page.locator("article section > h1", has_text="Status").first.wait_for()
    notebooks = page.locator("article table").first.locator("a")
    for n, link in enumerate(notebooks.all()):
        assert PAYLOADS[n] in link.text_content()
        assert f"chapters/{link.get_attribute('href')}" == ADDRESSES[n]
    assert notebooks.count() == len(NAMES)

"""The search finds what a reader would type."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest

from helpers import open_page


def titles(visit, book, query):
    """The first five titles that the search page gives, as they are shown."""
    opened = visit(book / "search.html")
    page = opened.page
    page.goto(f"{(book / 'search.html').as_uri()}?q={quote(query)}")
    page.locator("#search-results .search-summary").get_by_text("matching").wait_for()
    assert opened.console == []
    return page.locator("#search-results li > a").all_inner_texts()[:5]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("Expected more than 1 value per channel when training", "Symptoms"),
        ("NaN", "Symptoms"),
        ("model.eval", "Batch normalization"),
        ("running mean", "Batch normalization"),
        ("track_running_stats", "Batch normalization"),
        ("momentum", "Batch normalization"),
        ("GroupNorm", "normbook.layers.norms.GroupNorm"),
        ("instance norm", "Layer normalization for images"),
        ("normalized_shape", "Layer normalization for text"),
        ("padding mask", "Recurrent networks"),
        ("pre-LN", "The Transformer layer"),
        ("internal covariate shift", "What popular explanations get wrong"),
        ("批归一化", "Batch normalization"),
        ("层归一化", "Layer normalization for text"),
        ("标准化", "Glossary"),
        ("方差", "Batch normalization"),
    ],
)
def test_search_finds(query, title, book, visit):
    assert any(found.startswith(title) for found in titles(visit, book, query))


def test_a_section_named_by_what_was_typed_comes_first(book, visit):
    query = "Expected more than 1 value per channel"
    first = titles(visit, book, query)[0]
    assert first.startswith(f"Symptoms: from the error to its cause > {query}")


@pytest.mark.parametrize("query", ["xyzzyplugh", "constructor", "__proto__"])
def test_a_search_that_finds_nothing_says_so(query, book, visit):
    """Also of words that JavaScript has a meaning for."""
    opened = visit(book / "search.html")
    opened.page.goto(f"{(book / 'search.html').as_uri()}?q={query}")
    opened.page.get_by_text("did not match any documents").wait_for()


MARKS = """() => [...document.querySelectorAll("article span.highlighted")].filter((mark) => {
    const { top, bottom } = mark.getBoundingClientRect();
    return mark.checkVisibility() && top > 0 && bottom < innerHeight;
}).map((mark) => mark.textContent.toLowerCase())"""


def test_a_result_leads_to_what_was_typed(book, visit):
    page = visit(book / "search.html").page
    page.goto(f"{(book / 'search.html').as_uri()}?q=running+mean")
    page.locator("#search-results li > a", has_text="Batch normalization").first.click()
    page.wait_for_function("scrollY > 0")
    assert {"running", "mean"} <= set(page.evaluate(MARKS))
    assert page.locator(".highlighted:not(article *)").count() == 0
    page.reload()  # a search is for the next page alone
    assert page.locator(".highlighted").count() == 0


def test_no_marks_where_the_words_are_not(book, visit):
    page = visit(book / "search.html").page
    page.goto(f"{(book / 'search.html').as_uri()}?q=track_running_stats")
    page.locator("#search-results li").first.wait_for()
    page.goto((book / "chapters/index.html").as_uri())
    page.wait_for_timeout(100)  # ms: by then Sphinx has marked what there is
    assert page.locator(".highlighted").count() == 0
    assert page.evaluate("scrollY") == 0


def test_excerpts_are_of_the_text(book, browser):
    """From a server; between files, a browser lets no page read another."""
    handler = partial(SimpleHTTPRequestHandler, directory=book)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/search.html?q=momentum"
        page = open_page(browser, address).page
        excerpts = page.locator("#search-results .context")
        page.wait_for_function(
            "document.querySelectorAll('#search-results li').length > 3 &&"
            "document.querySelectorAll('#search-results li').length"
            " === document.querySelectorAll('#search-results .context').length"
        )
        texts = [text.lower() for text in excerpts.all_inner_texts()]
        page.context.close()
        server.shutdown()
    assert [text for text in texts if "momentum" not in text or "contents" in text] == []

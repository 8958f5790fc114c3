"""The search finds what a reader would type."""

from urllib.parse import quote

import pytest


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
        ("GroupNorm", "normbook.layers.GroupNorm"),
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

"""The items of the four source documents, and which pages prove them.

A cell that proves an item has its tag, such as fact-002-j. A claim that only the literature can
answer is answered by a citation in a tagged cell of text, and a mere slip of the pen in a table.
"""

import re
from string import ascii_lowercase

from helpers import NOTEBOOKS, read_notebook

# Numbers, claims and listings of each document, by letter: 57 in all.
LAST = {"000": "t", "002": "p", "003": "j", "004": "k"}
ITEMS = {
    f"fact-{document}-{letter}"
    for document, last in LAST.items()
    for letter in ascii_lowercase[: ascii_lowercase.index(last) + 1]
}


def facts(cell):
    return {tag for tag in cell.metadata.get("tags", []) if tag.startswith("fact-")}


def proven():
    """The items that the notebooks prove."""
    return {
        item for path in NOTEBOOKS for cell in read_notebook(path).cells for item in facts(cell)
    }


def test_items():
    assert len(ITEMS) == 57
    assert all(re.fullmatch(r"fact-\d{3}-[a-t]", item) for item in ITEMS)


def test_every_item_is_proven():
    assert proven() - ITEMS == set(), "tags that name no item"
    assert ITEMS - proven() == set(), "items that no page proves"


def test_a_cell_that_answers_an_item_has_the_means_to():
    for path in NOTEBOOKS:
        for cell in read_notebook(path).cells:
            if facts(cell):
                means = (
                    r"\b(verify|refute|raises|draw_sharing)\("
                    if cell.cell_type == "code"
                    else r"\]\(bibliography\.md#|^\|"  # a citation, or a table
                )
                assert re.search(means, cell.source, re.MULTILINE), cell.id

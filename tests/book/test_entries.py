"""The entries of two pages, popular claims and symptoms: their form, their proofs and links."""

import re

import pytest
from mdit_py_plugins.anchors.index import slugify

from helpers import CHAPTERS, NOTEBOOKS, read_notebook

PATHS = {path.stem: path for path in NOTEBOOKS}
FORMS = {"errata": ("Claim", "Fact", "Fix", "Source"), "symptoms": ("Cause", "Fix")}


def entries(page):
    """The entries of a page, as (slug, text, the code cells that follow)."""
    found = []
    for cell in read_notebook(PATHS[page]).cells:
        if cell.cell_type == "markdown":
            heading = re.match(r"### (.+)", cell.source)
            slug = heading and slugify(heading[1])
            found.append((slug, cell.source, []))
        elif found:
            found[-1][2].append(cell.source)
    return [entry for entry in found if entry[0]]


@pytest.mark.parametrize("page", FORMS)
def test_each_has_its_parts_and_a_proof(page):
    assert len(entries(page)) > 20
    for slug, text, code in entries(page):
        parts = re.findall(r"^- \*\*(\w+)\.\*\*", text, re.MULTILINE)
        assert [part for part in parts if part in FORMS[page]] == list(FORMS[page]), slug
        assert any(re.search(r"\b(verify|refute|raises)\(", source) for source in code), slug


def test_claims_and_chapters_link_to_each_other():
    linking = {}  # the chapters that link to a claim
    for chapter in CHAPTERS:
        for cell in read_notebook(PATHS[chapter]).cells:
            for slug in re.findall(r"\]\(errata\.ipynb#([^)]+)\)", cell.source):
                linking.setdefault(slug, set()).add(chapter)
    for slug, text, _ in entries("errata"):
        linked = set(re.findall(r"\]\((\w+)\.ipynb#", text)) & set(CHAPTERS)
        assert linked & linking.get(slug, set()), slug
    assert linking.keys() == {slug for slug, *_ in entries("errata")}

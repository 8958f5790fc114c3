from normbook.build.sphinxext.docstrings import to_numpydoc


def test_fields_as_numpydoc_has_them():
    terse = ["Parameters", "----------", "x : the tensor, of any", "    shape.", "y : more : so."]
    assert to_numpydoc(terse) == [
        *terse[:2],
        "x",
        "    the tensor, of any",
        "    shape.",
        "y",
        "    more : so.",
    ]


def test_a_paragraph_ends_the_fields():
    lines = ["Raises", "------", "ValueError : it is empty.", "", "Source: eq. 3 : 4."]
    after = to_numpydoc(lines)
    assert after == [*lines[:2], "ValueError", "    it is empty.", "", "", lines[-1]]


def test_what_is_not_a_field_stays():
    lines = ["One line: with a colon : or two.", "", "Examples", "--------", ">>> a : int = 1"]
    assert to_numpydoc(lines) == lines

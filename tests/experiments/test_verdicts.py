"""The table of what an experiment found."""

from dataclasses import replace

import pytest

from normbook.experiments.comparison import compare
from normbook.experiments.verdicts import verdicts


def comparison(shift):
    rows = [
        {"norm": norm, "seed": seed, "error": seed % 3 + (shift if norm == "batch" else 0)}
        for norm in ("batch", "layer")
        for seed in range(10)
    ]
    rows[0]["error"] += 1  # so that the differences aren't all the same
    return compare(rows, "batch", "layer", "error", unit="points")


def test_says_what_was_found():
    table = verdicts(("much", comparison(5)), ("less", comparison(-5)))
    assert repr(table) == (
        "much: +5.10 [+4.87, +5.33]; higher in 10 of 10\n"
        "less: −4.90 [−5.13, −4.67]; lower in 10 of 10"
    )
    shown = table._repr_html_()
    assert "difference, points [95 % interval]" in shown
    assert '<th scope="row">less</th><td>−4.90 [−5.13, −4.67]</td>' in shown


def test_says_what_was_not_found():
    assert repr(verdicts(("nothing", comparison(0)))) == (
        "nothing: +0.10 [−0.13, +0.33]; not detectable here: higher in 1 of 10"
    )


def test_refuses_several_units():
    seconds = replace(comparison(1), unit="s")
    with pytest.raises(ValueError, match=r"measured in \['points', 's'\]"):
        verdicts(("a", comparison(1)), ("b", seconds))
    with pytest.raises(ValueError, match="expected one unit"):
        verdicts()

"""What is expected of the tensors on the pages, against lines written by hand."""

from fractions import Fraction

import pytest

from normbook.core import BATCH_NORM_1D, LAYER_NORM, LAYERS
from normbook.widgets import SharedStatistics
from tensors import Tensor, mean_line, play, reading

X = [[1, 2, 3], [4, 5, 9]]


def tensor(scheme, x=X, **options):
    """As a notebook would hold it."""
    return Tensor(SharedStatistics(x, scheme, **options).get_state())


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        (["10", "20", "30", "40", "50"], "μ = (10 + 20 + 30 + 40 + 50)/5 = 150/5 = 30"),
        (["4", "-4", "-1"], "μ = (4 − 4 − 1)/3 = −1/3 = −0.333333"),
        (["0.5", "-0.5"], "μ = (0.5 − 0.5)/2 = 0/2 = 0"),
        (["3"], "μ = 3/1 = 3"),
        (["1"] * 8, "μ = 8/8 = 1"),
        (["1"] * 37 + ["0"] * 38, "μ = 37/75 = 0.493333"),
        # The sum with six decimals, 0.100003, would give 0.050001.
        (["0.1000031", "0"], "μ = (0.1000031 + 0)/2 = 0.1000031/2 = 0.050002"),
    ],
)
def test_mean_line(cells, line):
    assert mean_line(list(map(Fraction, cells))) == line


def test_mean_square_line():
    assert mean_line([Fraction(1), Fraction(-3)], False) == "mean x² = (1² + (−3)²)/2 = 10/2 = 5"
    assert mean_line([Fraction(2)] * 7, False) == "mean x² = Σx²/7 = 28/7 = 4"


def test_reading_is_of_another_group_than_the_pinned_one():
    assert reading(tensor(LAYER_NORM)) == (0, "μ = (1 + 2 + 3)/3 = 6/3 = 2")
    assert reading(tensor(LAYER_NORM, selection=(0, 2))) == (3, "μ = (4 + 5 + 9)/3 = 18/3 = 6")
    hidden = [[0, 1, 1], [1, 1, 1]]
    assert reading(tensor(LAYER_NORM, mask=hidden)) == (1, "μ = (2 + 3)/2 = 5/2 = 2.5")
    assert reading(tensor(BATCH_NORM_1D, batch=1)) == (0, "μ = 1/1 = 1")
    with pytest.raises(ValueError, match="all cells of 'one row' read 'μ = "):
        reading(tensor(LAYER_NORM, X[:1], selection=(0, 0), label="one row"))


def test_play():
    def played(**goal):
        return play(tensor(BATCH_NORM_1D, goal={"ask": "Do it"} | goal))

    assert played(stats="n") == [("tick", "n"), ("tick", "d")]
    assert played(moved=[1, 4]) == [("type", 0, 10), ("type", 1, 10)]
    both = [layer.name for layer in LAYERS if layer.cells == "n d"]
    assert played(moved=[3, 4, 5]) == [("type", 3, 10), ("choose", both.index("LayerNorm"))]
    with pytest.raises(ValueError, match="no step fulfils the task 'Do it'"):
        played(moved=[0, 1])

import numpy as np
import pytest
import torch

from normbook.page.exercise_check import check


@pytest.mark.parametrize(
    ("yours", "expected"),
    [
        (2, 2),
        ([1.0, np.nan], [1, np.nan]),
        (torch.tensor([1.0], requires_grad=True), np.ones(1)),
        (1 + 1e-12, 1),
        ("a", "a"),
        (False, False),
    ],
)
def test_right(yours, expected, capsys):
    check("the answer", yours, expected)
    assert capsys.readouterr().out == "✓ the answer: right\n"


@pytest.mark.parametrize(
    ("yours", "expected", "message"),
    [
        (None, 1, "there is no answer yet"),
        (..., 1, "there is no answer yet"),
        (3, 2, "not yet. Yours is 3."),
        (True, False, "Yours is True"),
        ("a", 1, "Yours is a"),
        ([1, 2], [[1, 2]], r"the shape \(2,\); expected \(1, 2\)"),
        ([[1, 2], [3, 5]], [[1, 2], [4, 6]], r"2 of 4 .* at \(1, 0\): yours is 3, expected 4"),
        ([1 + 1e-7, 0], [1, 0], "1 of 2 values"),
        ([0, 1.0], [0, np.nan], "1 of 2 values"),
    ],
)
def test_wrong(yours, expected, message, capsys):
    with pytest.raises(AssertionError, match=message):
        check("the answer", yours, expected)
    assert capsys.readouterr().out == ""


def test_a_known_mistake_is_named():
    traps = {"By the wrong axis.": [1, 1], "Doubled.": [4, 4]}
    with pytest.raises(AssertionError, match=r"the answer: not yet\. Doubled\."):
        check("the answer", [4, 4], [2, 2], traps)

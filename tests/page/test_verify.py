import numpy as np
import pytest
import torch

from normbook.page.verify import VerificationError, raises, refute, verify


def test_accepts_what_rounds_to_the_stated_decimals():
    verify(("down", 0.4933, 37 / 75), ("up", 0.5486, 3086 / 5625), decimals=4)
    verify(("half a unit, either way", [0.12, 0.13], [0.125, 0.125]), decimals=2)


@pytest.mark.parametrize(
    ("stated", "computed", "decimals"),
    [
        (0.785, 0.6875, 3),
        (2.5229, 2.522975, 4),
        (1.0, 1.0 + 1e-6, None),
        (75, 74, None),
        ([1, 2], [1, 2, 3], None),
        ([1.0, 2.0], [[1.0, 2.0]], None),
        ([1.0, float("nan")], [1.0, 2.0], None),
        ("LayerNorm", "GroupNorm", None),
        (True, False, None),
    ],
)
def test_refuses_what_differs(stated, computed, decimals):
    with pytest.raises(VerificationError, match="the wrong one"):
        verify(("right", 1, 1), ("the wrong one", stated, computed), decimals=decimals)
    assert refute(("the wrong one", stated, computed), decimals=decimals)


def test_exact_allows_rounding_errors_of_the_computation():
    verify(("sum", 0.3, 0.1 + 0.2), ("large", 1e6, 1e6 + 1e-5), ("NaN", [np.nan], [np.nan]))


def test_the_message_has_every_wrong_row_and_no_right_one():
    with pytest.raises(VerificationError) as caught:
        verify(("one", 1, 2), ("two", 2, 2), ("three", 3, 4))
    assert "one: stated 1, computed 2" in str(caught.value)
    assert "three" in str(caught.value)
    assert "two" not in str(caught.value)


def test_refute_refuses_what_holds():
    with pytest.raises(VerificationError, match="was to be refuted, but holds"):
        refute(("mean", 0.75, 0.75))


def test_nothing_to_check_is_an_error():
    with pytest.raises(TypeError, match="nothing to check"):
        verify()


def test_takes_tensors_that_require_gradients():
    verify(("γ", [1.0, 1.0], torch.nn.Parameter(torch.ones(2))))


def test_table_shows_two_decimals_more_than_stated():
    text = repr(verify(("mean", 0.3060, 0.306021), decimals=4, source="document 002"))
    assert text.splitlines()[0].split() == ["document", "002", "says", "computed"]
    assert text.splitlines()[1].split() == ["mean", "0.3060", "0.306021", "✓"]


def test_table_of_a_long_array_shows_the_largest_difference():
    text = repr(verify(("maps", np.zeros((5, 5)), np.full((5, 5), 2e-5)), decimals=4))
    assert "5 × 5 values" in text
    assert "largest difference 2e-05" in text


def test_html_is_escaped_and_says_in_words_what_the_mark_says():
    page = verify(("a < b", 1, 1))._repr_html_()
    assert "a &lt; b" in page
    assert 'aria-label="holds">✓' in page
    assert 'aria-label="does not hold">✗' in refute(("a", 1, 2))._repr_html_()


def test_raises_shows_the_error():
    assert repr(raises(ZeroDivisionError, lambda: 1 / 0)) == "ZeroDivisionError: division by zero"


def test_raises_wants_an_error():
    with pytest.raises(VerificationError, match="expected ValueError, but nothing was raised"):
        raises(ValueError, lambda: 1)
    with pytest.raises(ZeroDivisionError):
        raises(ValueError, lambda: 1 / 0)


def test_table_shows_a_rounding_error_as_one():
    assert repr(verify(("difference", 0.0, 4.44e-16))).split()[-2] == "4e-16"
    assert repr(verify(("third", 1 / 3, 1 / 3))).split()[-2] == "0.3333333"

"""Paired comparisons, against tables and numbers worked out by hand."""

import math

import numpy as np
import pytest

from normbook.experiments.comparison import compare, interval, t_quantile


def rows(a, b):
    """Rows of two arms, one seed after the other."""
    return [
        {"norm": arm, "seed": seed, "error": value}
        for arm, values in (("batch", a), ("layer", b))
        for seed, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("degrees", "expected"),
    # Student's table, two-sided 95 %.
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (30, 2.042)],
)
def test_t_quantile(degrees, expected):
    assert t_quantile(0.975, degrees) == pytest.approx(expected, abs=5e-4)


def test_t_quantile_of_other_probabilities():
    assert t_quantile(0.95, 5) == pytest.approx(2.015, abs=5e-4)
    assert t_quantile(0.995, 9) == pytest.approx(3.250, abs=5e-4)
    assert t_quantile(0.5, 7) == pytest.approx(0, abs=1e-12)
    # One degree is Cauchy's distribution, whose quantiles are tangents.
    assert t_quantile(0.9, 1) == pytest.approx(math.tan(0.4 * math.pi))
    assert t_quantile(0.975, 100_000) == pytest.approx(1.95998, abs=1e-4)  # the normal one


@pytest.mark.parametrize(("p", "degrees"), [(0.4, 5), (1.0, 5), (0.9, 0)])
def test_t_quantile_refuses(p, degrees):
    with pytest.raises(ValueError, match=r"expected 0\.5 ≤ p"):
        t_quantile(p, degrees)


def test_interval_by_hand():
    """Of 1 to 10: mean 5.5, deviation 3.02765; 2.26216 · 3.02765 / √10 = 2.16585."""
    assert interval(range(1, 11)) == pytest.approx((5.5 - 2.16585, 5.5 + 2.16585), abs=1e-5)


def test_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    intervals = np.array([interval(sample) for sample in rng.normal(3, 2, (2000, 10))])
    covered = (intervals[:, 0] < 3) & (3 < intervals[:, 1])
    assert 0.935 < covered.mean() < 0.965  # ± 3 standard errors


def test_ten_of_ten():
    difference = np.arange(1, 11) / 10
    result = compare(rows(5 - difference, [5] * 10), "batch", "layer", "error", unit="points")
    assert (result.pairs, result.a_lower, result.b_lower) == (10, 10, 0)
    assert result.mean == pytest.approx(-0.55)
    assert (result.low, result.high) == pytest.approx((-0.766585, -0.333415), abs=1e-6)
    assert result.detected
    assert result.verdict == (
        "batch − layer: -0.55 points [-0.77, -0.33], lower in 10 of 10 pairs, higher in 0"
    )


def test_nine_of_ten_count_even_if_the_interval_is_wide():
    result = compare(rows([1] * 9 + [40], [2] * 10), "batch", "layer", "error")
    assert (result.a_lower, result.b_lower) == (9, 1)
    assert result.low < 0 < result.high
    assert result.detected


def test_an_interval_without_zero_counts_even_if_pairs_disagree():
    result = compare(rows([1, 1, 1, 1, 1, 1, 1, 1, 2.1, 2.1], [2] * 10), "batch", "layer", "error")
    assert (result.a_lower, result.b_lower) == (8, 2)
    assert result.high < 0
    assert result.detected


def test_not_detectable():
    result = compare(rows([1, 3] * 5, [2] * 10), "batch", "layer", "error", unit="points")
    assert (result.a_lower, result.b_lower, result.mean) == (5, 5, 0)
    assert not result.detected
    assert "not detectable here: +0.00 points [-0.75, +0.75]" in str(result)


def test_equal_values_are_no_agreement():
    result = compare(rows([2] * 10, [2] * 10), "batch", "layer", "error")
    assert (result.a_lower, result.b_lower, result.low, result.high) == (0, 0, 0, 0)
    assert not result.detected


def test_is_antisymmetric():
    table = rows(np.arange(10.0), [4] * 10)
    ab, ba = (compare(table, *arms, "error") for arms in (("batch", "layer"), ("layer", "batch")))
    assert (ab.mean, ab.low, ab.high) == pytest.approx((-ba.mean, -ba.high, -ba.low))
    assert (ab.a_lower, ab.b_lower) == (ba.b_lower, ba.a_lower)


def test_pairs_are_told_by_the_seed_and_not_by_the_order():
    table = rows(np.arange(10.0), np.arange(10.0) + 1)
    assert compare(table[::-1], "batch", "layer", "error").a_lower == 10
    mixed = table[:10] + table[:9:-1]
    assert compare(mixed, "batch", "layer", "error").high == pytest.approx(-1)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (rows([1] * 9, [2] * 9), "9 pairs of 'batch' and 'layer'; expected at least 10"),
        (rows([1] * 10, [2] * 11), "only one of 'batch' and 'layer' has the seed 10"),
        (rows([1] * 10, []), "only one of"),
        (rows([1] * 10, [2] * 10) * 2, "'batch' has several rows for one seed"),
    ],
)
def test_refuses(table, problem):
    with pytest.raises(ValueError, match=problem):
        compare(table, "batch", "layer", "error")

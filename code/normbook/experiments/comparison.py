"""Whether one arm of an experiment differs from another: paired by seed, and said with its spread.

Two arms that were run with the same seed have the same data, the same order of batches and the same
initial weights. What is compared is their difference, seed by seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin, sqrt

import numpy as np

PAIRS = 10  # at least so many
AGREE = 0.9  # the share of pairs that must agree; by chance 9 of 10 do in 1.1 % of cases


@dataclass(frozen=True)
class Comparison:
    """The difference of two arms, a − b.

    Attributes
    ----------
    pairs
        how many.
    a_lower, b_lower
        in how many of them either arm has the lower value.
    mean
        the mean difference.
    low, high
        its 95 % interval, by Student's t.
    unit
        what the difference is measured in.

    Examples
    --------
    >>> Comparison("LN", "BN", "error", 10, 9, 1, -0.4, -0.7, -0.1, "points").detected
    True
    """

    a: str
    b: str
    value: str
    pairs: int
    a_lower: int
    b_lower: int
    mean: float
    low: float
    high: float
    unit: str = ""

    @property
    def detected(self) -> bool:
        """Whether at least nine of ten pairs agree, or the interval excludes zero."""
        agree = max(self.a_lower, self.b_lower) >= AGREE * self.pairs
        return agree or self.low > 0 or self.high < 0

    @property
    def verdict(self) -> str:
        """In words, with the interval."""
        unit = f" {self.unit}" if self.unit else ""
        size = f"{self.mean:+.2f}{unit} [{self.low:+.2f}, {self.high:+.2f}]"
        pairs = f"lower in {self.a_lower} of {self.pairs} pairs, higher in {self.b_lower}"
        if not self.detected:
            return f"{self.a} − {self.b}: not detectable here: {size}, {pairs}"
        return f"{self.a} − {self.b}: {size}, {pairs}"

    def __str__(self):
        return self.verdict


def compare(
    rows: Sequence[dict], a, b, value: str, *, arm: str = "norm", pair: str = "seed", unit: str = ""
) -> Comparison:
    """Compare the arms `a` and `b` by `value`, seed by seed.

    Parameters
    ----------
    rows
        one row for each arm and seed: choose one learning rate, one batch size and so on first.
    arm, pair
        the columns that tell the arm and the pair.
    unit
        what the value is measured in, for the verdict.

    Raises
    ------
    ValueError
        a seed is there twice, is missing in one of the arms, or there are fewer than ten.

    Examples
    --------
    >>> rows = [
    ...     {"seed": seed, "norm": norm, "error": 3 + seed / 10 + worse}
    ...     for seed in range(10)
    ...     for norm, worse in (("LN", 0), ("BN", 0.5))
    ... ]
    >>> print(compare(rows, "LN", "BN", "error", unit="points"))
    LN − BN: -0.50 points [-0.50, -0.50], lower in 10 of 10 pairs, higher in 0
    """
    found = {}
    for name in (a, b):
        own = [row for row in rows if row[arm] == name]
        found[name] = {row[pair]: row[value] for row in own}
        if len(found[name]) < len(own):
            raise ValueError(f"{name!r} has several rows for one {pair}: choose among them first")
    if found[a].keys() != found[b].keys():
        alone = sorted(found[a].keys() ^ found[b].keys())
        raise ValueError(f"only one of {a!r} and {b!r} has the {pair} {alone[0]!r}")
    if len(found[a]) < PAIRS:
        raise ValueError(f"{len(found[a])} pairs of {a!r} and {b!r}; expected at least {PAIRS}")
    difference = np.array([found[a][key] - found[b][key] for key in found[a]], dtype=float)
    mean, (low, high) = float(difference.mean()), interval(difference)
    counts = int((difference < 0).sum()), int((difference > 0).sum())
    return Comparison(str(a), str(b), value, len(difference), *counts, mean, low, high, unit)


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The confidence interval of the mean of independent values, by Student's t distribution.

    Examples
    --------
    >>> low, high = interval([1.0, 2, 3, 4, 5])
    >>> round(low, 2), round(high, 2)
    (1.04, 4.96)
    """
    values = np.asarray(values, dtype=float)
    half = t_quantile((1 + confidence) / 2, len(values) - 1)
    half *= values.std(ddof=1) / sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def t_quantile(p: float, degrees: int) -> float:
    """The value that Student's t stays below with probability `p`, 0.5 ≤ p < 1.

    The probability has a closed form for whole degrees of freedom (Abramowitz & Stegun 1964,
    26.7.3 and 26.7.4); it is inverted by bisection.

    Examples
    --------
    >>> round(t_quantile(0.975, degrees=9), 3)
    2.262
    """
    if not 0.5 <= p < 1 or degrees < 1:
        raise ValueError(f"p is {p}, degrees {degrees}; expected 0.5 ≤ p < 1 and at least 1 degree")
    low, high = 0.0, pi / 2  # of the angle whose tangent is t / √degrees
    for _ in range(60):
        angle = (low + high) / 2
        if (1 + _t_within(angle, degrees)) / 2 < p:
            low = angle
        else:
            high = angle
    return sqrt(degrees) * sin(angle) / cos(angle)


def _t_within(angle, degrees):
    """The probability that t lies within ± √degrees · tan(angle)."""
    odd = degrees % 2
    term = cos(angle) if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= cos(angle) ** 2 * (k - 1) / k
        total += term
    if odd:
        return 2 / pi * (angle + sin(angle) * total)
    return sin(angle) * total

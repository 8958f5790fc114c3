"""Where values stand along the axis of a chart, and where the axis has its ticks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from normbook.page.figures.plots import number_text

KINDS = ("linear", "log")
MOST_TICKS = 6
MARGIN = 0.04  # beyond the outermost values, as a part of their range


@dataclass(frozen=True)
class Scale:
    """An axis from one value to another.

    Attributes
    ----------
    low, high
        the values at its ends, in the units of the axis; low < high.
    log
        whether equal ratios, and not equal differences, are equally far apart.
    ticks
        the round values between the ends, ascending.
    """

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of every tick; no two are the same."""
        for digits in range(6, 18):
            labels = tuple(number_text(tick, digits) for tick in self.ticks)
            if len(set(labels)) == len(labels):
                break
        return labels


def scale_for(
    values: Any, kind: str = "linear", ends: Sequence[float] | None = None, name: str = "values"
) -> Scale:
    """A scale on which all these values can be seen, with two to six ticks.

    Parameters
    ----------
    values
        numbers in an array of any shape; NaN stands for none.
    kind
        "linear" or "log". Powers of two alone get their ticks at powers of two.
    ends
        the lowest and the highest value of the scale; by default those of `values`, and some
        room around them.
    name
        what to call the values in a message.

    Raises
    ------
    ValueError
        `kind` is none of these, there is no value, one is infinite or one that the scale
        has no place for, or `ends` are not two such numbers in ascending order.
    """
    if kind not in KINDS:
        raise ValueError(f"the scale of {name} is {kind!r}; expected one of {KINDS}")
    log = kind == "log"
    values = np.asarray(values, dtype=float)
    values = values[~np.isnan(values)]
    if not values.size:
        raise ValueError(f"{name} holds no number")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds {values[np.isinf(values)][0]}; leave a gap there, with NaN")
    if log and (values <= 0).any():
        raise ValueError(f"{name} holds {values.min():g}; a log scale starts above 0")
    low, high = (values.min(), values.max()) if ends is None else map(float, ends)
    if ends is None:
        if log:
            room = np.exp(MARGIN * (np.log(high) - np.log(low))) if high > low else 2
            low, high = low / room, high * room
        else:
            room = MARGIN * (high - low) or 0.5 * abs(high) or 0.5
            low, high = low - room, high + room
    elif not (np.isfinite([low, high]).all() and low < high and (low > 0 or not log)):
        above = " above 0" if log else ""
        raise ValueError(f"the ends of {name} are {ends}; expected two ascending numbers{above}")
    return Scale(float(low), float(high), log, _ticks(low, high, log, values))


def _ticks(low, high, log, values):
    from matplotlib.ticker import LogLocator, MaxNLocator

    locators = [MaxNLocator(n, steps=(1, 2, 5, 10)) for n in range(MOST_TICKS + 2, 1, -1)]
    if log:
        base = 2 if (np.log2(values) % 1 == 0).all() else 10
        kinds = ((base, (1,)), (10, (1, 2, 5)), (10, (1, 3)))
        locators = [*(LogLocator(*kind, numticks=MOST_TICKS) for kind in kinds), *locators]
    for locator in locators:
        ticks = [float(t) for t in locator.tick_values(low, high) if low <= t <= high]
        if 2 < len(ticks) <= MOST_TICKS:
            break
    return tuple(ticks)

"""Explorer: a family of precomputed curves, of which sliders and buttons pick a member.

This half holds the curves, the scales of their axes and the words, and refuses what is wrong. All
interaction is in `explorer.js`, so that it works in a built page where no Python runs.
"""

from collections.abc import Mapping, Sequence
from math import ceil, isfinite, log10
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from normbook.page.figures import STROKES, STYLE, draw_figure
from normbook.page.figures.plots import number_text
from normbook.widgets.scales import Scale, scale_for
from normbook.widgets.translations import words_in

DIGITS, X_DIGITS = 4, 6  # that are shown of the range of y, and of a value of x
MOST_DECIMALS = 6
MOST_VALUES = 50_000  # every page with the widget carries them all


class Explorer(anywidget.AnyWidget):
    """A chart of some curves out of a family of them, which one or two parameters index.

    Every curve has a value at every x. The axes are those of the whole family, so that they stay
    while a slider moves. Values are rounded to what is shown of them.

    Parameters
    ----------
    y
        the values, of shape (the length of each parameter, curves, points). NaN stands for none,
        and leaves a gap.
    x
        where they are, of shape (points,): the same for all curves.
    parameters
        one or two, in the order of the first axes of `y`: the name of each, and its
        values. Numbers get a slider, strings get buttons.
    curves
        the names of the curves; at most as many as there are `STROKES`.
    x_label, y_label
        what the axes measure, with the unit.
    low, high
        the ends of a band around each curve, in the shape of `y`.
    band
        what the band is, such as "10 seeds, smallest to largest".
    x_scale, y_scale
        "linear" or "log".
    y_range
        the lowest and the highest value of the y axis; by default those of the family.
    title
        what the chart shows; read aloud and written above it.
    play
        the name of the parameter that is time: a button goes through its values.
    start
        the value of a parameter at first, by its name; by default its first value.
    markers
        whether there is a dot at every point.
    language
        "en" or "zh"; by default what `use_language` set.

    Attributes
    ----------
    selected
        for each parameter, the index of its value. It can be set and observed, and raises
        `TraitError` where there is no such value.

    Raises
    ------
    ValueError
        the shapes don't fit, there is no such name or value, a value is infinite, or it
        has no place on a log scale.

    Examples
    --------
    >>> eps = [1e-5, 1e-3, 1e-1]
    >>> std = np.array([0.01, 0.1, 1.0, 10.0])
    >>> chart = Explorer(
    ...     [[std / np.sqrt(std**2 + e)] for e in eps],
    ...     std,
    ...     parameters={"ε": eps},
    ...     curves=["of the output"],
    ...     x_label="standard deviation of the input",
    ...     y_label="standard deviation of the output",
    ...     x_scale="log",
    ... )
    >>> chart.y.shape, chart.selected
    ((3, 1, 4), [0])
    """

    _esm = Path(__file__).with_suffix(".js")
    _css = Path(__file__).with_suffix(".css")

    selected = traitlets.List().tag(sync=True)
    chart = traitlets.Dict(read_only=True).tag(sync=True)
    words = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(
        self,
        y: Any,
        x: Any,
        *,
        parameters: Mapping[str, Sequence],
        curves: Sequence[str],
        x_label: str,
        y_label: str,
        low: Any = None,
        high: Any = None,
        band: str = "",
        x_scale: str = "linear",
        y_scale: str = "linear",
        y_range: Sequence[float] | None = None,
        title: str = "",
        play: str | None = None,
        start: Mapping[str, Any] | None = None,
        markers: bool = False,
        language: str | None = None,
    ):
        parameters = {name: _values(name, values) for name, values in parameters.items()}
        if len(parameters) not in (1, 2):
            raise ValueError(f"there are {len(parameters)} parameters; expected 1 or 2")
        for name in [*(start or ()), *([] if play is None else [play])]:
            if name not in parameters:
                raise ValueError(f"{name!r} is no parameter; expected one of {list(parameters)}")
        curves = [str(name) for name in curves]
        if not 1 <= len(curves) <= len(STROKES):
            raise ValueError(f"there are {len(curves)} curves; expected 1 to {len(STROKES)}")

        x = np.array(x, dtype=float)  # a copy
        if x.ndim != 1:
            raise ValueError(f"x has shape {x.shape}; expected (points,)")
        if np.isnan(x).any():
            raise ValueError(f"x is {x[np.isnan(x)][0]} at {np.isnan(x).argmax()}")
        shape = (*map(len, parameters.values()), len(curves), len(x))
        self.x, self.y = x, _array("y", y, shape)
        if self.y.size > MOST_VALUES:
            raise ValueError(
                f"y has {self.y.size:,} values, shape {shape}; at most {MOST_VALUES:,} are sent to "
                "a page: take fewer points or fewer values of a parameter"
            )
        if (low is None) != (high is None):
            raise ValueError("a band has two ends: give both low and high, or none of them")
        self.low, self.high = (
            None if end is None else _array(name, end, shape)
            for name, end in (("low", low), ("high", high))
        )
        if low is not None and (self.low > self.high).any():
            at = tuple(np.argwhere(self.low > self.high)[0].tolist())
            raise ValueError(f"low is {self.low[at]:g} at {at}, above high, {self.high[at]:g}")
        self.parameters, self.curves, self.band, self.title = parameters, curves, band, title
        self.x_label, self.y_label, self.markers = x_label, y_label, markers

        known = [array for array in (self.y, self.low, self.high) if array is not None]
        self.x_scale = scale_for(x, x_scale, name="x")
        self.y_scale = scale_for(np.stack(known), y_scale, y_range, "y")
        precision = _precision(np.stack(known), self.y_scale.log)

        def rounded(array):
            return None if array is None else [_round(v, *precision) for v in array.flat]

        super().__init__()
        words = words_in(language)
        shared = {key: words[key] for key in ("language", "comma")}
        self.set_trait("words", words["explorer"] | shared)
        self.set_trait(
            "chart",
            {
                "title": title,
                "curves": curves,
                "strokes": [
                    [color, " ".join(map(str, dashes)) or "none"]
                    for color, dashes in STROKES[: len(curves)]
                ],
                "parameters": [
                    {
                        "name": name,
                        "values": [_name(value) for value in values],
                        "slider": not isinstance(values[0], str),
                        "play": name == play,
                    }
                    for name, values in parameters.items()
                ],
                "x": [_round(v, None, X_DIGITS) for v in x],
                "y": rounded(self.y),
                "low": rounded(self.low),
                "high": rounded(self.high),
                "decimals": precision[0],
                "x_axis": _to_json(self.x_scale, x_label),
                "y_axis": _to_json(self.y_scale, y_label),
                "band": band,
                "markers": markers,
            },
        )
        start = start or {}
        self.selected = [
            _index(name, values, start.get(name, values[0])) for name, values in parameters.items()
        ]

    @traitlets.validate("selected")
    def _check_selected(self, proposal):
        value, lengths = proposal["value"], [len(values) for values in self.parameters.values()]
        fits = len(value) == len(lengths) and all(
            isinstance(i, Integral) and 0 <= i < n for i, n in zip(value, lengths, strict=True)
        )
        if not fits:
            expected = ", ".join(
                f"0 to {n - 1} for {name}" for name, n in zip(self.parameters, lengths, strict=True)
            )
            raise traitlets.TraitError(f"selected is {value!r}; expected a list of {expected}")
        return [int(i) for i in value]

    def _repr_html_(self):
        """The member that is selected, still: for readers without JavaScript, and for print."""
        import matplotlib.pyplot as plt

        member = tuple(self.selected)
        picked = ", ".join(
            f"{name}: {_name(values[i])}"
            for (name, values), i in zip(self.parameters.items(), member, strict=True)
        )
        with plt.rc_context(STYLE):
            fig, ax = plt.subplots()
            for i, name in enumerate(self.curves):
                y = self.y[member][i]
                gaps = np.isnan([np.nan, *y, np.nan])
                alone = gaps[:-2] & gaps[2:]  # would be no line
                (line,) = ax.plot(self.x, y, marker="o", markevery=alone | self.markers, label=name)
                if self.low is not None:
                    ends = self.low[member][i], self.high[member][i]
                    ax.fill_between(self.x, *ends, color=line.get_color(), alpha=0.2)
            ax.set(title=picked, xlabel=self.x_label, ylabel=self.y_label)
            for axis, scale in (("x", self.x_scale), ("y", self.y_scale)):
                ax.set(
                    **{
                        f"{axis}scale": "log" if scale.log else "linear",
                        f"{axis}lim": (scale.low, scale.high),
                        f"{axis}ticks": scale.ticks,
                        f"{axis}ticklabels": scale.labels,
                    }
                )
            ax.legend()
        caption = self.title or f"{self.y_label}, {self.x_label}"
        if self.band:
            caption += f". {self.words['shaded']}{self.band}"
        return draw_figure(fig, caption=caption)._repr_html_()


def _values(name, values):
    """The values of a parameter: all strings, or all numbers."""
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not values:
        raise ValueError(f"the parameter {name!r} has no values")
    for value in values:
        if isinstance(values[0], str):
            fits = isinstance(value, str)
        else:
            fits = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
        if not fits:
            kind = "strings alone" if isinstance(values[0], str) else "finite numbers or strings"
            raise ValueError(f"the parameter {name!r} has the value {value!r}; expected {kind}")
    return values


def _name(value):
    return value if isinstance(value, str) else number_text(value)


def _index(name, values, value):
    if value not in values:
        raise ValueError(f"{name} starts at {value!r}; expected one of {values}")
    return values.index(value)


def _array(name, values, shape):
    array = np.array(values, dtype=float)  # a copy
    if array.shape != shape:
        raise ValueError(
            f"{name} has shape {array.shape}; expected {shape}: "
            "the length of each parameter, curves, points"
        )
    array.flags.writeable = False
    return array


def _precision(values, log):
    """How many decimals to show of the values; None, and how many digits, where it depends."""
    if log:
        return None, DIGITS
    values = values[~np.isnan(values)]
    largest = np.abs(values).max() or 1
    decimals = DIGITS - ceil(log10(np.ptp(values) or largest))
    if decimals > MOST_DECIMALS or largest >= 10**9:
        return None, min(decimals + ceil(log10(largest)), 15)
    decimals = max(0, decimals)
    # Fewer where all values have fewer.
    fewer = (d for d in range(decimals) if (values.round(d) == values).all())
    return next(fewer, decimals), None


def _round(value, decimals, digits):
    """As few characters as show the value; None for NaN, which JSON doesn't have."""
    if np.isnan(value):
        return None
    value = float(f"{value:.{digits}g}") if decimals is None else round(float(value), decimals)
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def _to_json(scale: Scale, label: str) -> dict:
    ticks = [list(tick) for tick in zip(scale.ticks, scale.labels, strict=True)]
    return {"label": label, "log": scale.log, "ends": [scale.low, scale.high], "ticks": ticks}

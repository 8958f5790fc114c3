"""Drawings of curves, and of the points of experiments, in panels with axes and a legend."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from normbook.page.figures.figure import PALETTE, Figure, draw_label
from normbook.page.figures.scales import Scale, scale_for

# px: the area inside the axes, and what stands to its left, right, top and bottom.
PLOT_AREA, PLOT_MARGINS = (234, 190), (48, 8, 26, 46)
# The color and the dash pattern of curves with a name, in order; those of the others; of the grid.
STROKES = (
    (PALETTE[1], "none"),
    (PALETTE[4], "6 3"),
    (PALETTE[2], "2 3"),
    (PALETTE[3], "9 2"),
    (PALETTE[0], "9 3 2 3"),
    (PALETTE[5], "14 3"),
    ("currentColor", "4 2"),
)
THIN = "currentColor", "none"
FAINT = 'stroke="currentColor" stroke-opacity=".18"'


@dataclass(frozen=True)
class Curve:
    """Points, joined by a line or alone.

    Attributes
    ----------
    x, y
        the points, in the units of the axes. Where y is NaN, the line has a gap.
    name
        what the legend calls it, beside its color and dashes. A curve without a name is thin and
        has the color of the text, as a contour line has.
    dots
        whether to mark every point.
    line
        whether to join them; without it, the points are marked in any case.
    low, high
        the ends of a band around the curve, one of each per point; NaN for none.

    Examples
    --------
    >>> Curve([1, 2, 3], [0.9, 0.5, 0.4], "layer norm", dots=True).name
    'layer norm'
    """

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    dots: bool = False
    line: bool = True
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Plot:
    """One panel of curves with its axes.

    Attributes
    ----------
    title
        what it shows.
    x_label, y_label
        what the axes measure, with the unit.
    curves
        those without a name first, as they are drawn in this order.
    equal
        whether one unit is as long on either axis, so that a circle looks like one.
    x_scale, y_scale
        "linear" or "log", for the values of the curves; or the scale itself.

    Examples
    --------
    >>> loss = Curve([1, 2, 3], [0.9, 0.5, 0.4])
    >>> Plot("training", "epoch", "loss", (loss,), y_scale="log").title
    'training'
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    equal: bool = False
    x_scale: Scale | str = "linear"
    y_scale: Scale | str = "linear"


def strip_plot(
    title: str,
    x_label: str,
    y_label: str,
    rows: Sequence[tuple[str, str, Sequence[float]]],
    x_scale: Scale | str = "linear",
    line: float | None = None,
) -> Plot:
    """A row of points for each arm of an experiment, from top to bottom, and a bar at its mean.

    The points of a row stand in their order from top to bottom, so those that are paired stand at
    the same place in each row.

    Parameters
    ----------
    rows
        of each arm a name of up to six letters for the axis, its name for the legend, and its
        values, one for each run.
    line
        where a vertical line stands, through all rows.

    Examples
    --------
    >>> rows = [("BN", "batch norm", [2.1, 2.4, 1.9]), ("LN", "layer norm", [2.2, 2.0, 2.3])]
    >>> plot = strip_plot("Three seeds each", "wrong (%)", "norm", rows)
    >>> plot.y_scale.labels, [curve.name for curve in plot.curves]
    (('BN', 'LN'), ['', 'batch norm', 'layer norm'])
    """
    places = -np.arange(len(rows))
    bar, half = 0.46, 0.32  # that a bar, and the points, reach up and down from the middle of a row
    scale = Scale(places[-1] - 0.6, 0.6, False, tuple(places), tuple(short for short, *_ in rows))
    bars = [
        np.array([[mean, place + bar], [mean, place - bar], [mean, np.nan]])
        for place, mean in zip(places, (np.mean(values) for *_, values in rows), strict=True)
    ]
    if line is not None:
        bars.append(np.array([[line, scale.low], [line, scale.high]]))
    points = (
        Curve(values, place + np.linspace(half, -half, len(values)), name, line=False)
        for place, (_, name, values) in zip(places, rows, strict=True)
    )
    curves = (Curve(*np.concatenate(bars).T), *points)
    return Plot(title, x_label, y_label, curves, x_scale=x_scale, y_scale=scale)


def draw_curves(*plots: Plot, caption: str) -> Figure:
    """Draw curves in panels side by side, with labelled axes and a legend.

    Raises
    ------
    ValueError
        a plot has no curve or more names than there are strokes; a curve has no points,
        not as many x as y, or a value that its scale has no place for.

    Examples
    --------
    >>> loss = Curve([1, 2, 3], [0.9, 0.5, 0.4], "layer norm")
    >>> plot = Plot("training", "epoch", "loss", (loss,))
    >>> draw_curves(plot, caption="It learns.")
    Figure: It learns.
    """
    return Figure(tuple(_plot_panel(plot) for plot in plots), caption)


def _plot_panel(plot):
    named = [curve.name for curve in plot.curves if curve.name]
    if not plot.curves or len(named) > len(STROKES):
        raise ValueError(
            f"{plot.title!r} has {len(plot.curves)} curves, {len(named)} with a name; "
            f"expected at least one, and at most {len(STROKES)} with a name"
        )
    points = [_points(curve) for curve in plot.curves]  # for each, x, y, and both ends of the band
    x_scale, y_scale = _scales(plot, np.concatenate(points, axis=1))
    (width, height), (left, right, top, bottom) = PLOT_AREA, PLOT_MARGINS

    def place_x(x):
        return left + width * x_scale.place(x)

    def place_y(y):
        return top + height * (1 - y_scale.place(y))

    body = [f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" {FAINT}/>']
    for tick, text in zip(x_scale.ticks, x_scale.labels, strict=True):
        x = f"{place_x(tick):.1f}"
        body.append(f'<path d="M{x} {top}v{height}" {FAINT}/>')
        body.append(f'<text x="{x}" y="{top + height + 12}">{text}</text>')
    for tick, text in zip(y_scale.ticks, y_scale.labels, strict=True):
        y = f"{place_y(tick):.1f}"
        body.append(f'<path d="M{left} {y}h{width}" {FAINT}/>')
        body.append(f'<text class="nb-end" x="{left - 5}" y="{y}">{text}</text>')
    below = f'x="{left + width / 2:g}" y="{top + height + 33}"'
    body.append(f'<text class="nb-axis" {below}>{html.escape(plot.x_label)}</text>')
    body.append(draw_label(0, 9, plot.y_label))
    strokes = iter(STROKES)
    for curve, (x, *ys) in zip(plot.curves, points, strict=True):
        stroke = next(strokes) if curve.name else THIN
        x, (y, low, high) = place_x(x), map(place_y, ys)
        body.append(_draw_band(x, low, high, stroke))
        body.append(_draw_line(x, y, stroke, curve.dots, curve.line))

    alt = html.escape(f"{plot.title}: {plot.y_label}, against {plot.x_label}")
    size = left + width + right, top + height + bottom
    legend = ""
    for curve, stroke in zip((c for c in plot.curves if c.name), STROKES, strict=False):
        sample = ((1, 25), (9, 9)) if curve.line else ((13,), (9,))
        legend += (
            '<li><svg aria-hidden="true" width="26" height="18">'
            f"{_draw_line(*sample, stroke, line=curve.line)}</svg>"
            f"<span>{html.escape(curve.name)}</span></li>"
        )
    return (
        f'<div class="nb-panel"><p><strong>{html.escape(plot.title)}</strong></p>'
        f'<svg role="img" aria-label="{alt}" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}" font-size="11">{"".join(body)}</svg>'
        + (f'<ul class="nb-legend">{legend}</ul></div>' if legend else "</div>")
    )


def _points(curve):
    values = [np.asarray(v, dtype=float).ravel() for v in (curve.x, curve.y)]
    for end in (curve.low, curve.high):
        values.append(np.full_like(values[1], np.nan) if end is None else np.ravel(end))
    x, y, low, high = values
    if not x.size or len({v.size for v in values}) > 1 or not np.isfinite(x).all():
        raise ValueError(
            f"the curve {curve.name!r} has {x.size} x and {y.size} y, {low.size} low and "
            f"{high.size} high; expected as many of each, at least one, all x finite"
        )
    return np.stack(values)


def _scales(plot, points):
    scales = [
        scale
        if isinstance(scale, Scale)
        else scale_for(values, scale, name=f"{plot.title!r}: {name}")
        for name, scale, values in (
            ("x", plot.x_scale, points[0]),
            ("y", plot.y_scale, points[1:]),
        )
    ]
    if plot.equal:
        ends = np.array([(scale.low, scale.high) for scale in scales])
        half = np.array(PLOT_AREA) * np.max(np.ptp(ends, axis=1) / 2 / PLOT_AREA)
        ends = ends.mean(axis=1)[:, None] + half[:, None] * (-1, 1)
        scales = [scale_for(e, ends=e.tolist()) for e in ends]
    return scales


def _draw_line(x, y, stroke, dots=False, line=True):
    runs = [[f"{a:.1f} {b:.1f}" for a, b in zip(*run, strict=True)] for run in _runs(x, y)]
    width, opacity = (1, 0.5) if stroke == THIN else (2, 1)
    path = "".join(f"M{'L'.join(run)}" for run in runs)
    drawn = f'<path d="{path}" stroke-width="{width}" stroke-dasharray="{stroke[1]}"/>'
    if not line:
        drawn, dots = "", True
    # Lines of no length, but with round ends. A point without a neighbor would be no line.
    ends = "".join(f"M{point}h0" for run in runs for point in run if dots or len(run) == 1)
    if ends:
        drawn += f'<path d="{ends}" stroke-width="6" stroke-linecap="round"/>'
    return f'<g fill="none" stroke="{stroke[0]}" stroke-opacity="{opacity}">{drawn}</g>'


def _draw_band(x, low, high, stroke):
    path = ""
    for x_run, low_run, high_run in _runs(x, low, high):
        around = zip([*x_run, *x_run[::-1]], [*high_run, *low_run[::-1]], strict=True)
        path += f"M{'L'.join(f'{a:.1f} {b:.1f}' for a, b in around)}Z"
    color = f'fill="{stroke[0]}" stroke="{stroke[0]}" opacity=".2"'
    return f'<path d="{path}" {color}/>' if path else ""


def _runs(*arrays):
    """Parts of the arrays, which are equally long, where none of them is NaN."""
    values = np.array(arrays)
    bounds = np.flatnonzero(np.diff(np.isnan(values).any(axis=0), prepend=True, append=True))
    return [values[:, start:end] for start, end in bounds.reshape(-1, 2)]

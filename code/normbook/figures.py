"""Drawings of tensors that show which cells share something, made from the scheme, and of curves.

They are SVG inside HTML: they follow the light or dark theme of the page they stand on, need no
script, and stay sharp on a phone. A group is told by its color, by its pattern and by its name.
"""

import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from normbook.normalize import statistics
from normbook.scales import Scale, scale_for
from normbook.scheme import AXIS_NAMES, Scheme, axes_of

# Okabe & Ito's palette for all kinds of color vision, without its black.
PALETTE = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
# A stroke pattern for each color, on a tile of 8 × 8.
PATTERNS = (
    "",
    "M0 8L8 0",
    "M0 0L8 8",
    "M4 0V8",
    "M0 4H8",
    "M0 8L8 0M0 0L8 8",
    "M4 0V8M0 4H8",
)
# The color and pattern of every group, by its number. Groups of one color differ in their pattern,
# until all pairs are used up.
LOOKS = tuple((PALETTE[i % 7], PATTERNS[(i + i // 7) % 7]) for i in range(49))

# px: side of a cell and font size, with the value of the cell in it or the number of its group.
CELL, SMALL_CELL = (28, 14), (17, 10)
GAP, LABEL, LABEL_WIDTH = 14, 18, 62  # px: between maps; a label's height, and room for "n=0, c=0"

_STYLE = """
.nb-figure { margin: 1.2em 0 }
.nb-panels { display: flex; flex-wrap: wrap; gap: 1.4em 1.6em; align-items: flex-start }
.nb-panel { min-width: min(290px, 100%); max-width: 100% }
.nb-panel p { margin: 0 0 .3em; font-size: .95em; line-height: 1.35; width: 0; min-width: 100% }
.nb-panel > svg { display: block; max-width: 100%; height: auto; color: inherit }
.nb-panel text { fill: currentColor; font-family: ui-monospace, Menlo, Consolas, monospace;
  text-anchor: middle; dominant-baseline: central }
.nb-panel .nb-label, .nb-panel .nb-axis { font: 13px system-ui, sans-serif }
.nb-panel .nb-label { text-anchor: start }
.nb-panel .nb-end { text-anchor: end }
.nb-legend { display: flex; flex-wrap: wrap; gap: .2em 1em; width: 0; min-width: 100%;
  list-style: none; margin: .5em 0 0; padding: 0; font-size: .83em }
.nb-legend li { display: inline-flex; gap: .4em; align-items: center; margin: 0 }
.nb-legend svg { flex: none }
.nb-figure figcaption { margin-top: .7em; font-size: .9em }
"""


@dataclass(frozen=True)
class Figure:
    """Panels side by side, with a caption. Notebooks show it; it follows the theme of the page.

    Examples
    --------
    >>> from normbook.examples import THREE_SCALES
    >>> from normbook.scheme import LAYER_NORM
    >>> draw_sharing(LAYER_NORM, x=THREE_SCALES.x, caption="By row.")
    Figure: By row.
    """

    panels: tuple[str, ...]
    caption: str

    def _repr_html_(self):
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>"
        return (
            f'<figure class="nb-figure"><style>{_STYLE}</style>'
            f'<div class="nb-panels">{"".join(self.panels)}</div>{caption}</figure>'
        )

    def __repr__(self):
        return f"Figure: {self.caption}"


def draw_sharing(
    *schemes: Scheme,
    x: np.ndarray,
    caption: str,
    share: str = "statistics",
    show: str = "values",
    mask: np.ndarray | None = None,
) -> Figure:
    """Draw a tensor once for every scheme; cells of one color share something.

    Parameters
    ----------
    schemes : one panel each.
    x : the tensor, of 2 to 4 axes, in the shape that all the schemes take.
    caption : what to see in it; also read aloud to those who can't see it.
    share : "statistics" to color by mean and variance, "parameters" by gamma and beta.
    show : what stands in a cell: "values" of x, or "groups" for the number of its group, smaller.
    mask : True for a real cell, as `normalize` takes it; the others are drawn empty and dashed.

    Raises
    ------
    ValueError : `share` or `show` is none of these, or x has another number of axes.

    Examples
    --------
    >>> from normbook.examples import CONV_OUTPUT
    >>> from normbook.scheme import BATCH_NORM_2D, LAYER_NORM_CHW
    >>> layers = BATCH_NORM_2D, LAYER_NORM_CHW
    >>> figure = draw_sharing(*layers, x=CONV_OUTPUT.x, caption="Two views.")
    >>> len(figure.panels), figure
    (2, Figure: Two views.)
    """
    if share not in ("statistics", "parameters"):
        raise ValueError(f"share={share!r}; expected 'statistics' or 'parameters'")
    if show not in ("values", "groups"):
        raise ValueError(f"show={show!r}; expected 'values' or 'groups'")
    panels = tuple(_panel(scheme, x, share, show, mask, caption) for scheme in schemes)
    return Figure(panels, caption)


def _panel(scheme, x, share, show, mask, caption):
    if share == "statistics":
        groups, title = scheme.groups(x.shape, mask), scheme.summary
    else:
        groups = scheme.parameter_groups(x.shape)
        title = f"one (γ, β) per {', '.join(axes_of(scheme.params))}"
    count = groups.max() + 1
    small = show == "groups"
    texts = [
        "" if group < 0 else f"{group if small else value:g}"
        for group, value in zip(groups.flat, x.flat, strict=True)
    ]
    drawn = np.unique(groups[groups >= 0]).size
    alt = f"{scheme.name}: {title}, {drawn} in all, on a tensor of shape {x.shape}"
    if mask is not None and share == "statistics":
        alt += ", whose padding takes no part"
    heading = f"<p><strong>{html.escape(scheme.name)}</strong><br/>{html.escape(title)}</p>"
    # A pattern that is defined in a hidden figure as well may count as hidden.
    prefix = "p" + hashlib.sha256(f"{caption}{alt}{texts}".encode()).hexdigest()[:8]
    size = SMALL_CELL if small else CELL
    cells = _draw_cells(scheme.cells, groups, texts, alt, prefix, *size)
    listed = share == "statistics" and count <= len(PALETTE)
    legend = _legend(scheme, x, mask, prefix) if listed else ""
    return f'<div class="nb-panel">{heading}{cells}{legend}</div>'


def _draw_cells(cells, groups, texts, alt, prefix, side, font):
    """The SVG of a tensor: a map of cells for every sample and channel (or token, or row)."""
    shape = groups.shape
    if not 2 <= len(shape) <= 4:
        raise ValueError(f"x has {len(shape)} axes, shape {shape}; expected 2 to 4 to draw")
    # Rows of maps, columns of maps, and the rows and columns of cells in a map.
    n, columns, height, width = {
        2: lambda n, d: (n, 1, 1, d),
        3: lambda n, a, b: (n, a, b, 1) if cells == "n t d" else (n, a, 1, b),
        4: lambda n, c, h, w: (n, c, h, w),
    }[len(shape)](*shape)
    cell_width = max(side, round(0.62 * font * max(len(text) for text in texts)) + 5)
    left = 0 if len(shape) == 4 else 76
    map_width, map_height = width * cell_width, height * side
    every_map = len(shape) == 4  # has a label of its own
    top = 0 if every_map else LABEL * (len(shape) == 3)
    step_x = max(map_width, LABEL_WIDTH if every_map else 0) + GAP
    step_y = map_height + (GAP + LABEL if every_map else 6)
    second = AXIS_NAMES[cells.replace("(", "").split()[1]].replace("group", "channel")

    used = sorted({int(group) % len(LOOKS) for group in groups.ravel() if group >= 0})
    body = [_pattern(prefix, i) for i in used]
    for row in range(n):
        y = top + row * step_y
        if not every_map:
            body.append(_label(0, y + map_height / 2, f"sample {row}"))
        for column in range(columns):
            x = left + column * step_x
            if every_map:
                text = (
                    f"sample {row}, {second} {column}"
                    if map_width > 130
                    else f"n={row}, c={column}"
                )
                body.append(_label(x, y + LABEL / 2 - 2, text))
            elif top and row == 0:
                body.append(_label(x, LABEL / 2 - 2, f"{cells.split()[1]}={column}"))
            for i, j in np.ndindex(height, width):
                k = ((row * columns + column) * height + i) * width + j
                corner = x + j * cell_width, y + (LABEL if every_map else 0) + i * side
                size = cell_width, side
                body.append(_cell(prefix, *corner, *size, groups.flat[k], texts[k]))
    total_width = left + columns * step_x - (GAP if every_map else GAP // 2)
    total_height = top + n * step_y - (GAP if every_map else 6)
    return (
        f'<svg role="img" aria-label="{html.escape(alt)}" width="{total_width}" '
        f'height="{total_height}" viewBox="-1 -1 {total_width + 2} {total_height + 2}" '
        f'font-size="{font}">{"".join(body)}</svg>'
    )


def _pattern(prefix, look):
    """The fill of a group: a tint of its color under its stroke pattern."""
    color, pattern = LOOKS[look]
    return (
        f'<pattern id="{prefix}{look}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<path d="M0 0H8V8H0z" fill="{color}" fill-opacity=".3"/>'
        f'<path d="{pattern}" stroke="{color}" stroke-opacity=".45"/></pattern>'
    )


def _cell(prefix, x, y, width, height, group, text):
    if group < 0:
        fill = 'fill="none" stroke="currentColor" stroke-opacity=".3" stroke-dasharray="2 2"'
    else:
        look = int(group) % len(LOOKS)
        fill = f'fill="url(#{prefix}{look})" stroke="{LOOKS[look][0]}"'
    size = f'width="{width - 2}" height="{height - 2}"'
    rect = f'<rect x="{x + 1}" y="{y + 1}" {size} rx="{height // 7}" {fill}/>'
    middle = f'x="{x + width / 2:g}" y="{y + height / 2:g}"'
    return f"{rect}<text {middle}>{html.escape(text)}</text>" if text else rect


def _label(x, y, text):
    return f'<text class="nb-label" x="{x:g}" y="{y:g}">{html.escape(text)}</text>'


def _legend(scheme, x, mask, prefix):
    """The groups by name, each with its swatch, its number of cells, mean and variance."""
    mean, var, count = (value.ravel().tolist() for value in statistics(x, scheme, mask))
    items = []
    for group, label in enumerate(scheme.group_labels(x.shape)):
        if not count[group]:  # all its cells are masked, so it has neither mean nor variance
            continue
        swatch = (
            '<svg aria-hidden="true" width="18" height="18"><rect x="1" y="1" width="16" '
            f'height="16" rx="3" fill="url(#{prefix}{group})" stroke="{PALETTE[group]}"/></svg>'
        )
        numbers = f"{count[group]} cells, μ {_short(mean[group])}, σ² {_short(var[group])}"
        items.append(f"<li>{swatch}<span><b>{label or 'all'}</b> {numbers}</span></li>")
    return f'<ul class="nb-legend">{"".join(items)}</ul>'


def _short(number):
    return f"{number:.4f}".rstrip("0").rstrip(".")


STEP_WIDTH, STEP_HEIGHT, STEP_GAP, JUMP = 114, 30, 20, 22  # px; a jump's distance to the steps


@dataclass(frozen=True)
class Flow:
    """The steps of a computation, in order.

    Attributes
    ----------
    title : what it is called.
    steps : their names.
    jumps : pairs of positions in `steps`: the output of the first also goes into the second. Ahead,
        as a residual connection does, or back, as a recurrence does into the next time step.

    Examples
    --------
    >>> Flow("post-LN", ("x", "f", "+", "LN"), jumps=((0, 2),)).steps[2]
    '+'
    """

    title: str
    steps: tuple[str, ...]
    jumps: tuple[tuple[int, int], ...] = ()


def draw_flow(*flows: Flow, caption: str, highlight: str = "LN") -> Figure:
    """Draw computations side by side, each from top to bottom; steps named `highlight` in color.

    Jumps ahead are solid, jumps back into the next time step dashed.

    Raises
    ------
    ValueError : a jump goes to a step that isn't there, or to itself.

    Examples
    --------
    >>> pre = Flow("pre-LN", ("x", "LN", "f", "+"), jumps=((0, 3),))
    >>> post = Flow("post-LN", ("x", "f", "+", "LN"), jumps=((0, 2),))
    >>> draw_flow(pre, post, caption="Two places for the norm.")
    Figure: Two places for the norm.
    """
    for flow in flows:
        for jump in flow.jumps:
            if not set(jump) <= set(range(len(flow.steps))) or jump[0] == jump[1]:
                raise ValueError(
                    f"{flow.title}: the jump {jump} needs two different positions among "
                    f"{len(flow.steps)} steps, from 0"
                )
    return Figure(tuple(_flow(flow, highlight) for flow in flows), caption)


def _flow(flow, highlight):
    pitch, middle = STEP_HEIGHT + STEP_GAP, STEP_WIDTH / 2
    body, said = [], [" → ".join(flow.steps)]
    for i, step in enumerate(flow.steps):
        y = i * pitch
        fill = f'"{PALETTE[1]}" fill-opacity=".3"' if step == highlight else '"none"'
        body.append(
            f'<rect x="1" y="{y}" width="{STEP_WIDTH - 2}" height="{STEP_HEIGHT}" rx="4" '
            f'fill={fill} stroke="currentColor" stroke-opacity=".5"/>'
            f'<text x="{middle:g}" y="{y + STEP_HEIGHT / 2:g}">{html.escape(step)}</text>'
        )
        if i:
            body.append(_arrow((middle, y - STEP_GAP), (middle, y)))
    for start, end in flow.jumps:
        back = start > end
        # Out a little below the middle of a step and in a little above, so that two don't meet.
        y1, y2 = start * pitch + STEP_HEIGHT / 2 + 6, end * pitch + STEP_HEIGHT / 2 - 6
        right, far = STEP_WIDTH - 1, STEP_WIDTH + JUMP
        body.append(_arrow((right, y1), (far, y1), (far, y2), (right, y2), dashed=back))
        way = "in the next time step" if back else "directly"
        said.append(f"{flow.steps[start]} also goes to {flow.steps[end]} {way}")
    title, alt = html.escape(flow.title), html.escape(f"{flow.title}: {'; '.join(said)}")
    width, height = STEP_WIDTH + JUMP + 1, len(flow.steps) * pitch - STEP_GAP
    return (
        f'<div class="nb-panel" style="min-width: 0"><p><strong>{title}</strong></p>'
        f'<svg role="img" aria-label="{alt}" width="{width}" height="{height + 2}" '
        f'viewBox="0 -1 {width} {height + 2}" font-size="13">{"".join(body)}</svg></div>'
    )


def _arrow(*points, dashed=False):
    """A line through the points; its head points down or left, the ways that arrows end here."""
    (x_before, _), (x, y) = points[-2:]
    head = ((x - 4, y - 6), (x + 4, y - 6)) if x == x_before else ((x + 6, y - 4), (x + 6, y + 4))
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return "".join(
        f'<path d="M{"L".join(f"{a:g} {b:g}" for a, b in path)}" fill="none" '
        f'stroke="currentColor"{more}/>'
        for path, more in ((points, dashes), ((head[0], (x, y), head[1]), ""))
    )


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
    x, y : the points, in the units of the axes. Where y is NaN, the line has a gap.
    name : what the legend calls it, beside its color and dashes. A curve without a name is thin and
        has the color of the text, as a contour line has.
    dots : whether to mark every point.
    line : whether to join them; without it, the points are marked in any case.
    low, high : the ends of a band around the curve, one of each per point; NaN for none.

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
    title : what it shows.
    x_label, y_label : what the axes measure, with the unit.
    curves : those without a name first, as they are drawn in this order.
    equal : whether one unit is as long on either axis, so that a circle looks like one.
    x_scale, y_scale : "linear" or "log", for the values of the curves; or the scale itself.

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
    rows : of each arm a name of up to six letters for the axis, its name for the legend, and its
        values, one for each run.
    line : where a vertical line stands, through all rows.

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
    ValueError : a plot has no curve or more names than there are strokes; a curve has no points,
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
    body.append(_label(0, 9, plot.y_label))
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

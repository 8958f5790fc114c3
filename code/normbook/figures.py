"""Drawings of tensors that show which cells share something, made from the scheme.

They are SVG inside HTML: they follow the light or dark theme of the page they stand on, need no
script, and stay sharp on a phone. A group is told by its color, by its pattern and by its name.
"""

import hashlib
import html
from dataclasses import dataclass

import numpy as np

from normbook.normalize import statistics
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

# px: side of a cell and font size, with the value of the cell in it or the number of its group.
CELL, SMALL_CELL = (28, 14), (17, 10)
GAP, LABEL = 14, 18  # px: the space between maps, the height of a label

_STYLE = """
.nb-figure { margin: 1.2em 0 }
.nb-panels { display: flex; flex-wrap: wrap; gap: 1.4em 2em; align-items: flex-start }
.nb-panel { min-width: 250px; max-width: 100% }
.nb-panel p { margin: 0 0 .3em; line-height: 1.35; width: 0; min-width: 100% }
.nb-panel > svg { display: block; max-width: 100%; height: auto; color: inherit }
.nb-panel text { fill: currentColor; font-family: ui-monospace, Menlo, Consolas, monospace;
  text-anchor: middle; dominant-baseline: central }
.nb-panel .nb-label { font: 13px system-ui, sans-serif; text-anchor: start }
.nb-legend { display: flex; flex-wrap: wrap; gap: .2em 1em; width: 0; min-width: 100%;
  list-style: none; margin: .5em 0 0; padding: 0; font-size: .85em }
.nb-legend li { display: inline-flex; gap: .4em; align-items: center; margin: 0 }
.nb-legend svg { flex: none }
.nb-figure figcaption { margin-top: .7em; font-size: .9em }
"""


@dataclass(frozen=True)
class Figure:
    """Panels side by side, with a caption. Notebooks show it; it follows the theme of the page."""

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
    """
    if share not in ("statistics", "parameters"):
        raise ValueError(f"share={share!r}; expected 'statistics' or 'parameters'")
    if show not in ("values", "groups"):
        raise ValueError(f"show={show!r}; expected 'values' or 'groups'")
    return Figure(tuple(_panel(scheme, x, share, show, mask) for scheme in schemes), caption)


def _panel(scheme, x, share, show, mask):
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
    alt = f"{scheme.name}: {title}, {count} in all, on a tensor of shape {x.shape}"
    heading = f"<p><strong>{html.escape(scheme.name)}</strong><br/>{html.escape(title)}</p>"
    legend = _legend(scheme, x, mask) if share == "statistics" and count <= len(PALETTE) else ""
    cells = _draw_cells(scheme.cells, groups, texts, alt, *(SMALL_CELL if small else CELL))
    return f'<div class="nb-panel">{heading}{cells}{legend}</div>'


def _draw_cells(cells, groups, texts, alt, side, font):
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
    step_x, step_y = map_width + GAP, map_height + (GAP + LABEL if every_map else 6)
    second = AXIS_NAMES[cells.replace("(", "").split()[1]].replace("group", "channel")

    prefix = "p" + hashlib.sha256(f"{alt}{texts}".encode()).hexdigest()[:8]
    used = sorted({int(group) % len(PALETTE) for group in groups.ravel() if group >= 0})
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


def _pattern(prefix, color):
    """The fill of a group: a tint of its color under its stroke pattern."""
    return (
        f'<pattern id="{prefix}{color}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<path d="M0 0H8V8H0z" fill="{PALETTE[color]}" fill-opacity=".3"/>'
        f'<path d="{PATTERNS[color]}" stroke="{PALETTE[color]}" stroke-opacity=".45"/></pattern>'
    )


def _cell(prefix, x, y, width, height, group, text):
    if group < 0:
        fill = 'fill="none" stroke="currentColor" stroke-opacity=".3" stroke-dasharray="2 2"'
    else:
        color = int(group) % len(PALETTE)
        fill = f'fill="url(#{prefix}{color})" stroke="{PALETTE[color]}"'
    size = f'width="{width - 2}" height="{height - 2}"'
    rect = f'<rect x="{x + 1}" y="{y + 1}" {size} rx="{height // 7}" {fill}/>'
    middle = f'x="{x + width / 2:g}" y="{y + height / 2:g}"'
    return f"{rect}<text {middle}>{html.escape(text)}</text>" if text else rect


def _label(x, y, text):
    return f'<text class="nb-label" x="{x:g}" y="{y:g}">{html.escape(text)}</text>'


def _legend(scheme, x, mask):
    """The groups by name, each with its swatch, its number of cells, mean and variance."""
    mean, var, count = (value.ravel().tolist() for value in statistics(x, scheme, mask))
    items = []
    for group, label in enumerate(scheme.group_labels(x.shape)):
        prefix = "l" + hashlib.sha256(f"{scheme}{label}{x.shape}".encode()).hexdigest()[:8]
        swatch = (
            f'<svg aria-hidden="true" width="18" height="18">{_pattern(prefix, group)}'
            f'<rect x="1" y="1" width="16" height="16" rx="3" fill="url(#{prefix}{group})" '
            f'stroke="{PALETTE[group]}"/></svg>'
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

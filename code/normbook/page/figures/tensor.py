"""Drawings of tensors that show which cells share something, made from the scheme."""

import hashlib
import html

import numpy as np

from normbook.core.normalize import statistics
from normbook.core.scheme import AXIS_NAMES, Scheme, axes_of
from normbook.page.figures.figure import LOOKS, PALETTE, Figure, draw_label

# px: side of a cell and font size, with the value of the cell in it or the number of its group.
CELL, SMALL_CELL = (28, 14), (17, 10)
GAP, LABEL, LABEL_WIDTH = 14, 18, 62  # px: between maps; a label's height, and room for "n=0, c=0"


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
    >>> from normbook.data.examples import CONV_OUTPUT
    >>> from normbook.core.scheme import BATCH_NORM_2D, LAYER_NORM_CHW
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
            body.append(draw_label(0, y + map_height / 2, f"sample {row}"))
        for column in range(columns):
            x = left + column * step_x
            if every_map:
                text = (
                    f"sample {row}, {second} {column}"
                    if map_width > 130
                    else f"n={row}, c={column}"
                )
                body.append(draw_label(x, y + LABEL / 2 - 2, text))
            elif top and row == 0:
                body.append(draw_label(x, LABEL / 2 - 2, f"{cells.split()[1]}={column}"))
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

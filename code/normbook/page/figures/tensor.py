"""Drawings of tensors that show which cells share something, made from the scheme."""

import hashlib
import html
from math import prod

import numpy as np

from normbook.core.normalize import statistics
from normbook.core.scheme import AXIS_NAMES, Scheme, layout_of, per
from normbook.page.figures.figure import LOOKS, PALETTE, Figure, draw_label

# px: side of a cell and font size, with the value of the cell in it or the number of its group.
CELL, SMALL_CELL = (28, 14), (17, 10)
GAP, LABEL = 14, 18  # px: between maps; a label's height
LETTER, DIGIT = 6.6, 7.5  # px: of a label in words, and of one in letters and numbers


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
    schemes
        one panel each.
    x
        the tensor, in the shape that all the schemes take. Its last two axes are the rows and
        columns of a map; the axis before them numbers the maps of a row, all others the rows.
    caption
        what to see in it; also read aloud to those who can't see it.
    share
        "statistics" to color by mean and variance, "parameters" by gamma and beta.
    show
        what stands in a cell: "values" of x, or "groups" for the number of its group, smaller.
    mask
        True for a real cell, as `normalize` takes it; the others are drawn empty and dashed.

    Raises
    ------
    ValueError
        `share` or `show` is none of these, or x doesn't fit one of the schemes.

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
        pair = "(γ, β)" if scheme.has_beta else "γ"
        title = f"one {pair} {per(scheme.params)}" if scheme.params else "no γ, β"
    count = groups.max() + 1
    small = show == "groups"
    bare = share == "parameters"  # what has no group is no padding, but has no parameters
    texts = [
        "" if group < 0 and (small or not bare) else f"{group if small else value:g}"
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
    cells = _draw_cells(scheme, groups, texts, alt, prefix, *size)
    listed = share == "statistics" and count <= len(PALETTE)
    legend = _legend(scheme, x, mask, prefix) if listed else ""
    return f'<div class="nb-panel">{heading}{cells}{legend}</div>'


def _arrange(scheme, shape):
    """What numbers the rows of maps and the maps in a row, and the height and width of a map.

    The first two are lists of axes, each a letter and a length. Tokens stand side by side, with
    their features below them; other sequences run to the right.
    """
    axes, none = list(zip(layout_of(scheme).split(), shape, strict=True)), ("", 1)
    if len(axes) == 3 and axes[1][0] == "t":
        axes.append(none)
    while len(axes) < 4:
        axes.insert(-1, none)
    return axes[:-3], axes[-3:-2], axes[-2][1], axes[-1][1]


def _label(axes, number, names=()):
    """Where the axes are at their row-major number: ``n=0, c=1``, or in words where it has some."""
    index = np.unravel_index(number, [length for _, length in axes])
    named = [(letter, i) for (letter, _), i in zip(axes, index, strict=True) if letter]
    return ", ".join(f"{names[a]} {i}" if a in names else f"{a}={i}" for a, i in named)


def _draw_cells(scheme, groups, texts, alt, prefix, side, font):
    """The SVG of a tensor: a map of cells for every sample and channel (or token, or row)."""
    rows, maps, height, width = _arrange(scheme, groups.shape)
    n, columns = (prod(length for _, length in axes) for axes in (rows, maps))
    names = AXIS_NAMES | scheme.own_names
    every_map = groups.ndim > 3  # has a label of its own
    cell_width = max(side, round(0.62 * font * max(len(text) for text in texts)) + 5)
    map_width, map_height = width * cell_width, height * side
    left = top = label_width = 0
    if every_map:
        label_width = round(DIGIT * len(_label(rows + maps, 0))) + 2
        if map_width <= round(LETTER * len(_label(rows + maps, 0, names))) + 5:
            names = {}
    else:
        top = LABEL * bool(_label(maps, 0))
        longest = len(_label(rows, n - 1, names))
        left = max(76, round(LETTER * longest) + 10) if longest else 0
    step_x = max(map_width, label_width) + GAP
    step_y = map_height + (GAP + LABEL if every_map else 6)

    used = sorted({int(group) % len(LOOKS) for group in groups.ravel() if group >= 0})
    body = [_pattern(prefix, i) for i in used]
    for row in range(n):
        y = top + row * step_y
        if left:
            body.append(draw_label(0, y + map_height / 2, _label(rows, row, names)))
        for column in range(columns):
            x = left + column * step_x
            if every_map:
                text = _label(rows + maps, row * columns + column, names)
                body.append(draw_label(x, y + LABEL / 2 - 2, text))
            elif top and not row:
                body.append(draw_label(x, LABEL / 2 - 2, _label(maps, column)))
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

"""Plots by matplotlib in the book's style, as SVG that follows the theme of the page.

Matplotlib itself is loaded when something is drawn.
"""

import hashlib
import html
import io
import re
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from normbook.page.figures.figure import PALETTE, Figure

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

# Stands for the color of the page's text, dark or light, which only the page knows. Nothing else
# may have this color.
INK = "#0b1c2d"
FAINT = 0.18  # the opacity of axes and grid
# The color of each curve in order, and its dashes: px drawn, px left out.
STROKES = (
    (PALETTE[1], ()),
    (PALETTE[4], (6, 3)),
    (PALETTE[2], (2, 3)),
    (PALETTE[3], (9, 2)),
    (PALETTE[0], (9, 3, 2, 3)),
    (PALETTE[5], (14, 3)),
    ("currentColor", (4, 2)),
)
WIDEST = 36  # letters in a line of a label, so that it is not wider than a panel

# For `plt.style.use`. A point is a pixel of the page: two panels fill the column, one a phone.
STYLE = {
    "figure.figsize": (320 / 72, 266 / 72),
    "figure.dpi": 72,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 2 / 72,
    "figure.constrained_layout.w_pad": 2 / 72,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "savefig.edgecolor": "none",
    "font.family": "DejaVu Sans",  # is measured, and wider than what pages use
    "font.size": 12,
    "text.color": INK,
    "text.parse_math": False,
    "axes.facecolor": "none",
    "axes.edgecolor": (INK, FAINT),
    "axes.labelcolor": INK,
    "axes.labelpad": 7,
    "axes.labelsize": 13,
    "axes.titlepad": 8,
    "axes.titlesize": 13,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.prop_cycle": "cycler('color', {}) + cycler('linestyle', {})".format(
        [color.replace("currentColor", INK) for color, _ in STROKES],
        [(0, dashes) if dashes else "-" for _, dashes in STROKES],
    ),
    "grid.color": INK,
    "grid.alpha": FAINT,
    "grid.linewidth": 1,
    "xtick.color": INK,
    "xtick.bottom": False,
    "xtick.labelsize": 12,
    "ytick.color": INK,
    "ytick.left": False,
    "ytick.labelsize": 12,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "lines.markeredgewidth": 0,
    "lines.scale_dashes": False,
    "patch.linewidth": 0,
    "legend.fontsize": 13,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "svg.fonttype": "none",
    "svg.hashsalt": "normbook",
}


def draw_figure(fig: "matplotlib.figure.Figure", *, caption: str) -> Figure:
    """Draw a figure of matplotlib, made in the book's `STYLE`, and close it.

    Each of its axes becomes a panel with the size of the figure, so that panels stand side by side
    or below each other, as there is room. The title and the caption become text of the page, the
    label of the y axis stands above it, and the legend, of which there is one at most, stands
    behind the panels. A log axis has numbers at its ticks, rather than powers.

    Parameters
    ----------
    fig
        from `plt.subplots()`, for example.
    caption
        what to see in it.

    Raises
    ------
    ValueError
        the figure has no axes, more than one legend, or is in another style.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> plt.style.use(STYLE)
    >>> fig, ax = plt.subplots()
    >>> _ = ax.plot([1, 2, 3], [0.9, 0.5, 0.4], label="layer norm")
    >>> _ = ax.set(title="Training", xlabel="epoch", ylabel="loss")
    >>> _ = ax.legend()
    >>> draw_figure(fig, caption="It learns.")
    Figure: It learns.
    """
    import matplotlib.pyplot as plt
    from matplotlib.gridspec import GridSpec

    axes, legends = fig.axes, [*filter(None, (ax.get_legend() for ax in fig.axes)), *fig.legends]
    if not axes or len(legends) > 1:
        raise ValueError(
            f"the figure has {len(axes)} axes and {len(legends)} legends; expected at least one of "
            "the first and at most one of the second"
        )
    plt.close(fig)  # else the notebook shows it as well
    (place,) = GridSpec(1, 1, figure=fig)
    panels = []
    with plt.rc_context(STYLE):
        for ax in axes:
            title = ax.get_title()
            heading = f"<p><strong>{html.escape(title)}</strong></p>" if title else ""
            axis_labels = f"{ax.get_ylabel()}, against {ax.get_xlabel()}"
            alt = f"{title}: {axis_labels}" if title else axis_labels
            ax.set_subplotspec(place)
            _arrange(ax)
            others = (other for other in axes if other is not ax)
            with _hidden(*legends, *others, ax.title, ax.yaxis.label):
                if ax.get_aspect() != "auto":
                    fig.draw_without_rendering()
                    ax.autoscale_view()  # other sizes, on the way to this one, have stretched it
                svg = _svg(fig, alt, f"{caption}{len(panels)}")
            panels.append(f'<div class="nb-panel">{heading}{svg}</div>')
        for legend in legends:
            key = _legend_svg(fig, legend, caption)
            panels.append(f'<div class="nb-panel" style="min-width: 0">{key}</div>')
    return Figure(tuple(panels), caption)


def strip_plot(
    ax: "matplotlib.axes.Axes", rows: Sequence[tuple[str, str, Sequence[float]]]
) -> None:
    """A row of points for each arm of an experiment, from top to bottom, and a bar at its mean.

    The points of a row stand in their order from top to bottom, so those that are paired stand at
    the same place in each row.

    Parameters
    ----------
    rows
        of each arm a name of up to six letters for the axis, its name for the legend, and its
        values, one for each run.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> plt.style.use(STYLE)
    >>> fig, ax = plt.subplots()
    >>> strip_plot(ax, [("BN", "batch norm", [2.1, 2.4, 1.9]), ("LN", "layer norm", [2.2, 2.0, 2])])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['BN', 'LN']
    """
    for place, (_, name, values) in enumerate(rows):
        ax.vlines(np.mean(values), place - 0.46, place + 0.46, color=INK, alpha=0.5, linewidth=1)
        ax.plot(values, place + np.linspace(-0.32, 0.32, len(values)), "o", label=name)
    ax.set_yticks(range(len(rows)), [short for short, *_ in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)


def number_text(number: float, digits: int = 6) -> str:
    """A number with its first digits, as short as it can be: 0.0001, 1e-5, 250000, 1e6, −3."""
    shorter = re.sub(r"e\+?(-?)0*", r"e\1", f"{number:.{digits}g}")
    return re.sub("^-", "−", shorter)


@contextmanager
def _hidden(*artists):
    """Draw all but these, and leave them no room."""
    before = [(artist.get_visible(), artist.get_in_layout()) for artist in artists]
    for artist in artists:
        artist.set(visible=False, in_layout=False)
    try:
        yield
    finally:
        for artist, (visible, in_layout) in zip(artists, before, strict=True):
            artist.set(visible=visible, in_layout=in_layout)


def _arrange(ax):
    """Give the axes what a panel has that stands alone, and labels that fit its width."""
    ax.tick_params(labelleft=True, labelbottom=True)  # those of a shared axis, too
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_text(textwrap.fill(axis.label.get_text(), WIDEST))
        log = axis.get_scale() == "log"
        if log:
            axis.minorticks_off()
            if axis.isDefault_majfmt:
                axis.set_major_formatter(lambda value, _: number_text(value))
        if axis.isDefault_majloc:
            few = {"numticks": 6} if log else {"nbins": 6, "steps": (1, 2, 5, 10)}
            axis.get_major_locator().set_params(**few)
    ax.set_title(ax.get_ylabel(), loc="left")  # level, and with room of its own


def _legend_svg(fig, legend, caption):
    for text in legend.get_texts():
        text.set_text(textwrap.fill(text.get_text(), WIDEST))
    names = "; ".join(text.get_text() for text in legend.get_texts())
    legend.set_loc("upper left")
    legend.set_bbox_to_anchor((0, 1), fig.transFigure)
    ax = legend.axes
    parts = [*fig.axes, *(ax.get_children() if ax else ())]
    with _hidden(*(part for part in parts if part not in (ax, legend))):
        fig.draw_without_rendering()
        box = legend.get_window_extent().transformed(fig.dpi_scale_trans.inverted())
        return _svg(fig, f"Legend: {names}", caption, bbox_inches=box)


def _svg(fig, alt, salt, **options):
    """The figure as an SVG element of a page, which has the page's color and font of text."""
    file = io.StringIO()
    fig.savefig(file, format="svg", metadata={"Date": None}, **options)
    drawn = file.getvalue()
    root = ET.fromstring(drawn)
    # An id that is the same in a hidden figure may count as hidden.
    prefix = "p" + hashlib.sha256(f"{salt}{alt}{drawn}".encode()).hexdigest()[:8]
    named = dict.fromkeys(re.findall(r'(?:href="|url\()#(\w+)', drawn))
    ids = {name: f"{prefix}{i}" for i, name in enumerate(named)}
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.text, element.tail = (element.text or "").strip() or None, None
        element.attrib = dict(_attributes(element.attrib, ids))
    root[:] = _parts(root)
    width, height = root.get("viewBox").split()[2:]
    root.attrib = {
        "role": "img",
        "aria-label": alt,
        "class": "nb-plot",
        "width": width,
        "height": height,
        "viewBox": f"0 0 {width} {height}",
        "font-size": f"{STYLE['font.size']}",
        "stroke-linejoin": "round",
    }
    svg = ET.tostring(root, encoding="unicode")
    wrong = re.search(f'style="[^"]*({INK}|#000000|#ffffff)', svg)
    if wrong or "currentColor" not in svg:
        raise ValueError(
            f"{alt!r} has {wrong[1] if wrong else 'nothing in the color of text'}, so it can't be "
            "seen on a light or a dark page; expected a figure made after plt.style.use(STYLE), "
            "with INK for what would be black"
        )
    return svg


def _attributes(attributes, ids):
    """What an element needs of its attributes in a page, with lengths to a tenth of a pixel."""
    for key, value in attributes.items():
        key = key.rpartition("}")[2]
        if key == "id":
            if value in ids:
                yield key, ids[value]
        elif key == "style":
            style = re.sub(r"font-(size: 12px|family: [^;]*); ", "", value)
            yield key, style.replace(": ", ":").replace("; ", ";").replace(INK, "currentColor")
        elif value.startswith(("#", "url(#")):
            yield key, re.sub(r"(?<=#)\w+", lambda name: ids[name[0]], value)
        elif key == "d":
            yield key, _relative(value)
        elif not value.startswith("rotate(-0 "):
            yield key, re.sub(r"-?\d+\.\d+", lambda n: f"{round(float(n[0]), 1):g}", value)


def _parts(element):
    """What an element draws or defines, without groups that have nothing of their own."""
    for child in element:
        child[:] = _parts(child)
        if child.tag == "g" and not child.attrib:
            yield from child
        elif child.tag not in ("metadata", "style") and child.get("style") != "fill:none":
            if child.tag != "defs" or len(child):
                yield child


def _relative(path):
    """The path with every point told from the one before, which takes fewer digits."""
    drawn, before, at = "", "", np.zeros(2)
    for letter, numbers in re.findall("([MLQCz])([^MLQCz]*)", path):
        points = np.array(numbers.split(), dtype=float).reshape(-1, 2).round(1)
        steps = " ".join(f"{step:g}" for step in (points - at).round(1).ravel() + 0.0)
        drawn += (" " if letter == before == "L" else letter.lower()) + steps
        before = letter
        if letter == "M":
            start = points[-1]
        at = points[-1] if letter != "z" else start
    return drawn.replace(" -", "-")

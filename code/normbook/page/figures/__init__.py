"""Drawings: tensors whose cells show who shares what, flows, and plots by matplotlib."""

from normbook.page.figures.figure import LOOKS, PALETTE, Figure
from normbook.page.figures.flow import Flow, draw_flow
from normbook.page.figures.plots import INK, STROKES, STYLE, draw_figure, strip_plot
from normbook.page.figures.tensor import draw_sharing

__all__ = [
    "INK",
    "LOOKS",
    "PALETTE",
    "STROKES",
    "STYLE",
    "Figure",
    "Flow",
    "draw_figure",
    "draw_flow",
    "draw_sharing",
    "strip_plot",
]

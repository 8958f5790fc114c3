"""Drawings: tensors whose cells show who shares what, flows, and curves."""

from normbook.page.figures.figure import LOOKS, PALETTE, Figure
from normbook.page.figures.flow import Flow, draw_flow
from normbook.page.figures.plot import STROKES, Curve, Plot, draw_curves, strip_plot
from normbook.page.figures.tensor import draw_sharing

__all__ = [
    "LOOKS",
    "PALETTE",
    "STROKES",
    "Curve",
    "Figure",
    "Flow",
    "Plot",
    "draw_curves",
    "draw_flow",
    "draw_sharing",
    "strip_plot",
]

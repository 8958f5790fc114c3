"""What a notebook calls to show something: drawings, checks of numbers, questions, code."""

from normbook.page.exercise_check import check
from normbook.page.figures import (
    INK,
    STYLE,
    Figure,
    Flow,
    draw_figure,
    draw_flow,
    draw_sharing,
    strip_plot,
)
from normbook.page.quiz import Quiz, right, wrong
from normbook.page.show_source import show_source
from normbook.page.verify import Raised, Verification, VerificationError, raises, refute, verify

__all__ = [
    "INK",
    "STYLE",
    "Figure",
    "Flow",
    "Quiz",
    "Raised",
    "Verification",
    "VerificationError",
    "check",
    "draw_figure",
    "draw_flow",
    "draw_sharing",
    "raises",
    "refute",
    "right",
    "show_source",
    "strip_plot",
    "verify",
    "wrong",
]

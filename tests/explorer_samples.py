"""Two Explorers to test with: running statistics with a slider, errors with buttons and bands."""

import numpy as np

from normbook.widgets import Explorer

RNG = np.random.default_rng(0)
MOMENTA = (0.01, 0.1, 0.5, 1.0)
BATCHES = np.arange(21)
MEANS = np.stack([[1 - (1 - m) ** BATCHES, 3 - 2 * (1 - m) ** BATCHES] for m in MOMENTA])
SIZES = (2, 4, 8, 16, 32, 64)
ERRORS = RNG.uniform(2, 9, (2, 4, 3, 6))


def running(**options):
    given = {
        "y": MEANS, "x": BATCHES, "parameters": {"momentum": MOMENTA}, "curves": ("mean", "var"),
        "x_label": "batches", "y_label": "running statistic",
    }  # fmt: skip
    return Explorer(**given | options)


def errors(**options):
    given = {
        "y": ERRORS, "x": SIZES, "parameters": {"norm": ("pre", "post"), "depth": (1, 2, 4, 8)},
        "curves": ("BN", "LN", "none"), "x_label": "batch", "y_label": "test error (%)",
        "low": ERRORS - 1, "high": ERRORS + 1, "band": "10 seeds", "x_scale": "log",
    }  # fmt: skip
    return Explorer(**given | options)

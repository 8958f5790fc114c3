"""What the tensor writes, evaluated: its formulas, and its lines of PyTorch and numpy."""

import math
import re

import numpy as np
import torch
from torch import nn


def value_of(formula):
    """What a calculator makes of a formula that is shown."""
    signs = {"√": "math.sqrt", "−": "-", "·": "*", "²": "**2"}
    return eval("".join(signs.get(sign, sign) for sign in formula), {"math": math})


def written(value):
    """A number as the widget writes it, to six decimals."""
    value += 0.0  # no -0
    return f"{value:.6f}" if value == 0 or 1e-4 <= abs(value) < 1e9 else f"{value:.5e}"


def check_formulas(lines):
    """Each formula of a line gives the number at its end."""
    for *formulas, shown in filter(None, lines.values()):
        for formula in formulas:
            if formula.startswith("Σ"):  # what is summed, where it is too long to write out
                assert re.fullmatch(r"Σ(x|\(x − μ\))²/\d+", formula)
                continue
            assert written(value_of(formula)) == written(value_of(shown)), formulas


def run(line, x, **given):
    """What a line of code makes of x, in float64."""
    names = {"np": np, "torch": torch, "nn": nn, "x": x, **given}
    old = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        result = eval(line, names)
    finally:
        torch.set_default_dtype(old)
    return np.asarray(result.detach() if torch.is_tensor(x) else result)

"""What the arithmetic of the widget must give, made with PyTorch: writes widget_golden.json.

Run it after a change of the cases: ``python tests/widget_golden.py``.
"""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from cases import CASES, Case, letters, number_cells, packed, spread, tensors
from new_schemes import NEW_CASES
from normbook.core.scheme import MORE_LAYERS

GOLDEN = Path(__file__).with_suffix(".json")
EPS, MOMENTUM = 1e-5, 0.1


def _small(case):
    """The case with no axis longer than four, to keep the file small."""
    lengths = {axis: min(length, 4 if axis == "n" else 3) for axis, length in case.lengths.items()}
    return Case(case.name, lengths, case.torch)


class _Named(Case):
    """A layer that has a name, but is not one of the book's."""

    @property
    def scheme(self):
        return next(s for s in MORE_LAYERS if f"{s.name} {s.cells}" == self.name)


SIZES = {"n": 3, "c": 2, "h": 2, "w": 3, "t": 4, "d": 2, "l": 3}


def cases():
    named = [
        _Named(f"{s.name} {s.cells}", {a: SIZES[a] for a in letters(s.cells)}, None)
        for s in MORE_LAYERS
    ]
    return [*map(_small, CASES), *named, *NEW_CASES]


def _listed(array):
    return None if array is None else [float(f"{v:.13g}") for v in np.asarray(array).ravel()]


def _by_running(case, x, gamma, beta, mean, var):
    """The layer with running statistics, cell by cell."""

    def spread(a, indices):
        return a.reshape(-1)[torch.from_numpy(number_cells(case.scheme, indices, case.lengths))]

    mean, var = (spread(a, case.scheme.running) for a in (mean, var))
    scale, shift = (spread(a, case.scheme.params) for a in (gamma, beta))
    return (x - mean) / (var + EPS).sqrt() * scale + shift


def _entry(case, masked, running):
    scheme, lengths = case.scheme, case.lengths
    x, gamma, beta, dy = (None if a is None else np.round(a, 3) for a in case.inputs())
    mask = case.mask() if masked else None
    given = tuple(np.round(a, 3) for a in case.running()) if running else None
    leaves = tensors(x, gamma, beta)
    for leaf in leaves:
        if leaf is not None:
            leaf.requires_grad_()
    real = torch.ones(x.shape, dtype=torch.bool)
    if masked:
        real = torch.from_numpy(spread(mask, scheme, lengths))
    groups = torch.from_numpy(number_cells(scheme, scheme.stats, lengths))
    if running and case.torch is None:
        output = _by_running(case, *leaves, *tensors(*given))
    elif running:
        output = case.torch(*leaves, EPS, running=tensors(*given))
    elif masked or case.torch is None:
        output = packed(case, *leaves, EPS, mask)
    else:
        output = case.torch(*leaves, EPS)
    if running:  # as without a mask, and nothing where it hides
        output = torch.where(real, output, 0)
    present = [leaf for leaf in leaves if leaf is not None]
    found = torch.autograd.grad(output, present, torch.tensor(dy))
    grads = dict(zip(("dx", "dgamma", "dbeta"), found, strict=False))

    cells = [torch.tensor(x)[(groups == g) & real] for g in range(int(groups.max()) + 1)]
    mean, var, count, tracked = [], [], [], []
    for group in cells:
        m = len(group)
        count.append(m)
        mean.append(float(group.mean()) if m and scheme.centered else 0.0)
        centered = group - mean[-1]
        var.append(float((centered**2).mean()) if m else 0.0)
        if scheme.running and not scheme.optional:  # batch norm of one channel
            layer = torch.nn.BatchNorm1d(1, momentum=MOMENTUM, dtype=torch.float64)
            if m > 1:
                layer(group[:, None])
            tracked.append([layer.running_mean.item(), layer.running_var.item()])
    return {
        "name": f"{scheme.name} ({scheme.cells})",
        "scheme": asdict(scheme),
        "shape": list(x.shape),
        "x": _listed(x),
        "gamma": _listed(gamma),
        "beta": _listed(beta),
        "dy": _listed(dy),
        "mask": None if mask is None else mask.astype(int).ravel().tolist(),
        "running": None if given is None else [_listed(a) for a in given],
        "groups": groups.ravel().tolist(),
        "mean": _listed(mean),
        "variance": _listed(var),
        "count": count,
        "tracked": [_listed(column) for column in zip(*tracked, strict=True)],
        "output": _listed(output.detach()),
        **{key: _listed(value) for key, value in grads.items()},
    }


def golden():
    """Every layer, with and without a mask, in training and with running statistics."""
    entries = []
    for case in cases():
        for masked in (False, True):
            entries.append(_entry(case, masked, False))
            if case.scheme.running and not case.scheme.optional:
                entries.append(_entry(case, masked, True))
    return {"eps": EPS, "momentum": MOMENTUM, "entries": entries}


def written():
    """The golden file as it should stand on disk: one entry a line."""
    whole = golden()
    entries = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in whole["entries"])
    return f'{{"eps":{whole["eps"]},"momentum":{whole["momentum"]},"entries":[\n{entries}\n]}}\n'


if __name__ == "__main__":
    GOLDEN.write_text(written(), encoding="utf8")

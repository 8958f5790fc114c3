"""Every layer of the table on a small input, with PyTorch's own answer to compare with."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from normbook.core import scheme as schemes
from normbook.core.scheme import Scheme

# By constant: name, cells, and the axes that index statistics, running statistics, gamma and beta.
TABLE = {
    "BATCH_NORM_1D": ("BatchNorm1d", "n d", "d", "d", "d"),
    "BATCH_NORM_1D_LENGTH": ("BatchNorm1d", "n d l", "d", "d", "d"),
    "BATCH_NORM_2D": ("BatchNorm2d", "n c h w", "c", "c", "c"),
    "BATCH_NORM_PER_STEP": ("BatchNorm per time step", "n t d", "t d", "t d", "t d"),
    "BATCH_NORM_POOLED": ("BatchNorm pooled over time", "n t d", "d", "d", "d"),
    "BATCH_NORM_SEQUENCE_AS_CHANNEL": ("BatchNorm1d, sequence as channel", "n t d", "t", "t", "t"),
    "LAYER_NORM": ("LayerNorm", "n d", "n", "", "d"),
    "LAYER_NORM_CHW": ("LayerNorm over C, H, W", "n c h w", "n", "", "c h w"),
    "LAYER_NORM_CHANNELS": ("LayerNorm over channels", "n c h w", "n h w", "", "c"),
    "GROUP_NORM": ("GroupNorm", "n (g k) h w", "n g", "", "(g k)"),
    "GROUP_NORM_1": ("GroupNorm(1)", "n c h w", "n", "", "c"),
    "INSTANCE_NORM_2D": ("InstanceNorm2d", "n c h w", "n c", "c", "c"),
    "LAYER_NORM_TOKEN": ("LayerNorm per token", "n t d", "n t", "", "d"),
    "RMS_NORM": ("RMSNorm", "n t d", "n t", "", "d"),
}


@dataclass(frozen=True)
class Case:
    """A layer, the length of each of its axes, and PyTorch's function for it."""

    name: str  # of the constant in normbook.core.scheme
    lengths: dict
    torch: object

    @property
    def scheme(self) -> Scheme:
        scheme = getattr(schemes, self.name)
        return scheme.with_lengths(g=self.lengths["g"]) if "g" in scheme.axes else scheme

    @property
    def shape(self):
        return shape_of(self.scheme.cells, self.lengths)

    @property
    def mask_shape(self):
        return shape_of(self.scheme.mask or self.scheme.cells, self.lengths)

    @property
    def masks_whole_groups(self):
        masked, kept = letters(self.scheme.mask), letters(self.scheme.stats)
        return bool(masked) and set(masked) <= set(kept)

    def inputs(self, seed=0):
        """x, gamma, beta and dy, random; None where the layer has no such thing."""
        rng = np.random.default_rng(seed)
        params = shape_of(self.scheme.params, self.lengths)
        x, dy = 3 + 2 * rng.standard_normal(self.shape), rng.standard_normal(self.shape)
        if not params:
            return x, None, None, dy
        gamma, beta = rng.standard_normal(params), rng.standard_normal(params)
        return x, gamma, beta if self.scheme.centered else None, dy

    def running(self, seed=1):
        rng = np.random.default_rng(seed)
        shape = shape_of(self.scheme.running, self.lengths)
        return rng.standard_normal(shape), 0.5 + rng.random(shape)

    def mask(self, seed=2):
        """Random; where it can cut a group, every group keeps a real cell."""
        mask = np.random.default_rng(seed).random(self.mask_shape) < 0.6
        mask.reshape(-1)[0] = False
        if self.masks_whole_groups:
            return mask
        numbers = number_cells(self.scheme, self.scheme.stats, self.lengths)
        for group in np.unique(numbers):
            if not (numbers == group)[spread(mask, self.scheme, self.lengths)].any():
                cell = np.argwhere(numbers == group)[-1]
                axes = [self.scheme.cells.split().index(a) for a in self.scheme.mask.split()]
                mask[tuple(cell[axes] if axes else cell)] = True
        return mask


def shape_of(pattern, lengths):
    """The shape that a pattern such as 'n (g k) h' has: written anew, not taken from normbook."""
    shape, product, lengths = [], None, lengths | {"1": 1}
    for token in pattern.replace("(", "( ").replace(")", " )").split():
        if token == "(":
            product = 1
        elif token == ")":
            shape.append(product)
            product = None
        elif product is None:
            shape.append(lengths[token])
        else:
            product *= lengths[token]
    return tuple(shape)


def letters(pattern):
    return [token for token in pattern.replace("(", "").replace(")", "").split() if token != "1"]


def number_cells(scheme, indices, lengths):
    """The row-major number that the axes `indices` give every cell, counted cell by cell."""
    axes = letters(scheme.cells)
    numbers = np.empty([lengths[a] for a in axes], int)
    for cell in np.ndindex(*numbers.shape):
        number = 0
        for axis in letters(indices):
            number = number * lengths[axis] + cell[axes.index(axis)]
        numbers[cell] = number
    return numbers.reshape(shape_of(scheme.cells, lengths))


def spread(mask, scheme, lengths):
    """The mask of every cell."""
    return mask.reshape(-1)[number_cells(scheme, scheme.mask or scheme.cells, lengths)]


def packed(case, x, gamma, beta, eps, mask=None):
    """The layer by PyTorch's layer norm of one group after the other, its real cells packed.

    x is a tensor that autograd may follow; a masked cell gives 0.
    """
    scheme, lengths = case.scheme, case.lengths
    groups = torch.from_numpy(number_cells(scheme, scheme.stats, lengths))
    real = torch.ones(x.shape, dtype=torch.bool)
    if mask is not None:
        real = torch.from_numpy(spread(mask, scheme, lengths))
    norm = F.layer_norm if scheme.centered else F.rms_norm
    output = torch.zeros_like(x)
    for group in groups.unique():
        cells = (groups == group) & real
        if cells.any():
            output[cells] = norm(x[cells], (int(cells.sum()),), eps=eps)
    params = torch.from_numpy(number_cells(scheme, scheme.params, lengths))
    if gamma is not None:
        output = output * gamma.reshape(-1)[params]
    if beta is not None:
        output = output + beta.reshape(-1)[params]
    return torch.where(real, output, 0)


def _batch_norm(to=lambda x: x, back=lambda y, x: y, flat=lambda p: p):
    def batch_norm(x, gamma, beta, eps, running=None):
        mean, var = (None, None) if running is None else map(flat, running)
        gamma, beta = (None if p is None else flat(p) for p in (gamma, beta))
        y = F.batch_norm(to(x), mean, var, gamma, beta, training=running is None, eps=eps)
        return back(y, x)

    return batch_norm


def _channels_norm(x, gamma, beta, eps):
    last = x.movedim(1, -1)
    return F.layer_norm(last, last.shape[-1:], gamma, beta, eps).movedim(-1, 1)


def _instance_norm(x, gamma, beta, eps, running=None):
    mean, var = running or (None, None)
    return F.instance_norm(x, mean, var, gamma, beta, use_input_stats=running is None, eps=eps)


IMAGES = {"n": 3, "c": 4, "h": 2, "w": 3}
TOKENS = {"n": 5, "t": 4, "d": 3}

CASES = [
    Case("BATCH_NORM_1D", {"n": 6, "d": 3}, _batch_norm()),
    Case("BATCH_NORM_1D_LENGTH", {"n": 4, "d": 3, "l": 5}, _batch_norm()),
    Case("BATCH_NORM_2D", IMAGES, _batch_norm()),
    Case(
        "BATCH_NORM_PER_STEP",
        TOKENS,
        _batch_norm(lambda x: x.flatten(1), lambda y, x: y.view_as(x), lambda p: p.flatten()),
    ),
    Case(
        "BATCH_NORM_POOLED",
        TOKENS,
        _batch_norm(lambda x: x.movedim(-1, 1), lambda y, x: y.movedim(1, -1)),
    ),
    Case("BATCH_NORM_SEQUENCE_AS_CHANNEL", TOKENS, _batch_norm()),
    Case("LAYER_NORM", {"n": 4, "d": 5}, lambda x, g, b, e: F.layer_norm(x, x.shape[1:], g, b, e)),
    Case("LAYER_NORM_CHW", IMAGES, lambda x, g, b, e: F.layer_norm(x, x.shape[1:], g, b, e)),
    Case("LAYER_NORM_CHANNELS", IMAGES, _channels_norm),
    Case(
        "GROUP_NORM",
        {"n": 3, "g": 2, "k": 3, "h": 2, "w": 3},
        lambda x, g, b, e: F.group_norm(x, 2, g, b, e),
    ),
    Case("GROUP_NORM_1", IMAGES, lambda x, g, b, e: F.group_norm(x, 1, g, b, e)),
    Case("INSTANCE_NORM_2D", IMAGES, _instance_norm),
    Case("LAYER_NORM_TOKEN", TOKENS, lambda x, g, b, e: F.layer_norm(x, x.shape[2:], g, b, e)),
    Case("RMS_NORM", TOKENS, lambda x, g, b, e: F.rms_norm(x, x.shape[2:], g, e)),
]
WITH_RUNNING = [case for case in CASES if case.scheme.running]


def tensors(*arrays):
    """The arrays as tensors of float64, None as None."""
    return [None if a is None else torch.tensor(a, dtype=torch.float64) for a in arrays]

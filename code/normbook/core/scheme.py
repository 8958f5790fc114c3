"""One description of a normalization layer: which cells share a mean and a variance.

A layer is told apart from its neighbors by the axes that *index* its statistics. They are written
in einops notation, one letter an axis: ``n`` sample, ``c`` channel, ``h`` row, ``w`` column,
``t`` token or time step, ``d`` feature, ``l`` position, ``g`` group, ``k`` channel within a group.
BatchNorm2d, for one, has the cells ``n c h w`` and statistics indexed by ``c``: it averages over
``n``, ``h`` and ``w``, and has one mean and one variance per ``c``. Any other letter will do, too.

`LAYERS` are those of the book, which its widgets offer; `MORE_LAYERS` have a name, by which they
are known when a reader ticks axes. A layer that is in neither is described in the same way:

>>> standardized = Scheme("weight standardization", "o i h w", stats="o")
>>> standardized.summary
'average over i, h, w → one (μ, σ²) per o'

Examples
--------
>>> from normbook.core import scheme
>>> for name, layer in vars(scheme).items():
...     if isinstance(layer, Scheme):
...         print(f"{name:<31}{layer.cells:<12}{layer.stats}")
BATCH_NORM_1D                  n d         d
BATCH_NORM_1D_LENGTH           n d l       d
BATCH_NORM_2D                  n c h w     c
BATCH_NORM_PER_STEP            n t d       t d
BATCH_NORM_POOLED              n t d       d
BATCH_NORM_SEQUENCE_AS_CHANNEL n t d       t
LAYER_NORM                     n d         n
LAYER_NORM_CHW                 n c h w     n
LAYER_NORM_CHANNELS            n c h w     n h w
GROUP_NORM                     n (g k) h w n g
GROUP_NORM_1                   n c h w     n
INSTANCE_NORM_2D               n c h w     n c
LAYER_NORM_TOKEN               n t d       n t
RMS_NORM                       n t d       n t
BATCH_NORM_PER_STEP_SHARED     n t d       t d
LAYER_NORM_SEQUENCE            n t d       n
LAYER_NORM_LENGTH              n d l       n
LAYER_NORM_FEATURES            n d l       n l
INSTANCE_NORM_1D               n d l       n d
LAYER_NORM_WIDTH               n c h w     n c h
"""

from dataclasses import dataclass, replace
from math import prod
from numbers import Integral
from string import ascii_lowercase

import numpy as np

from normbook.core.axes import TOKEN, OnShape, axes_of
from normbook.core.code_line import numpy_line, pytorch_line

AXIS_NAMES = {
    "n": "sample",
    "c": "channel",
    "h": "row",
    "w": "column",
    "t": "token",
    "d": "feature",
    "l": "position",
    "g": "group",
    "k": "channel within the group",
    "o": "output channel",
    "i": "input channel",
}


@dataclass(frozen=True)
class Scheme:
    """The description of one layer; everything else in the book is computed from it.

    Attributes
    ----------
    name
        what the layer is usually called.
    cells
        the axes of its input in order, ``"n c h w"``. Parentheses split an axis, as in
        ``"n (g k) h w"``, where the channels are ``g`` groups of ``k``.
    stats
        the axes that index the mean and the variance; it averages over all the others.
    params
        the axes that index gamma and beta; empty for a layer that has none, and ``"1"``, as
        einops writes an axis of length 1, for one gamma (and beta) that all cells share.
    running
        the axes that index the running statistics; empty for a layer that keeps none.
    mask
        the axes that index its boolean mask; empty means all of ``cells``.
    centered
        whether the mean is subtracted. If not (RMSNorm), there is no beta either.
    optional
        gamma, beta and running statistics exist but are off unless asked for.
    lengths
        lengths that the shape of the input can't tell, such as the number of groups.
    torch
        the PyTorch line for it, with ``{c}`` for the length of axis c and ``{eps}`` for eps.
    torch_eps
        the eps that this PyTorch layer takes when none is given.
    names
        what letters stand for, where it isn't what `AXIS_NAMES` says: ``(("t", "frame"),)``.

    Raises
    ------
    TypeError
        `cells` or another field of axes is not a string.
    ValueError
        `cells` is empty or names an axis twice, or another field names one not in it.

    Examples
    --------
    >>> layer = Scheme("my norm", "n c h w", stats="n", params="c h w")
    >>> layer.summary
    'average over c, h, w → one (μ, σ²) per n'
    >>> layer.group_size((2, 3, 5, 5))
    75
    >>> layer.parameter_count((2, 3, 5, 5))
    150
    """

    name: str
    cells: str
    stats: str
    params: str = ""
    running: str = ""
    mask: str = ""
    centered: bool = True
    optional: bool = False
    lengths: tuple[tuple[str, int], ...] = ()
    torch: str = ""
    torch_eps: float | None = 1e-5
    names: tuple[tuple[str, str], ...] = ()

    def __post_init__(self):
        for field in ("cells", "stats", "params", "running", "mask"):
            indices = getattr(self, field)
            if not isinstance(indices, str):
                raise TypeError(f"{field} is {indices!r}; expected a string of axes")
            well_formed = " ".join(TOKEN.findall(indices)) == indices
            if not well_formed or (field == "cells" and (not indices or "1" in indices)):
                raise ValueError(
                    f"{field}={indices!r}: expected one-letter axes with single spaces between, "
                    "such as 'n c h w' or 'n (g k) h w'"
                )
            if len(set(axes_of(indices))) < len(axes_of(indices)):
                raise ValueError(f"{field}={indices!r} names an axis twice")
            for axis in axes_of(indices):
                if axis not in self.axes:
                    raise ValueError(
                        f"{field}={indices!r} names the axis {axis!r}, "
                        f"which is not in cells={self.cells!r}"
                    )
        for field in ("lengths", "names"):
            for axis, _ in getattr(self, field):
                if axis not in self.axes:
                    raise ValueError(
                        f"{field} name the axis {axis!r}, which is not in cells={self.cells!r}"
                    )
        for axis, length in self.lengths:
            if not isinstance(length, Integral) or length < 1:
                raise ValueError(
                    f"the length of axis {axis!r} is {length!r}; expected an integer, at least 1"
                )
        # Where axes stand once split ones are split: those averaged over, `(0, 2, 3)` for n, h, w,
        # and those that gamma and beta are shared over. Plain tuples, which a compiler can read.
        for name, indices in (("averaged", self.stats), ("shared", self.params)):
            kept = axes_of(indices)
            positions = tuple(i for i, axis in enumerate(self.axes) if axis not in kept)
            object.__setattr__(self, f"{name}_positions", positions)

    def with_lengths(self, **lengths: int) -> "Scheme":
        """The same layer with lengths fixed: ``GROUP_NORM.with_lengths(g=2)`` has two groups."""
        return replace(self, lengths=tuple((dict(self.lengths) | lengths).items()))

    @property
    def axes(self) -> tuple[str, ...]:
        """The letters of all axes, a split axis as its parts, as in ``("n", "g", "k", "h", "w")``."""
        return axes_of(self.cells)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The axes of the input as `cells` writes them, such as ``("n", "(g k)", "h", "w")``."""
        return tuple(TOKEN.findall(self.cells))

    @property
    def own_names(self) -> dict[str, str]:
        """What letters stand for here and not in `AXIS_NAMES`; ``d`` beside ``h`` is a depth."""
        return ({"d": "depth"} if {"d", "h"} <= set(self.axes) else {}) | dict(self.names)

    @property
    def averaged(self) -> tuple[str, ...]:
        """The letters of the axes that are averaged over, all those that do not index the statistics."""
        return tuple(axis for axis in self.axes if axis not in axes_of(self.stats))

    @property
    def has_beta(self) -> bool:
        """Whether the layer shifts; one that does not center has no beta."""
        return bool(self.params) and self.centered

    @property
    def summary(self) -> str:
        """What is averaged and what is kept, such as ``average over n, h, w → one (μ, σ²) per c``."""
        over = ", ".join(self.averaged) or "nothing"
        pair = "(μ, σ²)" if self.centered else "mean square"
        return f"average over {over} → one {pair} {per(self.stats)}"

    def on(self, shape: tuple[int, ...]) -> OnShape:
        """The scheme on an input of this shape, where every axis has its length.

        Raises
        ------
        ValueError
            the rank is not that of `cells`, the number of groups is not known, or a
            length doesn't divide or equal the axis it belongs to.

        Examples
        --------
        >>> GROUP_NORM.with_lengths(g=2).on((1, 6, 5, 5)).lengths
        {'n': 1, 'g': 2, 'k': 3, 'h': 5, 'w': 5}
        >>> BATCH_NORM_2D.on((2, 3, 5, 5)).shape_of("c")
        (3,)
        """
        if len(shape) != len(self.tokens):
            raise ValueError(
                f"x has {len(shape)} axes, shape {tuple(shape)}; "
                f"{self.name} expected {len(self.tokens)}: {self.cells}"
            )
        fixed = dict(self.lengths)
        lengths = {}
        for token, length in zip(self.tokens, shape, strict=True):
            parts = axes_of(token)
            unknown = [axis for axis in parts if axis not in fixed]
            known = prod(fixed[axis] for axis in parts if axis in fixed)
            if len(unknown) > 1:
                raise ValueError(
                    f"{self.name} needs the length of {unknown[0]!r} to split {token}: "
                    f"give it with .with_lengths({unknown[0]}=...)"
                )
            if (length % known) if unknown else (length != known):
                raise ValueError(
                    f"{self.name}: an axis of length {length} can't be {token} with "
                    + ", ".join(f"{axis}={fixed[axis]}" for axis in parts if axis in fixed)
                )
            for axis in parts:
                lengths[axis] = length // known if axis in unknown else fixed[axis]
        return OnShape(self.cells, lengths)

    def groups(self, shape: tuple[int, ...], mask: np.ndarray | None = None) -> np.ndarray:
        """The group of every cell: cells with the same number share a mean and a variance.

        Returns integers of the shape of the input; a group's number is the row-major index of its
        statistics. A masked cell belongs to no group, and has -1.

        Examples
        --------
        >>> BATCH_NORM_1D.groups((2, 3))
        array([[0, 1, 2],
               [0, 1, 2]])
        >>> LAYER_NORM.groups((2, 3))
        array([[0, 0, 0],
               [1, 1, 1]])
        """
        on = self.on(shape)
        numbers = on.numbers(self.stats)
        if mask is None:
            return numbers
        mask = on.place(self.check_mask(np.asarray(mask), shape), self.mask or self.cells)
        return np.where(on.join(np.broadcast_to(mask, on.split(numbers).shape)), numbers, -1)

    def parameter_groups(self, shape: tuple[int, ...]) -> np.ndarray:
        """The gamma (and beta) of every cell: cells with the same number share them.

        Returns integers of the shape of the input, -1 throughout for a layer without parameters.

        Examples
        --------
        >>> LAYER_NORM.parameter_groups((2, 3))
        array([[0, 1, 2],
               [0, 1, 2]])
        """
        if not self.params:
            return np.full(shape, -1)
        return self.on(shape).numbers(self.params)

    def group_labels(self, shape: tuple[int, ...]) -> list[str]:
        """A label for every group, in the order of their numbers: ``["c=0", "c=1", "c=2"]``."""
        axes = axes_of(self.stats)
        lengths = self.on(shape).lengths
        indices = np.ndindex(*(lengths[axis] for axis in axes))
        return [
            ", ".join(f"{a}={i}" for a, i in zip(axes, index, strict=True)) for index in indices
        ]

    def group_size(self, shape: tuple[int, ...]) -> int:
        """How many cells of an unmasked input share one mean and one variance: m."""
        lengths = self.on(shape).lengths
        return prod(lengths[axis] for axis in self.averaged)

    def parameter_count(self, shape: tuple[int, ...], affine: bool | None = None) -> int:
        """How many numbers gamma and beta hold together.

        `affine` switches them on or off; None means what the PyTorch layer does.

        Examples
        --------
        >>> LAYER_NORM_CHW.parameter_count((2, 3, 5, 5))
        150
        >>> GROUP_NORM_1.parameter_count((2, 3, 5, 5))
        6
        """
        if not self.params or not (not self.optional if affine is None else affine):
            return 0
        return prod(self.on(shape).shape_of(self.params)) * (2 if self.has_beta else 1)

    def check_mask(self, mask, shape: tuple[int, ...]):
        """`mask` itself, if it fits an input of this shape.

        Raises
        ------
        TypeError
            the mask is not boolean.
        ValueError
            its shape is not that of the axes that index it.
        """
        if str(mask.dtype) not in ("bool", "torch.bool"):
            raise TypeError(f"mask has dtype {mask.dtype}; expected bool, True for a real cell")
        indices = self.mask or self.cells
        expected = self.on(shape).shape_of(indices)
        if tuple(mask.shape) != expected:
            raise ValueError(
                f"mask has shape {tuple(mask.shape)}; {self.name} takes one value "
                f"{per(indices)}: expected {expected}"
            )
        return mask

    def numpy(self, shape: tuple[int, ...], eps: float = 1e-5, masked: bool = False) -> str:
        """The line of numpy that computes the normalized `x` (and `mask`, if masked).

        Examples
        --------
        >>> print(LAYER_NORM.numpy((3, 5)))
        (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-05)
        """
        return numpy_line(self, shape, eps, masked)

    def pytorch(self, shape: tuple[int, ...], eps: float = 1e-5, masked: bool = False) -> str:
        """The line of PyTorch that computes the normalized `x` (and `mask`, if masked).

        It names the layer where PyTorch has one. PyTorch has none that takes a mask.

        Examples
        --------
        >>> print(LAYER_NORM_CHW.pytorch((2, 3, 5, 5)))
        nn.LayerNorm([3, 5, 5])(x)
        >>> print(GROUP_NORM.with_lengths(g=2).pytorch((1, 6, 5, 5), eps=1e-3))
        nn.GroupNorm(2, 6, eps=0.001)(x)
        """
        return pytorch_line(self, shape, eps, masked)


def per(indices: str) -> str:
    """What is indexed, in words: ``per c, h, w``, or ``for all cells`` if by nothing.

    Examples
    --------
    >>> per("n (g k)"), per("")
    ('per n, g, k', 'for all cells')
    """
    axes = ", ".join(axes_of(indices))
    return f"per {axes}" if axes else "for all cells"


# The table: one row, one layer.
# fmt: off
# ruff: noqa: E501
BATCH_NORM_1D = Scheme("BatchNorm1d", "n d", stats="d", params="d", running="d", torch="nn.BatchNorm1d({d}{eps})(x)")
BATCH_NORM_1D_LENGTH = Scheme("BatchNorm1d", "n d l", stats="d", params="d", running="d", torch="nn.BatchNorm1d({d}{eps})(x)")
BATCH_NORM_2D = Scheme("BatchNorm2d", "n c h w", stats="c", params="c", running="c", torch="nn.BatchNorm2d({c}{eps})(x)")
BATCH_NORM_PER_STEP = Scheme("BatchNorm per time step", "n t d", stats="t d", params="t d", running="t d", mask="n t", torch="nn.BatchNorm1d({t} * {d}{eps})(x.flatten(1)).view_as(x)")
BATCH_NORM_POOLED = Scheme("BatchNorm pooled over time", "n t d", stats="d", params="d", running="d", mask="n t", torch="nn.BatchNorm1d({d}{eps})(x.flatten(0, 1)).view_as(x)")
BATCH_NORM_SEQUENCE_AS_CHANNEL = Scheme("BatchNorm1d, sequence as channel", "n t d", stats="t", params="t", running="t", mask="n t", torch="nn.BatchNorm1d({t}{eps})(x)")
LAYER_NORM = Scheme("LayerNorm", "n d", stats="n", params="d", torch="nn.LayerNorm({d}{eps})(x)")
LAYER_NORM_CHW = Scheme("LayerNorm over C, H, W", "n c h w", stats="n", params="c h w", torch="nn.LayerNorm([{c}, {h}, {w}]{eps})(x)")
LAYER_NORM_CHANNELS = Scheme("LayerNorm over channels", "n c h w", stats="n h w", params="c", torch="nn.LayerNorm({c}{eps})(x.movedim(1, -1)).movedim(-1, 1)")
GROUP_NORM = Scheme("GroupNorm", "n (g k) h w", stats="n g", params="(g k)", torch="nn.GroupNorm({g}, {gk}{eps})(x)")
GROUP_NORM_1 = Scheme("GroupNorm(1)", "n c h w", stats="n", params="c", torch="nn.GroupNorm(1, {c}{eps})(x)")
INSTANCE_NORM_2D = Scheme("InstanceNorm2d", "n c h w", stats="n c", params="c", running="c", optional=True, torch="nn.InstanceNorm2d({c}{eps})(x)")
LAYER_NORM_TOKEN = Scheme("LayerNorm per token", "n t d", stats="n t", params="d", mask="n t", torch="nn.LayerNorm({d}{eps})(x)")
RMS_NORM = Scheme("RMSNorm", "n t d", stats="n t", params="d", mask="n t", centered=False, torch="nn.RMSNorm({d}{eps})(x)", torch_eps=None)

LAYERS = tuple(v for v in list(globals().values()) if isinstance(v, Scheme))

# Not offered, but known by name when a reader ticks axes.
BATCH_NORM_PER_STEP_SHARED = Scheme("BatchNorm per time step, shared γ, β", "n t d", stats="t d", params="d", running="t d", mask="n t", torch="nn.BatchNorm1d({t} * {d}{eps}, affine=False)(x.flatten(1)).view_as(x)")
LAYER_NORM_SEQUENCE = Scheme("LayerNorm over T, D", "n t d", stats="n", params="t d", mask="n t", torch="nn.LayerNorm([{t}, {d}]{eps})(x)")
LAYER_NORM_LENGTH = Scheme("LayerNorm over D, L", "n d l", stats="n", params="d l", torch="nn.LayerNorm([{d}, {l}]{eps})(x)")
LAYER_NORM_FEATURES = Scheme("LayerNorm over channels", "n d l", stats="n l", params="d", torch="nn.LayerNorm({d}{eps})(x.mT).mT")
INSTANCE_NORM_1D = Scheme("InstanceNorm1d", "n d l", stats="n d", params="d", running="d", optional=True, torch="nn.InstanceNorm1d({d}{eps})(x)")
LAYER_NORM_WIDTH = Scheme("LayerNorm over W only", "n c h w", stats="n c h", params="w", torch="nn.LayerNorm({w}{eps})(x)")
# fmt: on

MORE_LAYERS = tuple(v for v in list(globals().values()) if isinstance(v, Scheme))[len(LAYERS) :]


def layout_of(scheme: Scheme) -> str:
    """One letter for every axis of the input, split or not: ``n c h w`` for group norm.

    A split axis takes the letter that a layer of the book gives it, if one does.

    Examples
    --------
    >>> layout_of(GROUP_NORM), layout_of(Scheme("by tokens", "n t (g k)", stats="n t g"))
    ('n c h w', 'n t d')
    """
    layout, known = scheme.cells, {layer.cells for layer in LAYERS}
    for token in scheme.tokens:
        if len(token) > 1:
            taken = {*scheme.axes, *axes_of(layout)}
            free = [a for a in "c" + ascii_lowercase if a not in taken]
            whole = [layout.replace(token, letter) for letter in free]
            layout = next((pattern for pattern in whole if pattern in known), whole[0])
    return layout

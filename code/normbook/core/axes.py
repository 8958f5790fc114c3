"""Axes by their letters, in einops notation, and arrays that are indexed by them."""

import re
from dataclasses import dataclass
from math import prod

import numpy as np
from einops import rearrange

TOKEN = re.compile(r"\([a-z](?: [a-z])+\)|[a-z1]")


def axes_of(indices: str) -> tuple[str, ...]:
    """The axes that a pattern names, in order: ``("g", "k")`` for ``"(g k)"``.

    Examples
    --------
    >>> axes_of("n (g k) h w")
    ('n', 'g', 'k', 'h', 'w')
    """
    return tuple(re.findall("[a-z]", indices))


@dataclass(frozen=True)
class OnShape:
    """Axes whose lengths are known, and how arrays indexed by some of them fit on each other.

    Attributes
    ----------
    cells
        the axes of the input, ``"n (g k) h w"``.
    lengths
        the length of each, by its letter.
    """

    cells: str
    lengths: dict[str, int]

    def shape_of(self, indices: str) -> tuple[int, ...]:
        """The shape of an array that is indexed by these axes."""
        return tuple(
            prod(self.lengths[axis] for axis in axes_of(token)) for token in TOKEN.findall(indices)
        )

    def split(self, x):
        """`x` with every split axis split: (N, G*K, H, W) becomes (N, G, K, H, W)."""
        return self._rearrange(x, self.cells, self._axes()) if "(" in self.cells else x

    def join(self, x):
        """The inverse of `split`."""
        return self._rearrange(x, self._axes(), self.cells) if "(" in self.cells else x

    def place(self, a, indices: str):
        """`a`, indexed by `indices`, shaped to broadcast against the split input.

        gamma of shape (C,), indexed by ``c``, becomes (1, C, 1, 1).
        """
        return self._rearrange(a, indices, self._axes(axes_of(indices)))

    def take(self, a, indices: str):
        """The inverse of `place`: (1, C, 1, 1) becomes (C,)."""
        return self._rearrange(a, self._axes(axes_of(indices)), indices)

    def numbers(self, indices: str) -> np.ndarray:
        """The row-major number that these axes give each cell, in the shape of the input."""
        shape = self.shape_of(indices)
        numbers = self.place(np.arange(prod(shape)).reshape(shape), indices)
        return self.join(np.broadcast_to(numbers, list(self.lengths.values())))

    def _axes(self, kept=None):
        return " ".join(a if kept is None or a in kept else "1" for a in axes_of(self.cells))

    def _rearrange(self, a, source, target):
        used = axes_of(source) if "(" in source else ()
        return rearrange(a, f"{source} -> {target}", **{axis: self.lengths[axis] for axis in used})

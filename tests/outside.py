"""The norms of other libraries as schemes, for an input of any rank.

Where the book has a constant for a layer, it is that constant.
"""

from normbook.core import scheme as book
from normbook.core.scheme import Scheme


def batch(rank):
    """One mean per channel, the second axis."""
    known = {2: book.BATCH_NORM_1D, 3: book.BATCH_NORM_1D_LENGTH, 4: book.BATCH_NORM_2D}
    cells = _join("nclhw"[:rank])
    return known.get(rank) or Scheme("batch norm", cells, stats="c", params="c", running="c")


def instance(rank):
    """One mean per sample and channel, the first two axes."""
    known = {4: book.INSTANCE_NORM_2D}
    cells = _join("nclhw"[:rank])
    return known.get(rank) or Scheme("instance norm", cells, stats="n c", params="c", running="c")


def group(rank, groups):
    """One mean per sample and group of channels."""
    known = {4: book.GROUP_NORM}
    cells = _join(["n", "(g k)", *"lhw"[: rank - 2]])
    scheme = known.get(rank) or Scheme("group norm", cells, stats="n g", params="(g k)")
    return scheme.with_lengths(g=groups)


def last_axes(rank, axis, centered=True):
    """One mean per index of the axes before `axis`, as layer norm and RMS norm have it."""
    known = {
        (2, 1, True): book.LAYER_NORM,
        (3, 2, True): book.LAYER_NORM_TOKEN,
        (3, 2, False): book.RMS_NORM,
        (4, 1, True): book.LAYER_NORM_CHW,
    }
    cells = {1: "d", 2: "nd", 3: "ntd"}.get(rank, "nchwl"[:rank])
    stats, params = _join(cells[:axis]), _join(cells[axis:])
    return known.get((rank, axis, centered)) or Scheme(
        "layer norm" if centered else "RMS norm", _join(cells), stats, params, centered=centered
    )


def _join(axes):
    return " ".join(axes)

"""Statistics, normalization and its gradients, for every layer that a `Scheme` describes.

Works on numpy arrays and on torch tensors alike; on tensors, autograd follows it. float64 and
float32 are kept; half precision is computed in float32, as PyTorch does, and returned in half
precision; integers are promoted, numpy's to float64 and torch's to torch's default dtype.

A NaN or an infinity in the input spoils its own group and no other. What lies under a mask never
reaches a real cell: masked cells take part in nothing, and their output and gradient are 0.
"""

import math
import sys
from numbers import Real
from typing import Any, NamedTuple

from normbook.core import arithmetic, blockwise
from normbook.core.arithmetic import is_numpy, library
from normbook.core.axes import axes_of
from normbook.core.blockwise import cast, compute_dtype, output_dtype, to_compute
from normbook.core.scheme import Scheme, per

Array = Any  # a numpy array or a torch tensor, without importing torch to say so


class Statistics(NamedTuple):
    """What the cells of a group share; each array is indexed by the scheme's `stats`.

    `mean` is the mean and `var` the biased variance: divided by the count, not by the count minus
    one. For a layer that doesn't center, `mean` is 0 and `var` the mean square. `count` is the
    number of real cells in the group.

    Examples
    --------
    >>> from normbook.data.examples import FEATURE_MAPS
    >>> from normbook.core.scheme import LAYER_NORM_CHW
    >>> mean, var, count = statistics(FEATURE_MAPS.x, LAYER_NORM_CHW)
    >>> mean.round(4), var.round(4), count
    (array([0.4933, 0.7733]), array([0.3566, 0.5486]), array([75, 75]))
    """

    mean: Array
    var: Array
    count: Array


class Normalized(NamedTuple):
    """What `normalize` returns: the output, of the shape of x, and the statistics it used.

    Where a count is 1, the cell is its own mean, and the output is beta. With running statistics,
    no cell of x has a part in them, and the counts are 0.

    Examples
    --------
    >>> from normbook.data.examples import THREE_SCALES
    >>> from normbook.core.scheme import LAYER_NORM
    >>> normalize(THREE_SCALES.x, LAYER_NORM).statistics.mean
    array([  3.,  30., 300.])
    """

    output: Array
    statistics: Statistics


class Gradients(NamedTuple):
    """What `backward` returns: the loss's derivatives by x, gamma and beta, each of its shape.

    `gamma` and `beta` are None for a layer that has none.

    Examples
    --------
    >>> from normbook.data.examples import THREE_SCALES
    >>> from normbook.core.scheme import LAYER_NORM
    >>> x = THREE_SCALES.x
    >>> backward(np.ones(x.shape), x, LAYER_NORM).beta
    array([3., 3., 3., 3., 3.])
    """

    x: Array
    gamma: Array | None
    beta: Array | None


def statistics(x: Array, scheme: Scheme, mask: Array | None = None) -> Statistics:
    """Mean, biased variance and count of every group of cells (Ba et al. 2016, eq. 3).

    The variance takes two passes, over the cells and over the centered cells. The one-pass formula
    E[x²] - E[x]² cancels: it gives -8 for 10001, 10002, 10003, 10004 in float32, not 1.25.

    Parameters
    ----------
    x
        numpy array or torch tensor whose axes are `scheme.cells`.
    mask
        boolean, True for a real cell, indexed by `scheme.mask`.

    Raises
    ------
    TypeError
        x is no array, or a masked or sparse one, or its dtype has no mean; mask is not
        boolean or not of x's library.
    ValueError
        x or mask has a wrong shape; a mask leaves a group without a cell, unless it is
        one that can only hide whole groups, such as the padding of LayerNorm per token.

    Examples
    --------
    >>> from normbook.data.examples import ONE_TO_FIVE
    >>> from normbook.core.scheme import LAYER_NORM
    >>> statistics(ONE_TO_FIVE.x, LAYER_NORM)
    Statistics(mean=array([3.]), var=array([2.]), count=array([5]))
    """
    on = _on(x, scheme)
    real = _mask(mask, x, scheme, on)
    mean, var, _, _ = arithmetic.moments(to_compute(on.split(x)), scheme, real)
    return _statistics(mean, var, _count(x, scheme, on, real), scheme.stats, on)


def normalize(
    x: Array,
    scheme: Scheme,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
    mask: Array | None = None,
    running: tuple[Array, Array] | None = None,
) -> Normalized:
    """Subtract the mean of a cell's group, divide by its standard deviation, scale and shift.

    output = gamma * (x - mean) / sqrt(var + eps) + beta, with eps inside the root
    (Ioffe & Szegedy 2015, algorithm 1; Ba et al. 2016, eq. 4). Layers differ in who shares what.

    Parameters
    ----------
    x
        numpy array or torch tensor whose axes are `scheme.cells`.
    gamma, beta
        scale and shift, indexed by `scheme.params`; None means 1 and 0.
    eps
        added to the variance, in its units; finite and at least 0.
    mask
        boolean, True for a real cell, indexed by `scheme.mask`.
    running
        a pair (mean, var) to use in place of the cells' own statistics, as batch norm does
        in eval mode; indexed by `scheme.running`.

    Raises
    ------
    TypeError
        as `statistics`; also if gamma, beta or running is not of x's library.
    ValueError
        as `statistics`; also if gamma, beta or running has a wrong shape, or eps is
        negative, infinite or NaN.

    Examples
    --------
    Rows come out alike, whatever their scale; down the columns, columns do.

    >>> from normbook.data.examples import THREE_SCALES
    >>> from normbook.core.scheme import BATCH_NORM_1D, LAYER_NORM
    >>> normalize(THREE_SCALES.x, LAYER_NORM).output.round(3)
    array([[-1.414, -0.707,  0.   ,  0.707,  1.414],
           [-1.414, -0.707,  0.   ,  0.707,  1.414],
           [-1.414, -0.707,  0.   ,  0.707,  1.414]])
    >>> normalize(THREE_SCALES.x, BATCH_NORM_1D).output.round(3)
    array([[-0.805, -0.805, -0.805, -0.805, -0.805],
           [-0.604, -0.604, -0.604, -0.604, -0.604],
           [ 1.409,  1.409,  1.409,  1.409,  1.409]])
    """
    on = _on(x, scheme)
    _check_eps(eps)
    real = _mask(mask, x, scheme, on, may_be_empty=running is not None)
    gamma = _placed("gamma", gamma, scheme.params, x, scheme, on)
    beta = _placed("beta", beta, scheme.params if scheme.has_beta else "", x, scheme, on)
    given = _running(running, x, scheme, on)
    output, mean, var = blockwise.forward(on.split(x), scheme, gamma, beta, eps, real, given)
    if given:
        counts = library(x).zeros_like(mean, dtype=library(x).int64)
        counts = on.take(counts, scheme.running)
    else:
        counts = _count(x, scheme, on, real)
    indices = scheme.running if given else scheme.stats
    return Normalized(on.join(output), _statistics(mean, var, counts, indices, on))


def backward(
    dy: Array,
    x: Array,
    scheme: Scheme,
    gamma: Array | None = None,
    eps: float = 1e-5,
    mask: Array | None = None,
    running: tuple[Array, Array] | None = None,
) -> Gradients:
    """The gradients of `normalize` in closed form: one formula for every layer.

    With g = gamma * dy, and means taken over the group of the cell,
    dx = (g - mean(g) - x_hat * mean(g * x_hat)) / sqrt(var + eps). The first mean is missing where
    the layer doesn't center, and both where running statistics were used, which don't depend on x.
    dgamma sums dy * x_hat, and dbeta dy, over the cells that share them
    (Ioffe & Szegedy 2015, section 3).

    Parameters
    ----------
    dy
        the loss's derivative by the output, of the shape of x.
    x, scheme, gamma, eps, mask, running
        as they were given to `normalize`.

    Raises
    ------
    TypeError, ValueError
        as `normalize`; also if dy is not of x's library or shape.

    Examples
    --------
    Pull at the first output alone: the gradients of a group sum to 0.

    >>> from normbook.data.examples import ONE_TO_FIVE
    >>> from normbook.core.scheme import LAYER_NORM
    >>> dy = np.array([[1.0, 0, 0, 0, 0]])
    >>> backward(dy, ONE_TO_FIVE.x, LAYER_NORM).x.round(3) + 0.0
    array([[ 0.283, -0.283, -0.141,  0.   ,  0.141]])
    """
    on = _on(x, scheme)
    _check_eps(eps)
    real = _mask(mask, x, scheme, on, may_be_empty=running is not None)
    _check_array("dy", dy, x)
    if tuple(dy.shape) != tuple(x.shape):
        raise ValueError(f"dy has shape {tuple(dy.shape)}; expected that of x, {tuple(x.shape)}")
    placed = _placed("gamma", gamma, scheme.params, x, scheme, on)
    given = _running(running, x, scheme, on)
    dx, dgamma, dbeta = blockwise.backward(
        on.split(dy), on.split(x), scheme, placed, eps, real, given
    )
    dtype = output_dtype(x if gamma is None else gamma)
    return Gradients(
        on.join(dx),
        cast(on.take(dgamma, scheme.params), dtype) if scheme.params else None,
        cast(on.take(dbeta, scheme.params), dtype) if scheme.has_beta else None,
    )


def _on(x, scheme):
    """The scheme on the shape of x, once both are what they have to be."""
    if not isinstance(scheme, Scheme):
        raise TypeError(
            f"scheme is {scheme!r}; expected a Scheme, such as normbook.core.LAYER_NORM"
        )
    _check_array("x", x, x)
    return scheme.on(tuple(x.shape))


def _mask(mask, x, scheme, on, may_be_empty=False):
    """The mask, placed; or None."""
    if mask is None:
        return None
    _check_array("mask", mask, x)
    indices = scheme.mask or scheme.cells
    real = on.place(scheme.check_mask(mask, tuple(x.shape)), indices)
    hides_whole_groups = set(axes_of(indices)) <= set(axes_of(scheme.stats))
    if not (may_be_empty or hides_whole_groups) and blockwise.has_values(mask):
        _check_no_empty_group(real, x, scheme, on)
    return real


def _check_no_empty_group(real, x, scheme, on):
    counts = _count(x, scheme, on, real).reshape(-1).tolist()
    if 0 in counts and scheme.group_size(tuple(x.shape)):
        group = scheme.group_labels(tuple(x.shape))[counts.index(0)]
        raise ValueError(
            f"mask hides every cell of the group {group} of {scheme.name}; "
            "expected at least one real cell in every group"
        )


def _count(x, scheme, on, real):
    """The number of real cells of every group."""
    lib = library(x)
    if real is None:
        m = scheme.group_size(tuple(x.shape))
        return lib.full(on.shape_of(scheme.stats), m, dtype=lib.int64, device=x.device)
    real = lib.broadcast_to(cast(real, lib.int64), tuple(on.lengths.values()))
    return on.take(arithmetic.total(real, scheme.averaged_positions), scheme.stats)


def _statistics(mean, var, counts, indices, on):
    return Statistics(on.take(mean, indices), on.take(var, indices), counts)


def _running(running, x, scheme, on):
    if running is None:
        return None
    if not scheme.running:
        raise ValueError(f"running was given, but {scheme.name} keeps no running statistics")
    if not isinstance(running, tuple | list):
        raise TypeError(f"running is a {type(running).__name__}; expected a pair, (mean, var)")
    if len(running) != 2:
        raise ValueError(f"running has {len(running)} parts; expected a pair, (mean, var)")
    return tuple(
        _placed(f"running {name}", value, scheme.running, x, scheme, on)
        for name, value in zip(("mean", "var"), running, strict=True)
    )


def _placed(name, value, indices, x, scheme, on):
    """gamma, for one, shaped to broadcast; None stays None."""
    if value is None:
        return None
    if not indices:
        raise ValueError(f"{name} was given, but {scheme.name} has no {name}")
    _check_array(name, value, x)
    expected = on.shape_of(indices)
    if tuple(value.shape) != expected:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}; {scheme.name} takes one value "
            f"{per(indices)} of x {tuple(x.shape)}: expected {expected}"
        )
    return on.place(cast(value, compute_dtype(x)), indices)


def _check_array(name, value, x):
    kind = _library_of(x)
    if kind is None:
        raise TypeError(f"x is a {type(x).__name__}; expected a numpy array or a torch tensor")
    if _library_of(value) != kind:
        raise TypeError(f"{name} is a {type(value).__name__}, but x is a {kind}; expected a {kind}")
    # These compute in ways of their own; a masked array would hide cells that nobody counts.
    layout = str(getattr(value, "layout", type(value).__name__))
    nested = getattr(value, "is_nested", False)
    if layout in ("MaskedArray", "matrix") or layout.startswith("torch.sparse") or nested:
        kind = "nested tensor" if nested else layout
        raise TypeError(f"{name} is a {kind}; expected a plain array, and its mask as `mask`")
    dtype = value.dtype
    real = dtype.kind in "biuf" if is_numpy(value) else not dtype.is_complex
    if not real:
        raise TypeError(f"{name} has dtype {dtype}; expected real numbers")


def _library_of(value):
    if is_numpy(value):
        return "numpy array"
    torch = sys.modules.get("torch")
    return "torch tensor" if torch and isinstance(value, torch.Tensor) else None


def _check_eps(eps):
    if not (isinstance(eps, Real) and 0 <= eps < math.inf):
        raise ValueError(f"eps is {eps!r}; expected a finite number that is at least 0")

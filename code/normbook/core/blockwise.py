"""Forward and backward passes of large inputs, a block of groups at a time.

Groups don't depend on each other, so they need not be computed together. In blocks, the arrays in
between stay in the processor's cache, and none of them is as large as the input. And where nobody
looks, a block is written over what it no longer needs. Both together make passes several times as
fast. What autograd, a transform or a compiler follows is one block of `normbook.core.arithmetic`.

Everything is shaped as there. Half precision is computed in float32, and integers in the default
floating dtype.
"""

import math
import sys

import numpy as np

from normbook.core import arithmetic
from normbook.core.arithmetic import is_numpy, library
from normbook.core.scheme import Scheme

BLOCK_CELLS = 2**18


def forward(x, scheme: Scheme, gamma=None, beta=None, eps=1e-5, real=None, given=None):
    """The output, in `output_dtype(x)`, and the mean and variance that were used.

    `given` is a constant mean and variance to use in place of those of x.
    """

    def block(cut, target=None):
        cells, own = to_compute(cut(x)), given and [*map(cut, given)]
        if target is not None:
            return _normalize_into(target, cells, scheme, cut(gamma), cut(beta), eps, own)
        if own:
            (mean, var), centered = own, arithmetic.hide(cells - own[0], cut(real))
        else:
            mean, var, _, centered = arithmetic.moments(cells, scheme, cut(real))
        parts = centered, var, cut(gamma), cut(beta), eps, cut(real)
        return arithmetic.scale_and_shift(*parts), mean, var

    axis, cuts = _cuts(x, scheme, gamma, beta, *given or ())
    if len(cuts) == 1:
        output, mean, var = block(cuts[0])
        return cast(output, output_dtype(x)), mean, var
    output, used = _blocks(x, real, cuts, block)
    return output, *(given or [_join(part, axis) for part in used])


def backward(dy, x, scheme: Scheme, gamma=None, eps=1e-5, real=None, given=None, known=None):
    """dx, in `output_dtype(x)`, and dgamma and dbeta, for what was given to `forward`.

    `known` are the mean and variance that `forward` returned, to spare computing them again.
    """

    def block(cut, target=None):
        cells = to_compute(cut(x))
        if given or known:
            mean, var = map(cut, given or known)
            centered = arithmetic.hide(cells - mean, cut(real))
            m = None if given else arithmetic.count(cells, scheme.averaged_positions, cut(real))
        else:
            _, var, m, centered = arithmetic.moments(cells, scheme, cut(real))
            if centered is cells and target is not None:
                centered = 1 * cells  # not to write over x
        parts = cast(cut(dy), cells.dtype), centered, var, m, cut(gamma), eps, scheme
        if target is not None:
            return _gradients_into(target, *parts)
        return arithmetic.gradients(*parts, cut(real))

    axis, cuts = _cuts(x, scheme, dy, gamma, *given or ())
    if len(cuts) == 1:
        dx, dgamma, dbeta = block(cuts[0])
        return cast(dx, output_dtype(x)), dgamma, dbeta
    dx, parts = _blocks(x, real, cuts, block)
    join = sum if axis in scheme.shared_positions else lambda part: _join(part, axis)
    return dx, *map(join, parts)


def _blocks(x, real, cuts, block):
    """An array like x, filled by blocks, and the parts that they return besides, by kind."""
    output, rest = library(x).empty_like(x, dtype=output_dtype(x)), []
    over = real is None and output.dtype == compute_dtype(x)
    for cut in cuts:
        target = cut(output)
        result, *more = block(cut, target if over else None)
        if not over:
            target[...] = result
        rest.append(more)
    return output, zip(*rest, strict=True)


def _normalize_into(target, x, scheme, gamma, beta, eps, given):
    """`moments` and `scale_and_shift` without a mask: all is written to `target`, and over it."""
    lib, axes = library(x), scheme.averaged_positions
    m = arithmetic.count(x, axes)
    if given:
        mean, var = given
        lib.subtract(x, mean, out=target)
    elif scheme.centered:
        mean = arithmetic.total(x, axes) / m
        lib.subtract(x, mean, out=target)
        left = arithmetic.total(target, axes) / m
        target -= left
        mean, var = mean + left, arithmetic.total(target * target, axes) / m
        var = var + (var - var)
    else:
        target[...] = x
        var = arithmetic.total(x * x, axes) / m
        mean = lib.zeros_like(var)
    target *= (var + eps) ** -0.5
    if gamma is not None:
        target *= gamma
    if beta is not None:
        target += beta
    return target, mean, var


def _gradients_into(target, dy, centered, var, m, gamma, eps, scheme):
    """`gradients` without a mask: dx is written to `target`, and x_hat over the centered cells."""
    lib, axes, shared = library(dy), scheme.averaged_positions, scheme.shared_positions
    gamma = 1 if gamma is None else gamma
    scale = (var + eps) ** -0.5
    x_hat = centered
    x_hat *= scale
    products = dy * x_hat
    dgamma, dbeta = arithmetic.total(products, shared), arithmetic.total(dy, shared)
    if shared == axes:  # batch norm: gamma is the same in all of a group, and the sums are there
        lib.multiply(dy, scale * gamma, out=target)
        sums = dbeta * gamma, dgamma * gamma
    else:
        g = lib.multiply(dy, gamma, out=target)
        products *= gamma
        sums = arithmetic.total(g, axes), arithmetic.total(products, axes)
        target *= scale
    if m is not None:
        x_hat *= sums[1] * (scale / -m)
        target += x_hat
        if scheme.centered:
            target += sums[0] * (scale / -m)
    return target, dgamma, dbeta


def moments_gradient(dmean, dvar, x, known, scheme: Scheme):
    """The gradient that reaches x through the mean and variance that `forward` returned."""
    m = arithmetic.count(x, scheme.averaged_positions)
    return cast(
        arithmetic.moments_gradient(dmean, dvar, to_compute(x) - known[0], m, scheme),
        output_dtype(x),
    )


def output_dtype(x):
    """The dtype of the output: that of x, or the default floating dtype if x holds integers."""
    if is_numpy(x):
        return x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    return x.dtype if x.dtype.is_floating_point else library(x).get_default_dtype()


def compute_dtype(x):
    """The dtype to compute in: float32 for half precision, else that of the output."""
    dtype = output_dtype(x)
    return library(x).float32 if dtype.itemsize < 4 else dtype


def to_compute(x):
    return cast(x, compute_dtype(x))


def cast(values, dtype):
    """`values` in this dtype, themselves if they have it."""
    if values.dtype == dtype:
        return values
    return values.astype(dtype) if is_numpy(values) else values.to(dtype)


def _join(parts, axis):
    return library(parts[0]).concatenate(parts, axis=axis)


def _cuts(x, scheme, *others):
    """An axis that indexes the statistics, and functions that cut the blocks along it."""
    size = math.prod(x.shape)
    if _is_followed(x, *others) or size <= BLOCK_CELLS:
        return None, [_whole]
    averaged = scheme.averaged_positions
    axis = next((i for i in range(len(x.shape)) if i not in averaged), None)
    if axis is None:
        return None, [_whole]
    step = max(1, BLOCK_CELLS * x.shape[axis] // size)
    return axis, [_cut(axis, start, start + step) for start in range(0, x.shape[axis], step)]


def _whole(array):
    return array


def _cut(axis, start, stop):
    index = (slice(None),) * axis + (slice(start, stop),)
    return lambda a: a if a is None or a.shape[axis] == 1 else a[index]


def _is_followed(x, *others):
    """Whether a compiler, a transform or autograd looks at what is done with x."""
    if is_numpy(x):
        return False
    torch = library(x)
    if torch.compiler.is_compiling() or is_transformed():
        return True
    recorded = [a for a in (x, *others) if a is not None and a.requires_grad]
    return bool(recorded) and torch.is_grad_enabled()


def is_transformed() -> bool:
    """Whether torch.func or forward-mode derivatives are at work, if torch is there."""
    torch = sys.modules.get("torch")
    if torch is None or torch.compiler.is_compiling():
        return False
    level = torch._C._functorch.maybe_current_level()
    return level is not None or torch.autograd.forward_ad._current_level >= 0


def has_values(array) -> bool:
    """Whether the numbers of an array can be looked at: those of a traced one can't."""
    return is_numpy(array) or not (
        array.is_meta or is_transformed() or library(array).compiler.is_compiling()
    )

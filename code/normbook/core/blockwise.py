"""Forward and backward passes of large inputs, a block of groups at a time.

Groups don't depend on each other, so they need not be computed together. In blocks, the arrays in
between stay in the processor's cache, and none of them is as large as the input: for inputs that
don't fit there, several times as fast. Where autograd records the operations, one block is all.

Everything is shaped as `normbook.core.arithmetic` takes it. Half precision is computed in float32,
and integers in the default floating dtype.
"""

import math

from array_api_compat import array_namespace, is_torch_array

from normbook.core import arithmetic
from normbook.core.scheme import Scheme

BLOCK_CELLS = 2**18


def forward(x, scheme: Scheme, gamma=None, beta=None, eps=1e-5, real=None, given=(None, None)):
    """The output, in `output_dtype(x)`, and the mean and variance that were used.

    `given` is a constant mean and variance to use in place of those of x.
    """

    def block(cut, out=None):
        centered, mean, var, _ = _centered(x, scheme, real, given, cut)
        output = arithmetic.scale_and_shift(
            centered, var, cut(gamma), cut(beta), eps, cut(real), out
        )
        return output, mean, var

    dtype = output_dtype(x)
    axis, cuts = _cuts(x, scheme, gamma, beta, *given)
    if len(cuts) == 1:
        output, mean, var = block(cuts[0])
        return cast(output, dtype), mean, var
    xp = array_namespace(x)
    output, used = xp.empty_like(x, dtype=dtype), []
    for cut in cuts:
        target = cut(output)
        result, *own = block(cut, target if dtype == compute_dtype(x) else None)
        if result is not target:
            target[...] = result
        used.append(own)
    if given[0] is not None:
        return output, *given
    return output, *(xp.concat(part, axis=axis) for part in zip(*used, strict=True))


def backward(dy, x, scheme: Scheme, gamma=None, eps=1e-5, real=None, given=(None, None)):
    """dx, in `output_dtype(x)`, and dgamma and dbeta, for what was given to `forward`."""

    def block(cut):
        centered, _, var, m = _centered(x, scheme, real, given, cut)
        dx, dgamma, dbeta = arithmetic.gradients(
            cast(cut(dy), centered.dtype), centered, var, m, cut(gamma), eps, scheme, cut(real)
        )
        return cast(dx, output_dtype(x)), dgamma, dbeta

    axis, cuts = _cuts(x, scheme, dy, gamma, *given)
    if len(cuts) == 1:
        return block(cuts[0])
    xp = array_namespace(x)
    dx, parts = xp.empty_like(x, dtype=output_dtype(x)), []
    for cut in cuts:
        cut(dx)[...], *rest = block(cut)
        parts.append(rest)
    if scheme.axes[axis] in scheme.params:
        return dx, *(xp.concat(part, axis=axis) for part in zip(*parts, strict=True))
    return dx, *(sum(part) for part in zip(*parts, strict=True))


def output_dtype(x):
    """The dtype of the output: that of x, or the default floating dtype if x holds integers."""
    xp = array_namespace(x)
    return x.dtype if xp.isdtype(x.dtype, "real floating") else xp.asarray(1.0).dtype


def compute_dtype(x):
    """The dtype to compute in: float32 for half precision, else that of the output."""
    dtype = output_dtype(x)
    return array_namespace(x).float32 if dtype.itemsize < 4 else dtype


def cast(values, dtype):
    """`values` in this dtype, themselves if they have it."""
    return array_namespace(values).astype(values, dtype, copy=False)


def _centered(x, scheme, real, given, cut):
    """The centered cells of a block, their mean and variance, and the number m to average over."""
    cells = cast(cut(x), compute_dtype(x))
    mean, var = (cut(value) for value in given)
    if mean is None:
        mean, var, m, centered = arithmetic.moments(cells, scheme, cut(real))
        return centered, mean, var, m
    return arithmetic.hide(cells - mean, cut(real)), mean, var, None


def _cuts(x, scheme, *others):
    """An axis that indexes the statistics, and functions that cut the blocks along it."""
    axis = next((i for i, name in enumerate(scheme.axes) if name in scheme.stats), None)
    size = math.prod(x.shape)
    if axis is None or size <= BLOCK_CELLS or any(_recorded(a) for a in (x, *others)):
        return axis, [lambda a: a]
    step = max(1, BLOCK_CELLS * x.shape[axis] // size)
    return axis, [_cut(axis, start, start + step) for start in range(0, x.shape[axis], step)]


def _cut(axis, start, stop):
    index = (slice(None),) * axis + (slice(start, stop),)
    return lambda a: a if a is None or a.shape[axis] == 1 else a[index]


def _recorded(a):
    """Whether autograd records what is done with this array."""
    if not (is_torch_array(a) and a.requires_grad):
        return False
    import torch  # it is there already, since one of its tensors is

    return torch.is_grad_enabled()

"""The arithmetic of every layer in this book, once, without any checks.

All functions take the input with one axis for every letter of the scheme. Means, variances, gamma
and beta have length 1 along the axes they are shared over, so that everything broadcasts. `real`
is a boolean mask that does so too, or None: where it is False, a cell takes part in nothing.

The code is the same for numpy arrays and torch tensors, and autograd can follow all of it, the
backward pass included.
"""

import math

from array_api_compat import array_namespace, is_numpy_array

from normbook.core.scheme import Scheme


def moments(x, scheme: Scheme, real=None):
    """Mean, biased variance and number of cells of every group, and the centered cells.

    Two passes: the variance is the mean square of the centered cells. The number of cells is at
    least 1, to divide by; it is a plain integer where nothing is masked.
    """
    axes = scheme.averaged_positions
    x = hide(x, real)
    if real is None:
        m = max(1, math.prod(x.shape[i] for i in axes))
    else:
        xp = array_namespace(x)
        m = xp.astype(total(xp.broadcast_to(real, x.shape), axes), x.dtype)
        m = xp.where(m == 0, xp.ones_like(m), m)
    if not scheme.centered:
        square = dot(x, x, axes) / m
        return array_namespace(x).zeros_like(square), square, m, x
    mean = total(x, axes) / m
    centered = hide(x - mean, real)
    return mean, dot(centered, centered, axes) / m, m, centered


def scale_and_shift(centered, var, gamma, beta, eps: float, real=None, out=None):
    """gamma * x_hat + beta with x_hat = centered / sqrt(var + eps), written to `out` if given."""
    xp = array_namespace(centered)
    # Hidden again: where the group's variance is NaN, a masked cell has become 0 times NaN.
    output = hide(xp.multiply(centered, (var + eps) ** -0.5, out=out), real)
    if gamma is not None:
        output = xp.multiply(output, gamma, out=out)
    if beta is not None:
        output = xp.add(output, beta, out=out)
    return output if beta is None else hide(output, real)


def gradients(dy, centered, var, m, gamma, eps: float, scheme: Scheme, real=None):
    """dx, dgamma and dbeta, exact with eps, for every layer.

    With g = gamma * dy, dx = (g - mean(g) - x_hat * mean(g * x_hat)) / sqrt(var + eps). `m` is the
    number of cells of a group, or None where mean and variance are constants (running statistics).
    """
    dy = hide(dy, real)
    scale = (var + eps) ** -0.5
    x_hat = hide(centered * scale, real)
    g = dy if gamma is None else dy * gamma
    dx = g
    if m is not None:
        axes = scheme.averaged_positions
        if scheme.centered:
            dx = dx - total(g, axes) / m
        dx = dx - x_hat * (dot(g, x_hat, axes) / m)
    shared = tuple(i for i, axis in enumerate(scheme.axes) if axis not in scheme.params)
    return hide(dx * scale, real), dot(dy, x_hat, shared), total(dy, shared)


def total(values, axes: tuple[int, ...]):
    """The sum over these axes, kept with length 1; over none, the values themselves."""
    return array_namespace(values).sum(values, axis=axes, keepdims=True)


def dot(a, b, axes: tuple[int, ...]):
    """The sum of the products over these axes, kept with length 1."""
    if axes and is_numpy_array(a):  # numpy sums products without storing them, twice as fast
        xp = array_namespace(a, b)
        last = axes[-1]
        return total(xp.expand_dims(xp.vecdot(a, b, axis=last), axis=last), axes[:-1])
    return total(a * b, axes)


def hide(values, real):
    """0 wherever a cell is masked, whatever stood there: NaN times 0 would be NaN."""
    if real is None:
        return values
    xp = array_namespace(values)
    return xp.where(real, values, xp.zeros_like(values))

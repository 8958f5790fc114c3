"""The arithmetic of every layer in this book, once, without any checks.

All functions take the input with one axis for every letter of the scheme. Means, variances, gamma
and beta have length 1 along the axes they are shared over, so that everything broadcasts. `real`
is a boolean mask that does so too, or None: where it is False, a cell takes part in nothing.

The code is the same for numpy arrays and torch tensors, and autograd can follow all of it, the
backward pass included.

Examples
--------
>>> from normbook.core.scheme import LAYER_NORM
>>> x = np.array([[1.0, 2, 6]])
>>> mean, var, m, centered = moments(x, LAYER_NORM)
>>> mean.item(), var.item(), m
(3.0, 4.666666666666667, 3)
>>> scale_and_shift(centered, var, None, None, eps=0.0).round(4)
array([[-0.9258, -0.4629,  1.3887]])
>>> dx, dgamma, dbeta = gradients(np.array([[1.0, 0, 0]]), centered, var, m, None, 0.0, LAYER_NORM)
>>> dx.round(4)
array([[ 0.1763, -0.2204,  0.0441]])
"""

import math

import numpy as np

from normbook.core.scheme import Scheme


def moments(x, scheme: Scheme, real=None):
    """Mean, biased variance and number of cells of every group, and the centered cells.

    The variance is the mean square of the centered cells; E[x²] - E[x]² would cancel. The mean is
    rounded: what that leaves in the cells is taken out of them, so that equal cells give exactly 0.
    The number of cells is at least 1, to divide by; a plain integer where nothing is masked.
    """
    axes = scheme.averaged_positions
    x = hide(x, real)
    m = count(x, axes, real)
    if not scheme.centered:
        square = total(x * x, axes) / m
        return library(x).zeros_like(square), square, m, x
    mean = total(x, axes) / m
    centered = hide(x - mean, real)
    left = total(centered, axes) / m
    centered = hide(centered - left, real)
    var = total(centered * centered, axes) / m
    # An overflow is no variance: with infinity, the output would be a plausible 0.
    return mean + left, var + (var - var), m, centered


def scale_and_shift(centered, var, gamma, beta, eps: float, real=None):
    """gamma * x_hat + beta, with x_hat = centered / sqrt(var + eps)."""
    # Hidden again: where the variance or gamma is NaN, a masked cell has become 0 times NaN.
    output = hide(centered * (var + eps) ** -0.5, real)
    if gamma is not None:
        output = output * gamma
    if beta is not None:
        output = output + beta
    return hide(output, real)


def gradients(dy, centered, var, m, gamma, eps: float, scheme: Scheme, real=None):
    """dx, dgamma and dbeta, exact with eps, for every layer.

    With g = gamma * dy, dx = (g - mean(g) - x_hat * mean(g * x_hat)) / sqrt(var + eps). `m` is the
    number of cells of a group, or None where mean and variance are constants (running statistics).
    """
    dy = hide(dy, real)
    scale = (var + eps) ** -0.5
    x_hat = hide(centered * scale, real)
    g = dy if gamma is None else hide(dy * gamma, real)
    dx = g
    if m is not None:
        axes = scheme.averaged_positions
        if scheme.centered:
            dx = dx - total(g, axes) / m
        dx = dx - x_hat * (total(g * x_hat, axes) / m)
    shared = scheme.shared_positions
    return hide(dx * scale, real), total(dy * x_hat, shared), total(dy, shared)


def moments_gradient(dmean, dvar, centered, m, scheme: Scheme):
    """The gradient that reaches x through its mean and variance (each None for no gradient)."""
    dx = 0 * centered
    if dmean is not None and scheme.centered:
        dx = dx + dmean / m
    return dx if dvar is None else dx + centered * (2 * dvar / m)


def total(values, axes: tuple[int, ...]):
    """The sum over these axes, kept with length 1; over none, a copy.

    numpy adds one number after the other along all axes but the last: in float32, a sum of millions
    would stand still. So it adds in float64; torch adds in blocks.
    """
    if not axes:
        return 1 * values
    if is_numpy(values):
        wide = np.result_type(values, np.float64)
        return values.sum(axes, dtype=wide, keepdims=True).astype(values.dtype)
    return values.sum(axes, keepdim=True)


def count(x, axes, real=None):
    """The number of real cells of every group, at least 1."""
    if real is None:
        return max(1, math.prod([x.shape[i] for i in axes]))
    m = total(hide(library(x).ones_like(x), real), axes)
    return m + (m == 0)


def hide(values, real):
    """0 wherever a cell is masked, whatever stood there: NaN times 0 would be NaN."""
    if real is None:
        return values
    lib = library(values)
    return lib.where(real, values, lib.zeros_like(values))


def library(array):
    """numpy or torch, whichever the array belongs to."""
    if is_numpy(array):
        return np
    import torch  # it is there already, since this is one of its tensors

    return torch


def is_numpy(array):
    return isinstance(array, (np.ndarray, np.generic))

"""The arithmetic of every layer in this book, once, without any checks.

All functions take the input with one axis for every letter of the scheme. Means, variances, gamma
and beta have length 1 along the axes they are shared over, so that everything broadcasts. `real`
is a boolean mask that does so too, or None: where it is False, a cell takes part in nothing.

The code is the same for numpy arrays and torch tensors, and autograd can follow all of it, the
backward pass included.
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
    centered -= left
    centered = hide(centered, real)
    var = total(centered * centered, axes) / m
    # An overflow is no variance: with infinity, the output would be a plausible 0.
    return mean + left, var + (var - var), m, centered


def scale_and_shift(centered, var, gamma, beta, eps: float, real=None, spare=False):
    """gamma * x_hat + beta with x_hat = centered / sqrt(var + eps), over `centered` if spare."""
    # Hidden again: where the group's variance is NaN, a masked cell has become 0 times NaN.
    output = hide(times(centered, (var + eps) ** -0.5, spare), real)
    if gamma is not None:
        output = times(output, gamma, spare)
    if beta is not None:
        output = hide(plus(output, beta, spare), real)
    return output


def derivative(v, x_hat, scale, m, scheme: Scheme, sums=None, spare=False):
    """The derivative of x_hat by x times `v`: (v - mean(v) - x_hat * mean(v * x_hat)) * scale.

    `scale` is 1 / sqrt(var + eps). `m` is the number of cells of a group, or None where mean and
    variance are constants (running statistics). `sums` are those of v and v * x_hat over a group,
    if they are known. The derivative is symmetric: it carries a change of x forward to x_hat, and
    a gradient back.
    """
    result = v * scale
    if m is None:
        return result
    axes = scheme.averaged_positions
    sum_v, sum_v_x_hat = sums or (total(v, axes), total(v * x_hat, axes))
    result = plus(result, times(x_hat, sum_v_x_hat * (-scale / m), spare), spare)
    return plus(result, sum_v * (-scale / m), spare) if scheme.centered else result


def gradients(dy, centered, var, m, gamma, eps: float, scheme: Scheme, real=None, spare=False):
    """dx, dgamma and dbeta, exact with eps, for every layer; overwrites `centered` if spare.

    `m` is as in `derivative`.
    """
    axes, shared = scheme.averaged_positions, scheme.shared_positions
    dy = hide(dy, real)
    scale = (var + eps) ** -0.5
    x_hat = hide(times(centered, scale, spare), real)
    products = dy * x_hat
    dgamma, dbeta = total(products, shared), total(dy, shared)
    v, sums = dy, None
    if shared == axes:  # batch norm: one gamma for all of a group, and the sums are there already
        scale, sums = scale if gamma is None else scale * gamma, (dbeta, dgamma)
    elif gamma is not None:
        v = dy * gamma
        sums = total(v, axes), total(times(products, gamma, spare), axes)
    dx = derivative(v, x_hat, scale, m, scheme, sums, spare)
    return hide(dx, real), dgamma, dbeta


def tangent(dx, dgamma, dbeta, centered, var, m, gamma, eps: float, scheme: Scheme):
    """The change of the output with changes of x, gamma and beta, each None where there is none."""
    scale = (var + eps) ** -0.5
    x_hat = centered * scale
    parts = [] if dx is None else [derivative(dx, x_hat, scale, m, scheme)]
    if parts and gamma is not None:
        parts = [gamma * parts[0]]
    parts += [] if dgamma is None else [dgamma * x_hat]
    parts += [] if dbeta is None else [dbeta]
    return sum(parts, 0 * x_hat)


def times(a, b, spare=False):
    """a * b, written over `a` if that is spare."""
    if spare:
        a *= b
        return a
    return a * b


def plus(a, b, spare=False):
    """a + b, written over `a` if that is spare."""
    if spare:
        a += b
        return a
    return a + b


def total(values, axes: tuple[int, ...]):
    """The sum over these axes, kept with length 1; over none, the values themselves.

    numpy adds one number after the other along all axes but the last: in float32, a sum of millions
    would stand still. So it adds in float64; torch adds in blocks.
    """
    if not axes:
        return values
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

"""Trainable layers from scratch, equal to `torch.nn`'s in every number and name.

Outputs, gradients, running statistics, parameter names and state-dict shapes are those of the
`torch.nn` layer of the same name, and a state dict of the one loads into the other. They raise
where PyTorch raises. The forward and the backward pass are the book's one formula, in
`normbook.core.arithmetic`; a layer only says who shares what, and keeps the parameters.
"""

import math
import numbers
import warnings
from inspect import cleandoc

import torch
from torch import nn

from normbook.core import blockwise as blocks
from normbook.core.blockwise import compute_dtype
from normbook.core.scheme import Scheme

# In each, l stands for all the axes behind the channels, flattened, and d for all normalized ones.
_BATCH = Scheme("batch norm", "n c l", stats="c", params="c", running="c")
_INSTANCE = Scheme("instance norm", "n c l", stats="n c", params="c", running="c")
_GROUP = Scheme("group norm", "n (g k) l", stats="n g", params="(g k)")
_LAYER = Scheme("layer norm", "n d", stats="n", params="d")
_RMS = Scheme("rms norm", "n d", stats="n", params="d", centered=False)


class _Normalize(torch.autograd.Function):
    """The forward pass with the closed-form backward pass, in place of autograd's.

    Takes x split for the scheme, gamma and beta (or None), and a constant mean and variance (or
    None, to use those of x), all placed to broadcast against x. Returns the output, and the mean
    and variance of x where it used them. Only x is kept for the backward pass, which computes its
    statistics again: less memory, and autograd can follow to second derivatives.
    """

    generate_vmap_rule = True  # for torch.func

    @staticmethod
    def forward(x, gamma, beta, mean, var, scheme, eps):
        output, own_mean, own_var = blocks.forward(x, scheme, gamma, beta, eps, given=(mean, var))
        return (output, own_mean, own_var) if mean is None else (output, None, None)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gamma, beta, mean, var, ctx.scheme, ctx.eps = inputs
        ctx.save_for_backward(x, gamma, mean, var)
        ctx.has_beta = beta is not None
        if mean is None:
            ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx, dy, _dmean, _dvar):
        x, gamma, mean, var = ctx.saved_tensors
        dx, dgamma, dbeta = blocks.backward(dy, x, ctx.scheme, gamma, ctx.eps, given=(mean, var))
        return dx, None if gamma is None else dgamma, dbeta if ctx.has_beta else None, *[None] * 4


def _normalize(x, scheme, weight, bias, eps, running=(None, None)):
    """x of `scheme.cells` through `_Normalize`: its output, joined again, and x's mean and var."""

    def placed(value, indices):
        return None if value is None else scheme.place(value, indices)

    output, mean, var = _Normalize.apply(
        scheme.split(x),
        placed(weight, scheme.params),
        placed(bias, scheme.params),
        *(placed(value, scheme.running) for value in running),
        scheme,
        eps,
    )
    return scheme.join(output), mean, var


def _document(base, shape, example):
    """The docstring of a layer of `base` for inputs of this shape."""
    text = cleandoc(base.__doc__).format(shape=shape)
    return f"{text}\n\nExamples\n--------\n{cleandoc(example)}"


class _NormBase(nn.Module):
    """Parameters and running statistics by channel, as batch norm and instance norm keep them."""

    _version = 2  # of torch.nn's state dicts: with num_batches_tracked

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        factory = {"device": device, "dtype": dtype}
        self.weight, self.bias = _parameters(num_features, affine, affine and bias, device, dtype)
        track = track_running_stats
        mean, var = torch.zeros(num_features, **factory), torch.ones(num_features, **factory)
        self.register_buffer("running_mean", mean if track else None)
        self.register_buffer("running_var", var if track else None)
        count = torch.tensor(0, dtype=torch.long, device=device)
        self.register_buffer("num_batches_tracked", count if track else None)

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args):
        if self.track_running_stats and (local_metadata.get("version") or 1) < 2:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    @torch.no_grad()
    def _update_running(self, mean, var, m, factor):
        """Move the running statistics toward those of a batch, of shape (C,), by `factor`.

        The batch's variance is made unbiased, m / (m - 1), although the biased one normalized the
        batch (Ioffe & Szegedy 2015, algorithm 2).
        """
        for running, new in ((self.running_mean, mean), (self.running_var, var * (m / (m - 1)))):
            running.copy_((1 - factor) * running.to(new.dtype) + factor * new)


class _BatchNorm(_NormBase):
    """Batch norm of {shape}: one mean and variance per channel, over the whole batch.

    Output as the input; weight, bias, running_mean and running_var are (C,). The statistics are
    the batch's in train mode, or where none are tracked, else the running ones. `momentum` is the
    weight of the new batch; None averages all batches alike.

    Raises
    ------
    ValueError : wrong rank; eps < 0; with the batch's statistics, one value per channel or eps = 0.
    RuntimeError : wrong number of channels; mixed dtypes.
    NotImplementedError : input that isn't floating point.

    Source: Ioffe & Szegedy 2015, algorithms 1 and 2.
    """

    ranks: tuple[int, ...]

    def forward(self, input):
        _check_rank(input, self.ranks)
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        m = input.shape[0] * math.prod(input.shape[2:])
        tracked = self.running_mean is not None
        own = self.training or not tracked
        if own and m == 1:
            raise ValueError(
                "Expected more than 1 value per channel when training, "
                f"got input size {input.shape}"
            )
        if own and self.eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {self.eps}")
        if self.eps < 0:
            raise ValueError(f"batch_norm eps must be non-negative, but got {self.eps}")
        self._check_channels(input)
        x = input.flatten(2) if input.dim() > 2 else input.unsqueeze(2)
        running = (None, None) if own else (self.running_mean, self.running_var)
        output, mean, var = _normalize(x, _BATCH, self.weight, self.bias, self.eps, running)
        if self.training and self.track_running_stats and tracked and m > 0:
            factor = self.momentum
            if factor is None:
                factor = 1 / self.num_batches_tracked.item()
            self._update_running(mean.flatten(), var.flatten(), m, factor)
        return output.reshape(input.shape)

    def _check_channels(self, input):
        names = ("running_mean", "running_var", "weight", "bias")
        for name in names:
            value = getattr(self, name)
            if value is not None and len(value) != input.shape[1]:
                raise RuntimeError(
                    f"{name} should contain {input.shape[1]} elements not {len(value)}"
                )
        _check_dtype(_BATCH, input, *(getattr(self, name) for name in names))


class BatchNorm1d(_BatchNorm):
    __doc__ = _document(
        _BatchNorm,
        "(N, C) or (N, C, L)",
        """
        >>> x = torch.tensor([[1.0, 2, 3], [10, 20, 30], [100, 200, 300]])
        >>> BatchNorm1d(3, affine=False)(x)
        tensor([[-0.8054, -0.8054, -0.8054],
                [-0.6040, -0.6040, -0.6040],
                [ 1.4094,  1.4094,  1.4094]])
        """,
    )
    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = _document(
        _BatchNorm,
        "(N, C, H, W)",
        """
        >>> from normbook.data.examples import CONV_OUTPUT
        >>> layer = BatchNorm2d(2)
        >>> y = layer(torch.tensor(CONV_OUTPUT.x).float())
        >>> layer.running_mean, layer.running_var  # a tenth of the way
        (tensor([0.1000, 0.0500]), tensor([1.0143, 1.0714]))
        """,
    )
    ranks = (4,)


class _InstanceNorm(_NormBase):
    """Instance norm of {shape}: one mean and variance per channel of each sample.

    Output as the input, which may also come without its first axis, as one sample. `weight`,
    `bias`, `running_mean` and `running_var` are (C,), and all off by default. Running statistics
    average those of the samples, and are used in eval mode where they are tracked.

    Raises
    ------
    ValueError : wrong rank; wrong number of channels, if affine; one spatial element, with the
        sample's statistics.
    RuntimeError : wrong number of channels, with running statistics; mixed dtypes.
    NotImplementedError : input that isn't floating point.

    Source: Ulyanov, Vedaldi & Lempitsky 2016, eq. 7.
    """

    ranks: tuple[int, int]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input):
        _check_rank(input, self.ranks)
        self._check_channels(input)
        if input.dim() == self.ranks[0]:
            return self._normalize_batch(input.unsqueeze(0)).squeeze(0)
        return self._normalize_batch(input)

    def _check_channels(self, input):
        axis = input.dim() - self.ranks[0]
        channels = input.shape[axis]
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={axis} to match num_features "
                    f"({self.num_features}), but got: {channels}."
                )
            warnings.warn(
                f"input's size at dim={axis} is {channels} and does not match num_features, "
                f"{self.num_features}, which is not used because affine=False",
                stacklevel=4,
            )

    def _normalize_batch(self, input):
        m = math.prod(input.shape[2:])
        own = self.training or not self.track_running_stats
        if own and m == 1:
            raise ValueError(
                f"Expected more than 1 spatial element when training, got input size {input.shape}"
            )
        channels = input.shape[1]
        if self.running_mean is not None and channels != len(self.running_mean):
            raise RuntimeError(
                f"running_mean should contain {channels} elements not {len(self.running_mean)}"
            )
        _check_dtype(_INSTANCE, input, self.weight, self.bias)
        running = (None, None) if own else (self.running_mean, self.running_var)
        x = input.flatten(2)
        output, mean, var = _normalize(x, _INSTANCE, self.weight, self.bias, self.eps, running)
        if own and self.running_mean is not None and m > 0:
            mean, var = (value.squeeze(2).mean(0) for value in (mean, var))
            self._update_running(mean, var, m, self.momentum or 0.0)
        return output.reshape(input.shape)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _document(
        _InstanceNorm,
        "(N, C, L)",
        """
        >>> InstanceNorm1d(2)(torch.tensor([[[1.0, 2, 3], [10, 20, 30]]]))
        tensor([[[-1.2247,  0.0000,  1.2247],
                 [-1.2247,  0.0000,  1.2247]]])
        """,
    )
    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _document(
        _InstanceNorm,
        "(N, C, H, W)",
        """
        >>> from normbook.data.examples import CONV_OUTPUT
        >>> InstanceNorm2d(2)(torch.tensor(CONV_OUTPUT.x).float())[0, 0]
        tensor([[-0.5773, -0.5773],
                [-0.5773,  1.7320]])
        """,
    )
    ranks = (3, 4)


class GroupNorm(nn.Module):
    """Group norm of (N, C, ...): one mean and variance per group of C / num_groups channels.

    Output as the input; weight and bias are (C,).

    Raises
    ------
    ValueError : num_groups doesn't divide num_channels; one value in all of a group, with N = 1.
    RuntimeError : fewer than 2 axes; channels other than num_channels; mixed dtypes.
    NotImplementedError : input that isn't floating point.

    Source: Wu & He 2018, eq. 7.

    Examples
    --------
    One group is layer norm's statistics, but not its parameters.

    >>> one_group, layer = GroupNorm(1, 3), LayerNorm([3, 5, 5])
    >>> x = torch.arange(75.0).reshape(1, 3, 5, 5)
    >>> torch.allclose(one_group(x), layer(x))
    True
    >>> one_group.weight.shape, layer.weight.shape
    (torch.Size([3]), torch.Size([3, 5, 5]))
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self.weight, self.bias = _parameters(num_channels, affine, affine and bias, device, dtype)

    def forward(self, input):
        if input.dim() < 2:
            raise RuntimeError(
                f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
            )
        n, channels, *rest = input.shape
        if n * channels // self.num_groups * math.prod(rest) == 1:
            raise ValueError(
                "Expected more than 1 value per channel when training, "
                f"got input size {input.shape} in {self.num_groups} groups"
            )
        if channels % self.num_groups:
            raise RuntimeError(
                f"Expected number of channels in input to be divisible by num_groups, but got "
                f"input of shape {list(input.shape)} and num_groups={self.num_groups}"
            )
        if self.affine and channels != self.num_channels:
            raise RuntimeError(
                "Expected weight to be a vector of size equal to the number of channels in input, "
                f"but got weight of shape [{self.num_channels}] and input of shape "
                f"{list(input.shape)}"
            )
        _check_dtype(_GROUP, input, self.weight, self.bias)
        scheme = _GROUP.with_lengths(g=self.num_groups)
        x = input.flatten(2) if rest else input.unsqueeze(2)
        return _normalize(x, scheme, self.weight, self.bias, self.eps)[0].reshape(input.shape)

    def extra_repr(self):
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _NormalizedShape(nn.Module):
    """What layer norm and RMS norm share: they normalize the last axes, `normalized_shape`."""

    def __init__(self, normalized_shape, eps, elementwise_affine, bias, device, dtype):
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.weight, self.bias = _parameters(
            self.normalized_shape, elementwise_affine, bias, device, dtype
        )

    def _forward(self, input, scheme, eps, *typed):
        shape = self.normalized_shape
        if not shape:
            raise RuntimeError(
                "Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
                "least one element, but got normalized_shape = []"
            )
        leading = input.shape[: max(input.dim() - len(shape), 0)]
        if input.shape != (*leading, *shape):
            expected = ", ".join(["*", *map(str, shape)])
            raise RuntimeError(
                f"Given normalized_shape={list(shape)}, expected input with shape "
                f"[{expected}], but got input of size{list(input.shape)}"
            )
        _check_dtype(scheme, input, *typed)
        x = input.reshape(math.prod(leading), math.prod(shape))
        weight, bias = (
            None if value is None else value.flatten() for value in (self.weight, self.bias)
        )
        return _normalize(x, scheme, weight, bias, eps)[0].reshape(input.shape)


class LayerNorm(_NormalizedShape):
    """Layer norm over the last axes: one mean and variance per index of the axes before them.

    Input ``(*, *normalized_shape)``, output as the input; weight and bias have normalized_shape.

    Raises
    ------
    TypeError : input is no tensor.
    RuntimeError : normalized_shape is empty, or isn't the end of the input's shape; mixed dtypes.
    NotImplementedError : input that isn't floating point.

    Source: Ba, Kiros & Hinton 2016, eq. 3 and 4.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2, 3, 4, 5], [10, 20, 30, 40, 50]])
    >>> LayerNorm(5, elementwise_affine=False)(x)
    tensor([[-1.4142, -0.7071,  0.0000,  0.7071,  1.4142],
            [-1.4142, -0.7071,  0.0000,  0.7071,  1.4142]])
    """

    def __init__(
        self,
        normalized_shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__(
            normalized_shape, eps, elementwise_affine, elementwise_affine and bias, device, dtype
        )

    def forward(self, input):
        _check_tensor(_LAYER, input)
        return self._forward(input, _LAYER, self.eps, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_NormalizedShape):
    """RMS norm over the last axes: divides by the root mean square; no mean, no bias.

    Input ``(*, *normalized_shape)``, output as the input; weight has normalized_shape. eps=None is
    the machine epsilon of the dtype it computes in: 2.2e-16 for float64, 1.2e-7 for all others.

    Raises
    ------
    TypeError : input is no tensor.
    ValueError : fewer axes than normalized_shape.
    RuntimeError : normalized_shape is empty, or isn't the end of the input's shape.
    NotImplementedError : input that isn't floating point.

    Source: Zhang & Sennrich 2019, eq. 4.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2, 3, 4, 5]])
    >>> RMSNorm(5, elementwise_affine=False)(x)
    tensor([[0.3015, 0.6030, 0.9045, 1.2060, 1.5076]])
    """

    def __init__(
        self,
        normalized_shape,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__(normalized_shape, eps, elementwise_affine, False, device, dtype)

    def forward(self, input):
        _check_tensor(_RMS, input)
        least = len(self.normalized_shape)
        if input.dim() < least:
            raise ValueError(
                f"Input tensor must have at least {least} dimensions, but got {input.dim()}"
            )
        eps = torch.finfo(compute_dtype(input)).eps if self.eps is None else self.eps
        return self._forward(input, _RMS, eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


def _parameters(shape, weight, bias, device, dtype):
    """weight of ones and bias of zeros, each None if not wanted."""
    factory = {"device": device, "dtype": dtype}
    return (
        nn.Parameter(torch.ones(shape, **factory)) if weight else None,
        nn.Parameter(torch.zeros(shape, **factory)) if bias else None,
    )


def _check_tensor(scheme, input):
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"{scheme.name} expected a tensor, but got {type(input).__name__}")


def _check_rank(input, ranks):
    if input.dim() not in ranks:
        expected = " or ".join(f"{rank}D" for rank in ranks)
        raise ValueError(f"expected {expected} input (got {input.dim()}D input)")


def _check_dtype(scheme, input, *tensors):
    """Parameters must be of the input's dtype, or float32 for half precision, as in PyTorch."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"{scheme.name} is not implemented for {input.dtype}; expected floats"
        )
    for tensor in tensors:
        if tensor is None or tensor.dtype == input.dtype:
            continue
        if not (input.dtype.itemsize == 2 and tensor.dtype == torch.float32):
            raise RuntimeError(
                f"mixed dtype: {scheme.name} got an input of {input.dtype} and parameters or "
                f"running statistics of {tensor.dtype}; expected the same, or torch.float32 for "
                "half precision"
            )

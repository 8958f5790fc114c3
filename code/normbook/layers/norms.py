"""PyTorch's normalization layers, with the book's arithmetic in place of PyTorch's kernels.

Each class is `torch.nn`'s of the same name: construction, parameters, buffers, state dicts, resets
and ``isinstance`` are PyTorch's, so that all of its tools take them. Ours are the forward pass and
the closed-form backward pass, those of `normbook.core.arithmetic`: a layer says who shares what, by
a scheme of the book's table, and raises where PyTorch raises.

They differ from `torch.nn` in two ways. Where the sum of squares overflows, all of a centered group
is NaN, never a plausible 0. And `torch.jit.script` and `torch.fx.symbolic_trace` refuse them; use
`torch.compile` or `torch.export`, which take them whole.
"""

import math

import torch
from torch import nn

from normbook.core import blockwise
from normbook.core.scheme import (
    BATCH_NORM_1D,
    BATCH_NORM_1D_LENGTH,
    BATCH_NORM_2D,
    GROUP_NORM,
    INSTANCE_NORM_1D,
    INSTANCE_NORM_2D,
    LAYER_NORM,
    RMS_NORM,
)


class _Normalize(torch.autograd.Function):
    """The forward pass with the closed-form backward pass, in place of autograd's.

    Takes x split as the scheme splits it, gamma and beta (or None), and a constant mean and
    variance (or None, to use those of x), all shaped to broadcast against x. Returns the output,
    and the mean and variance of x where it used them: results as well, so that derivatives of any
    order find their way through them.
    """

    @staticmethod
    def forward(x, gamma, beta, mean, var, scheme, eps):
        given = None if mean is None else (mean, var)
        output, *used = blockwise.forward(x, scheme, gamma, beta, eps, given=given)
        return (output, None, None) if given else (output, *used)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gamma, beta, mean, var, ctx.scheme, ctx.eps = inputs
        ctx.given, ctx.has_beta = mean is not None, beta is not None
        ctx.save_for_backward(x, gamma, *((mean, var) if ctx.given else output[1:]))
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, dy, dmean, dvar):
        x, gamma, *used = ctx.saved_tensors
        dy = torch.zeros_like(x) if dy is None else dy
        used = {"given": used} if ctx.given else {"known": used}
        dx, dgamma, dbeta = blockwise.backward(dy, x, ctx.scheme, gamma, ctx.eps, **used)
        if dmean is not None or dvar is not None:
            dx = dx + blockwise.moments_gradient(dmean, dvar, x, used["known"], ctx.scheme)
        return dx, None if gamma is None else dgamma, dbeta if ctx.has_beta else None, *[None] * 4


def _normalize(x, scheme, gamma, beta, eps, running=(None, None)):
    """x through `_Normalize`: its output, and the mean and variance of x."""
    if blockwise.is_transformed():  # these transforms differentiate the forward pass by themselves
        given = running if running[0] is not None else None
        return blockwise.forward(x, scheme, gamma, beta, eps, given=given)
    return _Normalize.apply(x, gamma, beta, *running, scheme, eps)


class _ByChannel:
    """What batch norm and instance norm share: parameters and running statistics by channel."""

    schemes: dict  # by the rank of the input

    def _normalize(self, input, batch):
        """The output, and the mean and variance of the batch, if `batch`, not the running ones."""
        names = ("running_mean", "running_var", "weight", "bias")
        values = [getattr(self, name) for name in names]
        scheme = self.schemes[input.dim()]
        for name, value in zip(names, values, strict=True):
            if value is not None and len(value) != input.shape[1]:
                raise RuntimeError(
                    f"{name} should contain {input.shape[1]} elements not {len(value)}"
                )
        _check_dtypes(self, input, *values[0 if isinstance(self, _BatchNorm) else 2 :])
        shape = (1, -1, *[1] * (input.dim() - 2))
        mean, var, weight, bias = (None if v is None else v.view(shape) for v in values)
        # Copies: a step in train mode may move them before the backward pass takes them.
        running = (None, None) if batch else (mean.clone(), var.clone())
        return _normalize(input, scheme, weight, bias, self.eps, running)

    @torch.no_grad()
    def _update_running(self, mean, var, m, factor):
        """Move the running statistics toward those of a batch by `factor`.

        The batch's variance is made unbiased, m / (m - 1), although the biased one normalized the
        batch (Ioffe & Szegedy 2015, algorithm 2).
        """
        for running, new in ((self.running_mean, mean), (self.running_var, var * m / (m - 1))):
            new = new.flatten()
            running.copy_((1 - factor) * running.to(new.dtype) + factor * new)


class _BatchNorm(_ByChannel):
    def forward(self, input):
        self._check_input_dim(input)
        batch = self.training or self.running_mean is None
        m = math.prod(input.shape) // max(1, input.shape[1])
        if batch and m == 1:
            raise ValueError(
                "Expected more than 1 value per channel when training, "
                f"got input size {input.shape}"
            )
        if self.eps < 0 or (batch and self.eps == 0):
            least = "positive during training" if batch else "non-negative"
            raise ValueError(f"batch_norm eps must be {least}, but got {self.eps}")
        output, mean, var = self._normalize(input, batch)
        if self.training and self.track_running_stats:
            # Only now: a checkpoint that is recomputed in part moves all of it, or none.
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
            if self.running_mean is not None and m > 1:
                factor = self.momentum
                if factor is None:  # as torch: without a count, nothing moves
                    count = self.num_batches_tracked
                    factor = 0.0 if count is None else count.to(mean.dtype).reciprocal()
                self._update_running(mean, var, m, factor)
        return output


class BatchNorm1d(_BatchNorm, nn.BatchNorm1d):
    """Batch norm of (N, C) or (N, C, L): a mean and a variance per channel, over the whole batch.

    Output as the input; weight, bias, running_mean and running_var are (C,). The statistics are
    the batch's in train mode, or where none are tracked, else the running ones. `momentum` is the
    weight of the new batch; None averages all batches alike.

    Raises
    ------
    ValueError
        wrong rank; eps < 0; with the batch's statistics, one value per channel or eps = 0.
    RuntimeError
        wrong number of channels; mixed dtypes.
    NotImplementedError
        input that isn't floating point, or is nested.

    References
    ----------
    Ioffe & Szegedy 2015, algorithms 1 and 2.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2, 3], [10, 20, 30], [100, 200, 300]])
    >>> BatchNorm1d(3, affine=False)(x)
    tensor([[-0.8054, -0.8054, -0.8054],
            [-0.6040, -0.6040, -0.6040],
            [ 1.4094,  1.4094,  1.4094]])
    """

    schemes = {2: BATCH_NORM_1D, 3: BATCH_NORM_1D_LENGTH}  # noqa: RUF012


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """Batch norm of (N, C, H, W): a mean and a variance per channel. All else as `BatchNorm1d`.

    Examples
    --------
    >>> from normbook.data.examples import CONV_OUTPUT
    >>> layer = BatchNorm2d(2)
    >>> y = layer(torch.tensor(CONV_OUTPUT.x).float())
    >>> layer.running_mean, layer.running_var  # a tenth of the way
    (tensor([0.1000, 0.0500]), tensor([1.0143, 1.0714]))
    """

    schemes = {4: BATCH_NORM_2D}  # noqa: RUF012


class _InstanceNorm(_ByChannel):
    def _apply_instance_norm(self, input):  # called by torch's forward, which checks the input
        batch = self.training or not self.track_running_stats
        m = math.prod(input.shape[2:])
        if batch and m == 1:
            raise ValueError(
                f"Expected more than 1 spatial element when training, got input size {input.shape}"
            )
        output, mean, var = self._normalize(input, batch)
        if batch and self.running_mean is not None and m > 1:
            self._update_running(mean.mean(0), var.mean(0), m, self.momentum or 0.0)
        return output


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """Instance norm of (N, C, L): a mean and a variance per channel of each sample.

    Output as the input, which may also come without its first axis, as one sample. `weight`,
    `bias`, `running_mean` and `running_var` are (C,), and all off by default. Running statistics
    average those of the samples, and are used in eval mode where they are tracked.

    Raises
    ------
    ValueError
        wrong rank; wrong number of channels, if affine; one spatial element, with the
        sample's statistics.
    RuntimeError
        wrong number of channels, with running statistics; mixed dtypes.
    NotImplementedError
        input that isn't floating point, or is nested.

    References
    ----------
    Ulyanov, Vedaldi & Lempitsky 2016, eq. 7.

    Examples
    --------
    >>> InstanceNorm1d(2)(torch.tensor([[[1.0, 2, 3], [10, 20, 30]]]))
    tensor([[[-1.2247,  0.0000,  1.2247],
             [-1.2247,  0.0000,  1.2247]]])
    """

    schemes = {3: INSTANCE_NORM_1D}  # noqa: RUF012


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """Instance norm of (N, C, H, W). All else as `InstanceNorm1d`.

    Examples
    --------
    >>> from normbook.data.examples import CONV_OUTPUT
    >>> InstanceNorm2d(2)(torch.tensor(CONV_OUTPUT.x).float())[0, 0]
    tensor([[-0.5773, -0.5773],
            [-0.5773,  1.7320]])
    """

    schemes = {4: INSTANCE_NORM_2D}  # noqa: RUF012


class GroupNorm(nn.GroupNorm):
    """Group norm of (N, C, ...): a mean and a variance per group of C / num_groups channels.

    Output as the input; weight and bias are (C,).

    Raises
    ------
    ValueError
        num_groups doesn't divide num_channels; one value in all of a group, with N = 1.
    RuntimeError
        fewer than 2 axes; channels other than num_channels; mixed dtypes.
    NotImplementedError
        input that isn't floating point, or is nested.

    References
    ----------
    Wu & He 2018, eq. 7.

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

    def forward(self, input):
        if input.dim() < 2:
            raise RuntimeError(
                f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
            )
        n, channels, *rest = input.shape
        groups, size = self.num_groups, math.prod(rest)
        if n * channels // groups * size == 1:
            raise ValueError(
                "Expected more than 1 value per channel when training, "
                f"got input size {input.shape} in {groups} groups"
            )
        if channels % groups or (self.affine and channels != self.num_channels):
            raise RuntimeError(
                f"Expected {self.num_channels} channels in {groups} groups, "
                f"but got input of shape {list(input.shape)}"
            )
        _check_dtypes(self, input, self.weight, self.bias)
        x = input.reshape(n, groups, channels // groups, size, 1)  # n g k h w, with all of h w as h
        weight, bias = (
            None if value is None else value.view(1, groups, -1, 1, 1)
            for value in (self.weight, self.bias)
        )
        return _normalize(x, GROUP_NORM, weight, bias, self.eps)[0].reshape(input.shape)


class LayerNorm(nn.LayerNorm):
    """Layer norm over the last axes: a mean and a variance per index of the axes before them.

    Input ``(*, *normalized_shape)``, output as the input; weight and bias have normalized_shape.

    Raises
    ------
    TypeError
        input is no tensor.
    RuntimeError
        normalized_shape is empty, or isn't the end of the input's shape; mixed dtypes.
    NotImplementedError
        input that isn't floating point, or is nested.

    References
    ----------
    Ba, Kiros & Hinton 2016, eq. 3 and 4.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2, 3, 4, 5], [10, 20, 30, 40, 50]])
    >>> LayerNorm(5, elementwise_affine=False)(x)
    tensor([[-1.4142, -0.7071,  0.0000,  0.7071,  1.4142],
            [-1.4142, -0.7071,  0.0000,  0.7071,  1.4142]])
    """

    def forward(self, input):
        _check_dtypes(self, input, self.weight, self.bias)
        return _over_last_axes(self, input, LAYER_NORM, self.eps, self.weight, self.bias)


class RMSNorm(nn.RMSNorm):
    """RMS norm over the last axes: divides by the root mean square; no mean, no bias.

    Input ``(*, *normalized_shape)``, output as the input; weight has normalized_shape. eps=None is
    the machine epsilon of the dtype it computes in: 2.2e-16 for float64, 1.2e-7 for all others.

    Raises
    ------
    TypeError
        input is no tensor.
    ValueError
        fewer axes than normalized_shape.
    RuntimeError
        normalized_shape is empty, or isn't the end of the input's shape.
    NotImplementedError
        input that isn't floating point, or is nested.

    References
    ----------
    Zhang & Sennrich 2019, eq. 4.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2, 3, 4, 5]])
    >>> RMSNorm(5, elementwise_affine=False)(x)
    tensor([[0.3015, 0.6030, 0.9045, 1.2060, 1.5076]])
    """

    def forward(self, x):
        least = len(self.normalized_shape)
        if isinstance(x, torch.Tensor) and x.dim() < least:
            raise ValueError(
                f"Input tensor must have at least {least} dimensions, but got {x.dim()}"
            )
        _check_input(self, x)
        eps = torch.finfo(blockwise.compute_dtype(x)).eps if self.eps is None else self.eps
        return _over_last_axes(self, x, RMS_NORM, eps, self.weight, None)


def _over_last_axes(layer, input, scheme, eps, *parameters):
    """Normalize `input` over the layer's `normalized_shape`, whose axes count as one."""
    _check_input(layer, input)
    shape = layer.normalized_shape
    leading = input.shape[: max(input.dim() - len(shape), 0)]
    if not shape:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, but got []")
    if input.shape != (*leading, *shape):
        expected = ", ".join(["*", *map(str, shape)])
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [{expected}], but "
            f"got input of size{list(input.shape)}"
        )
    ones = [1] * (len(scheme.axes) - 2)
    x = input.reshape(math.prod(leading), *ones, math.prod(shape))
    parameters = (None if value is None else value.view(1, *ones, -1) for value in parameters)
    return _normalize(x, scheme, *parameters, eps)[0].reshape(input.shape)


def _check_input(layer, input):
    """Raises where it is no plain tensor of floats."""
    name = type(layer).__name__
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"{name} expected a tensor, but got {type(input).__name__}")
    if input.is_nested or not input.dtype.is_floating_point:
        kind = "a nested tensor" if input.is_nested else input.dtype
        raise NotImplementedError(f"{name} is not implemented for {kind}; expected plain floats")


def _check_dtypes(layer, input, *values):
    """Raises where values are of another dtype; float32 goes with half precision, as in PyTorch."""
    _check_input(layer, input)
    half = input.dtype.itemsize == 2
    for value in values:
        if value is not None and value.dtype not in (input.dtype, torch.float32 if half else None):
            raise RuntimeError(
                f"mixed dtype: {type(layer).__name__} got an input of {input.dtype} and parameters "
                f"or running statistics of {value.dtype}; expected the same, or torch.float32 for "
                "half precision"
            )

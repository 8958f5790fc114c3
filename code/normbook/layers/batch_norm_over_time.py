"""Batch norm of sequences: for every time step by itself, or pooled over all steps.

Input is (N, T, num_features), padded, with N `lengths` if they differ; output as the input. Padding
takes part in nothing and comes out as 0. gamma, beta and running statistics have torch's names and
convention (`torch.nn.BatchNorm1d`).
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

from normbook.core.normalize import normalize
from normbook.core.scheme import BATCH_NORM_PER_STEP
from normbook.layers.norms import BatchNorm1d
from normbook.layers.recurrent_base import check_lengths, check_positive

_PER_STEP = replace(BATCH_NORM_PER_STEP, params="d")


class BatchNormPerStep(nn.Module):
    """Batch norm of every time step by itself: a mean and a variance per step and feature.

    Input (N, T, num_features), padded, with N `lengths` if they differ. It begins with step
    `first_step`, counted from 0: inside a recurrence, a step at a time. running_mean and
    running_var are (num_steps, num_features); num_batches_tracked (num_steps,) counts the batches
    that got to each step. gamma and beta are (num_features,), the same for all steps.

    A step that no training sequence reached has no running statistics. In eval mode, `beyond` says
    what becomes of it: "last" uses those of the last step that one did reach, T_max in the paper;
    "error" raises. The fewer sequences got to T_max, the worse the statistics that stand in.

    Raises
    ------
    TypeError : a size or a length is no integer.
    ValueError : wrong shape; a wrong number of lengths, or one that isn't from 1 to T. In train
        mode, a step with one real sample, or a step beyond num_steps. In eval mode with
        beyond="error", a step that no training sequence reached.
    RuntimeError : mixed dtypes.

    Source: Cooijmans et al. 2016, section 3.

    Examples
    --------
    No sequence gets to the third step: in eval mode, the second stands in for it.

    >>> layer = BatchNormPerStep(2, num_steps=3)
    >>> _ = layer(torch.randn(4, 3, 2), lengths=[2, 2, 2, 1])
    >>> layer.num_batches_tracked
    tensor([1, 1, 0])
    >>> x = torch.ones(1, 3, 2)
    >>> bool((layer.eval()(x)[0, 2] == layer(x)[0, 1]).all())
    True
    """

    def __init__(
        self,
        num_features,
        num_steps,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        *,
        beyond="last",
        device=None,
        dtype=None,
    ):
        super().__init__()
        check_positive(num_features=num_features, num_steps=num_steps)
        if beyond not in ("last", "error"):
            raise ValueError(f"beyond is {beyond!r}; expected 'last' or 'error'")
        self.num_features = num_features
        self.num_steps = num_steps
        self.eps = eps
        self.momentum = momentum
        self.beyond = beyond
        factory = {"device": device, "dtype": dtype}
        shape = (num_steps, num_features)
        for name, make in (("weight", torch.ones), ("bias", torch.zeros)):
            value = nn.Parameter(make(num_features, **factory)) if affine else None
            self.register_parameter(name, value)
        self.register_buffer("running_mean", torch.zeros(shape, **factory))
        self.register_buffer("running_var", torch.ones(shape, **factory))
        counts = torch.zeros(num_steps, dtype=torch.long, device=device)
        self.register_buffer("num_batches_tracked", counts)

    def forward(self, input, lengths=None, first_step=0):
        _check_shape(self, input)
        if input.dtype != self.running_mean.dtype:
            raise RuntimeError(
                f"mixed dtype: got an input of {input.dtype} and running statistics of "
                f"{self.running_mean.dtype}; expected the same"
            )
        x, mask = input, None
        if lengths is not None:
            mask = _mask(lengths, input)
            x, mask = (a[:, mask.any(0)] for a in (input, mask))  # no step without a sample
        steps = torch.arange(first_step, first_step + x.shape[1], device=x.device)
        affine = self.weight, self.bias, self.eps
        if self.training:
            self._check_steps(steps, self.num_steps, f"num_steps={self.num_steps}")
            output, used = normalize(x, _PER_STEP, *affine, mask=mask)
            self._update_running(steps, used)
        else:
            reached = self.num_batches_tracked.nonzero()
            trained = int(reached.max()) + 1 if len(reached) else self.num_steps
            if self.beyond == "error":
                self._check_steps(steps, trained, f"{trained}, the longest training sequence")
            steps = steps.clamp(max=trained - 1)
            running = self.running_mean[steps], self.running_var[steps]
            output, _ = normalize(x, _PER_STEP, *affine, mask=mask, running=running)
        return F.pad(output, (0, 0, 0, input.shape[1] - x.shape[1]))

    def _check_steps(self, steps, limit, meaning):
        for t in steps.tolist():
            if t >= limit:
                raise ValueError(f"got a step t={t}, counted from 0; expected t < {meaning}")

    @torch.no_grad()
    def _update_running(self, steps, used):
        counts = used.count[:, :1]
        for t, count in zip(steps.tolist(), counts.flatten().tolist(), strict=True):
            if count < 2:
                raise ValueError(
                    "Expected more than 1 value per channel when training, "
                    f"got {count} real sample in step t={t}, counted from 0"
                )
        self.num_batches_tracked[steps] += 1
        factor = self.momentum
        if factor is None:
            factor = 1 / self.num_batches_tracked[steps, None].to(used.mean.dtype)
        unbiased = used.var * counts / (counts - 1)
        for running, new in ((self.running_mean, used.mean), (self.running_var, unbiased)):
            mixed = (1 - factor) * running[steps].to(new.dtype) + factor * new
            running[steps] = mixed.to(running.dtype)  # half precision is computed in float32

    def extra_repr(self):
        return (
            f"{self.num_features}, {self.num_steps}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.weight is not None}, beyond={self.beyond!r}"
        )


class BatchNormPooled(BatchNorm1d):
    """Batch norm pooled over time: a mean and a variance per feature, from all real steps.

    Input (N, T, num_features), padded. What is padding, N `lengths` tell, or a boolean `padding`
    (N, T), True for padding. gamma, beta and running statistics are (num_features,), whatever the
    number of steps: it is batch norm of the packed steps. It averages over steps yet to come, so it
    can't stand inside a recurrence: it is for the input, W_ih x_t of all steps, for finished
    outputs, or for the tokens of a Transformer.

    Raises
    ------
    TypeError : a length is no integer; padding isn't boolean; lengths and padding are both given.
    ValueError : wrong shape; a wrong number of lengths, or one that isn't from 1 to T; in train
        mode, one real step in all.
    RuntimeError : mixed dtypes.

    Source: Laurent et al. 2016 and Amodei et al. 2016, both "sequence-wise".

    Examples
    --------
    >>> x = torch.tensor([[[1.0], [2]], [[3], [0]]])
    >>> BatchNormPooled(1, affine=False)(x, lengths=[2, 1]).flatten()
    tensor([-1.2247,  0.0000,  1.2247,  0.0000])
    """

    def forward(self, input, lengths=None, padding=None):
        _check_shape(self, input)
        if lengths is not None and padding is not None:
            raise TypeError("lengths and padding are both given; expected one of them")
        if lengths is None and padding is None:
            return super().forward(input.flatten(0, 1)).view_as(input)
        if padding is None:
            mask = _mask(lengths, input)
        else:
            check_padding(padding, input)
            mask = ~padding
        output = super().forward(input[mask])
        return torch.zeros_like(input).index_put((mask,), output)


def _check_shape(layer, input):
    if input.dim() != 3 or input.shape[-1] != layer.num_features:
        raise ValueError(
            f"{type(layer).__name__} expected an input (N, T, {layer.num_features}), "
            f"got shape {tuple(input.shape)}"
        )


def _mask(lengths, input):
    """True for a real step: (N, T)."""
    lengths = check_lengths(lengths, input).to(input.device)
    return torch.arange(input.shape[1], device=input.device) < lengths[:, None]


def check_padding(padding, input, name="padding"):
    """Check that `padding`, named so in errors, is boolean and (N, T), as the input's first axes.

    Raises
    ------
    TypeError : it isn't boolean.
    ValueError : wrong shape.

    Examples
    --------
    >>> check_padding(torch.tensor([[0, 1]]), torch.zeros(1, 2, 8))
    Traceback (most recent call last):
    TypeError: padding has dtype torch.int64; expected bool, True for padding
    """
    if padding.dtype != torch.bool:
        raise TypeError(f"{name} has dtype {padding.dtype}; expected bool, True for padding")
    if padding.shape != input.shape[:2]:
        raise ValueError(
            f"{name} has shape {tuple(padding.shape)}; "
            f"expected {tuple(input.shape[:2])} by sample and token"
        )

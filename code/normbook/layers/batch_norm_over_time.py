"""Batch norm of sequences: for every time step by itself, or pooled over all steps.

Input is (N, T, num_features), padded, with N `lengths` if they differ; output as the input. Padding
takes part in nothing and comes out as 0. gamma, beta and running statistics have torch's names and
convention (`torch.nn.BatchNorm1d`). torch.jit.script and torch.fx.symbolic_trace raise an error.
"""

import torch
import torch.nn.functional as F
from torch import nn

from normbook.core.normalize import normalize
from normbook.core.scheme import BATCH_NORM_PER_STEP_SHARED
from normbook.layers.norms import BatchNorm1d
from normbook.layers.recurrent_base import (
    check_bool,
    check_lengths,
    check_positive,
    check_tensor,
)


class BatchNormPerStep(nn.modules.batchnorm._BatchNorm):
    """Batch norm of every time step by itself: a mean and a variance per step and feature.

    Input (N, T, num_features), padded, with N `lengths` if they differ. It begins with step
    `first_step`, counted from 0: inside a recurrence, a step at a time. running_mean and
    running_var are (num_steps, num_features); num_batches_tracked (num_steps,) counts the batches
    that got to each step. gamma and beta are (num_features,), the same for all steps.

    A step that no training sequence reached has no running statistics. In eval mode, `beyond` says
    what becomes of it: "last" uses those of the last step that one did reach, T_max in the paper;
    "error" raises. The fewer sequences got to T_max, the worse the statistics that stand in.

    Of torch's batch norms it has the resets, `swa_utils.update_bn` and
    `torch.func.replace_all_batch_norm_modules_`; there is no SyncBatchNorm for it.

    Raises
    ------
    TypeError
        a size or a length is no integer, affine no bool, the input no tensor or a nested
        one.
    ValueError
        wrong shape; a wrong number of lengths, or one that isn't from 1 to T. In train
        mode, a step with one real sample, or a step beyond num_steps. In eval mode with
        beyond="error", a step that no training sequence reached.
    RuntimeError
        mixed dtypes.

    References
    ----------
    Cooijmans et al. 2016, section 3.

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
        check_positive(num_features=num_features, num_steps=num_steps)
        check_bool(affine=affine)
        if beyond not in ("last", "error"):
            raise ValueError(f"beyond is {beyond!r}; expected 'last' or 'error'")
        super().__init__(num_features, eps, momentum, affine, device=device, dtype=dtype)
        self.num_steps = num_steps
        self.beyond = beyond
        for name, value in self.named_buffers():  # torch's, once for every step
            setattr(self, name, value.expand(num_steps, *value.shape).clone())

    def forward(self, input, lengths=None, first_step=0):
        _check_shape(self, input)
        self._check_dtype(input)
        x, mask, counts = input, None, [input.shape[0]] * input.shape[1]
        if lengths is not None:
            mask = _mask(lengths, input)
            counts = [count for count in mask.sum(0).tolist() if count]
            x, mask = (a[:, : len(counts)] for a in (input, mask))  # no step without a sample
        steps = range(first_step, first_step + len(counts))
        affine = self.weight, self.bias, self.eps
        if self.training or self.running_mean is None:
            self._check_steps(steps, self.num_steps, f"num_steps={self.num_steps}")
            self._check_counts(steps, counts)
            output, used = normalize(x, BATCH_NORM_PER_STEP_SHARED, *affine, mask=mask)
            if self.running_mean is not None:
                self._update_running(slice(steps.start, steps.stop), used)
        else:
            indices = self._trained(steps)
            running = self.running_mean[indices], self.running_var[indices]
            output, _ = normalize(
                x, BATCH_NORM_PER_STEP_SHARED, *affine, mask=mask, running=running
            )
        return F.pad(output, (0, 0, 0, input.shape[1] - x.shape[1]))

    def _check_dtype(self, input):
        half = input.dtype in (torch.float16, torch.bfloat16)
        expected = {input.dtype, torch.float32} if half else {input.dtype}
        for name in ("weight", "running_mean"):
            value = getattr(self, name)
            if value is not None and value.dtype not in expected:
                raise RuntimeError(
                    f"mixed dtype: got an input of {input.dtype} and a {name} of {value.dtype}; "
                    "expected the same, or torch.float32 for half precision"
                )

    def _check_steps(self, steps, limit, meaning):
        for t in steps:
            if t >= limit:
                raise ValueError(f"got a step t={t}, counted from 0; expected t < {meaning}")

    def _check_counts(self, steps, counts):
        for t, count in zip(steps, counts, strict=True):
            if count < 2:
                raise ValueError(
                    "Expected more than 1 value per channel when training, "
                    f"got {count} real sample in step t={t}, counted from 0"
                )

    def _trained(self, steps):
        """Where the running statistics of these steps are found: (T,)."""
        reached = self.num_batches_tracked > 0
        numbers = torch.arange(1, self.num_steps + 1, device=reached.device)
        trained = (numbers * reached).amax()
        trained = torch.where(trained == 0, self.num_steps, trained)
        if self.beyond == "error":
            limit = int(trained)
            self._check_steps(steps, limit, f"{limit}, the longest training sequence")
        return torch.arange(steps.start, steps.stop, device=reached.device).clamp(max=trained - 1)

    @torch.no_grad()
    def _update_running(self, steps, used):
        counts = used.count[:, :1]
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
            f"affine={self.affine}, beyond={self.beyond!r}"
        )


class BatchNormPooled(BatchNorm1d):
    """Batch norm pooled over time: a mean and a variance per feature, from all real steps.

    Input (N, T, num_features), padded. What is padding, N `lengths` tell, or a boolean `padding`
    (N, T), True for padding. gamma, beta and running statistics are (num_features,), whatever the
    number of steps: it is batch norm of the packed steps. It averages over steps yet to come, so it
    can't stand inside a recurrence: it is for the input, W_ih x_t of all steps, for finished
    outputs, or for the tokens of a Transformer. There is no SyncBatchNorm for it: PyTorch's takes
    (N, C, ...), so leave this one out of what `convert_sync_batchnorm` converts.

    Raises
    ------
    TypeError
        a length is no integer; padding isn't boolean; lengths and padding are both given;
        the input is no tensor or a nested one.
    ValueError
        wrong shape; a wrong number of lengths, or one that isn't from 1 to T; in train
        mode, one real step in all.
    RuntimeError
        mixed dtypes.

    References
    ----------
    Laurent et al. 2016 and Amodei et al. 2016, both "sequence-wise".

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
    check_tensor(type(layer).__name__, input)
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
    TypeError
        it isn't boolean.
    ValueError
        wrong shape.

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

"""Recurrent cells, one step at a time or over all steps of sequences of any lengths.

What comes from the input is computed for all steps at once; only what depends on the last state is
left to the loop. Inside, all sequences are packed: padding is never computed with, so nothing that
lies there reaches a real step.
"""

import math
import numbers
import warnings
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)


class Recurrent(nn.Module):
    """The parameters of one or several cells, named as in `torch.nn`, with a suffix for each.

    A subclass says with `_project` and `_step` what a cell computes. For the norms it takes
    `torch.nn.LayerNorm`, not `normbook.layers.LayerNorm`, which computes the same: a step is so
    small that the time goes into the Python code around it.
    """

    gates: int  # the rows of the weights, in multiples of hidden_size
    norms: dict[str, int]  # the lengths of what is normalized, likewise
    states = 1  # what goes on to the next step: h, or h and c
    beta_is_bias = True  # a norm follows right behind the sums: its beta is the bias

    def __init__(self, cells, hidden_size, bias, norm, device, dtype):
        super().__init__()
        self.hidden_size = hidden_size
        self.bias = bias and (norm is None or not self.beta_is_bias)
        rows, bound = self.gates * hidden_size, 1 / math.sqrt(hidden_size)
        for suffix, input_size in cells.items():
            biases = (rows,) if self.bias else None
            shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
            shapes |= {"bias_ih": biases, "bias_hh": biases}
            for name, shape in shapes.items():
                value = None
                if shape:
                    value = torch.empty(shape, device=device, dtype=dtype).uniform_(-bound, bound)
                    value = nn.Parameter(value)
                self.register_parameter(name + suffix, value)
            if norm is not None:
                for name, size in self.norms.items():
                    module = norm(size * hidden_size).to(device=device, dtype=dtype)
                    self.add_module(name + suffix, module)

    def _cell(self, suffix=""):
        """The weights, the biases (or None) and the norms of one cell, by name."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        parts = {name: getattr(self, name + suffix) for name in names}
        norms = {name: getattr(self, name + suffix, _identity) for name in self.norms}
        return SimpleNamespace(**parts, **norms)

    def _project(self, cell, x):
        """What comes from the input, for any number of steps: a row for each."""
        return F.linear(x, cell.weight_ih, cell.bias_ih)

    def _step(self, cell, x, state):
        """The next state, from what `_project` gave for this step and the last state."""
        raise NotImplementedError

    def _check_input(self, input, dims):
        name = type(self).__name__
        if not isinstance(input, torch.Tensor):
            raise TypeError(f"{name}: input is a {type(input).__name__}; expected a tensor")
        if input.dim() not in dims:
            expected = " or ".join(f"{dim}D" for dim in dims)
            raise ValueError(f"{name}: expected input to be {expected}, got {input.dim()}D")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: input.size(-1) must be equal to input_size, {self.input_size}; "
                f"got an input of shape {tuple(input.shape)}"
            )
        self._check_dtype("input", input)

    def _check_dtype(self, what, value):
        dtype = next(self.parameters()).dtype
        if value.dtype != dtype:
            raise ValueError(
                f"{type(self).__name__}: {what} has dtype {value.dtype}, but the weights have "
                f"{dtype}; convert one of them, as in {what}.to({dtype})"
            )

    def _initial(self, hx, shape, like):
        """The states before the first step, as a tuple; zeros, if none are given."""
        if hx is None:
            return (like.new_zeros(shape),) * self.states
        name = type(self).__name__
        states = (hx,) if self.states == 1 else hx
        if not isinstance(states, tuple) or [isinstance(s, torch.Tensor) for s in states] != (
            [True] * self.states
        ):
            expected = "a tensor" if self.states == 1 else "a pair of tensors, (h, c)"
            raise TypeError(f"{name}: hx is a {type(hx).__name__}; expected {expected}")
        for what, state in zip("hc", states, strict=False):
            if tuple(state.shape) != shape:
                raise RuntimeError(
                    f"{name}: expected {what} of shape {shape}, got {tuple(state.shape)}"
                )
            self._check_dtype(what, state)
        return states

    def _returned(self, states):
        return states[0] if self.states == 1 else tuple(states)


class Cell(Recurrent):
    """
    One step: (N, input_size) and the last state to the next one. States are (N, hidden_size), or
    a pair of them (h, c); zeros if not given. All also without the first axis, for one sample.

    Raises
    ------
    TypeError : a size is no integer; input or state is no tensor, or the state of an LSTM no pair.
    ValueError : a size below 1; wrong rank; a dtype other than the weights'.
    RuntimeError : wrong length of an axis.
    """

    def __init__(
        self, input_size, hidden_size, bias=True, *, norm=nn.LayerNorm, device=None, dtype=None
    ):
        check_positive(input_size=input_size, hidden_size=hidden_size)
        super().__init__({"": input_size}, hidden_size, bias, norm, device, dtype)
        self.input_size = input_size

    def forward(self, input, hx=None):
        self._check_input(input, (1, 2))
        shape = (*input.shape[:-1], self.hidden_size)
        state = self._initial(hx, shape, input)
        cell = self._cell()
        if input.dim() == 1:
            x, state = self._project(cell, input[None]), [s[None] for s in state]
            return self._returned([s[0] for s in self._step(cell, x, state)])
        return self._returned(self._step(cell, self._project(cell, input), state))

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}, bias={self.bias}"


class Layer(Recurrent):
    """
    All steps: (N, T, input_size) to the outputs (N, T, D * hidden_size), where D is 2 if
    bidirectional, else 1, and the state behind the last step, (num_layers * D, N, hidden_size) or
    a pair of such; as in torch.nn with batch_first=True. A sample may come without the first axis.
    For sequences of different lengths, input is a PackedSequence, and so are the outputs; or it is
    padded and comes with `lengths`, N integers, and outputs behind the end are 0. The last state
    is then that behind each sequence's own last step.

    Parameters
    ----------
    norm : makes a norm of so many features, such as nn.RMSNorm; None switches all norms off.
    bias : whether cells have biases; never right in front of a norm, whose beta takes their place.
    dropout : the share of outputs dropped between layers in train mode.

    Raises
    ------
    TypeError : a size is no integer; input or state is no tensor, or the state of an LSTM no pair.
    ValueError : a size below 1; dropout outside of 0 to 1; wrong rank; a dtype other than the
        weights'; a wrong number of lengths, or one that isn't from 1 to T.
    RuntimeError : wrong length of an axis; no step at all.
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        *,
        dropout=0.0,
        bidirectional=False,
        norm=nn.LayerNorm,
        device=None,
        dtype=None,
    ):
        check_positive(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        if not (isinstance(dropout, numbers.Real) and 0 <= dropout <= 1):
            raise ValueError(f"dropout is {dropout!r}; expected a number from 0 to 1")
        if dropout and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} does nothing: it lies between layers, and num_layers=1",
                stacklevel=2,
            )
        directions = ("", "_reverse") if bidirectional else ("",)
        cells = {
            f"_l{layer}{direction}": hidden_size * len(directions) if layer else input_size
            for layer in range(num_layers)
            for direction in directions
        }
        super().__init__(cells, hidden_size, bias, norm, device, dtype)
        self.input_size = input_size
        self.num_layers = num_layers
        self.dropout = dropout
        self.bidirectional = bidirectional

    def forward(self, input, hx=None, lengths=None):
        if lengths is not None:
            return on_padded(self, input, hx, lengths)
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check_input(input, (2, 3))
        *samples, steps, _ = input.shape
        if steps == 0:
            raise RuntimeError(
                f"{type(self).__name__}: expected at least one step, got an input of shape "
                f"{tuple(input.shape)}"
            )
        if not samples:  # one sample without the axis of samples
            states = [s.unsqueeze(1) for s in self._initial(hx, self._state_shape(), input)]
            output, states = self._forward_packed(pack_sequence([input]), self._returned(states))
            states = (states,) if self.states == 1 else states
            return output.data, self._returned([s.squeeze(1) for s in states])
        data = input.transpose(0, 1).flatten(0, 1)
        packed = PackedSequence(data, torch.full((steps,), *samples))
        output, states = self._forward_packed(packed, hx)
        return output.data.unflatten(0, (steps, *samples)).transpose(0, 1), states

    def _forward_packed(self, packed, hx):
        self._check_input(packed.data, (2,))
        sizes = packed.batch_sizes.tolist()
        initial = self._initial(hx, self._state_shape(sizes[0]), packed.data)
        if packed.sorted_indices is not None:
            initial = [s.index_select(1, packed.sorted_indices) for s in initial]
        data, last = packed.data, []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                data = F.dropout(data, self.dropout, self.training)
            outputs = []
            for reverse in (False, True) if self.bidirectional else (False,):
                cell = self._cell(f"_l{layer}_reverse" if reverse else f"_l{layer}")
                first = [s[len(last)] for s in initial]
                output, state = self._run(cell, data, sizes, first, reverse)
                outputs.append(output)
                last.append(state)
            data = torch.cat(outputs, -1)
        last = [torch.stack(states) for states in zip(*last, strict=True)]
        if packed.unsorted_indices is not None:
            last = [s.index_select(1, packed.unsorted_indices) for s in last]
        return packed._replace(data=data), self._returned(last)

    def _run(self, cell, data, sizes, first, reverse):
        """One cell over all steps, of which step t has the first sizes[t] sequences."""
        steps = self._project(cell, data).split(sizes)
        state = [s[: sizes[-1 if reverse else 0]] for s in first]
        outputs, ended = [], []
        for x in reversed(steps) if reverse else steps:
            now, before = len(x), len(state[0])
            if now < before:  # forward, the shorter sequences end first
                ended.append([s[now:] for s in state])
                state = [s[:now] for s in state]
            elif now > before:  # backward, they begin last
                state = [torch.cat([s, f[before:now]]) for s, f in zip(state, first, strict=True)]
            state = self._step(cell, x, state)
            outputs.append(state[0])
        last = [torch.cat(parts) for parts in zip(state, *reversed(ended), strict=True)]
        return torch.cat(outputs[::-1] if reverse else outputs), last

    def _state_shape(self, *samples):
        return (self.num_layers * (1 + self.bidirectional), *samples, self.hidden_size)

    def extra_repr(self):
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"bias={self.bias}, dropout={self.dropout}, bidirectional={self.bidirectional}"
        )


def check_lengths(lengths, input):
    """The lengths of padded sequences (N, T, features), as integers on the CPU.

    Raises
    ------
    TypeError : they are no integers, or the input is no tensor.
    ValueError : the input isn't of rank 3; a wrong number of lengths, or one that isn't from 1
        to T.
    """
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"lengths go with a padded tensor, not with a {type(input).__name__}")
    if input.dim() != 3:
        raise ValueError(f"lengths go with an input of 3 axes, not of shape {tuple(input.shape)}")
    lengths = torch.as_tensor(lengths, device="cpu")
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths have dtype {lengths.dtype}; expected integers")
    samples, steps = input.shape[:2]
    if tuple(lengths.shape) != (samples,):
        raise ValueError(
            f"lengths have shape {tuple(lengths.shape)}; expected one for each of {samples} samples"
        )
    for i, length in enumerate(lengths.tolist()):
        if not 1 <= length <= steps:
            raise ValueError(
                f"the length of sample {i} is {length}; expected 1 to {steps}, the steps of input"
            )
    return lengths


def on_padded(layer, input, hx, lengths):
    """A layer of packed sequences on padded ones."""
    lengths = check_lengths(lengths, input)
    packed = pack_padded_sequence(input, lengths, batch_first=True, enforce_sorted=False)
    output, hx = layer(packed, hx)
    output, _ = pad_packed_sequence(output, batch_first=True, total_length=input.shape[1])
    return output, hx


def check_positive(**sizes):
    for name, size in sizes.items():
        if not isinstance(size, numbers.Integral):
            raise TypeError(f"{name} is {size!r}; expected an integer")
        if size < 1:
            raise ValueError(f"{name} is {size}; expected at least 1")


def _identity(a):
    return a

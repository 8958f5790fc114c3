"""Recurrent cells, one step at a time or over all steps of sequences of any lengths.

What comes from the input is computed for all steps at once; only what depends on the last state is
left to the loop. Inside, sequences of different lengths are packed: padding is never computed with,
so nothing that lies there reaches a real step.

torch.compile and torch.export take the layers, with tensors, whole: the loop is unrolled, so that
the number of steps is fixed. torch.jit.script and torch.fx.symbolic_trace raise an error.
"""

import math
import numbers
from operator import index

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

AUTOCAST = (torch.float32, torch.float16, torch.bfloat16)  # what torch.autocast converts


class Recurrent(nn.Module):
    """One or several cells: `torch.nn` keeps their weights, by suffix, and this their norms.

    A subclass says with `_project` and `_step` what a cell computes. For the norms it takes
    `torch.nn.LayerNorm`, not `normbook.layers.LayerNorm`, which computes the same: a step is so
    small that the time goes into the Python code around it.
    """

    mode: str  # what torch.nn calls the weights' layout
    gates: int  # the rows of the weights, in multiples of hidden_size
    norms: dict[str, int]  # the lengths of what is normalized, likewise
    states = 1  # what goes on to the next step: h, or h and c
    beta_is_bias = True  # a norm follows right behind the sums: its beta is the bias

    def _has_bias(self, bias, norm):
        check_bool(bias=bias)
        return bias and (norm is None or not self.beta_is_bias)

    def _add_norms(self, norm, suffixes, **factory):
        for suffix in () if norm is None else suffixes:
            for name, size in self.norms.items():
                module = converted(norm(size * self.hidden_size), factory)
                self.add_module(name + suffix, module)

    def reset_parameters(self):
        """Start anew: weights and biases as in `torch.nn`, uniform within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters(recurse=False):
            nn.init.uniform_(weight, -bound, bound)
        for norm in self.children():
            reset(norm)

    def _cell(self, suffix=""):
        """The weights, the biases (or None) and the norms of one cell, by name."""
        parts = dict.fromkeys(("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        parts |= dict.fromkeys(self.norms, _identity)
        return _Parts({name: getattr(self, name + suffix, parts[name]) for name in parts})

    def _project(self, cell, x):
        """What comes from the input, for any number of steps: a row for each."""
        return F.linear(x, cell.weight_ih, cell.bias_ih)

    def _step(self, cell, x, state):
        """The next state, from what `_project` gave for this step and the last state."""
        raise NotImplementedError

    def _check_input(self, input, dims):
        name = type(self).__name__
        check_tensor(name, input)
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
        if value.dtype != dtype and not (
            value.dtype in AUTOCAST and _in_autocast(value.device.type)
        ):
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
                wrong_rank = isinstance(self, Cell) and state.dim() not in (1, 2)
                error = ValueError if wrong_rank else RuntimeError  # as in torch.nn
                raise error(f"{name}: expected {what} of shape {shape}, got {tuple(state.shape)}")
            self._check_dtype(what, state)
        return states

    def _returned(self, states):
        return states[0] if self.states == 1 else tuple(states)


class Cell(Recurrent, nn.RNNCellBase):
    """
    One step: (N, input_size) and the last state to the next one. States are (N, hidden_size), or
    a pair of them (h, c); zeros if not given. All also without the first axis, for one sample.

    Raises
    ------
    TypeError
        a size is no integer, or bias no bool; input or state is no tensor or a nested one,
        or the state of an LSTM no pair.
    ValueError
        a size below 1; wrong rank; a dtype other than the weights', unless autocast
        converts it.
    RuntimeError
        wrong length of an axis.
    """

    def __init__(
        self, input_size, hidden_size, bias=True, *, norm=nn.LayerNorm, device=None, dtype=None
    ):
        check_positive(input_size=input_size, hidden_size=hidden_size)
        sizes = index(input_size), index(hidden_size)
        super().__init__(*sizes, self._has_bias(bias, norm), self.gates, device, dtype)
        self._add_norms(norm, [""], device=device, dtype=dtype)

    def forward(self, input, hx=None):
        self._check_input(input, (1, 2))
        shape = (*input.shape[:-1], self.hidden_size)
        state = self._initial(hx, shape, input)
        cell = self._cell()
        if input.dim() == 1:
            x, state = self._project(cell, input[None]), [s[None] for s in state]
            return self._returned([s[0] for s in self._step(cell, x, state)])
        return self._returned(self._step(cell, self._project(cell, input), state))


class Layer(Recurrent, nn.RNNBase):
    """
    All steps: (N, T, input_size) to the outputs (N, T, D * hidden_size), where D is 2 if
    bidirectional, else 1, and the state behind the last step, (num_layers * D, N, hidden_size) or
    a pair of such; as in torch.nn with batch_first=True, the default here. A sample may come
    without the axis N. For sequences of different lengths, input is a PackedSequence, and so are
    the outputs; or it is padded and comes with `lengths`, N integers, and outputs behind the end
    are 0. The last state is then that behind each sequence's own last step.

    Parameters
    ----------
    bias
        whether cells have biases; never right in front of a norm, whose beta takes their place.
    batch_first
        False for input and outputs (T, N, ...).
    dropout
        the share of outputs dropped between layers in train mode.
    norm
        makes a norm of so many features, such as nn.RMSNorm; None switches all norms off.

    Raises
    ------
    TypeError
        a size is no integer, or an option no bool; input or state is no tensor or a nested
        one, or the state of an LSTM no pair.
    ValueError
        a size below 1; dropout outside of 0 to 1; wrong rank; a dtype other than the
        weights', unless autocast converts it; a wrong number of lengths, or one that isn't from 1
        to T.
    RuntimeError
        wrong length of an axis; no step at all.
    """

    # Not an nn.LSTM: whoever asks for one may put its equations, fused, in place of these.

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=True,
        dropout=0.0,
        bidirectional=False,
        *,
        norm=nn.LayerNorm,
        device=None,
        dtype=None,
    ):
        check_positive(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        check_bool(batch_first=batch_first, bidirectional=bidirectional)
        if not (isinstance(dropout, numbers.Real) and 0 <= dropout <= 1):
            raise ValueError(f"dropout is {dropout!r}; expected a number from 0 to 1")
        super().__init__(
            self.mode,
            *map(index, (input_size, hidden_size, num_layers)),
            self._has_bias(bias, norm),
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        suffixes = [f"_l{n}{d}" for n in range(num_layers) for d in self._directions()]
        self._add_norms(norm, suffixes, device=device, dtype=dtype)

    def _directions(self):
        return ("", "_reverse") if self.bidirectional else ("",)

    def forward(self, input, hx=None, lengths=None):
        if lengths is not None:
            return on_padded(self, input, hx, lengths, self.batch_first)
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check_input(input, (2, 3))
        if input.shape[-2 if self.batch_first else 0] == 0:
            raise RuntimeError(
                f"{type(self).__name__}: expected at least one step, got an input of shape "
                f"{tuple(input.shape)}"
            )
        if input.dim() == 2:  # one sample without the axis of samples
            axis = 0 if self.batch_first else 1
            states = [s.unsqueeze(1) for s in self._initial(hx, self._state_shape(), input)]
            output, last = self.forward(input.unsqueeze(axis), self._returned(states))
            last = (last,) if self.states == 1 else last
            return output.squeeze(axis), self._returned([s.squeeze(1) for s in last])
        data = input.transpose(0, 1) if self.batch_first else input
        steps, samples, _ = data.shape
        initial = self._initial(hx, self._state_shape(samples), input)
        output, last = self._run_layers(data.flatten(0, 1), [samples] * steps, initial)
        device = output.device.type
        if self.states == 2 and _in_autocast(device):  # as nn.LSTM does
            dtype = torch.get_autocast_dtype(device)
            output, *last = (value.to(dtype) for value in (output, *last))
        output = output.unflatten(0, (steps, samples))
        return output.transpose(0, 1) if self.batch_first else output, self._returned(last)

    def _forward_packed(self, packed, hx):
        self._check_input(packed.data, (2,))
        sizes = packed.batch_sizes.tolist()
        initial = self._initial(hx, self._state_shape(sizes[0]), packed.data)
        if packed.sorted_indices is not None:
            initial = [s.index_select(1, packed.sorted_indices) for s in initial]
        data, last = self._run_layers(packed.data, sizes, initial)
        if packed.unsorted_indices is not None:
            last = [s.index_select(1, packed.unsorted_indices) for s in last]
        return packed._replace(data=data), self._returned(last)

    def _run_layers(self, data, sizes, initial):
        """All cells over packed steps: the outputs, and what each state is behind its last step."""
        last = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                data = F.dropout(data, self.dropout, self.training)
            outputs = []
            for direction in self._directions():
                cell = self._cell(f"_l{layer}{direction}")
                first = [s[len(last)] for s in initial]
                output, state = self._run(cell, data, sizes, first, bool(direction))
                outputs.append(output)
                last.append(state)
            data = torch.cat(outputs, -1)
        last = [torch.stack(states) for states in zip(*last, strict=True)]
        return data, last

    def _run(self, cell, data, sizes, first, reverse):
        """One cell over all steps, of which step t has the first sizes[t] sequences."""
        steps, order = self._project(cell, data).split(sizes), range(len(sizes))
        before = sizes[-1 if reverse else 0]
        state = [s[:before] for s in first]
        outputs, ended = [], []
        for t in reversed(order) if reverse else order:
            now = sizes[t]
            if now < before:  # forward, the shorter sequences end first
                ended.append([s[now:] for s in state])
                state = [s[:now] for s in state]
            elif now > before:  # backward, they begin last
                state = [torch.cat([s, f[before:now]]) for s, f in zip(state, first, strict=True)]
            state, before = self._step(cell, steps[t], state), now
            outputs.append(state[0])
        last = [torch.cat(parts) for parts in zip(state, *reversed(ended), strict=True)]
        return torch.cat(outputs[::-1] if reverse else outputs), last

    def _state_shape(self, *samples):
        return (self.num_layers * (1 + self.bidirectional), *samples, self.hidden_size)


class _Parts:
    def __init__(self, parts):
        self.__dict__.update(parts)


def _in_autocast(device_type):
    return device_type != "meta" and torch.is_autocast_enabled(device_type)


def check_lengths(lengths, input, batch_first=True):
    """The lengths of padded sequences (N, T, features), as integers on the CPU.

    Raises
    ------
    TypeError
        they are no integers, or the input is no tensor.
    ValueError
        the input isn't of rank 3; a wrong number of lengths, or one that isn't from 1
        to T.
    """
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"lengths go with a padded tensor, not with a {type(input).__name__}")
    if input.dim() != 3:
        raise ValueError(f"lengths go with an input of 3 axes, not of shape {tuple(input.shape)}")
    lengths = torch.as_tensor(lengths, device="cpu")
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths have dtype {lengths.dtype}; expected integers")
    samples, steps = input.shape[:2] if batch_first else input.shape[1::-1]
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


def on_padded(layer, input, hx, lengths, batch_first=True):
    """A layer of packed sequences on padded ones."""
    lengths = check_lengths(lengths, input, batch_first)
    packed = pack_padded_sequence(input, lengths, batch_first, enforce_sorted=False)
    output, hx = layer(packed, hx)
    steps = input.shape[1 if batch_first else 0]
    output, _ = pad_packed_sequence(output, batch_first, total_length=steps)
    return output, hx


def check_positive(**sizes):
    for name, size in sizes.items():
        if not isinstance(size, numbers.Integral):
            raise TypeError(f"{name} is {size!r}; expected an integer")
        if size < 1:
            raise ValueError(f"{name} is {size}; expected at least 1")


def check_bool(**options):
    for name, option in options.items():
        if not isinstance(option, bool):
            raise TypeError(f"{name} is {option!r}; expected True or False")


def check_tensor(name, input):
    """Check the input of a layer of this name.

    Raises
    ------
    TypeError
        it is no tensor, or a nested one.
    """
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"{name}: input is a {type(input).__name__}; expected a tensor")
    if input.is_nested:
        raise TypeError(f"{name}: input is a nested tensor; expected a padded one")


def converted(module, factory):
    """A module on the device and of the dtype of `factory`, where they aren't None."""
    values = module.state_dict(keep_vars=True).values()
    # Fake tensors can't be exchanged for others, so that nothing is done without need.
    return module if all(v.to(**factory) is v for v in values) else module.to(**factory)


def reset(norm):
    """Reset a norm, if there is anything that it learns or keeps.

    Raises
    ------
    AttributeError
        there is, but it has no reset_parameters().
    """
    if norm.state_dict():
        norm.reset_parameters()


def _identity(a):
    return a

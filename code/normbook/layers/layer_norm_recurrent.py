"""Recurrent layers with layer norm, each with the norm where its equation has it.

They are used like `torch.nn.RNN`, `LSTM` and `GRU` with ``batch_first=True``: several layers, both
directions, packed sequences. They also take padded sequences with their lengths. With ``norm=None``
they compute what PyTorch's layers compute, and their weights have the same names and shapes: a
state dict of the one loads into the other.
"""

from inspect import cleandoc

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from normbook.layers.recurrent_base import Cell, Layer, Recurrent, converted, on_padded, reset


class _LayerNormRNN(Recurrent):
    """An RNN with layer norm on the summed inputs, before the nonlinearity.

    h_t = tanh(LN(W_ih x_t + W_hh h_{t-1})), as Ba, Kiros & Hinton 2016, eq. 4. One gamma and beta
    for all steps; beta is the bias. The norm stands inside the recurrence, and tanh bends what it
    gives: h stays in -1 to 1. `LayerNormStateRNN` has the two the other way round;
    `LayerNormOutput` leaves the recurrence alone. It is TensorFlow Addons'
    LayerNormSimpleRNNCell, tanh(LN(a) + b) with an LN that has no beta. `nonlinearity` may be
    "relu" in place of "tanh".
    """

    mode = "RNN_TANH"
    gates = 1
    norms = {"norm": 1}  # noqa: RUF012

    def __init__(self, *args, nonlinearity="tanh", **kwargs):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity is {nonlinearity!r}; expected 'tanh' or 'relu'")
        super().__init__(*args, **kwargs)
        self.nonlinearity = nonlinearity
        self.mode = f"RNN_{nonlinearity.upper()}"

    def _step(self, cell, x, state):
        f = getattr(torch, self.nonlinearity)
        a = x + F.linear(state[0], cell.weight_hh, cell.bias_hh)
        return (f(cell.norm(a)),)


class _LayerNormStateRNN(_LayerNormRNN):
    """An RNN with layer norm on the state, after the nonlinearity, fed back.

    h_t = LN(tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh)). This is not eq. 4 of Ba et al. 2016, but
    what can be read where it is told that the output of each step is normalized and passed on. As
    in `LayerNormRNN`, the norm stands inside the recurrence, but gamma and beta have the last
    word: h may leave -1 to 1. `LayerNormOutput` normalizes the same thing, but doesn't feed it
    back: the two agree in the first step and part in the second. `nonlinearity` may be "relu" in
    place of "tanh".
    """

    beta_is_bias = False

    def _step(self, cell, x, state):
        f = getattr(torch, self.nonlinearity)
        a = x + F.linear(state[0], cell.weight_hh, cell.bias_hh)
        return (cell.norm(f(a)),)


class _LayerNormLSTM(Recurrent):
    """An LSTM with layer norm on what the gates sum up, and on the cell where it is read.

    (i, f, g, o) = LN(W_ih x_t) + LN(W_hh h_{t-1}), each norm over all four gates together,
    c_t = sigmoid(f) * c_{t-1} + sigmoid(i) * tanh(g),
    h_t = sigmoid(o) * tanh(LN(c_t)), as Ba, Kiros & Hinton 2016, eq. 20-22.

    The bias of eq. 20 is the sum of the two betas. The cell is carried on as it is, not
    normalized; `LayerNormStateLSTM` carries LN(c_t). The gates stand in PyTorch's order, the
    paper's is f, i, o, g: since a norm takes all four together, only rows are permuted. From a
    state of zeros, LN(W_hh h) is its beta.
    """

    mode = "LSTM"
    gates = 4
    states = 2
    norms = {"norm_ih": 4, "norm_hh": 4, "norm_c": 1}  # noqa: RUF012

    def _project(self, cell, x):
        return cell.norm_ih(super()._project(cell, x))

    def _step(self, cell, x, state):
        c, o = self._update(cell, x, state)
        return o * cell.norm_c(c).tanh(), c

    def _update(self, cell, x, state):
        h, c = state
        gates = x + cell.norm_hh(F.linear(h, cell.weight_hh, cell.bias_hh))
        i, f, g, o = gates.chunk(4, 1)
        return f.sigmoid() * c + i.sigmoid() * g.tanh(), o.sigmoid()


class _LayerNormStateLSTM(_LayerNormLSTM):
    """An LSTM with layer norm on what the gates sum up, and on the cell that is carried on.

    (i, f, g, o) = LN(W_ih x_t) + LN(W_hh h_{t-1}), each norm over all four gates together,
    c_t = LN(sigmoid(f) * c_{t-1} + sigmoid(i) * tanh(g)),
    h_t = sigmoid(o) * tanh(c_t).

    As in PyTorch's benchmarks/fastrnns/custom_lstms.py and TensorFlow Addons' LayerNormLSTMCell.
    In `LayerNormLSTM` (Ba et al. 2016, eq. 22) the normalized cell is only read, here it is also
    remembered: h is the same in the first step and differs from the second on.
    """

    def _step(self, cell, x, state):
        c, o = self._update(cell, x, state)
        c = cell.norm_c(c)
        return o * c.tanh(), c


class _LayerNormGRU(Recurrent):
    """A GRU with layer norm on each of the four products of weights.

    (r, z) = sigmoid(LN(W_ih x_t) + LN(W_hh h_{t-1})), each norm over both gates together,
    n = tanh(LN(W_in x_t) + r * LN(W_hn h_{t-1})),
    h_t = (1 - z) * n + z * h_{t-1}, as Ba, Kiros & Hinton 2016, eq. 26-28.

    z is what is kept of the last state, as in PyTorch and in the authors' code; in eq. 28 it is
    what is replaced. To change from one to the other, negate z's half of gamma and beta in both
    norms of the gates. Biases are the betas. From a state of zeros, LN(W_hh h) is its beta.
    """

    mode = "GRU"
    gates = 3
    norms = {"norm_ih": 2, "norm_hh": 2, "norm_in": 1, "norm_hn": 1}  # noqa: RUF012

    def _project(self, cell, x):
        rz, n = super()._project(cell, x).split([2 * self.hidden_size, self.hidden_size], -1)
        return torch.cat([cell.norm_ih(rz), cell.norm_in(n)], -1)

    def _step(self, cell, x, state):
        (h,) = state
        widths = [2 * self.hidden_size, self.hidden_size]
        x_rz, x_n = x.split(widths, 1)
        h_rz, h_n = F.linear(h, cell.weight_hh, cell.bias_hh).split(widths, 1)
        r, z = (x_rz + cell.norm_hh(h_rz)).sigmoid().chunk(2, 1)
        n = (x_n + r * cell.norm_hn(h_n)).tanh()
        return ((1 - z) * n + z * h,)


def _document(equation, kind, example):
    """The docstring of a layer, from what it computes, how it is used, and an example."""
    parts = equation.__doc__, kind.__doc__, "Examples\n--------\n" + cleandoc(example)
    return "\n\n".join(map(cleandoc, parts))


class LayerNormRNNCell(_LayerNormRNN, Cell):
    __doc__ = _document(
        _LayerNormRNN,
        Cell,
        """
        >>> from normbook.data.examples import RECURRENT
        >>> cell = LayerNormRNNCell(3, 4, dtype=torch.float64)
        >>> names = "weight_ih", "weight_hh", "norm.weight", "norm.bias"
        >>> weights = map(torch.tensor, RECURRENT.weights)
        >>> _ = cell.load_state_dict(dict(zip(names, weights)))
        >>> x = torch.tensor(RECURRENT.x)
        >>> h = cell(x[:, 0])
        >>> cell(x[:, 1], h).detach().round(decimals=4)
        tensor([[ 0.3554, -0.4360,  0.9622, -0.7910],
                [ 0.2942,  0.3364, -0.9917,  0.9692]], dtype=torch.float64)
        """,
    )


class LayerNormRNN(_LayerNormRNN, Layer):
    __doc__ = _document(
        _LayerNormRNN,
        Layer,
        """
        >>> x = torch.randn(2, 6, 3)
        >>> output, h = LayerNormRNN(3, 4)(x, lengths=[6, 2])
        >>> output.shape, h.shape
        (torch.Size([2, 6, 4]), torch.Size([1, 2, 4]))
        >>> bool((output[1, 2:] == 0).all())  # behind the end
        True
        >>> bool((h[0, 1] == output[1, 1]).all())  # the last step of its own
        True
        """,
    )


class LayerNormStateRNNCell(_LayerNormStateRNN, Cell):
    __doc__ = _document(
        _LayerNormStateRNN,
        Cell,
        """
        >>> h = LayerNormStateRNNCell(3, 4)(torch.randn(2, 3))
        >>> torch.allclose(h.mean(1), torch.zeros(2), atol=1e-6)
        True
        """,
    )


class LayerNormStateRNN(_LayerNormStateRNN, Layer):
    __doc__ = _document(
        _LayerNormStateRNN,
        Layer,
        """
        >>> x = torch.randn(2, 6, 3)
        >>> bool(LayerNormStateRNN(3, 4)(x)[0].abs().max() > 1)
        True
        >>> bool(LayerNormRNN(3, 4)(x)[0].abs().max() > 1)
        False
        """,
    )


class LayerNormLSTMCell(_LayerNormLSTM, Cell):
    __doc__ = _document(
        _LayerNormLSTM,
        Cell,
        """
        >>> cell = LayerNormLSTMCell(3, 4)
        >>> h, c = cell(torch.randn(2, 3))
        >>> h.shape, c.shape
        (torch.Size([2, 4]), torch.Size([2, 4]))
        >>> cell.norm_ih.normalized_shape  # four gates together
        (16,)
        """,
    )


class LayerNormLSTM(_LayerNormLSTM, Layer):
    __doc__ = _document(
        _LayerNormLSTM,
        Layer,
        """
        >>> theirs = nn.LSTM(3, 4, num_layers=2, batch_first=True)
        >>> ours = LayerNormLSTM(3, 4, num_layers=2, norm=None)
        >>> ours.load_state_dict(theirs.state_dict())
        <All keys matched successfully>
        >>> x = torch.randn(2, 6, 3)
        >>> torch.allclose(ours(x)[0], theirs(x)[0], atol=1e-6)
        True
        """,
    )


class LayerNormStateLSTMCell(_LayerNormStateLSTM, Cell):
    __doc__ = _document(
        _LayerNormStateLSTM,
        Cell,
        """
        >>> h, c = LayerNormStateLSTMCell(3, 4)(torch.randn(2, 3))
        >>> torch.allclose(c.mean(1), torch.zeros(2), atol=1e-6)
        True
        """,
    )


class LayerNormStateLSTM(_LayerNormStateLSTM, Layer):
    __doc__ = _document(
        _LayerNormStateLSTM,
        Layer,
        """
        >>> lstm = LayerNormStateLSTM(3, 4, bidirectional=True)
        >>> output, (h, c) = lstm(torch.randn(2, 6, 3))
        >>> output.shape, c.shape
        (torch.Size([2, 6, 8]), torch.Size([2, 2, 4]))
        """,
    )


class LayerNormGRUCell(_LayerNormGRU, Cell):
    __doc__ = _document(
        _LayerNormGRU,
        Cell,
        """
        >>> cell = LayerNormGRUCell(3, 4)
        >>> cell(torch.randn(2, 3)).shape
        torch.Size([2, 4])
        >>> cell.norm_ih.normalized_shape  # two gates together
        (8,)
        """,
    )


class LayerNormGRU(_LayerNormGRU, Layer):
    __doc__ = _document(
        _LayerNormGRU,
        Layer,
        """
        >>> output, h = LayerNormGRU(3, 4)(torch.randn(2, 6, 3))
        >>> bool((h[0] == output[:, -1]).all())
        True
        """,
    )


class LayerNormOutput(nn.Module):
    """A recurrent layer with layer norm on its finished outputs.

    y_t = LN(h_t), for the h_t of the last layer: what is mostly done in practice, since
    `torch.nn.RNN`, `LSTM` and `GRU` have no norm inside. The norm stands outside of the recurrence:
    the states are those of the layer alone, and the last state is returned as it is. Both
    directions are normalized together.

    Input, outputs and states are those of the layer; it, too, takes padded sequences and their
    `lengths`. Without `lengths`, padding comes out as what the norm makes of it, never 0.

    Parameters
    ----------
    rnn
        a recurrent layer of `torch.nn`, with batch_first=True, or of this module.
    norm
        makes a norm of so many features.

    Raises
    ------
    ValueError
        a layer without batch_first; a wrong number of lengths, or one that isn't from 1
        to T.

    Examples
    --------
    >>> rnn = nn.GRU(3, 4, batch_first=True)
    >>> x = torch.randn(2, 6, 3)
    >>> output, h = LayerNormOutput(rnn)(x)
    >>> torch.allclose(output, rnn(x)[0]), torch.allclose(h, rnn(x)[1])
    (False, True)
    """

    def __init__(self, rnn, norm=nn.LayerNorm):
        super().__init__()
        if not getattr(rnn, "batch_first", True):
            raise ValueError(f"{type(rnn).__name__} has batch_first=False; expected True")
        size = getattr(rnn, "proj_size", 0) or rnn.hidden_size
        self.rnn = rnn
        like = next(rnn.parameters())
        factory = {"device": like.device, "dtype": like.dtype}
        self.norm = converted(norm(size * (1 + rnn.bidirectional)), factory)

    def reset_parameters(self):
        """Start anew: the recurrent layer and the norm, each by its own."""
        self.rnn.reset_parameters()
        reset(self.norm)

    def forward(self, input, hx=None, lengths=None):
        if lengths is not None:
            return on_padded(self, input, hx, lengths)
        output, hx = self.rnn(input, hx)
        if isinstance(output, PackedSequence):
            return output._replace(data=self.norm(output.data)), hx
        return self.norm(output), hx

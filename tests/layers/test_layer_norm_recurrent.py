"""The recurrent layers: against their equations written anew and, without norms, torch.nn's."""

import copy
import io
import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import helpers
from helpers import VECTORS
from normbook.layers import layer_norm_recurrent as recurrent
from normbook.layers import norms as layers

TESTED = set()
about = partial(helpers.about, TESTED)

# our layer, torch.nn's, which it is without norms
KINDS = {
    "LayerNormRNN": "RNN",
    "LayerNormStateRNN": "RNN",
    "LayerNormLSTM": "LSTM",
    "LayerNormStateLSTM": "LSTM",
    "LayerNormGRU": "GRU",
}
every_kind = pytest.mark.parametrize("kind", KINDS)
kinds = st.sampled_from(list(KINDS))
anything = settings(max_examples=40, deadline=None, derandomize=True)


def sample(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def make(kind, *args, seed=0, cell=False, **kwargs):
    """A layer in float64, gammas and betas random as well."""
    kwargs = {"dtype": torch.float64} | kwargs
    layer = getattr(recurrent, kind + "Cell" * cell)(*args, **kwargs)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in layer.named_parameters():
            value.copy_(torch.randn(value.shape, generator=generator, dtype=torch.float64) / 2)
            if "norm" in name and "weight" in name:
                value += 1
    return layer


def states(hx):
    return hx if isinstance(hx, tuple) else (hx,)


def close(actual, expected, atol=1e-12):
    torch.testing.assert_close(
        torch.as_tensor(actual), torch.as_tensor(expected), rtol=0, atol=atol
    )


def close_all(actual, expected, atol=1e-12):
    for a, e in zip(states(actual), states(expected), strict=True):
        close(a, e, atol)


# The equations, one sequence after the other


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def np_norm(a, parameters, name, eps=1e-5):
    mean = sum(a) / len(a)
    var = sum((a - mean) ** 2) / len(a)
    return (
        parameters[f"{name}.weight"] * (a - mean) / math.sqrt(var + eps)
        + parameters[f"{name}.bias"]
    )


def np_step(kind, x, h, c, p):
    """h and c after one step, by the equations in the docstrings."""
    norm = partial(np_norm, parameters=p)
    wx, wh = p["weight_ih"] @ x, p["weight_hh"] @ h
    n = len(h)
    if kind == "LayerNormRNN":
        return np.tanh(norm(wx + wh, name="norm")), c
    if kind == "LayerNormStateRNN":
        return norm(np.tanh(wx + p["bias_ih"] + wh + p["bias_hh"]), name="norm"), c
    if kind == "LayerNormGRU":
        gates = norm(wx[: 2 * n], name="norm_ih") + norm(wh[: 2 * n], name="norm_hh")
        r, z = sigmoid(gates[:n]), sigmoid(gates[n:])
        new = np.tanh(norm(wx[2 * n :], name="norm_in") + r * norm(wh[2 * n :], name="norm_hn"))
        return (1 - z) * new + z * h, c
    i, f, g, o = np.split(norm(wx, name="norm_ih") + norm(wh, name="norm_hh"), 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    if kind == "LayerNormLSTM":
        return sigmoid(o) * np.tanh(norm(c, name="norm_c")), c
    c = norm(c, name="norm_c")
    return sigmoid(o) * np.tanh(c), c


def arrays(module, suffix=""):
    return {
        name.replace(suffix, ""): value.detach().numpy()
        for name, value in module.named_parameters()
    }


@every_kind
def test_cell_is_its_equation(kind):
    cell = make(kind, 3, 4, cell=True)
    x, *hx = sample(5, 3), sample(5, 4, seed=1), sample(5, 4, seed=2)
    given = tuple(hx) if "LSTM" in kind else hx[0]
    h, *c = states(cell(x, given))
    for i in range(5):
        expected = np_step(kind, *(a[i].numpy() for a in (x, *hx)), arrays(cell))
        close(h[i].detach(), expected[0])
        if c:
            close(c[0][i].detach(), expected[1])


@every_kind
def test_layer_is_its_equation_over_the_steps(kind):
    layer = make(kind, 3, 4)
    x, lengths = sample(4, 6, 3), [5, 2, 6, 3]
    output, hx = layer(x, lengths=lengths)
    parameters = arrays(layer, "_l0")
    for i, length in enumerate(lengths):
        h = c = np.zeros(4)
        for t in range(length):
            h, c = np_step(kind, x[i, t].numpy(), h, c, parameters)
            close(output[i, t].detach(), h)
        assert (output[i, length:] == 0).all()
        close_all(tuple(s[0, i].detach() for s in states(hx)), (h, c)[: len(states(hx))])


@every_kind
def test_two_layers_in_both_directions_are_four_cells(kind):
    """The second layer reads both directions of the first; states are ordered as in torch.nn."""
    layer = make(kind, 3, 2, 2, bidirectional=True)
    x, lengths = sample(3, 4, 3), [4, 1, 3]
    output, hx = layer(x, lengths=lengths)
    for i, length in enumerate(lengths):
        below, last = x[i, :length].numpy(), []
        for number in (0, 1):
            both = []
            for direction in ("", "_reverse"):
                suffix = f"_l{number}{direction}"
                own = {
                    name.replace(suffix, ""): value.detach().numpy()
                    for name, value in layer.named_parameters()
                    if name.split(".")[0].endswith(suffix)
                }
                h, c, outputs = np.zeros(2), np.zeros(2), {}
                for t in range(length)[:: -1 if direction else 1]:
                    h, c = np_step(kind, below[t], h, c, own)
                    outputs[t] = h
                both.append(np.stack([outputs[t] for t in range(length)]))
                last.append((h, c))
            below = np.concatenate(both, 1)
        close(output[i, :length].detach(), below)
        for number, state in enumerate(states(hx)):
            close(state[:, i].detach(), np.stack([pair[number] for pair in last]))


# Where the norm sits, by hand


def test_three_placements_by_hand():
    """Two units with weights 1 and -1: a = (2, -2), so LN gives ±1, up to eps."""
    weights = {"weight_ih_l0": [[2.0], [-2.0]], "weight_hh_l0": [[0.0, 0.0], [0.0, 0.0]]}
    weights = {name: tensor(value) for name, value in weights.items()}
    affine = {
        "weight": tensor([3.0, 1.0]),
        "bias": tensor([0.0, 0.5]),
    }
    x = torch.ones(1, 1, 1, dtype=torch.float64)
    norm = partial(nn.LayerNorm, eps=0.0)
    before = recurrent.LayerNormRNN(1, 2, norm=norm, dtype=torch.float64)
    before.load_state_dict(weights | {f"norm_l0.{key}": value for key, value in affine.items()})
    close(before(x)[0].detach()[0, 0], tensor([3.0, -0.5]).tanh())
    after = recurrent.LayerNormStateRNN(1, 2, bias=False, norm=norm, dtype=torch.float64)
    after.load_state_dict(weights | {f"norm_l0.{key}": value for key, value in affine.items()})
    close(after(x)[0].detach()[0, 0], tensor([3.0, -0.5]))
    plain = nn.RNN(1, 2, bias=False, batch_first=True, dtype=torch.float64)
    plain.load_state_dict(weights)
    output = recurrent.LayerNormOutput(plain, norm)
    output.norm.load_state_dict(affine)
    y, h = output(x)
    close(y.detach()[0, 0], tensor([3.0, -0.5]))
    close(h.detach()[0, 0], tensor([2.0, -2.0]).tanh())


def test_the_norm_is_over_all_four_gates_together():
    """One unit: a norm of each gate by itself would give its beta, whatever comes in."""
    cell = recurrent.LayerNormLSTMCell(1, 1, dtype=torch.float64)
    with torch.no_grad():
        cell.weight_ih.copy_(torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]))
        cell.weight_hh.zero_()
        cell.norm_c.bias.fill_(0.5)
    one, zero = torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    h, c = cell(one, (zero, 2 * one))
    up, down = sigmoid(1 / math.sqrt(1 + 1e-5)), sigmoid(-1 / math.sqrt(1 + 1e-5))
    assert c.item() == pytest.approx(down * 2 + up * math.tanh(1 / math.sqrt(1 + 1e-5)))
    assert h.item() == pytest.approx(down * math.tanh(0.5))  # of one unit, LN leaves its beta


def test_the_cell_is_carried_or_the_normalized_cell():
    """One unit has its beta as its layer norm, whatever the cell holds."""
    one, zero = torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    for name, carried in (("LayerNormLSTMCell", 1.0), ("LayerNormStateLSTMCell", 0.5)):
        cell = getattr(recurrent, name)(1, 1, dtype=torch.float64)
        with torch.no_grad():
            cell.norm_c.bias.fill_(0.5)
            cell.norm_ih.bias.copy_(tensor([-50.0, 50.0, 0.0, 50.0]))  # keep all, show all
        h, c = cell(zero, (zero, one))
        close(c.item(), carried)
        close(h.item(), math.tanh(0.5))


def test_z_of_the_gru_as_in_the_paper():
    """Ba et al., eq. 28, replaces by z what PyTorch keeps by it: z's gamma and beta are negated."""
    cell = make("LayerNormGRU", 3, 4, cell=True)
    x, h = sample(5, 3), sample(5, 4, seed=1)
    w_x, w_h = cell.weight_ih, cell.weight_hh

    def ln(a, norm, z=False):
        sign = torch.ones(a.shape[1], dtype=torch.float64)
        sign[4:] = -1 if z else 1
        return nn.functional.layer_norm(a, a.shape[1:], sign * norm.weight, sign * norm.bias)

    rz = ln(h @ w_h[:8].T, cell.norm_hh, z=True) + ln(x @ w_x[:8].T, cell.norm_ih, z=True)  # 26
    r, z = rz.sigmoid().chunk(2, 1)
    new = torch.tanh(ln(x @ w_x[8:].T, cell.norm_in) + r * ln(h @ w_h[8:].T, cell.norm_hn))  # 27
    close(cell(x, h), (1 - z) * h + z * new)  # 28


def test_simple_cell_of_tensorflow_addons():
    """Its layer norm has a gamma only, and a bias is added behind it."""
    cell = make("LayerNormRNN", 3, 4, cell=True)
    x, h = sample(5, 3), sample(5, 4, seed=1)
    net = x @ cell.weight_ih.T + h @ cell.weight_hh.T
    normed = nn.functional.layer_norm(net, (4,), cell.norm.weight)
    close(cell(x, h), torch.tanh(normed + cell.norm.bias))
    assert sum(p.numel() for p in cell.parameters()) == 3 * 4 + 4 * 4 + 2 * 4


# Vectors


def loaded(kind, inputs, **kwargs):
    layer = getattr(recurrent, kind)(3, 4, bias=False, dtype=torch.float64, **kwargs)
    weights = {"weight_ih_l0": inputs["W_xh"], "weight_hh_l0": inputs["W_hh"]}
    weights |= {"norm_l0.weight": inputs["gamma"], "norm_l0.bias": inputs["beta"]}
    layer.load_state_dict({k: tensor(v) for k, v in weights.items()})
    return layer


@about("rnn.ln_rnn_ba_eq4")
def test_before_tanh(inputs, expected):
    output, h = loaded("LayerNormRNN", inputs)(tensor(inputs["x"]))
    for t, step in enumerate(expected["h_by_step"]):
        close(output[:, t].detach(), tensor(step), 1e-9)
    assert (h[0] == output[:, -1]).all()


@about("rnn.ln_after_tanh_fed_back")
def test_after_tanh(inputs, expected):
    output, _ = loaded("LayerNormStateRNN", inputs)(tensor(inputs["x"]))
    close(output[:, -1].detach(), tensor(expected["h_last"]), 1e-9)
    assert output.abs().max() > 1


@about("rnn.plain_rnn_then_ln")
def test_on_the_outputs(inputs, expected):
    for plain in (nn.RNN, partial(recurrent.LayerNormRNN, norm=None)):
        rnn = plain(3, 4, bias=False, dtype=torch.float64)
        rnn.batch_first = True
        layer = recurrent.LayerNormOutput(rnn)
        weights = {"rnn.weight_ih_l0": "W_xh", "rnn.weight_hh_l0": "W_hh"}
        weights |= {"norm.weight": "gamma", "norm.bias": "beta"}
        layer.load_state_dict({name: tensor(inputs[key]) for name, key in weights.items()})
        x = tensor(inputs["x"])
        output, h = layer(x)
        close(output.detach(), tensor(expected["ln_of_out"]), 1e-9)
        close(rnn(x)[0].detach(), tensor(expected["rnn_out"]), 1e-9)
        close(h[0].detach(), tensor(expected["rnn_out"])[:, -1], 1e-9)


@about("rnn.ln_lstm_carry_normalised")
def test_carried_cell_normalized(inputs, expected):
    assert inputs["gate_order"] == "f,i,o,g" and (inputs["alpha"], inputs["beta"]) == (1, 0)
    f, i, o, g = (list(range(4 * n, 4 * n + 4)) for n in range(4))
    rows = i + f + g + o  # PyTorch's order
    w_x, w_h, b = (tensor(inputs[key])[rows] for key in ("W_x", "W_h", "b"))
    outputs = {}
    for kind in ("LayerNormStateLSTM", "LayerNormLSTM"):
        layer = getattr(recurrent, kind)(3, 4, dtype=torch.float64)
        with torch.no_grad():
            layer.weight_ih_l0.copy_(w_x)
            layer.weight_hh_l0.copy_(w_h)
            layer.norm_ih_l0.bias.copy_(b)
        outputs[kind], (h, c) = layer(tensor(inputs["x"]))
        if kind == "LayerNormStateLSTM":
            close(h[0].detach(), tensor(expected["h3"]), 1e-9)
            close(c[0].detach(), tensor(expected["c3"]), 1e-9)
    gaps = (outputs["LayerNormLSTM"] - outputs["LayerNormStateLSTM"]).abs().amax((0, 2))
    assert gaps[0] < 1e-12 < 0.01 < gaps[1]


def test_every_vector_is_tested():
    assert {i for i in VECTORS if i.startswith("rnn.")} == TESTED


# Without norms: torch.nn

configurations = st.fixed_dictionaries(
    {
        "kind": kinds,
        "sizes": st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3)),
        "bias": st.booleans(),
        "bidirectional": st.booleans(),
        "lengths": st.lists(st.integers(1, 5), min_size=1, max_size=4),
        "form": st.sampled_from(["tensor", "lengths", "packed", "sorted"]),
        "state": st.booleans(),
        "seed": st.integers(0, 2**16),
    }
)


def twins(kind, *sizes, seed=0, **kwargs):
    kwargs = {"dtype": torch.float64} | kwargs
    torch.manual_seed(seed)
    theirs = getattr(nn, KINDS[kind])(*sizes, batch_first=True, **kwargs)
    torch.manual_seed(seed)
    return getattr(recurrent, kind)(*sizes, norm=None, **kwargs), theirs


@anything
@given(configurations)
def test_without_norms_it_is_torch_nn(c):
    ours, theirs = twins(
        c["kind"], *c["sizes"], seed=c["seed"], bias=c["bias"], bidirectional=c["bidirectional"]
    )
    own, other = ours.state_dict(), theirs.state_dict()
    assert list(own) == list(other)
    assert all((own[key] == other[key]).all() for key in own)
    lengths = torch.tensor(c["lengths"])
    if c["form"] == "sorted":
        lengths = lengths.sort(descending=True).values
    n, t = len(lengths), int(lengths.max())
    shape = c["sizes"][2] * (1 + c["bidirectional"]), n, c["sizes"][1]
    hx = None
    if c["state"]:
        hx = tuple(sample(*shape, seed=i) for i in range(1 + ("LSTM" in c["kind"])))
        hx = hx if "LSTM" in c["kind"] else hx[0]
    results = []
    for layer in (ours, theirs):
        x = sample(n, t, c["sizes"][0], seed=c["seed"]).requires_grad_()
        leaves = [x, *layer.parameters()]
        if hx is not None:
            start = [s.clone().requires_grad_() for s in states(hx)]
            leaves += start
            start = tuple(start) if "LSTM" in c["kind"] else start[0]
        else:
            start = None
        if c["form"] == "tensor":
            output, last = layer(x, start)
        elif c["form"] == "lengths" and layer is ours:
            output, last = layer(x, start, lengths)
        else:
            packed = pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=c["form"] == "sorted"
            )
            output, last = layer(packed, start)
            output, _ = pad_packed_sequence(output, batch_first=True)
        every = [output, *states(last)]
        loss = sum((value * sample(*value.shape, seed=5)).sum() for value in every)
        results.append([*every, *torch.autograd.grad(loss, leaves)])
    for mine, other in zip(*results, strict=True):
        close(mine, other)


@every_kind
def test_without_norms_a_cell_is_torch_nns(kind):
    for bias in (True, False):
        theirs = getattr(nn, KINDS[kind] + "Cell")(3, 4, bias, dtype=torch.float64)
        ours = getattr(recurrent, kind + "Cell")(3, 4, bias, norm=None, dtype=torch.float64)
        ours.load_state_dict(theirs.state_dict())
        theirs.load_state_dict(ours.state_dict())
        x, hx = sample(5, 3), tuple(sample(5, 4, seed=i) for i in (1, 2))
        hx = hx if "LSTM" in kind else hx[0]
        close_all(ours(x), theirs(x))
        close_all(ours(x, hx), theirs(x, hx))
        close_all(ours(x[0]), theirs(x[0]))
        first = tuple(s[0] for s in states(hx))
        first = first if "LSTM" in kind else first[0]
        close_all(ours(x[0], first), theirs(x[0], first))


@pytest.mark.parametrize("kind", ["LayerNormRNN", "LayerNormStateRNN"])
def test_relu(kind):
    ours, theirs = twins(kind, 3, 4, 2, nonlinearity="relu")
    x = sample(5, 6, 3)
    close_all(ours(x), theirs(x))
    layer = recurrent.LayerNormRNN(3, 4, nonlinearity="relu")
    assert layer(torch.randn(2, 5, 3))[0].min() == 0


@every_kind
def test_dropout_between_layers_is_torchs(kind):
    ours, theirs = twins(kind, 3, 4, 3, dropout=0.5)
    x = sample(5, 6, 3)
    for train in (True, False):
        outputs = []
        for layer in (ours.train(train), theirs.train(train)):
            torch.manual_seed(1)
            outputs.append(layer(x)[0])
        close(*outputs)
    assert (ours.train()(x)[0] != ours.train()(x)[0]).any()


def test_one_sample_without_the_axis_of_samples():
    for kind, name in KINDS.items():
        ours, theirs = twins(kind, 3, 4, 2, bidirectional=True)
        x, hx = sample(6, 3), tuple(sample(4, 4, seed=i) for i in (1, 2))
        hx = hx if name == "LSTM" else hx[0]
        for start in (None, hx):
            (a, last_a), (b, last_b) = ours(x, start), theirs(x, start)
            close(a, b)
            close_all(last_a, last_b)


def test_an_empty_batch():
    for kind in KINDS:
        output, _ = make(kind, 3, 4)(torch.zeros(0, 5, 3, dtype=torch.float64))
        assert output.shape == (0, 5, 4)


# Sequences of different lengths

lengths_of_batch = st.lists(st.integers(1, 5), min_size=2, max_size=5)
shapes = st.tuples(st.integers(1, 2), st.booleans())  # number of layers, bidirectional


@anything
@given(kinds, shapes, lengths_of_batch, st.randoms(use_true_random=False))
def test_permuting_the_batch_permutes_the_outputs(kind, shape, lengths, random):
    layer = make(kind, 3, 4, shape[0], bidirectional=shape[1])
    x, order = sample(len(lengths), 5, 3), list(range(len(lengths)))
    random.shuffle(order)
    output, hx = layer(x, lengths=lengths)
    other, other_hx = layer(x[order], lengths=[lengths[i] for i in order])
    close(other, output[order])
    close_all(other_hx, tuple(s[:, order] for s in states(hx)))


@anything
@given(kinds, shapes, lengths_of_batch, st.sampled_from([0.0, 7.0, math.inf, math.nan]))
def test_padding_never_reaches_a_real_step(kind, shape, lengths, filling):
    layer = make(kind, 3, 4, shape[0], bidirectional=shape[1])
    clean = sample(len(lengths), 5, 3)
    filled = clean.clone()
    for i, length in enumerate(lengths):
        filled[i, length:] = filling
    results = []
    for x in (clean, filled):
        x.requires_grad_()
        output, hx = layer(x, lengths=lengths)
        loss = sum(value.sum() for value in (output, *states(hx)))
        results.append([output, *states(hx), *torch.autograd.grad(loss, [x, *layer.parameters()])])
    for a, b in zip(*results, strict=True):
        close(a, b, atol=0)
    gradient = results[0][1 + len(states(hx))]
    assert all((gradient[i, length:] == 0).all() for i, length in enumerate(lengths))


@anything
@given(kinds, shapes, lengths_of_batch)
def test_a_sequence_alone_is_as_in_its_batch(kind, shape, lengths):
    layer = make(kind, 3, 4, shape[0], bidirectional=shape[1])
    x = sample(len(lengths), 5, 3)
    output, hx = layer(x, lengths=lengths)
    for i, length in enumerate(lengths):
        alone, last = layer(x[i : i + 1, :length])
        close(alone[0], output[i, :length])
        close_all(last, tuple(s[:, i : i + 1] for s in states(hx)))


@pytest.mark.parametrize("norm", [nn.LayerNorm, None])
@every_kind
def test_packed_sequences_come_back_packed(kind, norm):
    layer = make(kind, 3, 4, 2, bidirectional=True, norm=norm)
    x, lengths = sample(4, 6, 3), torch.tensor([2, 6, 1, 4])
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    hx = tuple(sample(4, 4, 4, seed=i) for i in (1, 2))
    hx = hx if "LSTM" in kind else hx[0]
    output, last = layer(packed, hx)
    for name in ("batch_sizes", "sorted_indices", "unsorted_indices"):
        assert (getattr(output, name) == getattr(packed, name)).all()
    padded, same = pad_packed_sequence(output, batch_first=True)
    assert (same == lengths).all()
    from_padded, last_from_padded = layer(x, hx, lengths)
    close(padded, from_padded)
    close_all(last, last_from_padded)


def test_lengths_may_be_shorter_than_the_tensor():
    output, _ = make("LayerNormGRU", 3, 4)(sample(2, 6, 3), lengths=torch.tensor([2, 3]))
    assert output.shape == (2, 6, 4)
    assert (output[:, 3:] == 0).all()


@every_kind
def test_step_by_step_is_all_at_once(kind):
    """By the cell, and by the layer with its own last state."""
    layer, cell = make(kind, 3, 4), make(kind, 3, 4, cell=True)
    layer.load_state_dict(
        {
            ".".join([name.split(".")[0] + "_l0", *name.split(".")[1:]]): value
            for name, value in cell.state_dict().items()
        }
    )
    x, state, hx = sample(5, 6, 3), None, None
    output, last = layer(x)
    for t in range(6):
        state = cell(x[:, t], state)
        close(states(state)[0], output[:, t])
        one, hx = layer(x[:, t : t + 1], hx)
        close(one[:, 0], output[:, t])
    close_all(hx, last)
    close_all(tuple(s[None] for s in states(state)), last)


# Layer norm


@every_kind
def test_a_state_of_zeros(kind):
    """LN(0) is its beta, thanks to eps; without eps it is NaN."""
    x = torch.zeros(2, 3, 3, dtype=torch.float64, requires_grad=True)
    layer = make(kind, 3, 4)
    output, _ = layer(x)
    output.sum().backward()
    assert output.isfinite().all() and x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    broken = make(kind, 3, 4, norm=partial(nn.LayerNorm, eps=0.0))
    if kind == "LayerNormStateRNN":  # its sums have a bias, so that they aren't all equal
        assert broken(x)[0].isfinite().all()
    else:
        assert broken(x)[0].isnan().all()


def test_a_state_of_zeros_leaves_beta():
    cell = make("LayerNormLSTM", 3, 4, cell=True)
    x = sample(2, 3)
    gates = cell.norm_ih(x @ cell.weight_ih.T) + cell.norm_hh.bias
    i, _, g, o = gates.chunk(4, 1)
    c = i.sigmoid() * g.tanh()
    close_all(cell(x), (o.sigmoid() * cell.norm_c(c).tanh(), c))


@every_kind
@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_larger_weights_change_nothing_but_the_share_of_eps(kind, eps):
    """Both matrices together in eq. 4, which has one norm for their sum; else each by itself."""
    layer = make(kind, 3, 4, norm=partial(nn.LayerNorm, eps=eps))
    x = sample(5, 6, 3)
    hx = tuple(sample(1, 5, 4, seed=i) for i in (1, 2))
    hx = hx if "LSTM" in kind else hx[0]
    output, _ = layer(x, hx)
    with torch.no_grad():
        layer.weight_hh_l0.mul_(3)
        if kind == "LayerNormRNN":
            layer.weight_ih_l0.mul_(3)
    change = (layer(x, hx)[0] - output).abs().max()
    if kind == "LayerNormStateRNN":
        assert change > 0.01
    else:
        assert change < (1e-12 if eps == 0 else 1e-3)
        assert eps == 0 or change > 0


@every_kind
def test_the_books_own_layer_norm_gives_the_same(kind):
    layer = make(kind, 3, 4, 2, bidirectional=True)
    own = make(kind, 3, 4, 2, bidirectional=True, norm=layers.LayerNorm)
    own.load_state_dict(layer.state_dict())
    x, lengths = sample(4, 5, 3), [3, 5, 1, 2]
    close(own(x, lengths=lengths)[0], layer(x, lengths=lengths)[0])


@every_kind
def test_any_norm_of_the_last_axis(kind):
    layer = make(kind, 3, 4, norm=nn.RMSNorm)
    x = sample(2, 5, 3)
    assert (layer(x)[0] - make(kind, 3, 4)(x)[0]).abs().max() > 1e-3
    assert {type(m) for n, m in layer.named_modules() if n} == {nn.RMSNorm}


@every_kind
def test_gradcheck(kind):
    layer = make(kind, 1, 2, bidirectional=True)
    leaves = [sample(2, 3, 1).requires_grad_(), *layer.parameters()]

    def outputs(x, *_):
        output, hx = layer(x, lengths=[2, 3])
        return (output, *states(hx))

    assert torch.autograd.gradcheck(outputs, leaves)


@every_kind
def test_gradcheck_of_cells_and_their_states(kind):
    cell = make(kind, 2, 3, cell=True)
    leaves = [sample(2, 2), *(sample(2, 3, seed=i) for i in range(1, 2 + ("LSTM" in kind)))]
    leaves = [leaf.requires_grad_() for leaf in leaves]

    def outputs(x, *hx):
        return cell(x, hx if "LSTM" in kind else hx[0])

    assert torch.autograd.gradcheck(outputs, leaves)
    assert torch.autograd.gradgradcheck(outputs, leaves)


# On the outputs


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_norm_on_outputs_is_two_layers_of_torch(name, bidirectional):
    rnn = getattr(nn, name)(
        3, 4, 2, bidirectional=bidirectional, batch_first=True, dtype=torch.float64
    )
    layer = recurrent.LayerNormOutput(rnn)
    with torch.no_grad():
        layer.norm.bias.fill_(0.5)
    x = sample(4, 6, 3)
    plain, last = rnn(x)
    output, hx = layer(x)
    close(output, layer.norm(plain), atol=0)
    close_all(hx, last, atol=0)
    lengths = torch.tensor([2, 6, 1, 4])
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    plain, last = rnn(packed)
    output, hx = layer(x, lengths=lengths)
    close_all(hx, last)
    plain, _ = pad_packed_sequence(plain, batch_first=True)
    for i, length in enumerate(lengths):
        close(output[i, :length], layer.norm(plain[i, :length]))
        assert (output[i, length:] == 0).all()


def test_norm_on_outputs_of_any_size():
    rnn = nn.LSTM(3, 4, proj_size=2, batch_first=True, dtype=torch.float64)
    assert recurrent.LayerNormOutput(rnn)(sample(2, 5, 3))[0].shape == (2, 5, 2)
    ours = recurrent.LayerNormLSTM(3, 4, bidirectional=True, dtype=torch.float64)
    layer = recurrent.LayerNormOutput(ours, nn.RMSNorm)
    close(layer(sample(2, 5, 3))[0].square().mean(-1), torch.ones(2, 5).double(), 1e-6)
    with pytest.raises(ValueError, match="LSTM has batch_first=False; expected True"):
        recurrent.LayerNormOutput(nn.LSTM(3, 4))


# As modules


@every_kind
def test_state_dict_and_copies(kind):
    layer = make(kind, 3, 4, 2, bidirectional=True)
    other = make(kind, 3, 4, 2, bidirectional=True, seed=1)
    x = sample(4, 5, 3)
    assert (other(x)[0] != layer(x)[0]).any()
    other.load_state_dict(layer.state_dict())
    buffer = io.BytesIO()
    torch.save(layer, buffer)
    buffer.seek(0)
    for twin in (other, copy.deepcopy(layer), torch.load(buffer, weights_only=False)):
        close(twin(x)[0], layer(x)[0], atol=0)
        assert repr(twin) == repr(layer)


@every_kind
def test_float32_is_about_the_same(kind):
    layer = make(kind, 3, 4, 2)
    x = sample(4, 5, 3)
    expected = layer(x)[0]
    output = layer.float()(x.float())[0]
    assert output.dtype == torch.float32
    close(output.double(), expected, 1e-5)
    assert layer.double()(x)[0].dtype == torch.float64


@every_kind
def test_the_same_seed_gives_the_same_weights_with_and_without_norms(kind):
    pair = []
    for norm in (nn.LayerNorm, None):
        torch.manual_seed(0)
        pair.append(getattr(recurrent, kind)(3, 4, norm=norm))
    for name in ("weight_ih_l0", "weight_hh_l0"):
        assert (getattr(pair[0], name) == getattr(pair[1], name)).all()


@every_kind
def test_functional_call(kind):
    layer, other = make(kind, 3, 4), make(kind, 3, 4, seed=1)
    x = sample(2, 5, 3)
    output, _ = torch.func.functional_call(layer, dict(other.named_parameters()), (x,))
    close(output, other(x)[0], atol=0)


# As torch's own, to torch's tools


@every_kind
def test_positional_arguments_are_torchs(kind):
    """Of the LSTM and the GRU; nn.RNN has its nonlinearity in between."""
    sizes, options = (3, 4, 2), (False, True, 0.25, True)
    ours = getattr(recurrent, kind)(*sizes, *options)
    theirs = (nn.GRU if kind == "LayerNormGRU" else nn.LSTM)(*sizes, *options)
    for name in ("bias", "batch_first", "dropout", "bidirectional"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert getattr(recurrent, kind)(3, 4, batch_first=True).batch_first


@every_kind
def test_time_first(kind):
    first = make(kind, 3, 4, 2, bidirectional=True)
    second = make(kind, 3, 4, 2, bidirectional=True, batch_first=False)
    x, lengths = sample(4, 6, 3), [2, 6, 1, 4]
    hx = tuple(sample(4, 4, 4, seed=i) for i in (1, 2))
    hx = hx if "LSTM" in kind else hx[0]
    for options in ({}, {"hx": hx}, {"lengths": lengths}, {"hx": hx, "lengths": lengths}):
        output, last = first(x, **options)
        other, other_last = second(x.transpose(0, 1), **options)
        close(other.transpose(0, 1), output)
        close_all(other_last, last)
    for value, other in zip(flat(first(x[0])), flat(second(x[0])), strict=True):
        close(value, other)
    close(second(torch.zeros(6, 0, 3).double())[0], torch.zeros(6, 0, 8).double())


@every_kind
def test_a_number_of_numpy_is_a_size(kind):
    assert getattr(recurrent, kind)(np.int64(3), np.int64(4)).hidden_size == 4
    assert getattr(recurrent, kind + "Cell")(np.int64(3), np.int64(4)).hidden_size == 4


@every_kind
@pytest.mark.parametrize("norm", [nn.LayerNorm, None])
def test_classes_and_weights_of_torch(kind, norm):
    """Of the classes that hold weights. An nn.LSTM may be replaced by fused code."""
    layer = getattr(recurrent, kind)(3, 4, 2, bidirectional=True, norm=norm)
    assert isinstance(layer, nn.RNNBase) and not isinstance(layer, nn.RNN | nn.LSTM | nn.GRU)
    assert isinstance(getattr(recurrent, kind + "Cell")(3, 4), nn.RNNCellBase)
    layer.flatten_parameters()
    listed = [p for cell in layer.all_weights for p in cell]
    own = [p for name, p in layer.named_parameters() if "norm" not in name]
    assert all(a is b for a, b in zip(listed, own, strict=True))


@every_kind
@pytest.mark.parametrize("cell", [False, True])
def test_reset_parameters(kind, cell):
    """A seed gives the weights that a new layer has; norms are as new."""
    torch.manual_seed(0)
    new = getattr(recurrent, kind + "Cell" * cell)(3, 4)
    layer = make(kind, 3, 4, cell=cell, dtype=torch.float32)
    torch.manual_seed(0)
    layer.reset_parameters()
    close_all(tuple(layer.parameters()), tuple(new.parameters()), atol=0)
    plain = getattr(recurrent, kind)(3, 100, norm=None)
    with torch.no_grad():
        plain.weight_hh_l0.zero_()
    plain.reset_parameters()
    assert 0.099 < plain.weight_hh_l0.abs().max() <= 0.1
    assert plain.weight_hh_l0.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.05)


def test_reset_parameters_of_outputs_and_of_any_norm():
    layer = recurrent.LayerNormOutput(nn.GRU(3, 4, batch_first=True))
    new = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(7.0)
    layer.reset_parameters()
    assert layer.norm.weight.tolist() == [1.0] * 4 and layer.norm.bias.tolist() == [0.0] * 4
    assert all(value.abs().max() <= 1 for value in layer.state_dict().values())
    assert list(layer.state_dict()) == list(new)
    recurrent.LayerNormRNN(3, 4, norm=nn.Identity).reset_parameters()  # it has nothing to reset
    unknown = recurrent.LayerNormRNN(3, 4, norm=lambda n: nn.Sequential(nn.LayerNorm(n)))
    with pytest.raises(AttributeError, match="no attribute 'reset_parameters'"):
        unknown.reset_parameters()


def cut_short(layer, *args, **options):
    """Outputs, states and gradients."""
    layer.zero_grad()
    result = layer(*args, **options)
    values = list(states(result)) if isinstance(result, torch.Tensor) else flat(result)
    sum(value.float().square().sum() for value in values).backward()
    return values, [p.grad.clone() for p in layer.parameters()]


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [value for part in result for value in flat(part)]


autocast = partial(torch.autocast, "cpu", dtype=torch.bfloat16)
HALF = torch.bfloat16


@pytest.mark.parametrize("form", ["tensor", "state", "lengths", "half"])
@pytest.mark.parametrize("cell", [False, True])
@every_kind
def test_autocast(kind, cell, form):
    """Dtypes of torch's layers; outputs and gradients near those in float32."""
    make = getattr(recurrent, kind + "Cell" * cell)
    torch.manual_seed(0)
    layer = make(8, 16) if cell else make(8, 16, bidirectional=True)
    theirs = getattr(nn, KINDS[kind] + "Cell" * cell)(8, 16)
    x = sample(4, 8).float() if cell else sample(4, 5, 8).float()
    options = {}
    if form == "state":
        h = torch.rand(4, 16) if cell else torch.rand(2, 4, 16)
        options["hx"] = (h, h) if "LSTM" in kind else h
    if form == "lengths" and not cell:
        options["lengths"] = [5, 1, 3, 2]
    expected, gradients = cut_short(layer, x, **options)
    given = x.to(HALF) if form == "half" else x
    with autocast():
        values, grads = cut_short(layer, given, **options)
        other = flat(theirs(given))
    assert all(value.isfinite().all() for value in values + grads)
    # Where bfloat16 has no kernel of its own, torch's LSTM returns float32.
    layer_of_lstm = KINDS[kind] == "LSTM" and not cell
    dtypes = [HALF] * 3 if layer_of_lstm else [value.dtype for value in other]
    if layer_of_lstm and form == "lengths":
        dtypes = [torch.float32] * 3  # as torch's of packed sequences
    assert [value.dtype for value in values] == dtypes
    for value, exact in zip(values, expected, strict=True):
        close(value.float(), exact, 0.2)
        assert (value - exact).square().mean().sqrt() < 0.04
    whole, exact = (torch.cat([g.flatten() for g in all_of]) for all_of in (grads, gradients))
    assert (whole - exact).norm() < 0.15 * exact.norm()


@pytest.mark.parametrize("lengths", [None, [5, 1, 3, 2]])
def test_autocast_of_norm_on_outputs(lengths):
    torch.manual_seed(0)
    dtypes = []
    for rnn in (nn.LSTM(8, 16, batch_first=True), recurrent.LayerNormLSTM(8, 16, norm=None)):
        layer, x = recurrent.LayerNormOutput(rnn), sample(4, 5, 8).float()
        expected, gradients = cut_short(layer, x, lengths=lengths)
        with autocast():
            values, grads = cut_short(layer, x, lengths=lengths)
        dtypes.append([value.dtype for value in values])
        for value, exact in zip(values + grads, expected + gradients, strict=True):
            assert (value - exact).norm() < 0.1 * exact.norm()
    # Of sequences of different lengths, nn.LSTM returns float32; of others, in general, bfloat16.
    assert dtypes[1] == [torch.float32 if lengths else HALF] * 3
    assert dtypes[0] in (dtypes[1], [torch.float32] * 3)


def test_autocast_converts_no_other_dtypes():
    layer = recurrent.LayerNormRNN(3, 4)
    with autocast():
        for dtype in (torch.float64, torch.int64):
            with pytest.raises(ValueError, match=f"input has dtype {dtype}, but the weights"):
                layer(zeros(2, 5, 3, dtype=dtype))
    with pytest.raises(ValueError, match=r"input has dtype torch\.bfloat16"):
        layer(zeros(2, 5, 3, dtype=HALF))


compiled = partial(torch.compile, fullgraph=True, backend="aot_eager")


@every_kind
def test_compiles_in_one_graph(kind):
    torch._dynamo.reset()
    layer = make(kind, 3, 4, bidirectional=True)
    for x in (sample(3, 2, 3), sample(5, 2, 3)):  # the second compiles for any batch
        expected, gradients = cut_short(layer, x)
        values, grads = cut_short(compiled(layer), x)
        for value, exact in zip(values + grads, expected + gradients, strict=True):
            close(value, exact, 1e-6)
    torch._dynamo.reset()
    cell, x = make(kind, 3, 4, cell=True), sample(2, 3)
    close_all(compiled(cell)(x), cell(x))
    close_all(compiled(cell)(x, cell(x)), cell(x, cell(x)))


@every_kind
def test_exports_for_any_batch(kind):
    layer = make(kind, 3, 4, bidirectional=True)
    shapes = {"input": {0: torch.export.Dim("samples")}}
    exported = torch.export.export(layer, (sample(2, 3, 3),), dynamic_shapes=shapes).module()
    for samples in (2, 7):
        x = sample(samples, 3, 3)
        for value, exact in zip(flat(exported(x)), flat(layer(x)), strict=True):
            close(value, exact)


@every_kind
def test_forward_mode_hessian_and_vmap(kind):
    layer = make(kind, 2, 3, bidirectional=True)
    x, v = sample(2, 3, 2), sample(2, 3, 2, seed=1)

    def loss(x):
        return layer(x)[0].square().sum()

    _, forward = torch.func.jvp(lambda x: layer(x)[0], (x,), (v,))
    jacobian = torch.func.jacrev(lambda x: layer(x)[0])(x)
    close(forward, torch.einsum("ntdabc,abc->ntd", jacobian, v))
    close(torch.func.hessian(loss)(x), torch.autograd.functional.hessian(loss, x))
    many = sample(5, 2, 3, 2)
    close(torch.vmap(lambda x: layer(x)[0])(many), torch.stack([layer(x)[0] for x in many]))
    cell = make(kind, 2, 3, cell=True)
    rows = [torch.func.hessian(lambda x: states(cell(x))[0].sum())(a) for a in x[0]]
    assert all(row.shape == (2, 2) and row.abs().sum() > 0 for row in rows)


@every_kind
def test_fake_tensors(kind):
    with FakeTensorMode():
        output, _ = getattr(recurrent, kind)(3, 4, 2)(torch.zeros(2, 5, 3))
        cell = states(getattr(recurrent, kind + "Cell")(3, 4)(torch.zeros(2, 3)))[0]
        normed, _ = recurrent.LayerNormOutput(getattr(recurrent, kind)(3, 4))(output[..., :3])
    assert (output.shape, cell.shape, normed.shape) == ((2, 5, 4), (2, 4), (2, 5, 4))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("tool", [torch.jit.script, torch.fx.symbolic_trace])
def test_tools_that_cannot_follow_say_so(tool):
    for kind in KINDS:
        for cell in (False, True):
            with pytest.raises((RuntimeError, TypeError)):
                tool(getattr(recurrent, kind + "Cell" * cell)(3, 4))
    with pytest.raises((RuntimeError, TypeError)):
        tool(recurrent.LayerNormOutput(nn.LSTM(3, 4, batch_first=True)))


def test_checkpoint():
    layer, x = make("LayerNormLSTM", 3, 4, 2), sample(2, 3, 3).requires_grad_()
    gradients = []
    for run in (layer, partial(torch.utils.checkpoint.checkpoint, layer, use_reentrant=False)):
        loss = run(x)[0].square().sum()
        gradients.append(torch.autograd.grad(loss, [x, *layer.parameters()]))
    close_all(*gradients)


# Errors


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda lstm, _: lstm(zeros(2, 5, 4)), RuntimeError, r"input_size, 3; .* \(2, 5, 4\)"),
        (lambda lstm, _: lstm(zeros(2, 5, 3, 1)), ValueError, "2D or 3D, got 4D"),
        (lambda lstm, _: lstm(zeros(2, 0, 3)), RuntimeError, r"one step, .* \(2, 0, 3\)"),
        (lambda lstm, _: lstm([[1.0]]), TypeError, "input is a list; expected a tensor"),
        (
            lambda lstm, _: lstm(zeros(2, 5, 3, dtype=torch.float64)),
            ValueError,
            r"input has dtype torch.float64, .* torch.float32; .* input.to\(torch.float32\)",
        ),
        (lambda lstm, _: lstm(zeros(2, 5, 3, dtype=torch.int64)), ValueError, "torch.int64"),
        (
            lambda lstm, _: lstm(zeros(2, 5, 3), zeros(1, 2, 4)),
            TypeError,
            r"hx is a Tensor; expected a pair of tensors, \(h, c\)",
        ),
        (
            lambda lstm, _: lstm(zeros(2, 5, 3), (zeros(1, 2, 4), zeros(1, 3, 4))),
            RuntimeError,
            r"expected c of shape \(1, 2, 4\), got \(1, 3, 4\)",
        ),
        (
            lambda lstm, _: lstm(zeros(5, 3), (zeros(1, 1, 4), zeros(1, 1, 4))),
            RuntimeError,
            r"expected h of shape \(1, 4\), got \(1, 1, 4\)",
        ),
        (
            lambda lstm, _: lstm(zeros(2, 5, 3), (zeros(1, 2, 4), zeros(1, 2, 4).double())),
            ValueError,
            "c has dtype torch.float64",
        ),
        (lambda _, gru: gru(zeros(3), (zeros(4),)), TypeError, "hx is a tuple; expected a tensor"),
        (
            lambda _, gru: gru(zeros(2, 3), zeros(1, 4)),
            RuntimeError,
            r"h .* \(2, 4\), got \(1, 4\)",
        ),
        (lambda _, gru: gru(zeros(2, 5, 3)), ValueError, "1D or 2D, got 3D"),
        (lambda lstm, _: lstm(zeros(2, 5, 3), None, [5]), ValueError, r"shape \(1,\).*2 samples"),
        (
            lambda lstm, _: lstm(zeros(2, 5, 3), None, [5, 6]),
            ValueError,
            "length of sample 1 is 6; expected 1 to 5",
        ),
        (
            lambda lstm, _: lstm(zeros(2, 5, 3), None, [0, 5]),
            ValueError,
            "length of sample 0 is 0; expected 1 to 5",
        ),
        (lambda lstm, _: lstm(zeros(2, 5, 3), None, [1.0, 5]), TypeError, "torch.float32"),
        (lambda lstm, _: lstm(zeros(5, 3), None, [5]), ValueError, r"3 axes, .* \(5, 3\)"),
        (
            lambda lstm, _: lstm(
                pack_padded_sequence(zeros(2, 5, 3), torch.tensor([5, 4]), batch_first=True),
                None,
                [5, 4],
            ),
            TypeError,
            "padded tensor, not with a PackedSequence",
        ),
        (
            lambda lstm, _: lstm(
                pack_padded_sequence(zeros(2, 5, 4), torch.tensor([5, 4]), batch_first=True)
            ),
            RuntimeError,
            "input_size, 3",
        ),
        (
            lambda lstm, _: lstm(torch.nested.nested_tensor([zeros(2, 3), zeros(4, 3)])),
            TypeError,
            "input is a nested tensor; expected a padded one",
        ),
        (
            lambda _, gru: gru(
                torch.nested.nested_tensor([zeros(2, 3), zeros(4, 3)], layout=torch.jagged)
            ),
            TypeError,
            "input is a nested tensor",
        ),
        (
            lambda _, gru: gru(zeros(2, 3), zeros(1, 1, 2, 4)),
            ValueError,
            r"expected h of shape \(2, 4\), got \(1, 1, 2, 4\)",
        ),
        (lambda *_: recurrent.LayerNormGRU(3, 4, bias=0), TypeError, "bias is 0; .* True or"),
        (lambda *_: recurrent.LayerNormLSTM(3, 4, bias="False"), TypeError, "bias is 'False'"),
        (lambda *_: recurrent.LayerNormStateRNNCell(3, 4, 1), TypeError, "bias is 1"),
        (lambda *_: recurrent.LayerNormRNN(3, 4, batch_first=0), TypeError, "batch_first is 0"),
        (lambda *_: recurrent.LayerNormRNN(3, 4, bidirectional=2), TypeError, "bidirectional is 2"),
        (lambda *_: recurrent.LayerNormRNN(3, 0), ValueError, "hidden_size is 0; .* at least 1"),
        (lambda *_: recurrent.LayerNormRNN(3, 4, 0), ValueError, "num_layers is 0"),
        (lambda *_: recurrent.LayerNormRNN(3, 4.0), TypeError, "hidden_size is 4.0; .* integer"),
        (lambda *_: recurrent.LayerNormGRUCell(-1, 4), ValueError, "input_size is -1"),
        (lambda *_: recurrent.LayerNormRNN(3, 4, dropout=2), ValueError, "dropout is 2"),
        (
            lambda *_: recurrent.LayerNormRNN(3, 4, nonlinearity="gelu"),
            ValueError,
            "nonlinearity is 'gelu'; expected 'tanh' or 'relu'",
        ),
    ],
)
def test_messages(attempt, error, message):
    with pytest.raises(error, match=message):
        attempt(recurrent.LayerNormLSTM(3, 4), recurrent.LayerNormGRUCell(3, 4))


def test_warns_of_dropout_that_does_nothing():
    with pytest.warns(UserWarning, match="got dropout=0.5 and num_layers=1"):
        recurrent.LayerNormLSTM(3, 4, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recurrent.LayerNormLSTM(3, 4, 2, dropout=0.5)


@every_kind
def test_on_the_meta_device(kind):
    layer = getattr(recurrent, kind)(3, 4, device="meta")
    assert layer(torch.empty(2, 5, 3, device="meta"))[0].shape == (2, 5, 4)

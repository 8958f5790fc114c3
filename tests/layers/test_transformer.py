"""The Transformer's encoder layer, side by side with torch.nn's, and what each norm lets it see."""

import copy
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses import FakeTensorMode

import helpers
from normbook.layers.batch_norm_over_time import BatchNormPooled
from normbook.layers.norms import LayerNorm, RMSNorm
from normbook.layers.transformer import (
    DynamicTanh,
    Encoder,
    EncoderLayer,
    SelfAttention,
)

TESTED = set()
about = partial(helpers.about, TESTED)

PLACEMENTS = {"post": {}, "pre": {"norm_first": True}, "output": {"norm_output": True}}
NORMS = {"layer": LayerNorm, "rms": RMSNorm, "batch": BatchNormPooled}
PER_TOKEN = {name: NORMS[name] for name in ("layer", "rms")}
every_placement = pytest.mark.parametrize("placement", PLACEMENTS.values(), ids=PLACEMENTS)
every_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
every_norm_per_token = pytest.mark.parametrize("norm", PER_TOKEN.values(), ids=PER_TOKEN)
every_qk_norm = pytest.mark.parametrize("qk_norm", [None, *PER_TOKEN.values()])


@pytest.fixture(autouse=True)
def float64_by_default():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def sample(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def shake(module, seed=0):
    """Random values for all parameters, gamma and beta included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module


def build(*args, layers=2, **options):
    """A stack with random parameters and without dropout, in train mode."""
    torch.manual_seed(0)
    return shake(Encoder(layers, *(args or (8, 2, 16)), dropout=0, **options))


def close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def hide_after(lengths, t):
    """The padding mask of sequences of these lengths among t tokens."""
    return torch.arange(t) >= torch.tensor(lengths)[:, None]


# Any configuration, the same numbers

sizes = st.integers(1, 4)
configurations = st.fixed_dictionaries(
    {
        "nhead": sizes,
        "dim_feedforward": st.integers(1, 9),
        "activation": st.sampled_from(["relu", "gelu", F.relu, F.gelu, F.silu, nn.GELU()]),
        "layer_norm_eps": st.sampled_from([1e-5, 1e-12, 0.1]),
        "norm_first": st.booleans(),
        "bias": st.booleans(),
    }
)
masks = st.tuples(
    st.sampled_from(["none", "bool", "float", "causal"]), st.booleans(), st.booleans()
)
seeds = st.integers(0, 2**32 - 1)
anything = settings(max_examples=100, deadline=None, derandomize=True)


def twins(features, configuration, seed=0):
    """torch's layer with random parameters, and ours, loaded from it."""
    options = configuration | {"d_model": features * configuration["nhead"], "dropout": 0}
    theirs = shake(nn.TransformerEncoderLayer(**options, batch_first=True), seed)
    ours = EncoderLayer(**options)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def random_masks(kind, per_head, padded, n, t, heads, seed):
    """Masks that leave every token some other to attend to: itself, and the first."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.rand((n * heads, t, t) if per_head else (t, t), generator=generator) < 0.4
    if kind == "causal":
        hidden = torch.ones_like(hidden).triu(1)
    hidden[..., 0] = False
    hidden &= ~torch.eye(t, dtype=torch.bool)
    masking = {}
    if kind != "none":
        masking["src_mask"] = hidden
    if kind == "float":
        masking["src_mask"] = torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)
    if padded:
        lengths = torch.randint(1, t + 1, (n,), generator=generator)
        masking["src_key_padding_mask"] = hide_after(lengths.tolist(), t)
    return masking


@anything
@given(configurations, sizes, sizes, sizes, masks, seeds)
@pytest.mark.filterwarnings("ignore:Support for mismatched src_key_padding_mask")
def test_equals_torch(configuration, features, n, t, masks, seed):
    ours, theirs = twins(features, configuration, seed)
    masking = random_masks(*masks, n, t, configuration["nhead"], seed)
    x, dy = (sample(n, t, features * configuration["nhead"], seed=seed + i) for i in (0, 1))
    results = []
    for layer in (ours, theirs):
        cells = x.clone().requires_grad_()
        trained = layer.train()(cells, **masking)
        trained.backward(dy)
        evaluated = layer.eval()(cells, **masking)
        with torch.no_grad():
            fast = layer(cells, **masking)
        gradients = {name: p.grad for name, p in layer.named_parameters()}
        results.append((trained.detach(), evaluated.detach(), fast, cells.grad, gradients))
    # Gradients grow as eps gets small: with one or two features, a variance can be tiny.
    for actual, expected, atol in zip(*results, (1e-10,) * 3 + (1e-6,) * 2, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-8, atol=atol)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(configurations, sizes, sizes, st.sampled_from([None, 0, 2]), masks, seeds)
@pytest.mark.filterwarnings("ignore:Support for mismatched src_key_padding_mask")
def test_one_sample_and_none_equal_torch(configuration, features, t, samples, masks, seed):
    """Without the axis of samples, and without a sample."""
    ours, theirs = twins(features, configuration, seed)
    n = 1 if samples is None else samples
    kind, per_head, padded = masks
    if n == 0:  # torch's layer takes no masks by sample of no sample
        per_head = padded = False
    masking = random_masks(kind, per_head, padded, n, t, configuration["nhead"], seed)
    shape = (t, theirs.linear1.in_features) if samples is None else (n, t, ours.linear1.in_features)
    if samples is None and "src_key_padding_mask" in masking:
        masking["src_key_padding_mask"] = masking["src_key_padding_mask"][0]
    x, dy = sample(*shape, seed=seed), sample(*shape, seed=seed + 1)
    results = []
    for layer in (ours, theirs):
        cells = x.clone().requires_grad_()
        output = layer(cells, **masking)
        gradients = torch.autograd.grad(output, [cells, *layer.parameters()], dy)
        with torch.no_grad():
            results.append((output.detach(), layer.eval()(cells, **masking), *gradients))
    assert results[0][0].shape == shape
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-6)
    close(results[0][0], results[1][0], 1e-10)


@every_norm
def test_one_sample_is_a_batch_of_one(norm):
    model, x, padding = build(norm=norm, norm_first=True), sample(5, 8), hide_after([3], 5)[0]
    masking = {"src_key_padding_mask": padding[None]}
    expected = model(x[None], is_causal=True, **masking)[0]
    close(model(x, is_causal=True, src_key_padding_mask=padding), expected)


def test_layers_of_a_stack_share_no_activation():
    stack = Encoder(2, 8, 2, 16, activation=nn.PReLU())
    names = [f"layers.{i}.activation.weight" for i in range(2)]
    assert [name for name in stack.state_dict() if "activation" in name] == names
    first, second = (layer.activation.weight for layer in stack.layers)
    assert first is not second
    assert EncoderLayer(8, 2, activation="gelu").activation is F.gelu


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fast_path_was_taken(norm_first, monkeypatch):
    """In eval mode without gradients, torch's layer is one fused operation."""
    name, calls = "_transformer_encoder_layer_fwd", []
    fused = getattr(torch, name)
    monkeypatch.setattr(torch, name, lambda *args: calls.append(name) or fused(*args))
    ours, theirs = twins(4, {"nhead": 2, "dim_feedforward": 8, "norm_first": norm_first})
    x = sample(2, 5, 8)
    with torch.no_grad():
        close(ours.eval()(x), theirs.eval()(x))
    assert calls == [name]


@pytest.mark.parametrize("norm_first", [False, True])
def test_same_seed_same_weights_same_dropout(norm_first):
    """Dropout of the attention weights, of the hidden units and of both branches."""
    options = {"dim_feedforward": 16, "dropout": 0.3, "norm_first": norm_first}
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(8, 2, batch_first=True, **options)
    torch.manual_seed(0)
    ours = EncoderLayer(8, 2, **options)
    expected = theirs.state_dict()
    assert list(ours.state_dict()) == list(expected)
    for name, value in ours.state_dict().items():
        assert torch.equal(value, expected[name])
    x = sample(1, 6, 8)  # one sample: else torch's layer fills its dropout masks in another order
    for seed in range(5):
        torch.manual_seed(seed)
        expected = theirs(x)
        torch.manual_seed(seed)
        close(ours(x), expected)
    for layer in (ours, theirs):
        layer.self_attn.dropout = 0
    torch.manual_seed(4)
    assert not torch.allclose(theirs(x), expected)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_state_dicts_of_layers_are_interchangeable(norm_first, bias):
    options = {"norm_first": norm_first, "bias": bias}
    ours = EncoderLayer(8, 2, 16, **options).eval()
    theirs = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options).eval()
    x = sample(2, 3, 8)
    for receiver, giver in ((ours, theirs), (theirs, ours)):
        shake(giver)
        assert not torch.allclose(ours(x), theirs(x))
        keys = receiver.load_state_dict(giver.state_dict())
        assert keys.missing_keys == keys.unexpected_keys == []
        close(ours(x), theirs(x))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_stack_equals_torch(norm_first, nested):
    ours = build(norm_first=norm_first, layers=3)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0, batch_first=True, norm_first=norm_first)
    norm = nn.LayerNorm(8) if norm_first else None
    theirs = nn.TransformerEncoder(layer, 3, norm, enable_nested_tensor=nested)
    theirs.load_state_dict(ours.state_dict())
    ours.load_state_dict(theirs.state_dict())
    x, padding = sample(3, 5, 8), hide_after([5, 3, 1], 5)
    causal = nn.Transformer.generate_square_subsequent_mask(5).isinf()
    for masking in ({}, {"src_key_padding_mask": padding}, {"mask": causal}):
        close(ours.train()(x, **masking), theirs.train()(x, **masking))
        with torch.no_grad():
            fast, expected = (model.eval()(x, **masking) for model in (ours, theirs))
        close(fast[~padding], expected[~padding])  # nested, torch's leaves zeros in the padding


def test_stack_starts_with_different_layers():
    first, second = Encoder(2, 8, 2, 16).layers
    assert not torch.equal(first.linear1.weight, second.linear1.weight)


@pytest.mark.parametrize("norm_first", [False, True])
def test_float_masks_are_added(norm_first):
    """torch's fast path takes them for boolean ones (pytorch/pytorch#118628); ours must not."""
    ours, theirs = twins(4, {"nhead": 2, "dim_feedforward": 8, "norm_first": norm_first})
    x = sample(2, 5, 8)
    for shape in ((5, 5), (4, 5, 5)):
        bias = sample(*shape, seed=1)
        with torch.no_grad():
            close(ours.eval()(x, bias.float().double()), theirs.train()(x, bias.float().double()))
            close(ours(x, bias.float()), ours(x, bias.float().double()))


@pytest.mark.parametrize("norm_first", [False, True])
def test_causal_needs_no_mask(norm_first):
    ours, theirs = twins(4, {"nhead": 2, "dim_feedforward": 8, "norm_first": norm_first})
    x, padding = sample(2, 5, 8), hide_after([5, 2], 5)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    close(ours(x, is_causal=True), theirs(x, causal, is_causal=True))
    close(ours(x, causal, is_causal=True), theirs(x, causal))
    masking = {"src_key_padding_mask": padding}
    close(ours(x, is_causal=True, **masking), theirs(x, causal.isinf(), **masking))


def test_all_padding_is_finite():
    """A token with nothing to attend to gathers nothing, as in torch's layer with gradients."""
    ours, theirs = twins(4, {"nhead": 2, "dim_feedforward": 8})
    x, padding = sample(2, 3, 8), hide_after([2, 0], 3)
    masking = {"src_key_padding_mask": padding}
    close(ours(x, **masking), theirs(x, **masking))
    assert ours(x, **masking).isfinite().all()


@about("tf.s004.parameter_count")
def test_parameter_count(inputs, expected):
    layer = EncoderLayer(inputs["d_model"], inputs["n_heads"], inputs["d_ff"])
    parts = {
        "mha": [layer.self_attn],
        "ffn": [layer.linear1, layer.linear2],
        "layer_norms": [layer.norm1, layer.norm2],
    }
    counts = {
        part: sum(p.numel() for module in modules for p in module.parameters())
        for part, modules in parts.items()
    }
    assert counts == expected["breakdown"]
    assert sum(p.numel() for p in layer.parameters()) == expected["total"] == 3_152_384


@about("tf.s004.post_ln_token_stats")
def test_tokens_after_a_new_layer(inputs, expected):
    for seed in range(2):
        torch.manual_seed(seed)
        layer = EncoderLayer(inputs["d_model"], 8, 2048, layer_norm_eps=inputs["eps"])
        y = layer(sample(2, 5, 512, seed=seed)).detach()
        std = y.std(-1, correction=0)
        close(y.mean(-1), torch.zeros(2, 5))
        close(std, torch.full((2, 5), expected["std"]), 1e-5)
        assert std.min() >= expected["std_lower_bound_seen"] - 1e-7
        close(y.std(-1) / std, torch.full((2, 5), expected["std_unbiased_factor"]))


def test_every_vector_is_tested():
    assert {i for i in helpers.VECTORS if i.startswith("tf.")} == TESTED


# Where the norm sits, and which


@every_placement
@every_norm
def test_placements(placement, norm):
    """As formulas, with torch's attention, network and norms."""
    torch.manual_seed(0)
    ours = shake(EncoderLayer(8, 2, 16, 0, norm=norm, **placement))
    theirs = nn.TransformerEncoderLayer(8, 2, 16, 0, batch_first=True)
    theirs.load_state_dict(ours.state_dict(), strict=False)
    x = sample(3, 5, 8)

    def normalize(x, own):
        if norm is BatchNormPooled:
            flat = F.batch_norm(x.flatten(0, 1), None, None, own.weight, own.bias, training=True)
            return flat.view_as(x)
        if norm is RMSNorm:
            return F.rms_norm(x, (8,), own.weight)
        return F.layer_norm(x, (8,), own.weight, own.bias)

    expected = x
    branches = (
        (lambda x: theirs.self_attn(x, x, x)[0], ours.norm1),
        (lambda x: theirs.linear2(F.relu(theirs.linear1(x))), ours.norm2),
    )
    for f, own in branches:
        if placement == PLACEMENTS["post"]:
            expected = normalize(expected + f(expected), own)
        elif placement == PLACEMENTS["pre"]:
            expected = expected + f(normalize(expected, own))
        else:
            expected = expected + normalize(f(expected), own)
    close(ours(x), expected)


@every_placement
@every_norm
def test_norm_at_the_end_of_a_stack(placement, norm):
    model = build(norm=norm, **placement)
    layer = EncoderLayer(8, 2, 16, 0, norm=norm, **placement)
    x, seen = sample(2, 5, 8), []
    model.layers[-1].register_forward_hook(lambda *args: seen.append(args[2]))
    y = model(x)
    if placement == PLACEMENTS["post"]:
        assert model.norm is None
        assert torch.equal(y, seen[0])
    else:
        assert type(model.norm) is norm
        assert repr(model.norm) == repr(layer.norm2)
        close(y, copy.deepcopy(model.norm)(seen[0]))


def test_norm_is_made_from_the_number_of_features():
    norms = [BatchNormPooled, partial(RMSNorm, eps=0.5), nn.Identity, lambda d: LayerNorm(d, 0.25)]
    made = [EncoderLayer(8, 2, 16, norm=norm).norm1 for norm in norms]
    assert [type(norm) for norm in made] == [BatchNormPooled, RMSNorm, nn.Identity, LayerNorm]
    assert (made[1].eps, made[3].eps) == (0.5, 0.25)
    plain = EncoderLayer(8, 2, 16, layer_norm_eps=0.125, bias=False).norm2
    assert (type(plain), plain.eps, plain.bias) == (LayerNorm, 0.125, None)


def test_dtype_reaches_every_parameter():
    options = {"norm": BatchNormPooled, "qk_norm": RMSNorm, "dtype": torch.float32}
    model = Encoder(2, 8, 2, 16, norm_first=True, **options)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model(sample(2, 3, 8).float()).dtype == torch.float32


def test_dynamic_tanh():
    """No cell's output depends on another cell."""
    norm, x = shake(DynamicTanh(4)), sample(2, 3, 4).requires_grad_()
    gamma, beta = norm.weight.tolist(), norm.bias.tolist()
    assert norm.alpha.item() != DynamicTanh(4).alpha.item() == 0.5
    for cell in ((0, 0, 0), (1, 2, 3)):
        d = cell[-1]
        expected = gamma[d] * math.tanh(norm.alpha.item() * x[cell].item()) + beta[d]
        output = norm(x)[cell]
        assert math.isclose(output.item(), expected, rel_tol=1e-12)
        (gradient,) = torch.autograd.grad(output, x)
        assert gradient.nonzero().tolist() == [list(cell)]
    assert EncoderLayer(4, 2, 8, norm=DynamicTanh)(x).shape == x.shape


def attention_by_hand(module, x, norm=lambda x: x):
    """One head after the other; norm is that of the queries and keys of a head."""
    d = x.shape[2] // module.num_heads
    projected = x @ module.in_proj_weight.T + module.in_proj_bias
    q, k, v = (projected[..., i : i + x.shape[2]] for i in range(0, 3 * x.shape[2], x.shape[2]))
    heads = []
    for i in range(0, x.shape[2], d):
        scores = norm(q[..., i : i + d]) @ norm(k[..., i : i + d]).mT / math.sqrt(d)
        heads.append(scores.softmax(-1) @ v[..., i : i + d])
    return module.out_proj(torch.cat(heads, dim=-1))


@every_qk_norm
def test_attention(qk_norm):
    torch.manual_seed(0)
    module, x = SelfAttention(12, 3, qk_norm=qk_norm), sample(2, 5, 12)
    norm = {
        None: lambda x: x,
        LayerNorm: lambda x: F.layer_norm(x, (4,)),
        RMSNorm: lambda x: F.rms_norm(x, (4,)),
    }[qk_norm]
    close(module(x), attention_by_hand(module, x, norm))
    names = [f"{name}.weight" for name in ("q_norm", "k_norm") if qk_norm]
    assert [name for name in module.state_dict() if name in names] == names


@pytest.mark.parametrize("qk_norm", PER_TOKEN.values(), ids=PER_TOKEN)
def test_qk_norm_bounds_the_scores(qk_norm):
    """The length of queries and keys has no say: a thousand times as large, the same output."""
    eps = partial(qk_norm, eps=1e-12)
    module, x = SelfAttention(8, 2, qk_norm=eps), sample(2, 5, 8)
    plain = SelfAttention(8, 2)
    plain.load_state_dict(module.state_dict(), strict=False)
    before = module(x), plain(x)
    with torch.no_grad():
        for attention in (module, plain):
            attention.in_proj_weight[:16] *= 1000
    close(module(x), before[0], 1e-9)
    assert (plain(x) - before[1]).abs().max() > 0.1


@every_placement
@every_norm
@every_qk_norm
def test_gradients(placement, norm, qk_norm):
    layer = build(4, 2, 3, layers=1, norm=norm, qk_norm=qk_norm, activation="gelu", **placement)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    padding = hide_after([3, 2], 3)
    buffers = dict(layer.named_buffers())

    def run(x, *values):
        state = dict(zip(names, values, strict=True)) | {k: v.clone() for k, v in buffers.items()}
        masking = {"src_key_padding_mask": padding, "is_causal": True}
        return torch.func.functional_call(layer, state, (x,), masking)

    inputs = sample(2, 3, 4).requires_grad_(), *parameters
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


# Who sees whom

options = pytest.mark.parametrize(
    "options",
    [
        {**placement, "norm": norm, "qk_norm": qk_norm}
        for placement in PLACEMENTS.values()
        for norm in PER_TOKEN.values()
        for qk_norm in (None, RMSNorm)
    ],
    ids=str,
)


@every_placement
@every_norm
@given(st.permutations(range(4)), seeds)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_permuting_the_batch_permutes_the_output(placement, norm, order, seed):
    model, x = build(norm=norm, **placement), sample(4, 3, 8, seed=seed)
    close(model(x[order]), model(x)[order])


@every_placement
@every_norm
@given(st.lists(st.integers(1, 5), min_size=2, max_size=3), st.integers(0, 3), seeds)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_padding_never_changes_real_tokens(placement, norm, lengths, more, seed):
    """Neither what stands in it, NaN included, nor how much of it there is."""
    model, t = build(norm=norm, **placement), max(lengths)
    x = sample(len(lengths), t, 8, seed=seed)
    padding = hide_after(lengths, t)
    longer = torch.cat([x, torch.full((len(lengths), more, 8), torch.inf)], dim=1)
    still = hide_after(lengths, t + more)
    longer[still] = torch.nan
    y = model(x, src_key_padding_mask=padding)[~padding]
    close(model(longer, src_key_padding_mask=still)[~still], y)
    if norm is not BatchNormPooled:
        alone = [model(x[i : i + 1, :length])[0] for i, length in enumerate(lengths)]
        close(torch.cat(alone), y)


@options
@given(st.integers(1, 6), seeds)
@settings(max_examples=5, deadline=None, derandomize=True)
def test_no_token_sees_a_later_one(options, t, seed):
    """To the last bit, at equal shapes."""
    model, x = build(**options), sample(2, 7, 8, seed=seed)
    later = x.clone()
    later[:, t:] = 100 * sample(2, 7 - t, 8, seed=seed + 1)
    assert torch.equal(model(x, is_causal=True)[:, :t], model(later, is_causal=True)[:, :t])


@options
def test_no_sample_sees_another_one(options):
    model, x = build(**options), sample(3, 7, 8)
    other = x.clone()
    other[1:] = 100 * sample(2, 7, 8, seed=1)
    assert torch.equal(model(x)[0], model(other)[0])


@every_placement
def test_batch_norm_sees_later_tokens_and_other_samples(placement):
    """In train mode. In eval mode, its statistics are constants, and it sees nothing."""
    model, x = build(norm=BatchNormPooled, **placement), sample(2, 7, 8)
    later, other = x.clone(), x.clone()
    later[0, 6] = sample(8, seed=1)
    other[1] = sample(7, 8, seed=1)
    y = model(x, is_causal=True)
    for changed in (later, other):
        moved = (model(changed, is_causal=True) - y)[0, :6].abs().amax(-1)
        assert (moved > 1e-3).all()
    model.eval()
    y = model(x, is_causal=True)[0, :6]
    for changed in (later, other):
        assert torch.equal(model(changed, is_causal=True)[0, :6], y)


@options
@given(seeds)
@settings(max_examples=5, deadline=None, derandomize=True)
def test_one_token_at_a_time(options, seed):
    """The last output for the tokens so far is what the whole sequence gives for that token."""
    model, x = build(**options), sample(2, 6, 8, seed=seed)
    steps = [model(x[:, :t], is_causal=True)[:, -1] for t in range(1, 7)]
    close(torch.stack(steps, dim=1), model(x, is_causal=True))


@options
def test_alone_or_in_a_batch(options):
    model, x = build(**options), sample(4, 5, 8)
    close(torch.cat([model(x[i : i + 1]) for i in range(4)]), model(x))


def test_one_token_alone_has_no_batch_statistics():
    model = build(norm=BatchNormPooled)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        model(sample(1, 1, 8))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        model(sample(1, 3, 8), src_key_padding_mask=hide_after([1], 3))
    assert model.eval()(sample(1, 1, 8)).isfinite().all()


# To torch's tools

norms_that_compile = pytest.mark.parametrize(
    "norm",
    [
        nn.LayerNorm,
        nn.RMSNorm,
        DynamicTanh,
        None,
    ],
)


@norms_that_compile
@every_placement
def test_compiles_in_one_graph(norm, placement):
    torch._dynamo.reset()
    model, x = build(norm=norm, qk_norm=norm, **placement), sample(2, 3, 8)
    masking = {"src_key_padding_mask": hide_after([3, 2], 3), "is_causal": True}
    results = []
    for run in (model, torch.compile(model, fullgraph=True, backend="aot_eager")):
        output = run(x, **masking)
        results.append([output, *torch.autograd.grad(output.sum(), list(model.parameters()))])
    close(*results, 1e-9)


@norms_that_compile
def test_exports_for_any_batch(norm):
    model = build(norm=norm)
    shapes = ({0: torch.export.Dim("samples"), 1: torch.export.Dim("tokens")},)
    exported = torch.export.export(model, (sample(2, 3, 8),), dynamic_shapes=shapes).module()
    for shape in ((2, 3, 8), (5, 4, 8)):
        close(exported(sample(*shape)), model(sample(*shape)), 1e-10)


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("norm", [None, nn.LayerNorm, nn.RMSNorm, DynamicTanh])
def test_autocast(norm):
    """As torch's layer: with its dtype, near float32."""
    model = build(norm=norm).float()
    theirs = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).float()
    for dtype in (torch.float32, torch.bfloat16):
        x = sample(2, 5, 8).to(dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(x, is_causal=True)
            if norm in (None, nn.LayerNorm):
                assert output.dtype == theirs(x).dtype
        gradients = torch.autograd.grad(output.float().sum(), list(model.parameters()))
        assert all(gradient.isfinite().all() for gradient in gradients)
        expected = model(x.float(), is_causal=True)
        assert (output.float() - expected).norm() < 0.05 * expected.norm()


def test_fake_tensors():
    options = {"norm": nn.LayerNorm, "qk_norm": DynamicTanh, "dtype": torch.float64}
    with FakeTensorMode():
        assert Encoder(2, 8, 2, 16, **options)(torch.zeros(2, 3, 8)).shape == (2, 3, 8)
        assert EncoderLayer(8, 2)(torch.zeros(2, 3, 8)).shape == (2, 3, 8)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("tool", [torch.jit.script, torch.fx.symbolic_trace])
def test_tools_that_cannot_follow_say_so(tool):
    for module in (EncoderLayer(8, 2), Encoder(1, 8, 2), SelfAttention(8, 2)):
        with pytest.raises((RuntimeError, TypeError, torch.jit.frontend.NotSupportedError)):
            tool(module)
    norm, x = shake(DynamicTanh(3)), sample(2, 3)
    close(tool(norm)(x), norm(x), 0)


def test_resets():
    for bias in (True, False):
        torch.manual_seed(0)
        theirs = nn.MultiheadAttention(8, 2, bias=bias)
        ours = SelfAttention(8, 2, bias=bias, qk_norm=DynamicTanh)
        shake(ours)
        ours.load_state_dict(shake(theirs).state_dict(), strict=False)
        for module in (theirs, ours):
            torch.manual_seed(1)
            module._reset_parameters()
        state = ours.state_dict()
        for name, value in theirs.state_dict().items():
            assert torch.equal(state[name], value)
        for norm in (ours.q_norm, ours.k_norm):
            close(list(norm.parameters()), list(DynamicTanh(4).parameters()))
    norm = shake(DynamicTanh(2, 0.75))
    norm.reset_parameters()
    close(list(norm.parameters()), list(DynamicTanh(2, 0.75).parameters()))


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nhead": 3}, "3 heads can't share 8 features evenly"),
        ({"nhead": 0}, "0 heads can't share 8 features evenly"),
        ({"activation": "tanh"}, r"activation='tanh'; expected one of \['relu', 'gelu'\], or"),
        ({"batch_first": False}, r"batch_first=False; expected True: \(sample, token, feature\)"),
        ({"norm_first": True, "norm_output": True}, "norm_first and norm_output are both True"),
        ({"dropout": 1.5}, "dropout probability has to be between 0 and 1, but got 1.5"),
    ],
)
def test_errors_of_the_constructor(arguments, message):
    with pytest.raises(ValueError, match=message):
        EncoderLayer(**{"d_model": 8, "nhead": 2} | arguments)


@pytest.mark.parametrize("name", ["bias", "batch_first", "norm_first", "norm_output"])
@pytest.mark.parametrize("value", [0, "False", None])
def test_options_are_bools(name, value):
    with pytest.raises(TypeError, match=f"{name} is {value!r}; expected True or False"):
        EncoderLayer(8, 2, **{name: value})
    with pytest.raises(TypeError, match=f"bias is {value!r}"):
        SelfAttention(8, 2, bias=value)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_no_nested_tensors():
    nested = torch.nested.nested_tensor([sample(2, 8), sample(3, 8)])
    for module in (EncoderLayer(8, 2), Encoder(1, 8, 2), SelfAttention(8, 2)):
        with pytest.raises(TypeError, match="input is a nested tensor; expected a padded one"):
            module(nested)


def test_a_stack_has_layers():
    with pytest.raises(ValueError, match="num_layers=0; expected at least 1"):
        Encoder(0, 8, 2)


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
@pytest.mark.parametrize(
    ("shape", "masking", "error", "message"),
    [
        ((5, 6), {}, ValueError, r"src has shape \(5, 6\); .* or \(token, 8\)"),
        ((2, 5, 6), {}, ValueError, r"src has shape \(2, 5, 6\); expected \(sample, token, 8\)"),
        (
            (2, 5, 8),
            {"src_mask": torch.zeros(4, 5)},
            ValueError,
            r"src_mask has shape \(4, 5\); expected \(5, 5\) by query and key, or \(4, 5, 5\)",
        ),
        (
            (2, 5, 8),
            {"src_mask": torch.zeros(5, 5, dtype=torch.int64)},
            TypeError,
            "src_mask has dtype torch.int64; expected bool or floating point",
        ),
        (
            (2, 5, 8),
            {"src_key_padding_mask": torch.zeros(5, 2, dtype=torch.bool)},
            ValueError,
            r"src_key_padding_mask has shape \(5, 2\); expected \(2, 5\) by sample and token",
        ),
        (
            (2, 5, 8),
            {"src_key_padding_mask": torch.zeros(2, 5).double()},
            TypeError,
            "src_key_padding_mask has dtype torch.float64; expected bool, True for padding",
        ),
    ],
)
def test_errors_of_the_input(norm, shape, masking, error, message):
    layer = EncoderLayer(8, 2, 16, norm=norm, norm_first=True)
    with pytest.raises(error, match=message):
        layer(sample(*shape), **masking)

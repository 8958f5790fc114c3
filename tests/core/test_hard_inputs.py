"""Whatever comes in: the number that plain loops give, or an error that names what is wrong."""

import string
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import letters, number_cells, shape_of, spread
from normbook.core.normalize import backward, normalize
from normbook.core.scheme import LAYERS, Scheme
from normbook.layers.batch_norm_over_time import BatchNormPerStep, BatchNormPooled
from normbook.layers.layer_norm_recurrent import LayerNormRNN

always_alike = settings(max_examples=80, deadline=None, derandomize=True)


def reference(x, scheme, lengths, gamma, beta, eps, real):
    """Output by loops over groups and cells, in float64; NaN where the group has no cell."""
    groups = number_cells(scheme, scheme.stats, lengths)
    params = number_cells(scheme, scheme.params, lengths)
    output = np.zeros(x.shape)
    for cell in product(*map(range, x.shape)):
        if not real[cell]:
            continue
        mates = [
            float(x[c]) for c in zip(*np.nonzero((groups == groups[cell]) & real), strict=True)
        ]
        mean = sum(mates) / len(mates) if scheme.centered else 0.0
        var = sum((v - mean) ** 2 for v in mates) / len(mates)
        hat = (float(x[cell]) - mean) / (var + eps) ** 0.5
        scale = 1.0 if gamma is None else float(gamma.reshape(-1)[params[cell]])
        shift = 0.0 if beta is None else float(beta.reshape(-1)[params[cell]])
        output[cell] = hat * scale + shift
    return output


def patterns(axes):
    """Some of these axes, in any order."""
    return st.lists(st.sampled_from(axes), unique=True).map(" ".join)


@st.composite
def schemes(draw):
    """Any layer at all, of two to four axes, one of which may be split."""
    axes = draw(st.permutations("nchwtdl"))[: draw(st.integers(2, 4))]
    split = draw(st.booleans())
    cells = [*axes[:-1], "(g k)"] if split else axes
    every = [*axes[:-1], "g", "k"] if split else axes
    return Scheme(
        "any", " ".join(draw(st.permutations(cells))), stats=draw(patterns(every)),
        params=draw(patterns(every)), mask=draw(patterns(every)), centered=draw(st.booleans()),
    )  # fmt: skip


LAYOUTS = [
    lambda x: x,
    np.asfortranarray,
    lambda x: np.repeat(x, 2, -1)[..., ::2],
    lambda x: x[::-1].copy()[::-1],
    lambda x: np.flip(np.flip(x, -1).copy(), -1),
]
DTYPES = ["float64", "float32", "float16", "int8", "uint8", "int64", "bool"]


@always_alike
@given(
    schemes(), st.fixed_dictionaries({a: st.integers(0, 3) for a in "nchwtdlgk"}),
    st.sampled_from(DTYPES), st.sampled_from(LAYOUTS), st.booleans(), st.booleans(),
    st.integers(0, 2**32 - 1), st.booleans(),
)  # fmt: skip
def test_any_scheme_shape_dtype_layout_and_mask(
    scheme, lengths, dtype, layout, masked, affine, seed, as_tensor
):
    if "g" in scheme.axes:
        lengths["g"] = max(1, lengths["g"])
        scheme = scheme.with_lengths(g=lengths["g"])
    rng = np.random.default_rng(seed)
    x = layout(rng.integers(-9, 9, shape_of(scheme.cells, lengths)).astype(dtype))
    gamma, beta = rng.integers(1, 4, (2, *shape_of(scheme.params, lengths))).astype(float)
    if not (affine and scheme.params):
        gamma = beta = None
    if not scheme.centered:
        beta = None
    mask = rng.random(shape_of(scheme.mask or scheme.cells, lengths)) < 0.8 if masked else None
    real = spread(mask, scheme, lengths) if masked else np.ones(x.shape, bool)
    groups = number_cells(scheme, scheme.stats, lengths)
    empty = set(groups.flat) - set(groups[real])
    may_be = set(letters(scheme.mask or scheme.cells)) <= set(letters(scheme.stats))
    arrays = (x, gamma, beta, mask)
    if as_tensor:  # torch has no negative strides
        arrays = [None if a is None else torch.tensor(np.array(a)) for a in arrays]
    a, g, b, m = arrays
    if empty and not may_be:
        with pytest.raises(ValueError, match="mask hides every cell of the group"):
            normalize(a, scheme, g, b, 0.1, m)
        return
    expected = reference(x, scheme, lengths, gamma, beta, 0.1, real)
    output = normalize(a, scheme, g, b, 0.1, m).output
    tolerance = 4e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(np.asarray(output), expected, tolerance, tolerance)
    dx = backward(a, a, scheme, g, 0.1, m).x  # finite, of x's shape, and 0 under the mask
    assert np.isfinite(np.asarray(dx)).all() and (np.asarray(dx)[~real] == 0).all()


@always_alike
@given(st.text(string.ascii_lowercase + " ()1,Aé", max_size=12), st.text("nct ()", max_size=6))
def test_any_text_is_a_pattern_or_refused(cells, stats):
    """A pattern is what is written back as it came; a refusal quotes what is wrong."""
    try:
        scheme = Scheme("any", cells, stats=stats)
    except ValueError as error:
        assert repr(cells) in str(error) or repr(stats) in str(error)
        return
    assert len(set(scheme.axes)) == len(scheme.axes)
    assert set(letters(stats)) <= set(scheme.axes)
    assert sorted(scheme.axes) == sorted(c for c in cells if c not in " ()")
    assert sorted([*scheme.averaged, *letters(stats)]) == sorted(scheme.axes)
    if "(" not in cells:
        shape = tuple(range(2, 2 + len(scheme.axes)))[:5]
        if len(shape) == len(scheme.axes):
            lengths = dict(zip(scheme.axes, shape, strict=True))
            expected = number_cells(scheme, stats, lengths)
            np.testing.assert_array_equal(scheme.groups(shape), expected)


ANYTHING = [
    None, 1.5, "x", [[1.0, 2.0]], [], {}, np.array(1.0), np.zeros((0, 2)), np.zeros((2, 0)),
    np.ones((2, 3)), np.ones((2, 3, 4)), np.ones((2, 3), complex), np.ones((2, 3), object),
    np.array([["a", "b"]]), np.ones((2, 3), bool), np.ma.masked_array(np.ones((2, 3)), True),
    np.full((2, 3), np.nan), torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bfloat16),
    torch.ones(2, 3, dtype=torch.complex64), torch.ones(0, 3), torch.ones(()),
    torch.ones(2, 3, device="meta"), torch.ones(2, 3).to_sparse(),
]  # fmt: skip


@always_alike
@given(
    st.sampled_from(LAYERS), *[st.sampled_from([None, *ANYTHING]) for _ in range(4)],
    st.sampled_from([0, 1e-5, -1, np.nan, np.inf, "1", None, True, 1j, np.float32(0.1)]),
)  # fmt: skip
def test_any_arguments_give_an_array_or_a_clear_error(layer, x, gamma, beta, mask, eps):
    x = np.ones((2, 3)) if x is None else x
    try:
        with np.errstate(all="ignore"):
            output = normalize(x, layer, gamma, beta, eps, mask).output
    except (TypeError, ValueError) as error:
        names = ("x ", "gamma", "beta", "mask", "eps", layer.name)
        assert any(name in str(error) for name in names), error
    else:
        assert type(output) is type(x) and output.shape == x.shape


WRONG_LENGTHS = [[0, 1, 2], [1, 2, 9], [-1, 1, 1], [1, 2], [1.0, 2.0, 3.0], [[1, 2, 3]], [True] * 3]


@always_alike
@given(
    st.tuples(st.lists(st.integers(1, 4), min_size=3, max_size=3), st.just(True))
    | st.tuples(st.sampled_from(WRONG_LENGTHS), st.just(False)),
    st.sampled_from([torch.float64, torch.float32, torch.float16]), st.integers(0, 2**32 - 1),
    st.sampled_from([lambda x: x, lambda x: x.mT.contiguous().mT, lambda x: x.flip(0)]),
)  # fmt: skip
def test_sequences_of_any_lengths(given_lengths, dtype, seed, layout):
    """Norms over time in train mode by plain loops, and the padding never matters."""
    lengths, fits = given_lengths
    generator = torch.Generator().manual_seed(seed)
    x = layout(torch.randint(-9, 9, (3, 4, 2), generator=generator).to(dtype))
    pooled, per_step = BatchNormPooled(2, dtype=dtype), BatchNormPerStep(2, 4, dtype=dtype)
    recurrent = LayerNormRNN(2, 3, dtype=dtype)
    if not fits:
        for layer in (pooled, per_step, recurrent):
            with pytest.raises((TypeError, ValueError), match="length"):
                layer(x, lengths=lengths)
        return
    real = torch.arange(4) < torch.tensor(lengths)[:, None]
    x = torch.where(real[..., None], x, torch.nan)
    values, rough = x.double().numpy(), 4e-3 if dtype == torch.float16 else 1e-5
    alone = any(sum(length > t for length in lengths) == 1 for t in range(4))
    for layer, mates in ((pooled, lambda t: range(4)), (per_step, lambda t: [t])):
        if layer is per_step and alone:
            with pytest.raises(ValueError, match="1 real sample in step"):
                layer(x, lengths=lengths)
            continue
        expected = np.zeros((3, 4, 2))
        for n, t, d in zip(*np.nonzero(np.repeat(real[..., None].numpy(), 2, -1)), strict=True):
            group = [values[i, s, d] for i in range(3) for s in mates(t) if s < lengths[i]]
            mean = sum(group) / len(group)
            var = sum((v - mean) ** 2 for v in group) / len(group)
            expected[n, t, d] = (values[n, t, d] - mean) / (var + 1e-5) ** 0.5
        output = layer(x, lengths=lengths).detach().double()
        np.testing.assert_allclose(output, expected, rough, rough)
    if dtype != torch.float16:
        output, _ = recurrent(x, lengths=lengths)
        for n, length in enumerate(lengths):
            one, _ = recurrent(x[n : n + 1, :length])
            torch.testing.assert_close(output[n, :length], one[0], rtol=rough, atol=rough)
            assert (output[n, length:] == 0).all()

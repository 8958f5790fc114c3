"""Statistics, output and gradients of every layer, on numpy arrays and on torch tensors."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import CASES, WITH_RUNNING, number_cells, packed, shape_of, spread, tensors
from normbook.core import arithmetic
from normbook.core import blockwise as blocks
from normbook.core import scheme as schemes
from normbook.core.normalize import backward, normalize, statistics

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_running = pytest.mark.parametrize("case", WITH_RUNNING, ids=lambda case: case.name)
masked_or_not = pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
both = pytest.mark.parametrize("library", ["numpy", "torch"])


def of(library, *arrays):
    """The arrays as arrays of this library, None as None."""
    if library == "numpy":
        return [None if a is None else np.asarray(a) for a in arrays]
    return [None if a is None else torch.as_tensor(a) for a in arrays]


def close(actual, expected, tolerance=1e-11):
    assert actual.shape == tuple(expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# Output and statistics


@every_case
@both
@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize("affine", [False, True])
def test_output_is_torchs(case, library, eps, affine):
    x, gamma, beta, _ = case.inputs()
    gamma, beta = (gamma, beta) if affine else (None, None)
    expected = case.torch(*tensors(x, gamma, beta), eps)
    x, gamma, beta = of(library, x, gamma, beta)
    close(normalize(x, case.scheme, gamma, beta, eps).output, expected)


@every_case
def test_gamma_and_beta_work_alone(case):
    x, gamma, beta, _ = case.inputs()
    ones, zeros = np.ones_like(gamma), np.zeros_like(gamma)
    if beta is not None:
        expected = case.torch(*tensors(x, ones, beta), 1e-5)
        close(normalize(x, case.scheme, beta=beta).output, expected)
        expected = case.torch(*tensors(x, gamma, zeros), 1e-5)
    else:
        expected = case.torch(*tensors(x, gamma), None, 1e-5)
    close(normalize(x, case.scheme, gamma).output, expected)


@every_case
@both
@masked_or_not
def test_statistics_are_those_of_the_real_cells_of_each_group(case, library, masked):
    x, *_ = case.inputs()
    mask = case.mask() if masked else None
    real = spread(mask, case.scheme, case.lengths) if masked else np.ones(case.shape, bool)
    groups = number_cells(case.scheme, case.scheme.stats, case.lengths)
    used = statistics(*of(library, x), case.scheme, *of(library, mask))
    again = normalize(*of(library, x), case.scheme, mask=of(library, mask)[0]).statistics
    for one, other in zip(used, again, strict=True):
        assert (one == other).all()
    assert used.mean.shape == shape_of(case.scheme.stats, case.lengths)
    for group in np.unique(groups):
        cells = torch.from_numpy(x[(groups == group) & real])
        mean, var, count = (value.reshape(-1)[group] for value in used)
        assert count == len(cells)
        if len(cells) == 0:
            assert (mean, var) == (0, 0)
        elif case.scheme.centered:
            close(mean, cells.mean())
            close(var, cells.var(correction=0))
        else:
            assert mean == 0
            close(var, cells.square().mean())


@every_case
@both
def test_masked_output_is_that_of_the_packed_cells(case, library):
    x, gamma, beta, _ = case.inputs()
    mask = case.mask()
    expected = packed(case, *tensors(x, gamma, beta), 1e-5, mask)
    x[~spread(mask, case.scheme, case.lengths)] = np.nan
    x, gamma, beta, mask = of(library, x, gamma, beta, mask)
    close(normalize(x, case.scheme, gamma, beta, mask=mask).output, expected)


@every_running
@both
@masked_or_not
def test_running_statistics_take_the_place_of_the_cells_own(case, library, masked):
    x, gamma, beta, _ = case.inputs()
    running, mask = case.running(), case.mask() if masked else None
    running_tensors = tuple(tensors(*running))
    expected = case.torch(*tensors(x, gamma, beta), 1e-5, running=running_tensors)
    if masked:
        real = spread(mask, case.scheme, case.lengths)
        expected = torch.where(torch.from_numpy(real), expected, 0)
        x[~real] = np.inf
    x, gamma, beta, mask, *running = of(library, x, gamma, beta, mask, *running)
    result = normalize(x, case.scheme, gamma, beta, mask=mask, running=tuple(running))
    close(result.output, expected)
    mean, var, count = result.statistics
    assert (mean == running[0]).all() and (var == running[1]).all() and (count == 0).all()
    assert str(count.dtype).endswith("int64")


lengths = st.fixed_dictionaries({axis: st.integers(1, 5) for axis in schemes.AXIS_NAMES})


@given(
    st.sampled_from(CASES),
    lengths,
    st.sampled_from([0.0, 1.0, -1e3, 1e6]),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.sampled_from([1e-8, 1e-5, 1e-2, 10.0]),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_shape_and_any_values(case, lengths, offset, scale, eps, seed, masked):
    """numpy equals torch, and both equal torch's layer norm of the packed groups."""
    case = replace(case, lengths=lengths)
    x, gamma, beta, dy = case.inputs(seed)
    x = offset + scale * x
    mask = case.mask(seed) if masked else None
    leaves = [None if a is None else a.requires_grad_() for a in tensors(x, gamma, beta)]
    expected = packed(case, *leaves, eps, mask)
    grads = torch_gradients(expected, *leaves, dy=torch.from_numpy(dy))
    # 1e-16 of the offset is lost already in x, and grows as the group is normalized.
    tolerance = 1e-11 + 1e-14 * abs(offset) * eps**-0.5
    gradients = tolerance * eps**-0.5 * 10
    for library in ("numpy", "torch"):
        a, g, b, d, m = of(library, x, gamma, beta, dy, mask)
        close(normalize(a, case.scheme, g, b, eps, m).output, expected.detach(), tolerance)
        dx, dgamma, dbeta = backward(d, a, case.scheme, g, eps, m)
        close(dx, grads[0], gradients)
        close(dgamma, grads[1], gradients)
        if beta is not None:
            close(dbeta, grads[2])


# Gradients


def torch_gradients(output, *leaves, dy):
    given = [leaf for leaf in leaves if leaf is not None]
    grads = torch.autograd.grad(output, given, dy, materialize_grads=True)
    return [*grads, None] if leaves[-1] is None else list(grads)


@every_case
@both
@masked_or_not
def test_closed_form_gradients_are_those_of_torch(case, library, masked):
    x, gamma, beta, dy = case.inputs()
    mask = case.mask() if masked else None
    leaves = [None if a is None else a.requires_grad_() for a in tensors(x, gamma, beta)]
    output = packed(case, *leaves, 1e-5, mask) if masked else case.torch(*leaves, 1e-5)
    expected = torch_gradients(output, *leaves, dy=torch.from_numpy(dy))
    if masked:
        hidden = ~spread(mask, case.scheme, case.lengths)
        x[hidden], dy[hidden] = np.nan, np.inf
    x, dy, gamma, mask = of(library, x, dy, gamma, mask)
    actual = backward(dy, x, case.scheme, gamma, mask=mask)
    assert (actual.beta is None) == (expected[2] is None)
    for a, e in zip(actual, expected, strict=True):
        if e is not None:
            close(a, e, 1e-9)


@every_case
@masked_or_not
def test_autograd_follows_normalize(case, masked):
    x, gamma, beta, dy = case.inputs()
    mask = torch.from_numpy(case.mask()) if masked else None
    if masked:
        x[~spread(case.mask(), case.scheme, case.lengths)] = np.nan
    leaves = [None if a is None else a.requires_grad_() for a in tensors(x, gamma, beta)]
    result = normalize(leaves[0], case.scheme, *leaves[1:], mask=mask)
    actual = torch_gradients(result.output, *leaves, dy=torch.from_numpy(dy))
    expected = backward(torch.from_numpy(dy), leaves[0], case.scheme, leaves[1], mask=mask)
    for a, e in zip(actual, expected, strict=True):
        if e is not None:
            close(a, e.detach(), 1e-9)


@every_case
@masked_or_not
def test_gradcheck(case, masked):
    mask = torch.from_numpy(case.mask()) if masked else None
    x, gamma, beta, dy = tensors(*case.inputs())
    leaves = [a.requires_grad_() for a in (x, gamma, beta) if a is not None]

    def output(x, gamma, beta=None):
        return normalize(x, case.scheme, gamma, beta, mask=mask).output

    assert torch.autograd.gradcheck(output, leaves)
    dy.requires_grad_()  # and the closed form can be differentiated in its turn

    def gradient(dy, x, gamma):
        return backward(dy, x, case.scheme, gamma, mask=mask)[:2]

    assert torch.autograd.gradcheck(gradient, (dy, x, gamma))


@every_running
@masked_or_not
def test_gradients_with_running_statistics(case, masked):
    x, gamma, beta, dy = case.inputs()
    running, mask = tuple(tensors(*case.running())), case.mask() if masked else None
    leaves = [a.requires_grad_() for a in tensors(x, gamma, beta)]
    output = case.torch(*leaves, 1e-5, running=running)
    if masked:
        real = spread(mask, case.scheme, case.lengths)
        output = torch.where(torch.from_numpy(real), output, 0)
        x[~real], dy[~real] = np.nan, np.nan
    expected = torch_gradients(output, *leaves, dy=torch.from_numpy(np.nan_to_num(dy)))
    for library in ("numpy", "torch"):
        a, d, g, m, *r = of(library, x, dy, gamma, mask, *running)
        actual = backward(d, a, case.scheme, g, mask=m, running=tuple(r))
        for one, other in zip(actual, expected, strict=True):
            close(one, other, 1e-10)
    mask = of("torch", mask)[0]

    def own(x, gamma, beta):
        return normalize(x, case.scheme, gamma, beta, mask=mask, running=running).output

    assert torch.autograd.gradcheck(own, [a.requires_grad_() for a in tensors(*case.inputs()[:3])])


@pytest.mark.parametrize("leaf", ["gamma", "beta", "running"])
def test_autograd_follows_a_single_leaf_through_a_large_input(leaf):
    scheme = schemes.BATCH_NORM_1D
    x = torch.randn(2, blocks.BLOCK_CELLS, dtype=torch.float64)
    values = {"gamma": x[0], "beta": x[1], "running": x[0] ** 2}
    values[leaf] = values[leaf].detach().requires_grad_()
    values["running"] = (values["running"], torch.ones_like(x[0]))
    normalize(x, scheme, **values).output.sum().backward()
    grad = (values[leaf][0] if leaf == "running" else values[leaf]).grad
    expected = {
        "gamma": ((x - x[0] ** 2) / (1 + 1e-5) ** 0.5).sum(0),
        "beta": torch.full_like(x[0], 2),
        "running": -2 * x[0] / (1 + 1e-5) ** 0.5,
    }
    close(grad, expected[leaf])


# Dtypes and libraries


@both
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floating_dtypes_are_kept(library, dtype):
    x, gamma, beta, dy = (a.astype(dtype) for a in CASES[0].inputs())
    x, gamma, beta, dy = of(library, x, gamma, beta, dy)
    result = normalize(x, schemes.BATCH_NORM_1D, gamma, beta)
    assert result.output.dtype == x.dtype
    wide = "float32" if dtype == "float16" else dtype
    assert str(statistics(x, schemes.BATCH_NORM_1D).var.dtype).endswith(wide)
    assert str(result.statistics.var.dtype).endswith(wide)
    assert str(result.statistics.count.dtype).endswith("int64")
    assert all(g.dtype == x.dtype for g in backward(dy, x, schemes.BATCH_NORM_1D, gamma))
    strong = normalize(x, schemes.BATCH_NORM_1D, gamma, beta, eps=np.float64(1e-5))
    assert strong.output.dtype == x.dtype


def test_gradients_have_the_dtype_of_what_they_are_gradients_of():
    x = np.arange(6.0, dtype=np.float16).reshape(2, 3)
    gamma = np.ones(3, np.float32)
    grads = backward(x, x, schemes.BATCH_NORM_1D, gamma)
    assert [g.dtype for g in grads] == [np.float16, np.float32, np.float32]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    x = torch.tensor([[300.0, -300, 600, -600], [3, 5, 7, 9]], dtype=dtype)
    expected = F.layer_norm(x, (4,))
    assert expected.abs().max() > 1  # in float16 itself, 600² is infinite and the output 0
    torch.testing.assert_close(normalize(x, schemes.LAYER_NORM).output, expected, rtol=0, atol=0)
    dy = torch.tensor([[1.0, 2, 4, 8]] * 2, dtype=dtype)
    leaf = x.clone().requires_grad_()
    F.layer_norm(leaf, (4,)).backward(dy)
    torch.testing.assert_close(
        backward(dy, x, schemes.LAYER_NORM).x, leaf.grad, rtol=2e-2, atol=torch.finfo(dtype).eps
    )


def test_numpy_half_precision_is_computed_in_float32():
    x = np.array([[300.0, -300, 600, -600]], np.float16)
    output = normalize(x, schemes.LAYER_NORM).output
    expected = F.layer_norm(torch.from_numpy(x), (4,))
    np.testing.assert_array_equal(output, expected)


@both
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool"])
def test_integers_are_promoted_and_never_truncated(library, dtype):
    x = np.array([[127, 127, 0, 1], [0, 1, 1, 1]]).astype(dtype)
    expected = F.layer_norm(torch.tensor(x, dtype=torch.float64), (4,))
    gamma = np.array([1, 2, 3, 4])
    x, gamma = of(library, x, gamma)
    result = normalize(x, schemes.LAYER_NORM, gamma)
    assert str(result.output.dtype).endswith("64" if library == "numpy" else "32")
    close(result.output, expected * torch.tensor([1, 2, 3, 4]), 2e-6)
    fine = normalize(x, schemes.LAYER_NORM, *of(library, np.array([0.5] * 4)))
    close(fine.output, expected / 2, 2e-6)


def test_long_double_is_kept():
    x = np.arange(6).reshape(2, 3).astype(np.longdouble)
    assert normalize(x, schemes.LAYER_NORM).output.dtype == np.longdouble


@both
@pytest.mark.parametrize("base", [0, 1000, 4096, 10_000, 100_000, 1_000_000])
def test_variance_does_not_cancel_in_float32(library, base):
    """The one-pass formula gives -8 at 10000, and 65536 at 1000000."""
    x = np.array([[base + 1, base + 2, base + 3, base + 4]], np.float32)
    for scheme, values in ((schemes.LAYER_NORM, x), (schemes.BATCH_NORM_1D, x.T.copy())):
        assert statistics(*of(library, values), scheme).var.tolist() == [1.25]


@pytest.mark.parametrize("mean", [0.0, 100.0, 1e4])
def test_float32_is_about_as_exact_as_torchs_layer_norm(mean):
    x = torch.from_numpy(mean + np.random.default_rng(0).standard_normal((64, 256))).float()
    exact = F.layer_norm(x.double(), (256,))
    allowed = 3 * (F.layer_norm(x, (256,)) - exact).abs().max()
    assert (normalize(x, schemes.LAYER_NORM).output - exact).abs().max() < allowed
    assert np.abs(normalize(x.numpy(), schemes.LAYER_NORM).output - exact.numpy()).max() < allowed


# Odd values


@every_case
@both
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_value_stays_in_its_group(case, library, bad):
    x, gamma, beta, dy = case.inputs()
    groups = number_cells(case.scheme, case.scheme.stats, case.lengths)
    clean, *rest = of(library, x.copy(), gamma, beta, dy)
    x[(0,) * x.ndim] = bad
    x, *_ = of(library, x)
    with np.errstate(invalid="ignore"):
        spoiled = normalize(x, case.scheme, *rest[:2]).output
        dx = backward(rest[2], x, case.scheme, rest[0]).x
    own = groups == groups[(0,) * x.ndim]
    if case.scheme.centered or np.isnan(bad):  # else the others are divided by infinity
        assert not np.isfinite(np.asarray(spoiled)[own]).any()
    expected = normalize(clean, case.scheme, *rest[:2]).output
    close(np.asarray(spoiled)[~own], np.asarray(expected)[~own])
    expected = backward(rest[2], clean, case.scheme, rest[0]).x
    close(np.asarray(dx)[~own], np.asarray(expected)[~own])


@every_case
@both
@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_masked_cells_give_zero_whatever_their_group_holds(case, library, eps):
    x, gamma, beta, dy = case.inputs()
    mask = case.mask()
    real = spread(mask, case.scheme, case.lengths)
    groups = number_cells(case.scheme, case.scheme.stats, case.lengths)
    spoiled = groups == groups[real][0]
    x[spoiled & real] = np.nan
    x[~real], dy[~real] = np.inf, np.nan
    x, gamma, beta, dy, mask = of(library, x, gamma, beta, dy, mask)
    with np.errstate(all="ignore"):
        for shift in (beta, None):
            output = normalize(x, case.scheme, gamma, shift, eps, mask).output
            assert (np.asarray(output)[~real] == 0).all()
        dx = backward(dy, x, case.scheme, gamma, eps, mask).x
    assert (np.asarray(dx)[~real] == 0).all()


@both
def test_padding_has_no_part_in_the_gradients_of_gamma_even_without_eps(library):
    case = next(case for case in CASES if case.name == "LAYER_NORM_TOKEN")
    x, gamma, beta, dy = case.inputs()
    mask = case.mask()
    leaves = [a.requires_grad_() for a in tensors(x, gamma, beta)]
    expected = torch_gradients(packed(case, *leaves, 0.0, mask), *leaves, dy=torch.tensor(dy))
    x[~mask], dy[~mask] = np.nan, np.nan
    a, g, d, m = of(library, x, gamma, dy, mask)
    with np.errstate(all="ignore"):
        for actual, other in zip(backward(d, a, case.scheme, g, 0.0, m), expected, strict=True):
            close(actual, other)
    leaves = [a.requires_grad_() for a in tensors(x, gamma, beta)]
    output = normalize(leaves[0], case.scheme, *leaves[1:], 0.0, torch.from_numpy(mask)).output
    actual = torch_gradients(output, *leaves, dy=torch.from_numpy(np.nan_to_num(dy)))
    for one, other in zip(actual, expected, strict=True):
        close(one, other)


@both
def test_a_group_of_one_cell_gives_beta_and_says_so(library):
    x, beta = of(library, np.array([[3.0, -7.0]]), np.array([0.5, 2.0]))
    output, (mean, var, count) = normalize(x, schemes.BATCH_NORM_1D, beta=beta)
    assert output.tolist() == [[0.5, 2.0]]
    assert (mean.tolist(), var.tolist(), count.tolist()) == ([3, -7], [0, 0], [1, 1])


@both
@pytest.mark.parametrize("centered", [True, False])
def test_a_layer_that_averages_over_nothing(library, centered):
    scheme = schemes.Scheme("alone", "n d", stats="n d", params="n d", centered=centered)
    x, gamma, dy = np.array([[3.0, -7.0]]), np.array([[2.0, 0.5]]), np.array([[1.0, -1.0]])
    root = np.sqrt(x**2 + 0.1)  # of the mean square; the variance is 0
    a, g, d = of(library, x, gamma, dy)
    output, (mean, var, count) = normalize(a, scheme, g, eps=0.1)
    close(output, 0 * x if centered else gamma * x / root)
    close(mean, x if centered else 0 * x)
    close(var, 0 * x if centered else x**2)
    assert count.tolist() == [[1, 1]]
    dx, dgamma, dbeta = backward(d, a, scheme, g, eps=0.1)
    close(dx, 0 * x if centered else gamma * dy * 0.1 / root**3)
    close(dgamma, 0 * x if centered else dy * x / root)
    assert dbeta is None if not centered else dbeta.tolist() == dy.tolist()


@both
def test_rms_norm_has_no_mean_even_beside_infinity(library):
    x = of(library, np.array([[[1.0, np.inf]]]))[0]
    mean, square, _ = statistics(x, schemes.RMS_NORM)
    assert (mean.tolist(), square.tolist()) == ([[0]], [[np.inf]])


@every_case
@both
def test_an_empty_batch_gives_an_empty_output(case, library):
    case = replace(case, lengths=case.lengths | {"n": 0})
    x, gamma, beta, dy = of(library, *case.inputs())
    mask = of(library, np.ones(case.mask_shape, bool))[0]
    for m in (None, mask):
        assert normalize(x, case.scheme, gamma, beta, mask=m).output.shape == case.shape
        grads = backward(dy, x, case.scheme, gamma, mask=m)
        assert grads.x.shape == case.shape
        assert grads.gamma.shape == gamma.shape and (grads.gamma == 0).all()


def test_constant_cells_give_nan_without_eps_as_in_torch():
    x = torch.full((2, 3), 5.0)
    assert F.layer_norm(x, (3,), eps=0.0).isnan().all()
    assert normalize(x, schemes.LAYER_NORM, eps=0.0).output.isnan().all()


@both
def test_inputs_are_left_as_they_were(library):
    case = CASES[3]
    arrays = [*case.inputs(), case.mask()]
    for array in arrays if library == "numpy" else ():
        array.flags.writeable = False
    copies = [a.copy() for a in arrays]
    x, gamma, beta, dy, mask = of(library, *arrays)
    normalize(x, case.scheme, gamma, beta, mask=mask)
    backward(dy, x, case.scheme, gamma, mask=mask)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@both
def test_memory_layout_does_not_matter(library):
    case = next(case for case in CASES if case.name == "GROUP_NORM")
    x, gamma, beta, dy = case.inputs()
    expected = normalize(x, case.scheme, gamma, beta).output
    grads = backward(dy, x, case.scheme, gamma)
    strange = [np.asfortranarray(x), x[:, ::-1].copy()[:, ::-1], np.repeat(x, 2, -1)[..., ::2]]
    for other in strange:
        if library == "torch":
            other = torch.from_numpy(other.copy(order="K"))
        a, g, b, d = of(library, other, gamma, beta, dy)
        close(normalize(a, case.scheme, g, b).output, expected)
        close(backward(d, a, case.scheme, g).x, grads.x)
    if library == "torch":
        other = torch.from_numpy(x).to(memory_format=torch.channels_last)
        close(normalize(other, case.scheme, *tensors(gamma, beta)).output, expected)


# Figure 6-15 of document 002: a batch of five sentences of 5, 2, 4, 3 and 6 words


def ragged():
    n, t, d = np.ogrid[:5, :6, :4]
    mask = np.arange(6) < np.array([5, 2, 4, 3, 6])[:, None]
    return ((7 * n + 3 * t + 5 * d) % 11 - 5).astype(float), mask


def test_counts_of_the_ragged_batch():
    x, mask = ragged()
    counts = statistics(x, schemes.BATCH_NORM_PER_STEP, mask).count
    assert counts[:, 0].tolist() == [5, 5, 4, 3, 2, 1]
    assert (counts == counts[:, :1]).all()
    assert statistics(x, schemes.BATCH_NORM_POOLED, mask).count.tolist() == [20] * 4
    assert statistics(x, schemes.BATCH_NORM_SEQUENCE_AS_CHANNEL, mask).count.tolist() == [
        20, 20, 16, 12, 8, 4
    ]  # fmt: skip
    assert (statistics(x, schemes.LAYER_NORM_TOKEN, mask).count == 4 * mask).all()


def test_masked_batch_norm_is_batch_norm_of_the_packed_rows():
    x, mask = ragged()
    expected = torch.nn.BatchNorm1d(4, dtype=torch.float64)(torch.from_numpy(x[mask]))
    output = normalize(x, schemes.BATCH_NORM_POOLED, mask=mask).output
    close(output[mask], expected.detach())
    assert (output[~mask] == 0).all()
    per_step = normalize(x, schemes.BATCH_NORM_PER_STEP, mask=mask).output
    for t in range(5):  # torch refuses the last step, which has one row
        rows = torch.from_numpy(x[mask[:, t], t])
        expected = torch.nn.BatchNorm1d(4, dtype=torch.float64)(rows).detach()
        close(per_step[mask[:, t], t], expected)
    assert (per_step[:, 5] == 0).all()


def test_padding_does_not_change_layer_norm():
    x, mask = ragged()
    plain = normalize(x, schemes.LAYER_NORM_TOKEN).output
    masked = normalize(x, schemes.LAYER_NORM_TOKEN, mask=mask).output
    np.testing.assert_array_equal(masked[mask], plain[mask])


# In blocks


def strip(case):
    """The case on an input of several blocks when a block has 16 cells."""
    return replace(case, lengths={axis: length + 2 for axis, length in case.lengths.items()})


@every_case
@both
@masked_or_not
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64"])
def test_blocks_change_nothing(case, library, masked, dtype, monkeypatch):
    case = strip(case)
    x, gamma, beta, dy = case.inputs()
    x, dy = (4 * x).astype(dtype), (4 * dy).astype(dtype)
    mask = case.mask() if masked else None
    runs = [None, case.running()] if case.scheme.running else [None]
    x, gamma, beta, dy, mask = of(library, x, gamma, beta, dy, mask)
    for running in runs:
        running = running and tuple(of(library, *running))
        for parameters in ((gamma, beta), (None, None)):
            monkeypatch.setattr(blocks, "BLOCK_CELLS", 2**18)
            whole = normalize(x, case.scheme, *parameters, mask=mask, running=running)
            grads = backward(dy, x, case.scheme, parameters[0], mask=mask, running=running)
            monkeypatch.setattr(blocks, "BLOCK_CELLS", 16)
            parts = normalize(x, case.scheme, *parameters, mask=mask, running=running)
            part_grads = backward(dy, x, case.scheme, parameters[0], mask=mask, running=running)
            tolerance = {"float64": 1e-12, "int64": 1e-5}.get(dtype, 1e-5)
            pairs = [
                (parts.output, whole.output),
                *zip(parts.statistics, whole.statistics, strict=True),
                *zip(part_grads, grads, strict=True),
            ]
            for part, one in pairs:
                assert (part is None) == (one is None)
                if one is not None:
                    assert part.dtype == one.dtype
                    rough = 2e-3 if str(one.dtype).endswith("float16") else tolerance
                    close(part, one, rough)


@pytest.mark.parametrize("name", ["BATCH_NORM_2D", "LAYER_NORM_CHW", "RMS_NORM"])
def test_large_inputs_are_cut_into_blocks(name, monkeypatch):
    case = strip(next(case for case in CASES if case.name == name))
    monkeypatch.setattr(blocks, "BLOCK_CELLS", 16)
    x, gamma, beta, dy = case.inputs()
    sizes = []
    count = arithmetic.count

    def spy(cells, *more):  # once a block
        sizes.append(cells.size)
        return count(cells, *more)

    monkeypatch.setattr(arithmetic, "count", spy)
    normalize(x, case.scheme, gamma, beta)
    assert len(sizes) > 1 and sum(sizes) == x.size
    sizes.clear()
    backward(dy, x, case.scheme, gamma)
    assert len(sizes) > 1 and sum(sizes) == x.size


@every_case
def test_autograd_through_what_would_be_many_blocks(case, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_CELLS", 16)
    case = strip(case)
    x, gamma, beta, dy = case.inputs()
    leaves = [None if a is None else a.requires_grad_() for a in tensors(x, gamma, beta)]
    output = normalize(leaves[0], case.scheme, *leaves[1:]).output
    actual = torch_gradients(output, *leaves, dy=torch.from_numpy(dy))
    for a, e in zip(actual, backward(dy, x, case.scheme, gamma), strict=True):
        if e is not None:
            close(a, e, 1e-9)


# What is refused

X = np.arange(6.0).reshape(2, 3)
NCHW = np.ones((2, 3, 3, 3))
LN, BN = schemes.LAYER_NORM, schemes.BATCH_NORM_1D


@pytest.mark.parametrize("function", [normalize, statistics])
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([[1.0, 2]], TypeError, r"x is a list; expected a numpy array or a torch tensor"),
        (None, TypeError, r"x is a NoneType; expected a numpy array or a torch tensor"),
        (X.astype(object), TypeError, r"x has dtype object; expected real numbers"),
        (X + 1j, TypeError, r"x has dtype complex128; expected real numbers"),
        (X.astype(str), TypeError, r"x has dtype <U32; expected real numbers"),
        (X.astype("M8[s]"), TypeError, r"x has dtype datetime64\[s\]; expected real"),
        (torch.ones(2, 3, dtype=torch.complex64), TypeError, r"x has dtype torch.complex64"),
        (np.ma.masked_array(X, X > 3), TypeError, r"x is a MaskedArray; expected .* as `mask`"),
        (X.view(np.matrix), TypeError, r"x is a matrix; expected a plain array"),
        (torch.ones(2, 3).to_sparse(), TypeError, r"x is a torch.sparse_coo; expected a plain"),
        (X[0], ValueError, r"x has 1 axes, shape \(3,\); LayerNorm expected 2: n d"),
        (NCHW, ValueError, r"x has 4 axes, shape \(2, 3, 3, 3\); LayerNorm expected 2: n d"),
        (np.array(1.0), ValueError, r"x has 0 axes, shape \(\); LayerNorm expected 2: n d"),
        (torch.tensor(1.0), ValueError, r"x has 0 axes, shape \(\); LayerNorm expected 2: n d"),
    ],
)
def test_refuses_x(function, x, error, message):
    with pytest.raises(error, match=message):
        function(x, LN)


def test_refuses_x_without_the_number_of_groups():
    with pytest.raises(ValueError, match=r"GroupNorm needs the length of 'g'"):
        normalize(np.ones((2, 4, 3, 3)), schemes.GROUP_NORM)
    with pytest.raises(ValueError, match=r"axis of length 3 can't be \(g k\) with g=2"):
        normalize(NCHW, schemes.GROUP_NORM.with_lengths(g=2))


@pytest.mark.parametrize("eps", [-1e-5, np.nan, np.inf, None, "1e-5"])
def test_refuses_eps(eps):
    for call in (lambda: normalize(X, LN, eps=eps), lambda: backward(X, X, LN, eps=eps)):
        with pytest.raises(ValueError, match=r"eps is .*; expected a finite number") as error:
            call()
        assert f"eps is {eps!r};" in str(error.value)


@pytest.mark.parametrize("name", ["gamma", "beta"])
@pytest.mark.parametrize(
    ("x", "scheme", "shape", "message"),
    [
        (X, LN, (), r"has shape \(\); LayerNorm takes one value per d of x \(2, 3\): expected \(3"),
        (X, LN, (1,), r"has shape \(1,\).*expected \(3,\)"),
        (X, LN, (2,), r"has shape \(2,\).*expected \(3,\)"),
        (X, LN, (1, 3), r"has shape \(1, 3\).*expected \(3,\)"),
        (X, LN, (2, 3), r"has shape \(2, 3\).*expected \(3,\)"),
        # Each of these would broadcast, along the wrong axis or over the batch.
        (NCHW, schemes.LAYER_NORM_CHW, (3,), r"has shape \(3,\).*one value per c, h, w of x"),
        (NCHW, schemes.LAYER_NORM_CHW, (3, 3), r"has shape \(3, 3\).*expected \(3, 3, 3\)"),
        (NCHW, schemes.BATCH_NORM_2D, (1, 3, 1, 1), r"has shape \(1, 3, 1, 1\).*expected \(3,\)"),
        (NCHW, schemes.BATCH_NORM_2D, (3, 3, 3), r"has shape \(3, 3, 3\).*expected \(3,\)"),
        (NCHW, schemes.GROUP_NORM.with_lengths(g=3), (3, 1), r"\(3, 1\).*g, k.*expected \(3,\)"),
    ],
)
def test_refuses_parameters_that_would_broadcast(name, x, scheme, shape, message):
    with pytest.raises(ValueError, match=f"{name} {message}" if message[0] == "h" else message):
        normalize(x, scheme, **{name: np.ones(shape)})
    if name == "gamma":
        with pytest.raises(ValueError, match=f"gamma {message}" if message[0] == "h" else message):
            backward(x, x, scheme, gamma=np.ones(shape))


def test_refuses_parameters_that_the_layer_lacks():
    tokens = np.ones((2, 3, 4))
    with pytest.raises(ValueError, match="beta was given, but RMSNorm has no beta"):
        normalize(tokens, schemes.RMS_NORM, np.ones(4), np.ones(4))
    bare = schemes.Scheme("bare", "n d", stats="n")
    with pytest.raises(ValueError, match="gamma was given, but bare has no gamma"):
        normalize(X, bare, np.ones(3))
    assert backward(X, X, bare)[1:] == (None, None)
    with pytest.raises(ValueError, match="running was given, but LayerNorm keeps no running"):
        normalize(X, LN, running=(np.zeros(3), np.ones(3)))


@pytest.mark.parametrize("name", ["gamma", "beta", "mask", "dy", "running mean", "running var"])
def test_refuses_to_mix_libraries_and_dtypes(name):
    def call(x, value, other):
        if name == "dy":
            return backward(value, x, BN)
        if name.startswith("running"):
            pair = (value, other) if name == "running mean" else (other, value)
            return normalize(x, BN, running=pair)
        return normalize(x, BN, **{name: value})

    t = torch.from_numpy
    value = {"mask": np.ones((2, 3), bool), "dy": X}.get(name, np.ones(3))
    expected = rf"{name} is a Tensor, but x is a numpy array; expected a numpy array"
    with pytest.raises(TypeError, match=expected):
        call(X, t(value), np.ones(3))
    expected = rf"{name} is a ndarray, but x is a torch tensor; expected a torch tensor"
    with pytest.raises(TypeError, match=expected):
        call(t(X), value, t(np.ones(3)))
    with pytest.raises(TypeError, match=rf"{name} is a list, but x is a numpy array"):
        call(X, value.tolist(), np.ones(3))
    with pytest.raises(TypeError, match=rf"{name} has dtype complex128; expected"):
        call(X, value + 0j, np.ones(3))


def test_refuses_running_statistics():
    pair = np.zeros(3), np.ones(3)
    with pytest.raises(ValueError, match=r"running mean has shape \(2,\).*expected \(3,\)"):
        normalize(X, BN, running=(np.zeros(2), pair[1]))
    with pytest.raises(ValueError, match=r"running var has shape \(1, 3\).*expected \(3,\)"):
        backward(X, X, BN, running=(pair[0], np.ones((1, 3))))
    with pytest.raises(ValueError, match=r"running has 3 parts; expected a pair, \(mean, var\)"):
        normalize(X, BN, running=statistics(X, BN))
    with pytest.raises(TypeError, match=r"running is a ndarray; expected a pair, \(mean, var\)"):
        normalize(X, BN, running=np.ones((2, 3)))


@both
def test_refuses_masks(library):
    x = np.arange(24.0).reshape(2, 3, 4)
    layer = schemes.BATCH_NORM_POOLED

    def call(mask, layer=layer):
        return normalize(*of(library, x), layer, mask=of(library, mask)[0])

    with pytest.raises(TypeError, match=r"mask has dtype (torch\.)?float64; expected bool"):
        call(np.ones((2, 3)))
    with pytest.raises(TypeError, match=r"mask has dtype (torch\.)?int64; expected bool"):
        call(np.ones((2, 3), int))
    with pytest.raises(ValueError, match=r"mask has shape \(2, 3, 4\).*n, t: expected \(2, 3\)"):
        call(np.ones((2, 3, 4), bool))
    with pytest.raises(ValueError, match=r"mask has shape \(3,\).*expected \(2, 3\)"):
        call(np.ones(3, bool))
    with pytest.raises(
        ValueError, match=r"group d=0 of BatchNorm pooled .*; expected at least one real cell in"
    ):
        call(np.zeros((2, 3), bool))
    with pytest.raises(ValueError, match=r"every cell of the group t=1, d=0 of BatchNorm per"):
        call(np.array([[True, False, True]] * 2), schemes.BATCH_NORM_PER_STEP)
    with pytest.raises(ValueError, match=r"every cell of the group t=2 of BatchNorm1d, sequence"):
        call(np.array([[True, True, False]] * 2), schemes.BATCH_NORM_SEQUENCE_AS_CHANNEL)
    cells = np.ones((2, 3), bool)
    cells[1] = False
    with pytest.raises(ValueError, match=r"every cell of the group n=1 of LayerNorm"):
        normalize(X, LN, mask=cells)


def test_padding_may_hide_a_whole_token_and_running_statistics_any_group():
    x = np.arange(24.0).reshape(2, 3, 4)
    nothing = np.zeros((2, 3), bool)
    output, (mean, var, count) = normalize(x, schemes.LAYER_NORM_TOKEN, mask=nothing)
    assert (output == 0).all() and (mean == 0).all() and (var == 0).all() and (count == 0).all()
    running = np.zeros(4), np.ones(4)
    output = normalize(x, schemes.BATCH_NORM_POOLED, mask=nothing, running=running).output
    assert (output == 0).all()
    grads = backward(x, x, schemes.BATCH_NORM_POOLED, mask=nothing, running=running)
    assert all((grad == 0).all() for grad in grads)
    with pytest.raises(ValueError, match="every cell of the group d=0"):
        backward(x, x, schemes.BATCH_NORM_POOLED, mask=nothing)


def test_refuses_dy():
    with pytest.raises(ValueError, match=r"dy has shape \(3, 2\); expected that of x, \(2, 3\)"):
        backward(X.T, X, LN)
    with pytest.raises(ValueError, match=r"dy has shape \(3,\); expected that of x, \(2, 3\)"):
        backward(X[0], X, LN)

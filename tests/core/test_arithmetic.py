"""The arithmetic in hard places: large groups, equal cells, overflow; and in blocks as in one."""

import numpy as np
import pytest
import torch

from cases import CASES
from normbook.core import arithmetic, blockwise
from normbook.core import scheme as schemes
from normbook.core.normalize import backward, normalize, statistics

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
LIBRARIES = {"numpy": np.asarray, "torch": torch.as_tensor}
both = pytest.mark.parametrize("library", LIBRARIES)


@both
@pytest.mark.parametrize(
    ("scheme", "shape"),
    [(schemes.BATCH_NORM_1D, (2_000_000, 4)), (schemes.LAYER_NORM, (1, 4_000_000))],
    ids=["rows", "one row"],
)
def test_large_groups_in_float32(library, scheme, shape):
    """numpy adds along the first axis one by one: around 1.5, its mean would be 3 % off."""
    x = np.random.default_rng(0).normal(1.5, 1, shape).astype(np.float32)
    mean, var, count = statistics(LIBRARIES[library](x), scheme)
    exact = x.astype(np.float64)
    axis = scheme.averaged_positions
    np.testing.assert_allclose(mean, exact.mean(axis), rtol=5e-7)
    np.testing.assert_allclose(var, exact.var(axis), rtol=5e-7)
    assert (np.asarray(count) == max(shape)).all()


@both
@pytest.mark.parametrize("value", [1000.1, 1e8 / 3, -0.1, 1e-30])
@pytest.mark.parametrize("length", [7, 1000, 2352])
def test_equal_cells_give_exactly_zero_in_float32(library, value, length):
    x = LIBRARIES[library](np.full((2, length), value, np.float32))
    output, (mean, var, _) = normalize(x, schemes.LAYER_NORM)
    assert (output == 0).all()
    assert (mean == x[:, 0]).all()
    assert (var == 0).all()


@both
def test_centered_cells_are_exact_far_from_zero(library):
    """A mean rounded to float32 is off by up to half a unit in its last digit; cells are not."""
    x = np.array([[1e7, 1e7 + 1, 1e7 + 3]], np.float32)
    *_, centered = arithmetic.moments(LIBRARIES[library](x), schemes.LAYER_NORM)
    np.testing.assert_allclose(centered, [[-4 / 3, -1 / 3, 5 / 3]], rtol=1e-6)


@both
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_an_overflow_is_not_a_number(library):
    x = LIBRARIES[library](np.array([[1, 2, 3, 4, 5], [1, 2, 3, 4, 6]], np.float32))
    scale = x.dtype.type(1e20) if library == "numpy" else 1e20
    huge = x * scale
    huge[1] = x[1]
    output, (_, var, _) = normalize(huge, schemes.LAYER_NORM)
    assert np.isnan(np.asarray(output[0])).all()
    assert np.isnan(float(var[0]))
    assert np.isfinite(np.asarray(output[1])).all()  # its own group, and no other


@both
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@every_case
def test_blocks_compute_what_one_block_computes(case, library, affine, masked, monkeypatch):
    """Written over what is spare, or not; dx, dgamma and dbeta, too; with running statistics."""
    x, gamma, beta, dy = case.inputs()
    gamma, beta = (gamma, beta) if affine else (None, None)
    mask = case.mask() if masked else None
    to = LIBRARIES[library]
    x, gamma, beta, dy, mask = (a if a is None else to(a) for a in (x, gamma, beta, dy, mask))
    given = [None] + [tuple(map(to, case.running()))] * bool(case.scheme.running)
    kept = x.copy() if library == "numpy" else x.clone()
    for running in given:
        results = []
        for cells in (2**17, 4):
            monkeypatch.setattr(blockwise, "BLOCK_CELLS", cells)
            output, used = normalize(x, case.scheme, gamma, beta, 1e-3, mask, running)
            grads = backward(dy, x, case.scheme, gamma, 1e-3, mask, running)
            results.append([output, *used, *(g for g in grads if g is not None)])
        for one, many in zip(*results, strict=True):
            np.testing.assert_allclose(one, many, rtol=1e-9, atol=1e-12)
    assert (x == kept).all()  # nothing of the input was written over


@both
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("stats", ["n d", "n", "d", ""])
@pytest.mark.parametrize("params", ["n d", "d", "1", ""])
def test_blocks_where_nothing_is_shared_or_averaged(library, stats, params, masked, monkeypatch):
    """The sum over no axes must be no alias of what is written over."""
    scheme = schemes.Scheme("any", "n d", stats=stats, params=params)
    rng = np.random.default_rng(0)
    x, dy = (LIBRARIES[library](rng.normal(size=(6, 5))) for _ in range(2))
    shape = scheme.on((6, 5)).shape_of(params)
    gamma = LIBRARIES[library](rng.normal(size=shape)) if params else None
    mask = LIBRARIES[library](rng.random((6, 5)) < 0.8) if masked and not stats else None
    results = []
    for cells in (2**17, 4):
        monkeypatch.setattr(blockwise, "BLOCK_CELLS", cells)
        grads = backward(dy, x, scheme, gamma, mask=mask)
        results.append([g for g in grads if g is not None])
        assert all(not np.shares_memory(np.asarray(g), np.asarray(dy)) for g in results[-1])
    for one, many in zip(*results, strict=True):
        np.testing.assert_allclose(one, many, rtol=1e-9, atol=1e-12)


@both
@pytest.mark.parametrize("gamma", [np.inf, np.nan])
def test_what_stands_under_a_mask_in_gamma_reaches_no_cell(library, gamma):
    to = LIBRARIES[library]
    x, mask = to(np.array([[1.0, 2, 3]])), to(np.array([[True, False, True]]))
    gamma = to(np.array([1.0, gamma, 1]))
    output, _ = normalize(x, schemes.LAYER_NORM, gamma, mask=mask)
    np.testing.assert_allclose(output, [[-1, 0, 1]], rtol=1e-4)
    dx, *_ = backward(to(np.array([[1.0, 1, 2]])), x, schemes.LAYER_NORM, gamma, mask=mask)
    assert np.isfinite(np.asarray(dx)).all() and dx[0, 1] == 0


@both
@pytest.mark.parametrize("masked", [True, False])
def test_known_statistics_give_the_same_gradients(library, masked, monkeypatch):
    rng = np.random.default_rng(0)
    to, scheme = LIBRARIES[library], schemes.BATCH_NORM_POOLED
    x, dy = (to(rng.normal(3, 2, (4, 6, 5))) for _ in range(2))
    real = to(rng.random((4, 6)) < 0.7) if masked else None
    expected = backward(dy, x, scheme, mask=real).x
    placed = real if real is None else real[:, :, None]
    for cells in (2**17, 40):
        monkeypatch.setattr(blockwise, "BLOCK_CELLS", cells)
        _, *known = blockwise.forward(x, scheme, real=placed)
        found, _, _ = blockwise.backward(dy, x, scheme, real=placed, known=known)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_gradients_through_mean_and_variance():
    """They are results as well: with autograd through the plain formulas."""
    x = torch.randn(4, 5, dtype=torch.float64)
    x[0] = 3.0  # centered, 0
    x.requires_grad_()
    dmean, dvar = torch.randn(2, 4, 1, dtype=torch.float64)
    mean, var, _, _ = arithmetic.moments(x, schemes.LAYER_NORM)
    (expected,) = torch.autograd.grad((mean * dmean + var * dvar).sum(), x)
    known = mean.detach(), var.detach()
    found = blockwise.moments_gradient(dmean, dvar, x.detach(), known, schemes.LAYER_NORM)
    torch.testing.assert_close(found, expected)


def test_torch_is_asked_for_only_where_a_tensor_is():
    assert arithmetic.library(np.float64(1)) is np
    assert arithmetic.library(np.ones(1)) is np
    assert arithmetic.library(torch.ones(1)) is torch


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(statistics, ()), (normalize, ()), (backward, (np.ones((2, 3)),))],
    ids=["statistics", "normalize", "backward"],
)
@pytest.mark.parametrize("scheme", ["LayerNorm", torch.nn.LayerNorm(3), None])
def test_what_is_no_scheme_is_named(function, arguments, scheme):
    with pytest.raises(TypeError, match=r"scheme is .*; expected a Scheme") as raised:
        function(*arguments, np.ones((2, 3)), scheme)
    assert repr(scheme) in str(raised.value)


def test_masks_under_vmap_and_on_the_meta_device():
    """Whose cells can't be counted before the end."""
    scheme = schemes.BATCH_NORM_POOLED
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    mask = torch.tensor([[[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]]] * 2).bool()
    mask[1, 0, 0] = False

    def run(x, mask):
        return normalize(x, scheme, mask=mask).output

    found = torch.func.vmap(run)(x, mask)
    for one, own, real in zip(found, x, mask, strict=True):
        torch.testing.assert_close(one, run(own, real))
    assert run(x[0].to("meta"), mask[0].to("meta")).shape == (3, 4, 5)

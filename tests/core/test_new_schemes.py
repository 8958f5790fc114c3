"""Layers that no row of the table describes: a scheme alone makes them, and nothing else does."""

import numpy as np
import pytest
import torch

from cases import letters, number_cells, packed, spread, tensors
from new_schemes import BATCH_NORM_3D, NEW_CASES, SCALE_NORM, WEIGHT_STANDARDIZATION
from normbook.core.normalize import backward, normalize
from normbook.core.scheme import (
    AXIS_NAMES,
    GROUP_NORM,
    LAYERS,
    MORE_LAYERS,
    Scheme,
    layout_of,
    per,
)

EPS = 1e-3
every_case = pytest.mark.parametrize("case", NEW_CASES, ids=lambda case: case.name)


@every_case
def test_is_described(case):
    scheme, shape = case.scheme, case.shape
    assert scheme not in LAYERS + MORE_LAYERS
    groups = number_cells(scheme, scheme.stats, case.lengths)
    np.testing.assert_array_equal(scheme.groups(shape), groups)
    assert scheme.group_size(shape) == (groups == 0).sum()
    assert scheme.summary.endswith(f" per {', '.join(letters(scheme.stats))}")
    _, gamma, beta, _ = case.inputs()
    assert scheme.parameter_count(shape) == sum(p.size for p in (gamma, beta) if p is not None)


@every_case
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_is_normalized_and_differentiated(case, masked, library):
    """In closed form, against autograd of plain PyTorch in float64."""
    x, gamma, beta, dy = case.inputs()
    mask = case.mask() if masked else None
    leaves = tensors(x, gamma, beta)
    present = [leaf.requires_grad_() for leaf in leaves if leaf is not None]
    expected = packed(case, *leaves, EPS, mask) if masked else case.torch(*leaves, EPS)
    grads = torch.autograd.grad(expected, present, torch.tensor(dy))
    given = x, gamma, beta, dy, mask
    if library == "torch":
        given = (None if a is None else torch.tensor(a) for a in given)
    x, gamma, beta, dy, mask = given
    output = normalize(x, case.scheme, gamma, beta, EPS, mask).output
    np.testing.assert_allclose(output, expected.detach(), rtol=1e-10, atol=1e-10)
    closed = [g for g in backward(dy, x, case.scheme, gamma, EPS, mask) if g is not None]
    for ours, theirs in zip(closed[: len(grads)], grads, strict=True):
        assert tuple(ours.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert len(closed) == len(grads)


def test_uses_running_statistics():
    case = next(case for case in NEW_CASES if case.scheme is BATCH_NORM_3D)
    x, gamma, beta, _ = case.inputs()
    running = case.running()
    expected = case.torch(*tensors(x, gamma, beta), EPS, running=tensors(*running))
    output = normalize(x, BATCH_NORM_3D, gamma, beta, EPS, running=running).output
    np.testing.assert_allclose(output, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings(
    "ignore:(Mean of empty|invalid value|Degrees of)"
)  # numpy's, of padding
@every_case
@pytest.mark.parametrize("masked", [False, True])
def test_is_written_as_code_that_gives_the_same(case, masked):
    x, *_ = tensors(*case.inputs())
    mask = case.mask()
    names = {"np": np, "torch": torch, "nn": torch.nn, "mask": mask}
    if masked:
        expected = packed(case, x, None, None, EPS, mask)
    else:
        expected = case.torch(x, None, None, EPS)
    y = eval(case.scheme.numpy(case.shape, EPS, masked), names | {"x": x.numpy()})
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-10)
    names |= {"x": x, "mask": torch.tensor(mask)}
    torch.set_default_dtype(torch.float64)
    try:
        y = eval(case.scheme.pytorch(case.shape, EPS, masked), names)
    finally:
        torch.set_default_dtype(torch.float32)
    real = torch.from_numpy(spread(mask, case.scheme, case.lengths)) if masked else y == y
    np.testing.assert_allclose(y.detach()[real], expected[real], rtol=1e-10, atol=1e-10)


def test_one_gamma_for_all_cells_is_not_none():
    shape = (2, 3, 4)
    none = Scheme("no gamma", "n t d", stats="n t", centered=False)
    assert SCALE_NORM.parameter_count(shape) == 1
    assert none.parameter_count(shape) == 0
    assert (SCALE_NORM.parameter_groups(shape) == 0).all()
    assert (none.parameter_groups(shape) == -1).all()
    assert SCALE_NORM.on(shape).shape_of("1") == (1,)
    x = np.random.default_rng(0).standard_normal(shape)
    plain = normalize(x, SCALE_NORM).output
    np.testing.assert_allclose(normalize(x, SCALE_NORM, np.array([3.0])).output, 3 * plain)
    with pytest.raises(ValueError, match="gamma was given, but no gamma has no gamma"):
        normalize(x, none, np.array([3.0]))
    with pytest.raises(ValueError, match=r"gamma has shape \(4,\).*expected \(1,\)"):
        normalize(x, SCALE_NORM, np.ones(4))
    assert per(SCALE_NORM.params) == "for all cells"


def test_one_running_statistic_for_all_cells():
    whole = Scheme("data normalization", "n d", stats="", running="1")
    x = np.array([[1.0, 2], [3, 4]])
    output = normalize(x, whole, eps=0.0, running=(np.array([1.0]), np.array([4.0]))).output
    np.testing.assert_allclose(output, (x - 1) / 2)


@pytest.mark.parametrize(
    ("cells", "layout"),
    [
        ("n (g k) h w", "n c h w"), ("n t (g k)", "n t d"), ("n (g k) l", "n d l"),
        ("n (g k)", "n d"), ("n (g k) d h w", "n c d h w"), ("o (a b) h w", "o c h w"),
        ("n (c k)", "n d"), ("(a b) (e f)", "c d"), ("o i h w", "o i h w"),
    ],
)  # fmt: skip
def test_every_axis_has_a_letter_whole_or_split(cells, layout):
    assert layout_of(Scheme("layer", cells, stats="")) == layout


def test_letters_have_names():
    assert (AXIS_NAMES["o"], AXIS_NAMES["i"]) == ("output channel", "input channel")
    assert BATCH_NORM_3D.own_names == {"d": "depth"}
    assert WEIGHT_STANDARDIZATION.own_names == GROUP_NORM.own_names == {}
    frames = Scheme("video", "n c t h w", stats="c", names=(("t", "frame"),))
    assert frames.own_names == {"t": "frame"}
    with pytest.raises(ValueError, match="names name the axis 'q', which is not in cells='n d'"):
        Scheme("layer", "n d", stats="n", names=(("q", "query"),))


def test_refuses_no_axes_at_all():
    with pytest.raises(ValueError, match="cells='': expected one-letter axes"):
        Scheme("layer", "", stats="")
    with pytest.raises(ValueError, match="cells='n 1': expected one-letter axes"):
        Scheme("layer", "n 1", stats="n")
    with pytest.raises(TypeError, match="params is None; expected a string of axes"):
        Scheme("layer", "n d", stats="n", params=None)

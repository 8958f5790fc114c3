"""The description of a layer: what follows from it, and what it refuses."""

import re
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from cases import CASES, TABLE, letters, number_cells, shape_of, spread, tensors
from normbook.core import scheme as schemes
from normbook.core.normalize import normalize
from normbook.core.scheme import LAYERS, MORE_LAYERS, Scheme, axes_of

ragged = ("BATCH_NORM_PER_STEP", "BATCH_NORM_POOLED", "BATCH_NORM_SEQUENCE_AS_CHANNEL")
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.mark.parametrize("constant", TABLE)
def test_the_table(constant):
    row = getattr(schemes, constant)
    assert (row.name, row.cells, row.stats, row.running, row.params) == TABLE[constant]
    assert row.centered == (constant != "RMS_NORM") == row.has_beta
    assert row.optional == (constant == "INSTANCE_NORM_2D")
    assert row.torch_eps == (None if constant == "RMS_NORM" else 1e-5)
    by_token = constant in (*ragged, "LAYER_NORM_TOKEN", "RMS_NORM")
    assert row.mask == ("n t" if by_token else "")


def test_the_table_holds_every_layer_once():
    assert [id(layer) for layer in LAYERS] == [id(getattr(schemes, name)) for name in TABLE]
    assert [case.name for case in CASES] == list(TABLE)


def test_every_axis_has_a_name_to_spell_out():
    used = {axis for layer in LAYERS + MORE_LAYERS for axis in layer.axes}
    assert used <= set(schemes.AXIS_NAMES)


@every_case
def test_groups_are_numbered_by_the_axes_that_index_the_statistics(case):
    groups = case.scheme.groups(case.shape)
    assert groups.shape == case.shape
    np.testing.assert_array_equal(
        groups, number_cells(case.scheme, case.scheme.stats, case.lengths)
    )


@every_case
def test_parameters_are_numbered_by_the_axes_that_index_them(case):
    numbers = case.scheme.parameter_groups(case.shape)
    expected = number_cells(case.scheme, case.scheme.params, case.lengths)
    np.testing.assert_array_equal(numbers, expected)


@every_case
def test_a_masked_cell_belongs_to_no_group(case):
    mask = case.mask()
    groups = case.scheme.groups(case.shape, mask)
    real = spread(mask, case.scheme, case.lengths)
    assert not real.all()
    assert (groups[~real] == -1).all()
    np.testing.assert_array_equal(groups[real], case.scheme.groups(case.shape)[real])


def test_groups_of_a_small_image():
    shape = (2, 4, 1, 2)

    def groups(layer):
        return layer.groups(shape).reshape(8, 2).tolist()

    assert groups(schemes.BATCH_NORM_2D) == [[0] * 2, [1] * 2, [2] * 2, [3] * 2] * 2
    assert groups(schemes.LAYER_NORM_CHW) == [[0] * 2] * 4 + [[1] * 2] * 4
    assert groups(schemes.INSTANCE_NORM_2D) == [[i] * 2 for i in range(8)]
    assert groups(schemes.LAYER_NORM_CHANNELS) == [[0, 1]] * 4 + [[2, 3]] * 4
    two = schemes.GROUP_NORM.with_lengths(g=2)
    assert groups(two) == [[0] * 2, [0] * 2, [1] * 2, [1] * 2, [2] * 2, [2] * 2, [3] * 2, [3] * 2]
    assert two.group_labels(shape) == ["n=0, g=0", "n=0, g=1", "n=1, g=0", "n=1, g=1"]


@every_case
def test_labels_and_sizes_of_groups(case):
    labels = case.scheme.group_labels(case.shape)
    numbers, sizes = np.unique(case.scheme.groups(case.shape), return_counts=True)
    assert len(labels) == len(set(labels)) == len(numbers)
    assert set(sizes) == {case.scheme.group_size(case.shape)}
    axes = letters(case.scheme.stats)
    assert labels[-1] == ", ".join(f"{a}={case.lengths[a] - 1}" for a in axes)


def test_a_layer_without_parameters():
    bare = Scheme("bare", "n d", stats="n")
    assert (bare.parameter_groups((2, 3)) == -1).all()
    assert bare.parameter_count((2, 3)) == bare.parameter_count((2, 3), affine=True) == 0
    assert not bare.has_beta


def test_statistics_for_all_cells():
    everything = Scheme("everything", "n d", stats="")
    assert everything.groups((2, 3)).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert everything.group_labels((2, 3)) == [""]
    assert everything.summary == "average over n, d → one (μ, σ²) for all cells"
    x = np.array([[1.0, 2], [3, 6]])
    used = normalize(x, everything, eps=0.0)
    assert (used.statistics.mean, used.statistics.var, used.statistics.count) == (3, 3.5, 4)
    np.testing.assert_allclose(used.output, (x - 3) / 3.5**0.5)


def test_statistics_may_be_indexed_in_another_order():
    swapped = Scheme("swapped", "n t d", stats="t n", params="d t")
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    mean = normalize(x, swapped).statistics.mean
    np.testing.assert_allclose(mean, x.mean(2).T)
    expected = np.repeat((np.arange(3)[None, :] * 2 + np.arange(2)[:, None])[:, :, None], 4, 2)
    np.testing.assert_array_equal(swapped.groups(x.shape), expected)
    gamma = np.arange(12.0).reshape(4, 3)
    scaled = normalize(x, swapped, gamma).output
    np.testing.assert_allclose(scaled, normalize(x, swapped).output * gamma.T)


@pytest.mark.parametrize(
    ("layer", "summary"),
    [
        (schemes.BATCH_NORM_2D, "average over n, h, w → one (μ, σ²) per c"),
        (schemes.GROUP_NORM, "average over k, h, w → one (μ, σ²) per n, g"),
        (schemes.RMS_NORM, "average over d → one mean square per n, t"),
        (Scheme("identity", "n d", stats="n d"), "average over nothing → one (μ, σ²) per n, d"),
    ],
)
def test_summary(layer, summary):
    assert layer.summary == summary


def layer_of(line):
    """The torch layer in a line such as nn.LayerNorm(3)(x.movedim(1, -1)).movedim(-1, 1)."""
    return eval(re.match(r"(nn\.\w+\(.*?\))\(x", line)[1], {"nn": torch.nn})


@every_case
def test_parameter_count_is_that_of_the_torch_layer(case):
    layer = layer_of(case.scheme.pytorch(case.shape))
    count = sum(p.numel() for p in layer.parameters())
    assert case.scheme.parameter_count(case.shape) == count
    per_beta = 2 if case.scheme.centered else 1
    params = int(np.prod(shape_of(case.scheme.params, case.lengths)))
    assert case.scheme.parameter_count(case.shape, affine=True) == per_beta * params
    assert case.scheme.parameter_count(case.shape, affine=False) == 0


def test_parameter_counts_of_the_book():
    shape = (2, 3, 5, 5)
    assert schemes.LAYER_NORM_CHW.parameter_count(shape) == 150
    assert schemes.BATCH_NORM_2D.parameter_count(shape) == 6
    assert schemes.GROUP_NORM_1.parameter_count(shape) == 6
    assert schemes.INSTANCE_NORM_2D.parameter_count(shape) == 0
    assert schemes.INSTANCE_NORM_2D.parameter_count(shape, affine=True) == 6


EPS = [1e-5, 0.0, 1e-3, 2]


@every_case
@pytest.mark.parametrize("eps", EPS)
def test_lines_compute_what_torch_computes(case, eps):
    x, *_ = tensors(*case.inputs())
    if eps == 0 and "BatchNorm" in case.scheme.name:
        expected = case.torch(x, None, None, 1e-300)  # torch's batch norm refuses 0
        torch_line = None
    else:
        expected = case.torch(x, None, None, eps)
        torch_line = case.scheme.pytorch(case.shape, eps)
    lines = {"numpy": case.scheme.numpy(case.shape, eps), "torch": torch_line}
    y = eval(lines["numpy"], {"np": np, "x": x.numpy()})
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-10)
    if torch_line:
        assert torch_line.startswith("nn.")
        torch.set_default_dtype(torch.float64)
        try:
            y = eval(torch_line, {"nn": torch.nn, "x": x})
        finally:
            torch.set_default_dtype(torch.float32)
        torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)


@every_case
@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("masked", [False, True])
def test_lines_compute_what_normalize_computes(case, eps, masked):
    """Also for a layer that torch doesn't have, by a line of its operations."""
    x, *_ = tensors(*case.inputs())
    mask = torch.from_numpy(case.mask()) if masked else None
    x_hidden = x.clone()
    if masked:
        x_hidden[~torch.from_numpy(spread(case.mask(), case.scheme, case.lengths))] = torch.nan
    expected = normalize(x, case.scheme, eps=eps, mask=mask).output
    if masked and eps == 0:  # a group of one cell is 0 / 0
        expected = torch.where(expected.isnan(), 0.0, expected)
    nameless = replace(case.scheme, torch="")
    line = nameless.pytorch(case.shape, eps, masked)
    y = eval(line, {"torch": torch, "x": x_hidden, "mask": mask})
    y = torch.where(y.isnan(), 0.0, y) if masked and eps == 0 else y
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)
    line = case.scheme.numpy(case.shape, eps, masked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a token of padding has an empty mean
        y = eval(line, {"np": np, "x": x_hidden.numpy(), "mask": mask.numpy() if masked else None})
    y = np.where(np.isnan(y), 0, y) if masked and eps == 0 else y
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("masked", [False, True])
def test_lines_for_one_cell_a_group(centered, masked):
    alone = Scheme("alone", "n d", stats="n d", centered=centered)
    x = torch.tensor([[1.0, -2, 3]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False]]) if masked else None
    expected = normalize(x, alone, mask=mask).output
    y = eval(alone.pytorch(x.shape, masked=masked), {"torch": torch, "x": x, "mask": mask})
    torch.testing.assert_close(y, expected)
    mask = mask.numpy() if masked else None
    y = eval(alone.numpy(x.shape, masked=masked), {"np": np, "x": x.numpy(), "mask": mask})
    np.testing.assert_allclose(y, expected)


def test_a_line_to_copy():
    shape = (2, 3, 5, 5)
    assert schemes.LAYER_NORM_CHW.pytorch(shape) == "nn.LayerNorm([3, 5, 5])(x)"
    assert schemes.BATCH_NORM_2D.pytorch(shape, 1e-3) == "nn.BatchNorm2d(3, eps=0.001)(x)"
    assert schemes.LAYER_NORM.numpy((2, 3)) == (
        "(x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-05)"
    )
    assert Scheme("bare", "n d", stats="n").pytorch((2, 3)) == (
        "(x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(1, correction=0, keepdim=True) + 1e-05)"
    )
    assert schemes.BATCH_NORM_2D.numpy(shape) == (
        "(x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-05)"
    )


def test_shapes():
    layer = schemes.GROUP_NORM.with_lengths(g=2)
    shape = (5, 6, 3, 4)
    assert layer.axes == ("n", "g", "k", "h", "w")
    assert layer.averaged == ("k", "h", "w")
    assert layer.averaged_positions == (2, 3, 4)
    assert layer.on(shape).lengths == {"n": 5, "g": 2, "k": 3, "h": 3, "w": 4}
    on = layer.on(shape)
    assert on.shape_of("(g k)") == (6,)
    assert on.shape_of("n g") == (5, 2)
    assert axes_of("n (g k)") == ("n", "g", "k")
    x = np.arange(5 * 6 * 3 * 4).reshape(shape)
    assert on.split(x).shape == (5, 2, 3, 3, 4)
    np.testing.assert_array_equal(on.split(x)[:, 1, 2], x[:, 5])
    np.testing.assert_array_equal(on.join(on.split(x)), x)
    gamma = np.arange(6)
    placed = on.place(gamma, "(g k)")
    assert placed.shape == (1, 2, 3, 1, 1) and placed[0, 1, 2, 0, 0] == 5
    np.testing.assert_array_equal(on.take(placed, "(g k)"), gamma)


def test_lengths_may_be_given_for_any_axis():
    both = schemes.GROUP_NORM.with_lengths(g=2, k=3)
    assert both.on((1, 6, 1, 1)).lengths["k"] == 3
    assert schemes.GROUP_NORM.with_lengths(k=2).on((1, 6, 1, 1)).lengths["g"] == 3
    assert schemes.GROUP_NORM.with_lengths(g=1).on((1, 6, 1, 1)).lengths["k"] == 6
    assert schemes.GROUP_NORM.with_lengths(g=2).with_lengths(g=3).lengths == (("g", 3),)
    fixed = schemes.LAYER_NORM.with_lengths(d=3)
    assert fixed.groups((2, 3)).tolist() == [[0, 0, 0], [1, 1, 1]]
    with pytest.raises(ValueError, match=r"axis of length 4 can't be d with d=3"):
        fixed.groups((2, 4))


def test_an_empty_batch_has_groups_too():
    assert schemes.BATCH_NORM_2D.groups((0, 3, 2, 2)).shape == (0, 3, 2, 2)
    assert schemes.BATCH_NORM_2D.group_labels((0, 3, 2, 2)) == ["c=0", "c=1", "c=2"]
    assert schemes.BATCH_NORM_2D.group_size((0, 3, 2, 2)) == 0
    assert schemes.GROUP_NORM.with_lengths(g=2).groups((0, 4, 2, 2)).shape == (0, 4, 2, 2)


@pytest.mark.parametrize("cells", ["n  c", " n c", "N c", "n,c", "nc", "n (g) c", "n (g k", "n 1"])
def test_refuses_cells_that_are_no_pattern(cells):
    with pytest.raises(ValueError) as error:
        Scheme("layer", cells, stats="")
    assert str(error.value) == (
        f"cells={cells!r}: expected one-letter axes with single spaces between, such as 'n c h w' "
        "or 'n (g k) h w'"
    )


@pytest.mark.parametrize("field", ["stats", "params", "running", "mask"])
def test_refuses_an_axis_that_the_cells_lack(field):
    fields = {"stats": "n"} | {field: "c"}
    with pytest.raises(ValueError, match=rf"{field}='c' names the axis 'c'.*cells='n t d'"):
        Scheme("layer", "n t d", **fields)
    with pytest.raises(ValueError, match=rf"{field}='t t' names an axis twice"):
        Scheme("layer", "n t d", **fields | {field: "t t"})


@pytest.mark.parametrize("length", [0, -1, 2.0, "2", None])
def test_refuses_lengths_that_are_no_lengths(length):
    with pytest.raises(ValueError, match=rf"axis 'g' is {re.escape(repr(length))}; expected an"):
        schemes.GROUP_NORM.with_lengths(g=length)
    with pytest.raises(ValueError, match=r"axis 'c', which is not in cells='n \(g k\) h w'"):
        schemes.GROUP_NORM.with_lengths(c=2)


def test_refuses_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"x has 3 axes, shape \(2, 3, 4\).*expected 4: n c h w"):
        schemes.BATCH_NORM_2D.groups((2, 3, 4))
    with pytest.raises(ValueError, match=r"needs the length of 'g'.*with_lengths\(g=\.\.\.\)"):
        schemes.GROUP_NORM.groups((2, 4, 3, 3))
    with pytest.raises(ValueError, match=r"axis of length 5 can't be \(g k\) with g=2"):
        schemes.GROUP_NORM.with_lengths(g=2).groups((2, 5, 3, 3))
    for length in (5, 12):
        with pytest.raises(ValueError, match=rf"axis of length {length} can't be .* with g=2, k=3"):
            schemes.GROUP_NORM.with_lengths(g=2, k=3).groups((2, length, 3, 3))


def test_refuses_masks_that_do_not_fit():
    layer = schemes.BATCH_NORM_POOLED
    with pytest.raises(TypeError, match="mask has dtype float64; expected bool"):
        layer.groups((2, 3, 4), np.ones((2, 3)))
    with pytest.raises(
        ValueError, match=r"mask has shape \(2, 3, 4\).*per n, t: expected \(2, 3\)"
    ):
        layer.groups((2, 3, 4), np.ones((2, 3, 4), bool))
    with pytest.raises(ValueError, match=r"mask has shape \(3, 2\)"):
        layer.groups((2, 3, 4), np.ones((3, 2), bool))


@pytest.mark.parametrize("module", ["normbook", "normbook.core.scheme", "normbook.core.normalize"])
def test_import_does_not_load_torch(module):
    code = (
        f"import sys, {module}, numpy as np; assert 'torch' not in sys.modules\n"
        "if 'normbook.core.normalize' in sys.modules:\n"
        "    from normbook.core import LAYER_NORM, normalize\n"
        "    normalize(np.ones((2, 3)), LAYER_NORM)\n"
        "    assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""The trainable layers, side by side with torch.nn's."""

import copy
import inspect
import io
import math
import pickle
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from normbook.layers import norms as layers

NAMES = [
    "BatchNorm1d", "BatchNorm2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "LayerNorm",
    "RMSNorm",
]  # fmt: skip

# name, arguments, keyword arguments, the shape of an input
LAYERS = [
    ("BatchNorm1d", (3,), {}, (4, 3)),
    ("BatchNorm1d", (3,), {"momentum": None, "bias": False}, (4, 3, 5)),
    ("BatchNorm2d", (3,), {}, (2, 3, 4, 2)),
    ("BatchNorm2d", (3,), {"affine": False, "track_running_stats": False}, (2, 3, 4, 2)),
    ("GroupNorm", (2, 4), {}, (3, 4)),
    ("GroupNorm", (2, 6), {}, (2, 6, 2, 3)),
    ("GroupNorm", (1, 3), {"affine": False}, (2, 3, 5)),
    ("GroupNorm", (3, 3), {"bias": False}, (2, 3, 2, 2, 2)),
    ("InstanceNorm1d", (3,), {}, (2, 3, 4)),
    ("InstanceNorm1d", (3,), {"affine": True, "track_running_stats": True}, (3, 4)),
    ("InstanceNorm2d", (3,), {"affine": True, "bias": False}, (2, 3, 2, 3)),
    ("InstanceNorm2d", (3,), {"track_running_stats": True, "momentum": None}, (2, 3, 2, 3)),
    ("LayerNorm", (4,), {}, (2, 3, 4)),
    ("LayerNorm", ([3, 4],), {"bias": False}, (2, 3, 4)),
    ("LayerNorm", ((2, 3, 4),), {"elementwise_affine": False, "eps": 0.1}, (2, 3, 4)),
    ("RMSNorm", (4,), {}, (2, 3, 4)),
    ("RMSNorm", ([3, 4],), {"eps": 0.1}, (2, 3, 4)),
    ("RMSNorm", (4,), {"elementwise_affine": False}, (5, 4)),
]
every_layer = pytest.mark.parametrize(("name", "args", "kwargs", "shape"), LAYERS)


def twins(name, *args, seed=0, **kwargs):
    """torch's layer with random parameters and running statistics, and ours, loaded from it."""
    kwargs = {"dtype": torch.float64} | kwargs
    theirs, ours = getattr(nn, name)(*args, **kwargs), getattr(layers, name)(*args, **kwargs)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in theirs.state_dict().values():
            if value.is_floating_point():
                value.copy_(0.5 + torch.rand(value.shape, generator=generator))
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def sample(shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def run(layer, x, dy):
    """Output, gradients and buffers of one step, by name."""
    x = x.clone().requires_grad_()
    layer.zero_grad()
    output = layer(x)
    if output.requires_grad:
        output.backward(dy)
    results = {"output": output.detach(), "dx": x.grad}
    results |= {f"d{key}": value.grad for key, value in layer.named_parameters()}
    return results | {key: value.clone() for key, value in layer.named_buffers()}


def assert_same_step(ours, theirs, x, dy, rtol=1e-10, atol=1e-10, grad_atol=1e-9):
    ours, theirs = run(ours, x, dy), run(theirs, x, dy)
    assert list(ours) == list(theirs)
    for key, expected in theirs.items():
        tolerance = grad_atol if key.startswith("d") else atol
        torch.testing.assert_close(
            ours[key], expected, rtol=rtol, atol=tolerance, equal_nan=True,
            msg=lambda message, key=key: f"{key}: {message}",
        )  # fmt: skip


# Any shape, any values, several steps

values = st.fixed_dictionaries(
    {
        "offset": st.sampled_from([0.0, 1.0, -1e3, 1e6]),
        "scale": st.sampled_from([1e-3, 1.0, 1e3]),
        "seed": st.integers(0, 2**32 - 1),
    }
)
epsilons = st.sampled_from([1e-8, 1e-5, 1e-2, 10.0])
length = st.integers(1, 5)
shapes = st.lists(length, max_size=2).map(tuple)
modes = st.lists(st.booleans(), min_size=1, max_size=4)  # True: a step in train mode
momenta = st.sampled_from([None, 0.0, 0.1, 0.7, 1.0])
anything = settings(max_examples=60, deadline=None, derandomize=True)


def check_steps(pair, shape, values, eps, modes=(True,)):
    ours, theirs = pair
    assert repr(ours) == repr(theirs)
    generator = torch.Generator().manual_seed(values["seed"])
    # 1e-16 of the offset is lost already in x, and grows as the group is normalized.
    atol = 1e-11 + 1e-14 * abs(values["offset"]) * eps**-0.5
    for train in modes:
        noise = torch.randn(shape, dtype=torch.float64, generator=generator)
        dy = torch.randn(shape, dtype=torch.float64, generator=generator)
        ours.train(train), theirs.train(train)
        x = values["offset"] + values["scale"] * noise
        assert_same_step(ours, theirs, x, dy, atol=atol, grad_atol=100 * atol * eps**-0.5)


@anything
@given(
    st.sampled_from([(2,), (3,), (4,)]), length, length, values, epsilons, momenta,
    st.booleans(), st.booleans(), st.booleans(), modes,
)  # fmt: skip
def test_batch_norm(rank, n, c, values, eps, momentum, affine, bias, track, modes):
    shape = {2: (n + 1, c), 3: (n, c, 3), 4: (n, c, 2, 3)}[rank[0]]
    pair = twins(
        "BatchNorm2d" if rank[0] == 4 else "BatchNorm1d", c, eps=eps, momentum=momentum,
        affine=affine, bias=bias, track_running_stats=track, seed=values["seed"],
    )  # fmt: skip
    check_steps(pair, shape, values, eps, modes)


@anything
@given(
    st.sampled_from([1, 2]), length, length, st.booleans(), values, epsilons, momenta,
    st.booleans(), st.booleans(), st.booleans(), modes,
)  # fmt: skip
def test_instance_norm(rank, n, c, batched, values, eps, momentum, affine, bias, track, modes):
    shape = (c, 3) if rank == 1 else (c, 2, 3)
    pair = twins(
        f"InstanceNorm{rank}d", c, eps=eps, momentum=momentum, affine=affine, bias=bias,
        track_running_stats=track, seed=values["seed"],
    )  # fmt: skip
    check_steps(pair, (n, *shape) if batched else shape, values, eps, modes)


@anything
@given(length, st.integers(1, 3), length, shapes, values, epsilons, st.booleans(), st.booleans())
def test_group_norm(n, groups, k, rest, values, eps, affine, bias):
    shape = (n + 1, groups * k, *rest)
    pair = twins("GroupNorm", groups, groups * k, eps=eps, affine=affine, bias=bias)
    check_steps(pair, shape, values, eps)


@anything
@given(
    shapes, st.lists(length, min_size=1, max_size=3), values, epsilons, st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_layer_norm(leading, normalized, values, eps, affine, bias):
    pair = twins("LayerNorm", normalized, eps=eps, elementwise_affine=affine, bias=bias)
    check_steps(pair, (*leading, *normalized), values, eps)


@anything
@given(shapes, st.lists(length, min_size=1, max_size=3), values, epsilons, st.booleans())
def test_rms_norm(leading, normalized, values, eps, affine):
    pair = twins("RMSNorm", normalized, eps=eps, elementwise_affine=affine)
    check_steps(pair, (*leading, *normalized), values, eps)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rms_norm_has_torchs_default_eps(dtype):
    """The machine epsilon of what it computes in; small cells tell it from others."""
    x = 1e-4 * sample((3, 4), dtype=dtype)
    ours, theirs = twins("RMSNorm", 4, dtype=dtype)
    assert ours.eps is theirs.eps is None
    torch.testing.assert_close(ours(x), theirs(x))


# Same names, same numbers


@pytest.mark.parametrize("name", NAMES)
def test_signature(name):
    def signature(layer):
        parameters = inspect.signature(layer).parameters.values()
        return [(p.name, p.default, p.kind) for p in parameters]

    assert signature(getattr(layers, name)) == signature(getattr(nn, name))


@every_layer
def test_state_dict_and_repr(name, args, kwargs, shape):
    ours, theirs = getattr(layers, name)(*args, **kwargs), getattr(nn, name)(*args, **kwargs)
    assert repr(ours) == repr(theirs)
    assert list(dict(ours.named_parameters())) == list(dict(theirs.named_parameters()))
    own, other = ours.state_dict(), theirs.state_dict()
    assert list(own) == list(other)
    assert own._metadata == other._metadata
    for key, value in other.items():
        assert own[key].dtype == value.dtype and own[key].shape == value.shape
        assert (own[key] == value).all()  # the same initial values


@every_layer
def test_state_dicts_load_into_each_other(name, args, kwargs, shape):
    ours, theirs = twins(name, *args, **kwargs)
    x, dy = sample(shape), sample(shape, 1)
    for module in (ours, theirs):
        run(module, x + 1, dy)
    fresh = getattr(nn, name)(*args, dtype=torch.float64, **kwargs)
    fresh.load_state_dict(ours.state_dict())
    for train in (True, False):
        assert_same_step(ours.train(train), fresh.train(train), x, dy)
    mine = getattr(layers, name)(*args, dtype=torch.float64, **kwargs)
    mine.load_state_dict(theirs.state_dict())
    for train in (True, False):
        assert_same_step(mine.train(train), theirs.train(train), x, dy)


def test_state_dicts_from_before_the_batches_were_counted():
    old = {"weight": torch.rand(3), "bias": torch.rand(3), "running_mean": torch.rand(3)}
    old["running_var"] = torch.rand(3)
    for module in (nn.BatchNorm1d(3), layers.BatchNorm1d(3)):
        module.load_state_dict(dict(old))
        assert module.num_batches_tracked == 0
    current = layers.BatchNorm1d(3).state_dict()
    del current["num_batches_tracked"]
    for module in (nn.BatchNorm1d(3), layers.BatchNorm1d(3)):
        with pytest.raises(RuntimeError, match=r"Missing key.*num_batches_tracked"):
            module.load_state_dict(current)
    with pytest.raises(RuntimeError, match="Missing key"):
        layers.BatchNorm1d(3).load_state_dict({})


@every_layer
def test_gradcheck(name, args, kwargs, shape):
    ours, _ = twins(name, *args, **kwargs)
    ours.running_mean = ours.running_var = None  # a check can't have them move
    leaves = [sample(shape).requires_grad_(), *ours.parameters()]

    def output(x, *_):
        return ours(x)

    assert torch.autograd.gradcheck(output, leaves)
    assert torch.autograd.gradgradcheck(output, leaves)


@pytest.mark.parametrize("name", ["BatchNorm1d", "InstanceNorm1d"])
def test_gradcheck_in_eval_mode(name):
    ours, _ = twins(name, 3, affine=True, track_running_stats=True)
    ours.eval()
    leaves = [sample((2, 3, 4)).requires_grad_(), *ours.parameters()]
    assert torch.autograd.gradcheck(lambda x, *_: ours(x), leaves)
    assert torch.autograd.gradgradcheck(lambda x, *_: ours(x), leaves)


def test_running_statistics_of_three_batches():
    """The unbiased variance goes in, though the biased one normalizes."""
    ours = layers.BatchNorm1d(1, momentum=0.1, dtype=torch.float64)
    for batch in ([1.0, 2, 3, 6], [0, 4, 8, 8], [5, 7, 9, 3]):
        ours(torch.tensor(batch, dtype=torch.float64)[:, None])
    assert ours.running_mean.item() == pytest.approx(1.293, abs=1e-12)
    assert ours.running_var.item() == pytest.approx(3.093667, abs=1e-6)
    assert ours.num_batches_tracked == 3


@every_layer
def test_large_inputs(name, args, kwargs, shape):
    """In blocks, the layers compute the same."""
    more = 2**19 // math.prod(shape)
    if name in ("LayerNorm", "RMSNorm"):
        shape = (more, *shape)
    else:  # in the last axis that isn't the channels', except for a batch of vectors
        alone = len(shape) == 2 and name != "InstanceNorm1d"
        shape = (more, shape[1]) if alone else (*shape[:-1], more * shape[-1])
    ours, theirs = twins(name, *args, **kwargs)
    for train in (True, False):
        x, dy = sample(shape), sample(shape, 1) / shape[0]
        assert_same_step(ours.train(train), theirs.train(train), x, dy, grad_atol=1e-8)


# Where torch raises, and where it doesn't

ANY_DTYPE = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8,
    torch.bool, torch.complex64,
]  # fmt: skip
SHAPES = [
    (), (3,), (4,), (6,), (1, 3), (4, 3), (3, 4), (4, 6), (1, 6), (1, 3, 1), (2, 3, 1), (1, 3, 4),
    (2, 3, 4), (2, 4, 3), (4, 6, 1), (3, 2, 2), (2, 3, 2, 2), (1, 3, 1, 1), (2, 3, 1, 1),
    (2, 4, 2, 2), (2, 2, 3, 4), (2, 3, 2, 2, 2), (1, 6, 1, 1),
]  # fmt: skip
# Of an empty input torch checks little, not even the dtype; these are the ones that make sense.
EMPTY = {
    "BatchNorm1d": [(0, 3), (0, 3, 4), (2, 3, 0)],
    "BatchNorm2d": [(0, 3, 2, 2), (2, 3, 0, 2)],
    "InstanceNorm1d": [(0, 3, 4), (2, 3, 0)],
    "InstanceNorm2d": [(0, 3, 2, 2), (2, 3, 0, 2)],
    "GroupNorm": [(0, 3), (0, 4), (0, 6), (0, 6, 2, 2), (2, 6, 0)],
    "LayerNorm": [(0, 3), (0, 4), (2, 0, 4), (2, 0)],
    "RMSNorm": [(0, 3), (0, 4), (2, 0, 4), (2, 0)],
}
TRACKED = {"affine": True, "track_running_stats": True}
GRID = [
    *[
        (name, (3,), kwargs)
        for name in ("BatchNorm1d", "BatchNorm2d", "InstanceNorm1d", "InstanceNorm2d")
        for kwargs in (
            {}, {"affine": False}, {"affine": True}, {"track_running_stats": False}, TRACKED,
            {"track_running_stats": True, "affine": False}, {"eps": 0.0}, {"eps": -1e-3},
            {"eps": -10.0}, {"eps": math.nan}, {"momentum": None}, {"momentum": 2.0},
            {"dtype": torch.float64}, {"dtype": torch.float16},
            {"dtype": torch.bfloat16, "affine": False, "track_running_stats": True},
        )
    ],
    *[
        (name, shape, kwargs)
        for name in ("LayerNorm", "RMSNorm")
        for shape in ((3,), (4,), (1,), (0,), ([3, 4],), ([2, 2],), ([3, 2, 2],), ((),))
        for kwargs in (
            {}, {"elementwise_affine": False}, {"eps": 0.0}, {"eps": -10.0}, {"eps": math.nan},
            {"dtype": torch.float64}, {"dtype": torch.bfloat16},
        )
    ],
    *[
        ("GroupNorm", groups, kwargs)
        for groups in ((1, 3), (3, 3), (2, 6), (6, 6), (2, 4), (4, 6), (2, 3))
        for kwargs in (
            {}, {"affine": False}, {"eps": 0.0}, {"eps": -10.0}, {"eps": math.nan},
            {"dtype": torch.float64}, {"dtype": torch.float16},
        )
    ],
]  # fmt: skip


def attempt(module, name, args, kwargs, x, train):
    """The exception, or the results and the warnings' categories."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            layer = getattr(module, name)(*args, **kwargs).train(train)
            if not x.is_floating_point():
                return layer(x), []
            results = run(layer, x, sample(x.shape, 1, x.dtype))
        except Exception as error:
            return error, []
    # torch warns that it is slow for some dtypes; ours isn't
    return results, [w.category for w in caught if "Cannot dispatch" not in str(w.message)]


def assert_same_outcome(name, args, kwargs, x, train):
    theirs, their_warnings = attempt(nn, name, args, kwargs, x, train)
    ours, our_warnings = attempt(layers, name, args, kwargs, x, train)
    what = f"{name}{args}{kwargs} {x.dtype} {tuple(x.shape)} train={train}"
    if isinstance(theirs, Exception):
        # NotImplementedError is a RuntimeError; for integers, ours is always the former
        assert isinstance(ours, type(theirs)), f"{what}: {ours!r} instead of {theirs!r}"
        assert len(str(ours)) > 20, what
        return "raises"
    assert not isinstance(ours, Exception), f"{what}: {ours!r}"
    assert our_warnings == their_warnings, what
    for key, expected in theirs.items():
        rough = x.dtype.itemsize == 2
        if key.startswith("d") and rough:
            continue  # torch rounds in between; tested elsewhere, on other values
        if key == "dweight" and name == "GroupNorm" and (x.numel() == 0 or kwargs.get("eps") == 0):
            continue  # torch gives NaN for no cells at all, and sometimes for 0 / 0
        torch.testing.assert_close(
            ours[key], expected, rtol=0.02 if rough else 1e-4, atol=0.05 if rough else 2e-3,
            equal_nan=True, msg=lambda message, key=key: f"{what}, {key}: {message}",
        )  # fmt: skip
    return "computes"


@pytest.mark.parametrize(("name", "args", "kwargs"), GRID)
def test_raises_exactly_where_torch_does(name, args, kwargs):
    outcomes = set()
    for train in (True, False) if name[:5] in ("Batch", "Insta") else (True,):
        for dtype in ANY_DTYPE if {"eps", "momentum"}.isdisjoint(kwargs) else [torch.float32]:
            if name == "RMSNorm" and dtype.is_complex:
                continue  # torch has no error for it, nor a meaning
            for shape in SHAPES:
                x = 2 * sample(shape, dtype=torch.float32) + 0.1
                outcomes.add(assert_same_outcome(name, args, kwargs, x.to(dtype), train))
        for shape in EMPTY[name]:
            if name[:5] == "Insta" and kwargs.get("affine") and shape[0] == 0:
                continue  # torch fails at an index
            x = torch.zeros(shape, dtype=kwargs.get("dtype"))
            outcomes.add(assert_same_outcome(name, args, kwargs, x, train))
    assert "raises" in outcomes


def test_the_grid_has_both_outcomes_for_every_layer():
    for name in NAMES:
        args = {"GroupNorm": (2, 6), "LayerNorm": (4,), "RMSNorm": (4,)}.get(name, (3,))
        outcomes = {
            assert_same_outcome(name, args, {}, sample(shape, dtype=torch.float32), True)
            for shape in SHAPES
        }
        assert outcomes == {"raises", "computes"}


@pytest.mark.parametrize(
    ("make", "shape", "error", "message"),
    [
        (
            lambda: layers.BatchNorm1d(3),
            (1, 3),
            ValueError,
            r"^Expected more than 1 value per channel when training, got input size .*\[1, 3\]",
        ),
        (lambda: layers.BatchNorm1d(3, eps=0.0), (2, 3), ValueError, "eps must be positive"),
        (lambda: layers.BatchNorm1d(3, eps=-1.0).eval(), (2, 3), ValueError, "non-negative, .* -1"),
        (lambda: layers.BatchNorm1d(2), (2, 4, 2), RuntimeError, "contain 4 elements not 2"),
        (lambda: layers.BatchNorm2d(3), (2, 3), ValueError, r"expected 4D input \(got 2D input\)"),
        (lambda: layers.BatchNorm1d(3), (3,), ValueError, "expected 2D or 3D input"),
        (lambda: layers.InstanceNorm1d(3), (2, 3, 1), ValueError, "more than 1 spatial element"),
        (lambda: layers.InstanceNorm2d(3, affine=True), (2, 4, 2, 2), ValueError, r"dim=1 .*\(3\)"),
        (lambda: layers.GroupNorm(4, 6), None, ValueError, r"\(6\) must be divisible .*\(4\)"),
        (
            lambda: layers.GroupNorm(2, 6),
            (2, 4),
            RuntimeError,
            r"^Expected 6 channels in 2 groups, but got input of shape \[2, 4\]$",
        ),
        (
            lambda: layers.GroupNorm(2, 2),
            (1, 2),
            ValueError,
            r"^Expected more than 1 value per channel when training, got input size .*\[1, 2\]\) "
            "in 2 groups$",
        ),
        (lambda: layers.GroupNorm(2, 6), (6,), RuntimeError, "at least 2 dimensions"),
        (lambda: layers.LayerNorm([3, 5]), (3, 6), RuntimeError, r"\[\*, 3, 5\], .* size\[3, 6\]"),
        (
            lambda: layers.LayerNorm(()),
            (3,),
            RuntimeError,
            r"^Expected normalized_shape to be at least 1-dimensional, but got \[\]$",
        ),
        (lambda: layers.RMSNorm([3, 5]), (5,), ValueError, "at least 2 dimensions, but got 1"),
    ],
)
def test_messages(make, shape, error, message):
    with pytest.raises(error, match=message):
        make()(torch.zeros(shape))


@pytest.mark.parametrize(
    "layer", [layers.BatchNorm1d(3), layers.LayerNorm(3), layers.GroupNorm(1, 3)]
)
def test_messages_about_dtypes_name_both(layer):
    with pytest.raises(RuntimeError, match=r"input of torch.float64 .* of torch.float32; expected"):
        layer(torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(
        NotImplementedError, match=r"not implemented for torch.int64; expected plain floats"
    ):
        layer(torch.zeros(2, 3, dtype=torch.int64))


@pytest.mark.parametrize("name", ["weight", "bias"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.BatchNorm1d(3),
        lambda: layers.InstanceNorm1d(3, affine=True),
        lambda: layers.GroupNorm(1, 3),
        lambda: layers.LayerNorm(4),
    ],
)
def test_each_parameter_has_the_dtype_of_the_input(make, name):
    layer, x = make().double(), torch.rand(2, 3, 4, dtype=torch.float64)
    assert layer(x).dtype == torch.float64
    parameter = getattr(layer, name)
    parameter.data = parameter.data.float()
    with pytest.raises(RuntimeError, match="mixed dtype"):
        layer(x)


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_tell_shapes_and_have_an_example(name):
    text = getattr(layers, name).__doc__
    assert "(N, " in text or "(*, " in text
    assert "{" not in text
    assert f"{name}(" in text.split(">>> ", 1)[1]


def test_instance_norm_warns_of_channels_it_does_not_use():
    with pytest.warns(UserWarning, match="dim=1 does not match num_features"):
        layers.InstanceNorm1d(3)(torch.rand(2, 4, 5))
    with pytest.warns(UserWarning, match="dim=0 does not match num_features"):
        layers.InstanceNorm1d(3)(torch.rand(4, 5))


@pytest.mark.parametrize("layer", [layers.LayerNorm(3), layers.RMSNorm(3)])
def test_refuses_what_is_no_tensor(layer):
    with pytest.raises(TypeError, match="Norm expected a tensor, but got ndarray"):
        layer(np.ones((2, 3)))


# NaN, infinity, constants


@every_layer
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_values_spoil_what_they_spoil_in_torch(name, args, kwargs, shape, bad):
    x = sample(shape)
    x[(0,) * len(shape)] = bad
    ours, theirs = twins(name, *args, **kwargs)
    expected, actual = theirs(x), ours(x)
    # An infinity in x makes some kernels give NaN and others 0 or infinity in its own group.
    assert (expected.isfinite() <= actual.isfinite()).all()
    fine = actual.isfinite() & expected.isfinite()
    torch.testing.assert_close(actual[fine], expected[fine])
    if math.isnan(bad):
        torch.testing.assert_close(actual, expected, equal_nan=True)
        for key, value in theirs.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[key], value, equal_nan=True)


@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_constant_cells(eps):
    ours, theirs = twins("LayerNorm", 3, eps=eps)
    x, dy = torch.full((2, 3), 5.0, dtype=torch.float64), sample((2, 3))
    assert_same_step(ours, theirs, x, dy)
    assert ours(x).isnan().all() if eps == 0 else (ours(x) == ours.bias).all()


def test_mean_far_from_zero_in_float32():
    """torch's batch norm loses ten times as much of 10000 ± 1 as ours."""
    x = 1e4 + sample((4096, 3))
    expected = nn.BatchNorm1d(3, dtype=torch.float64)(x.float().double())
    error = (layers.BatchNorm1d(3)(x.float()) - expected).abs().max()
    assert error < 2e-3


# As modules


@every_layer
def test_copies_and_pickles(name, args, kwargs, shape):
    ours, _ = twins(name, *args, **kwargs)
    x, dy = sample(shape), sample(shape, 1)
    run(ours, x, dy)
    buffer = io.BytesIO()
    torch.save(ours, buffer)
    buffer.seek(0)
    copies = [
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
        torch.load(buffer, weights_only=False),
    ]
    for other in copies:
        assert repr(other) == repr(ours)
        mine, others = run(copy.deepcopy(ours), x, dy), run(other, x, dy)
        for key, value in mine.items():
            torch.testing.assert_close(others[key], value, rtol=0, atol=0)


@every_layer
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_converted_to_another_dtype(name, args, kwargs, shape, dtype):
    ours, theirs = twins(name, *args, **kwargs)
    ours, theirs = ours.to(dtype), theirs.to(dtype)
    x, dy = sample(shape, dtype=dtype), sample(shape, 1, dtype)
    for train in (True, False):
        rough = 0.05 if dtype.itemsize == 2 else 1e-5
        assert_same_step(ours.train(train), theirs.train(train), x, dy, rough, rough, rough)
    assert ours.half()(x.half()).dtype == torch.float16
    assert ours.double()(x.double()).dtype == torch.float64


@every_layer
def test_without_gradients(name, args, kwargs, shape):
    ours, theirs = twins(name, *args, **kwargs)
    x = sample(shape)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            output = ours(x)
            torch.testing.assert_close(output, theirs(x))
        assert not output.requires_grad
    assert output.is_inference()
    ours.requires_grad_(False)
    assert not ours(x).requires_grad


@every_layer
def test_gradients_of_the_parameters_alone(name, args, kwargs, shape):
    ours, theirs = twins(name, *args, **kwargs)
    if not list(ours.parameters()):
        return
    for layer in (ours, theirs):
        layer(sample(shape)).backward(sample(shape, 1))
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


@every_layer
def test_memory_layout_does_not_matter(name, args, kwargs, shape):
    ours, theirs = twins(name, *args, **kwargs)
    x, dy = sample(shape), sample(shape, 1)
    strange = [
        x.transpose(0, -1).contiguous().transpose(0, -1),
        x.repeat_interleave(2, -1)[..., ::2],
        x[:1].expand(shape),
    ]
    if len(shape) == 4:
        strange.append(x.to(memory_format=torch.channels_last))
    for other in strange:
        assert_same_step(ours, theirs, other, dy.transpose(0, -1).contiguous().transpose(0, -1))


def test_in_a_model():
    def model(module):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), module.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3),
            module.GroupNorm(2, 6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 5),
            module.LayerNorm(5), nn.Linear(5, 3), module.BatchNorm1d(3), module.RMSNorm(3),
        ).double()  # fmt: skip

    ours, theirs = model(layers), model(nn)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x, target = sample((6, 1, 8, 8)), torch.arange(6) % 3
    for network in (ours, theirs):
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x), target).backward()
            optimizer.step()
    for key, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[key], value)
    ours.eval(), theirs.eval()
    one = x[:1]
    torch.testing.assert_close(ours(one), theirs(one))
    torch.testing.assert_close(ours(x)[:1], ours(one))


def test_without_running_statistics_by_hand():
    """A known way to have a trained model use the statistics of the batch in eval mode."""
    ours, theirs = twins("BatchNorm1d", 3)
    x, dy = sample((4, 3)), sample((4, 3), 1)
    for layer in (ours, theirs):
        layer.running_mean = layer.running_var = None
    for train in (True, False):
        assert_same_step(ours.train(train), theirs.train(train), x, dy)
    ours, theirs = twins("BatchNorm1d", 3)
    ours.track_running_stats = theirs.track_running_stats = False  # frozen ones
    for train in (True, False):
        assert_same_step(ours.train(train), theirs.train(train), x, dy)


@every_layer
def test_functional_call_and_transforms(name, args, kwargs, shape):
    ours, theirs = twins(name, *args, **kwargs)
    ours.eval(), theirs.eval()  # in train mode neither can move its running statistics
    x = sample(shape)

    def loss(layer):
        def value(parameters, x):
            return torch.func.functional_call(layer, parameters, (x,)).pow(3).sum()

        return value

    parameters = {key: 2 * value.detach() for key, value in theirs.named_parameters()}
    for transform in (
        lambda f: f,
        lambda f: torch.func.grad(f, argnums=(0, 1)),
        lambda f: torch.func.vmap(torch.func.grad(f, argnums=1), in_dims=(None, 0)),
        lambda f: torch.func.jacrev(torch.func.jacrev(f, argnums=1), argnums=1),
    ):
        batch = torch.stack([x, x + 1]) if "vmap" in transform.__code__.co_names else x
        actual = transform(loss(ours))(parameters, batch)
        torch.testing.assert_close(actual, transform(loss(theirs))(parameters, batch))


def test_on_the_meta_device():
    for name, args, kwargs, shape in LAYERS:
        if kwargs.get("momentum", 0) is None:
            continue  # neither can count batches there
        layer = getattr(layers, name)(*args, device="meta", **kwargs)
        assert layer(torch.empty(shape, device="meta")).shape == shape

"""PyTorch's own tools take our norm layers: each by what it does to a model of torch's layers."""

import copy
import warnings

import pytest
import torch
import torch._dynamo.testing
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from normbook import layers

# name, arguments, keyword arguments, the shape of an input
LAYERS = [
    ("BatchNorm1d", (3,), {}, (6, 3)),
    ("BatchNorm1d", (3,), {"momentum": None}, (4, 3, 5)),
    ("BatchNorm2d", (3,), {}, (4, 3, 2, 5)),
    ("BatchNorm2d", (3,), {"affine": False, "track_running_stats": False}, (4, 3, 2, 2)),
    ("GroupNorm", (2, 6), {}, (4, 6, 3, 2)),
    ("GroupNorm", (3, 6), {"bias": False}, (4, 6)),
    ("InstanceNorm1d", (3,), {}, (4, 3, 5)),
    ("InstanceNorm2d", (3,), {"affine": True, "track_running_stats": True}, (4, 3, 2, 3)),
    ("LayerNorm", (5,), {}, (4, 2, 5)),
    ("LayerNorm", ([2, 5],), {"elementwise_affine": False}, (4, 2, 5)),
    ("RMSNorm", (5,), {}, (4, 2, 5)),
]
every_layer = pytest.mark.parametrize(
    ("name", "args", "kwargs", "shape"),
    LAYERS,
    ids=[f"{n}-{i}" for i, (n, *_) in enumerate(LAYERS)],
)
every_name = pytest.mark.parametrize("name", sorted({name for name, *_ in LAYERS}))


def twins(name, args, kwargs, dtype=torch.float64):
    """Ours and torch's, with the same random parameters and running statistics."""
    ours, theirs = (getattr(m, name)(*args, **kwargs, dtype=dtype) for m in (layers, nn))
    with torch.no_grad():
        for value in theirs.state_dict().values():
            if value.is_floating_point():
                value.copy_(0.5 + torch.rand(value.shape))
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def sample(shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


# Inheritance


@every_name
def test_is_torchs_class(name):
    assert issubclass(getattr(layers, name), getattr(nn, name))


@every_layer
def test_resets(name, args, kwargs, shape):
    ours, _ = twins(name, args, kwargs)
    ours(sample(shape))
    ours.reset_parameters()
    fresh = getattr(layers, name)(*args, **kwargs, dtype=torch.float64)
    assert {k: v.tolist() for k, v in ours.state_dict().items()} == {
        k: v.tolist() for k, v in fresh.state_dict().items()
    }


def test_running_statistics_reset_alone():
    layer, _ = twins("BatchNorm1d", (3,), {})
    weight = layer.weight.clone()
    layer.reset_running_stats()
    assert layer.running_mean.tolist() == [0] * 3
    assert layer.running_var.tolist() == [1] * 3
    assert torch.equal(layer.weight, weight)


def test_converted_to_synchronized_batch_norm():
    model = nn.Sequential(nn.Conv2d(1, 3, 1), layers.BatchNorm2d(3, eps=0.1))
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
    assert type(converted) is nn.SyncBatchNorm
    assert converted.eps == 0.1


def test_running_statistics_of_averaged_weights_are_made_anew():
    """Weights 1 and 5 averaged: the statistics must be those of the batch times 3."""
    batch = torch.tensor([[1.0], [2], [3], [6]])

    def model(norm, weight):
        model = nn.Sequential(nn.Linear(1, 1, bias=False), norm(1))
        nn.init.constant_(model[0].weight, weight)
        model(batch)
        return model

    outputs = []
    for norm in (layers.BatchNorm1d, nn.BatchNorm1d):
        averaged = torch.optim.swa_utils.AveragedModel(model(norm, 1.0))
        averaged.update_parameters(model(norm, 1.0))
        averaged.update_parameters(model(norm, 5.0))
        torch.optim.swa_utils.update_bn([batch], averaged)
        outputs.append(averaged.eval()(batch).detach())
    torch.testing.assert_close(*outputs)
    assert outputs[0].var(unbiased=True) == pytest.approx(1, abs=1e-4)


def test_loops_over_norms_find_them():
    model = nn.Sequential(nn.Linear(4, 4), layers.LayerNorm(4), layers.BatchNorm1d(4))
    norms = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)
    decayed = [
        name
        for module_name, module in model.named_modules()
        if not isinstance(module, norms)
        for name, _ in module.named_parameters(module_name, recurse=False)
    ]
    assert decayed == ["0.weight", "0.bias"]


def test_batch_norms_without_running_statistics_for_functorch():
    model = nn.Sequential(layers.BatchNorm1d(3))
    torch.func.replace_all_batch_norm_modules_(model)
    assert model[0].running_mean is None
    x = sample((4, 3), torch.float32)
    assert torch.equal(model.eval()(x), model.train()(x))


# Checkpoints


@pytest.mark.parametrize("momentum", [0.1, None])
def test_recomputed_statistics_move_together(momentum):
    """As the last layer, whose recomputation stops early, and in front of another."""
    for build in (
        lambda: nn.Sequential(layers.BatchNorm1d(1, momentum=momentum)),
        lambda: nn.Sequential(layers.BatchNorm1d(1, momentum=momentum), nn.Linear(1, 1)),
    ):
        model, plain = build(), build()
        x = torch.tensor([[9.0], [11.0]], requires_grad=True)
        checkpoint(model, x, use_reentrant=False).sum().backward()
        seen = int(model[0].num_batches_tracked)
        assert seen in (1, 2)
        for _ in range(seen):
            plain(x)
        for ours, expected in zip(model.buffers(), plain.buffers(), strict=True):
            torch.testing.assert_close(ours, expected)


# Compilers


@every_layer
@pytest.mark.parametrize("train", [True, False])
def test_compiles_to_one_graph(name, args, kwargs, shape, train):
    """Values, gradients and running statistics are those of the layer that isn't compiled."""
    layer, _ = twins(name, args, kwargs)
    twin = copy.deepcopy(layer.train(train))
    torch._dynamo.reset()
    graphs = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, fullgraph=True, backend=graphs)
    results = []
    for model in (compiled, twin):
        x = sample(shape).requires_grad_()
        output = model(x)
        output.backward(sample(shape, seed=1))
        parameters = [p.grad for p in (layer if model is compiled else twin).parameters()]
        results.append([output.detach(), x.grad, *parameters])
    results[0] += list(layer.buffers())
    results[1] += list(twin.buffers())
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    assert graphs.frame_count == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BatchNorm2d", "LayerNorm"])
def test_compiles_to_machine_code(name):
    args, shape = {"BatchNorm2d": ((3,), (4, 3, 5, 5)), "LayerNorm": ((5,), (7, 5))}[name]
    layer, theirs = twins(name, args, {}, torch.float32)
    compiled = torch.compile(layer, fullgraph=True)
    x, y = (sample(shape, torch.float32).requires_grad_() for _ in range(2))
    compiled(x).square().sum().backward()
    theirs(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, atol=1e-4, rtol=1e-4)


@every_layer
def test_exports_with_any_number_of_samples(name, args, kwargs, shape):
    layer = twins(name, args, kwargs)[0].eval()
    samples = torch.export.Dim("samples", min=2, max=1024)
    program = torch.export.export(layer, (sample(shape),), dynamic_shapes=[{0: samples}])
    x = sample((9, *shape[1:]))
    torch.testing.assert_close(program.module()(x), layer(x))


@every_layer
def test_script_is_refused_and_tracing_works(name, args, kwargs, shape):
    layer = twins(name, args, kwargs)[0].eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception, match=r"(?s)."):
            torch.jit.script(layer)
        x = sample(shape)
        traced = torch.jit.trace(layer, x)
    torch.testing.assert_close(traced(2 * x), layer(2 * x))


@every_layer
def test_symbolic_tracing_works_or_raises(name, args, kwargs, shape):
    layer = twins(name, args, kwargs)[0].eval()
    try:
        traced = torch.fx.symbolic_trace(nn.Sequential(layer))
    except (TypeError, torch.fx.proxy.TraceError):
        return
    x = sample(shape)
    torch.testing.assert_close(traced(x), layer(x))


# Derivatives


@every_layer
@pytest.mark.parametrize("train", [True, False])
def test_forward_mode_derivatives(name, args, kwargs, shape, train):
    layer = twins(name, args, kwargs)[0].train(train)
    parameters = dict(layer.named_parameters())

    def f(x, *values):
        # Without the running statistics in train mode: a transform can't move them.
        return torch.func.functional_call(still, dict(zip(parameters, values, strict=True)), x)

    still = copy.deepcopy(layer)
    if train and getattr(still, "track_running_stats", False):
        still.running_mean = still.running_var = still.num_batches_tracked = None
    primals = (sample(shape), *(p.detach() for p in parameters.values()))
    assert torch.autograd.gradcheck(
        f, [p.requires_grad_() for p in primals], check_forward_ad=True, check_backward_ad=False
    )


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "GroupNorm"])
def test_hessian(name):
    ours, theirs = twins(name, (1, 4) if name == "GroupNorm" else (4,), {})
    x, weights = sample((3, 4)), sample((3, 4), seed=1)

    def loss(layer):
        return lambda x: (layer(x) * weights).pow(3).sum()

    expected = torch.autograd.functional.hessian(loss(theirs), x)
    torch.testing.assert_close(torch.func.hessian(loss(ours))(x), expected)
    both = torch.func.jacfwd(torch.func.jacfwd(loss(ours)))(x)
    torch.testing.assert_close(both, expected)


def test_per_sample_gradients_of_large_inputs():
    """Larger than a block, where arrays are written over if nobody looks."""
    layer = layers.LayerNorm(600)
    x = sample((3, 100, 600), torch.float32)

    def loss(weight, x):
        return (
            torch.func.functional_call(layer, {"weight": weight, "bias": layer.bias}, x).sin().sum()
        )

    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(layer.weight.detach(), x)
    for one, own in zip(found, x, strict=True):
        torch.testing.assert_close(one, torch.func.grad(loss)(layer.weight.detach(), own))
    ensemble = torch.stack([layer.weight.detach(), 2 * layer.weight.detach()])
    found = torch.func.vmap(loss, (0, None))(ensemble, x)
    assert found[0] != found[1]


# Numbers


@pytest.mark.parametrize(
    ("name", "args", "x"),
    [
        ("LayerNorm", (7,), torch.full((2, 7), 1000.1)),
        ("LayerNorm", (7,), torch.full((2, 7), 1e8 / 3)),
        ("LayerNorm", (1000,), torch.full((2, 1000), -0.1)),
        ("GroupNorm", (1, 3), torch.full((1, 3, 28, 28), 1000.1)),
        ("GroupNorm", (2, 6), torch.full((2, 6, 56, 56), 1e8 / 3)),
        ("InstanceNorm2d", (3,), torch.full((2, 3, 28, 28), 1000.1)),
        ("BatchNorm2d", (3,), torch.full((4, 3, 28, 28), 1000.1)),
        ("BatchNorm1d", (3,), torch.full((37, 3), 1e8 / 3)),
    ],
)
def test_equal_cells_give_zero_in_float32(name, args, x):
    ours, theirs = (getattr(m, name)(*args)(x).abs().max() for m in (layers, nn))
    assert ours == 0
    assert ours <= theirs


@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm", "BatchNorm1d", "InstanceNorm1d"])
def test_an_overflow_is_no_plausible_number(name):
    """Squares beyond float32: where torch says NaN, so do we, and where it says 0, we say NaN."""
    args = {"LayerNorm": ([6, 5],), "GroupNorm": (1, 6)}.get(name, (6,))
    for shift in (0.0, 3.0):
        x = (sample((4, 6, 5), torch.float32) + shift) * 1e20
        ours, theirs = (getattr(m, name)(*args)(x) for m in (layers, nn))
        assert ours.isnan().all()
        if name in ("LayerNorm", "GroupNorm"):
            assert not (theirs.abs() > 0).any()  # NaN, or 0


def test_running_variance_is_as_exact_as_torchs():
    torch.manual_seed(0)
    off = {}
    x = torch.randn(200, 7, 50)
    exact = x.double().transpose(0, 1).flatten(1).var(1)
    for module in (layers, nn):
        layer = module.BatchNorm1d(50, momentum=None)
        for part in x:
            layer(part)
        means = torch.stack([part.double().var(0) for part in x]).mean(0)
        off[module] = float((layer.running_var.double() - means).abs().max())
    assert exact.shape == (7,)
    assert off[layers] <= 1.5 * off[nn]


# Inputs of other kinds


def test_keyword_of_the_input():
    x = torch.ones(2, 3)
    assert torch.equal(layers.RMSNorm(3)(x=x), layers.RMSNorm(3)(x))
    assert torch.equal(layers.LayerNorm(3)(input=x), layers.LayerNorm(3)(x))
    assert torch.equal(layers.BatchNorm1d(3)(input=x), layers.BatchNorm1d(3)(x))


@every_layer
def test_fake_tensors(name, args, kwargs, shape):
    with FakeTensorMode():
        layer = getattr(layers, name)(*args, **kwargs)
        assert layer(torch.empty(shape)).shape == shape


@every_layer
def test_on_the_meta_device_and_emptied(name, args, kwargs, shape):
    layer = getattr(layers, name)(*args, **kwargs, device="meta")
    assert layer(torch.empty(shape, device="meta")).shape == shape
    layer = layer.to_empty(device="cpu")
    layer.reset_parameters()
    assert layer(torch.rand(shape)).isfinite().all()


def test_nested_tensors_are_refused():
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    with pytest.raises(NotImplementedError, match="LayerNorm is not implemented for a nested"):
        layers.LayerNorm(3)(nested)


def test_running_statistics_under_a_transform():
    """As torch's: they move, or an error says that they can't."""
    for name, kwargs in (("BatchNorm1d", {}), ("InstanceNorm1d", {"track_running_stats": True})):
        outcomes = []
        for module in (layers, nn):
            layer = getattr(module, name)(3, **kwargs, dtype=torch.float64)
            try:
                grad = torch.func.grad(lambda x, layer=layer: layer(x).pow(3).sum())
                outcomes.append((grad(sample((2, 3, 4))), layer.running_mean))
            except RuntimeError as error:
                outcomes.append(str(error))
        ours, theirs = outcomes
        assert isinstance(ours, tuple) or "in-place" in ours or "inplace" in ours, ours
        if isinstance(ours, tuple) and isinstance(theirs, tuple):
            torch.testing.assert_close(ours, theirs)


def test_an_empty_batch_leaves_running_statistics_alone():
    layer = layers.BatchNorm1d(2)
    layer(torch.zeros(0, 2, 3))
    assert layer.running_mean.tolist() == [0, 0]
    assert layer.running_var.tolist() == [1, 1]


def test_a_step_between_forward_and_backward():
    """In eval mode the gradient is that by the statistics which the forward pass took."""
    layer = layers.BatchNorm1d(1, affine=False, dtype=torch.float64).eval()
    x = sample((4, 1)).requires_grad_()
    output = layer(x)
    layer.train()(100 * sample((4, 1)))
    output.sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 1 / (1 + 1e-5) ** 0.5))


def test_cumulative_average_without_a_count():
    layer = layers.BatchNorm1d(2, momentum=None)
    layer.num_batches_tracked = None
    layer(sample((4, 2), torch.float32))
    assert layer.running_mean.tolist() == [0, 0]  # as torch's


def test_running_statistics_of_two_values():
    ours, theirs = twins("InstanceNorm1d", (3,), {"track_running_stats": True})
    ours(sample((4, 3, 2)))
    theirs(sample((4, 3, 2)))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)

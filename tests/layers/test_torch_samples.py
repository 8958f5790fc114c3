"""The norms on the samples by which PyTorch tests its own modules and operators."""

import copy
import os
from dataclasses import dataclass
from functools import cache

import hypothesis
import pytest
import torch
from torch import nn

import outside
import torch_samples
from normbook import layers
from normbook.core.normalize import backward, normalize
from torch_samples import (
    DTYPES,
    IS_PINNED,
    assert_close,
    assert_same,
    load_into_each_other,
    outcome,
    step,
)


def test_the_pinned_version_has_the_samples():
    """Nothing is skipped with it; and their import leaves no trace that other tests would see."""
    before = hypothesis.settings.get_current_profile_name(), hypothesis.settings.default
    environment = dict(os.environ)
    found = len(torch_samples.modules()), len(torch_samples.operators())
    assert not IS_PINNED or found > (100, 500)
    assert (hypothesis.settings.get_current_profile_name(), hypothesis.settings.default) == before
    assert not torch.backends.flags_frozen()
    assert dict(os.environ) == environment


# Modules

# How many samples the pinned version has, each in 2 dtypes, 2 modes, with and without gradients.
MODULES = {
    "BatchNorm1d": 8,
    "BatchNorm2d": 7,
    "GroupNorm": 10,
    "InstanceNorm1d": 6,
    "InstanceNorm2d": 6,
    "LayerNorm": 7,
    "RMSNorm": 6,
}
NO_MODULES = {
    "BatchNorm3d": "the book has no volumes",
    "InstanceNorm3d": "the book has no volumes",
    "LocalResponseNorm": "divides by a sum over neighboring channels: no groups",
}
RAISING = {"BatchNorm1d": 2, "BatchNorm2d": 2, "GroupNorm": 2}


def test_no_module_is_overlooked():
    infos = torch_samples.modules()
    norms = {name for name, info in infos.items() if "Norm" in name and not info.is_lazy}
    assert norms <= {*MODULES, *NO_MODULES}
    assert not [name for name in NO_MODULES if hasattr(layers, name)]
    raising = {name for name in norms if infos[name].module_error_inputs_func}
    assert raising <= {*RAISING, *NO_MODULES}


def made(module, name, constructor, dtype, training):
    layer = getattr(module, name)(*constructor.args, **constructor.kwargs)
    return layer.to(dtype).train(training)


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    """A step in the mode of the sample, then one in eval mode."""
    seen = 0
    for what, dtype, training, sample in torch_samples.module_samples(name):
        ours, theirs = (
            made(module, name, sample.constructor_input, dtype, training) for module in (layers, nn)
        )
        assert repr(ours) == repr(theirs)
        assert_same(ours.state_dict(), theirs.state_dict(), f"{what}, as made")
        load_into_each_other(ours, theirs)
        args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
        for mode in (training, False):
            assert_same(*[step(m.train(mode), *args, **kwargs) for m in (ours, theirs)], what)
        if sample.reference_fn is not None:
            layer = copy.deepcopy(ours)
            expected = sample.reference_fn(layer, *args, **kwargs)
            # That of RMSNorm computes in float32.
            torch.testing.assert_close(ours(*args, **kwargs), expected, rtol=1e-6, atol=1e-6)
        seen += 1
    assert not IS_PINNED or seen == 8 * MODULES[name]


@pytest.mark.parametrize("name", RAISING)
def test_modules_raise(name):
    """The same type of exception where torch raises one, when made or when called."""
    seen = 0
    for what, dtype, training, sample in torch_samples.error_samples(name):
        case = sample.module_error_input
        errors = []
        for module in (layers, nn):
            with outcome() as error:
                layer = made(module, name, case.constructor_input, dtype, training)
                layer(*case.forward_input.args, **case.forward_input.kwargs)
            errors.append(error)
        ours, theirs = errors
        if training:
            assert theirs.type is sample.error_type, what
        assert ours.type is theirs.type, f"{what}: {ours.value!r} instead of {theirs.value!r}"
        seen += 1
    assert not IS_PINNED or seen == 4 * RAISING[name]


# Operators


@dataclass
class Call:
    """What an operator was called with, in the words of `normalize` and of a layer."""

    scheme: object
    gamma: torch.Tensor | None = None
    beta: torch.Tensor | None = None
    eps: float = 1e-5
    stored: tuple | None = None  # the running mean and variance
    use_stored: bool = False  # in place of the input's own
    layer: nn.Module | None = None

    @property
    def running(self):
        return self.stored if self.use_stored else None


def batch_norm(x, mean, var, gamma, beta, training=False, momentum=0.1, eps=1e-5):
    rank = x.dim()
    make = {2: layers.BatchNorm1d, 3: layers.BatchNorm1d, 4: layers.BatchNorm2d}[rank]
    layer = make(x.shape[1], eps, momentum, track_running_stats=mean is not None)
    stored = None if mean is None else (mean, var)
    return Call(outside.batch(rank), gamma, beta, eps, stored, not training, layer)


def native_batch_norm(x, gamma, beta, mean, var, training, momentum, eps):
    return batch_norm(x, mean, var, gamma, beta, training, momentum, eps)


def native_batch_norm_legit(x, gamma, beta, *rest):
    *stored, training, momentum, eps = rest
    return batch_norm(x, *(stored or (None, None)), gamma, beta, training, momentum, eps)


def batch_norm_with_update(x, gamma, beta, mean, var, momentum, eps):
    return batch_norm(x, mean, var, gamma, beta, True, momentum, eps)


def instance_norm(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
    momentum=0.1, eps=1e-5,
):  # fmt: skip
    make = {3: layers.InstanceNorm1d, 4: layers.InstanceNorm2d}[x.dim()]
    tracked = running_mean is not None
    stored = (running_mean, running_var) if tracked else None
    layer = make(x.shape[1], eps, momentum, track_running_stats=tracked)
    scheme = outside.instance(x.dim())
    return Call(scheme, weight, bias, eps, stored, not use_input_stats, layer)


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    layer = layers.GroupNorm(groups, x.shape[1], eps)
    return Call(outside.group(x.dim(), groups), weight, bias, eps, layer=layer)


def native_group_norm(x, weight, bias, n, channels, cells, groups, eps):
    assert (n, channels, n * channels * cells) == (*x.shape[:2], x.numel())
    return group_norm(x, groups, weight, bias, eps)


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    scheme = outside.last_axes(x.dim(), x.dim() - len(shape))
    return Call(scheme, weight, bias, eps, layer=layers.LayerNorm(shape, eps))


def rms_norm(x, shape, weight=None, eps=None):
    scheme = outside.last_axes(x.dim(), x.dim() - len(shape), centered=False)
    layer = layers.RMSNorm(shape, eps)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    return Call(scheme, weight, None, eps, layer=layer)


# How a call is read, and how many samples the pinned version has, each in 2 dtypes.
OPERATORS = {
    "_batch_norm_with_update": (batch_norm_with_update, 9),
    "_native_batch_norm_legit": (native_batch_norm_legit, 10),
    "native_batch_norm": (native_batch_norm, 10),
    "native_group_norm": (native_group_norm, 21),
    "native_layer_norm": (layer_norm, 20),
    "nn.functional.batch_norm": (batch_norm, 12),
    "nn.functional.batch_norm without_cudnn": (batch_norm, 12),
    "nn.functional.group_norm": (group_norm, 21),
    "nn.functional.instance_norm": (instance_norm, 9),
    "nn.functional.layer_norm": (layer_norm, 6),
    "nn.functional.rms_norm": (rms_norm, 6),
}
# Those with "norm" in their name that normalize no groups of cells by their mean square.
NO_OPERATORS = {
    "linalg.matrix_norm", "linalg.norm", "linalg.norm subgradients_at_zero", "linalg.vector_norm",
    "log_normal", "masked.norm", "masked.normalize", "nn.functional.local_response_norm",
    "nn.functional.normalize", "norm", "norm fro", "norm inf", "norm nuc", "normal",
    "normal in_place", "normal number_mean", "renorm",
}  # fmt: skip


def test_no_operator_is_overlooked():
    norms = {name for name in torch_samples.operators() if "norm" in name}
    assert norms <= {*OPERATORS, *NO_OPERATORS}


@dataclass
class Sample:
    """A sample of an operator, and what torch computes of it."""

    what: str
    x: torch.Tensor
    call: Call
    outputs: tuple
    moved: tuple | None  # the running statistics afterwards
    dy: torch.Tensor
    gradients: dict

    def leaves(self):
        """x, gamma and beta by name, those that there are."""
        leaves = {"x": self.x, "gamma": self.call.gamma, "beta": self.call.beta}
        return {name: leaf for name, leaf in leaves.items() if leaf is not None}


def copied(pair):
    return pair and tuple(value.clone() for value in pair)


@cache
def operator_samples(name):
    """The samples in either dtype, without those that have no axis of channels."""
    op, (read, number) = torch_samples.operator(name), OPERATORS[name]
    seen, results = 0, []
    for dtype in DTYPES:
        torch.manual_seed(0)
        for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
            seen += 1
            x, args, kwargs = sample.input, sample.args, sample.kwargs
            if read is batch_norm and x.shape == (0,):
                continue
            call = read(x, *args, **kwargs)
            call.stored = copied(call.stored)  # which the operator moves in place
            outputs = op(x, *args, **kwargs)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            moved = copied(read(x, *args, **kwargs).stored)
            what = f"{name}, sample {i}, {dtype}, x of shape {tuple(x.shape)}"
            result = Sample(what, x, call, outputs, moved, torch.randn_like(outputs[0]), {})
            leaves = result.leaves()
            gradients = torch.autograd.grad(outputs[0], leaves.values(), result.dy)
            result.gradients = dict(zip(leaves, gradients, strict=True))
            if read is layer_norm and call.scheme.group_size(x.shape) == 1 and "gamma" in leaves:
                # A lone cell is its own mean, which leaves nothing to scale; torch's layer norm
                # subtracts after it has multiplied by 1 / sqrt(eps), and is off by rounding.
                assert result.gradients["gamma"].abs().max() < 1e-3
                result.gradients["gamma"] = torch.zeros_like(call.gamma)
            results.append(result)
    assert not IS_PINNED or seen == 2 * number
    return results


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    """By `normalize` and `backward`, of tensors and of numpy arrays."""
    for sample in operator_samples(name):
        call, what = sample.call, sample.what
        if call.eps < 0:  # torch computes what it can
            with pytest.raises(ValueError, match="eps"):
                normalize(sample.x, call.scheme, call.gamma, call.beta, call.eps)
            continue
        for convert in (torch.Tensor.detach, lambda value: value.detach().numpy()):
            values = {name: convert(leaf) for name, leaf in sample.leaves().items()}
            running = call.running and tuple(map(convert, call.running))
            given = {"scheme": call.scheme, "eps": call.eps, "running": running}
            output, own = normalize(**values, **given)
            assert_close(torch.as_tensor(output), sample.outputs[0].detach(), what)
            values.pop("beta", None)
            closed = backward(convert(sample.dy), **values, **given)._asdict()
            ours = {name: torch.as_tensor(closed[name]) for name in sample.gradients}
            assert_same(ours, sample.gradients, f"{what}, closed form")
            # The native operators return the mean and the inverse deviation, too.
            if len(sample.outputs) > 1 and sample.outputs[1].numel():
                used = own.mean, (own.var + call.eps) ** -0.5
                for ours, theirs in zip(used, sample.outputs[1:3], strict=True):
                    assert_close(torch.as_tensor(ours).flatten(), theirs.flatten(), what)


@pytest.mark.parametrize("name", OPERATORS)
def test_autograd_of_operators(name):
    for sample in operator_samples(name):
        call, leaves = sample.call, sample.leaves()
        if call.eps >= 0:
            output = normalize(
                **leaves, scheme=call.scheme, eps=call.eps, running=call.running
            ).output
            gradients = torch.autograd.grad(output, leaves.values(), sample.dy)
            assert_same(dict(zip(leaves, gradients, strict=True)), sample.gradients, sample.what)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_by_layers(name):
    for sample in operator_samples(name):
        call, x = sample.call, sample.x.detach().requires_grad_()
        layer = call.layer.train(not call.use_stored)
        for key, value in (("weight", call.gamma), ("bias", call.beta)):
            setattr(layer, key, None if value is None else nn.Parameter(value.detach()))
        if call.stored is not None:
            layer.running_mean, layer.running_var = (value.clone() for value in call.stored)
        output = layer(x)
        assert_close(output, sample.outputs[0], sample.what)
        output.backward(sample.dy)
        gradients = {"x": x, "gamma": layer.weight, "beta": getattr(layer, "bias", None)}
        ours = {name: gradients[name].grad for name in sample.gradients}
        assert_same(ours, sample.gradients, sample.what)
        if call.stored is not None:
            for ours, theirs in zip(
                (layer.running_mean, layer.running_var), sample.moved, strict=True
            ):
                assert_close(ours, theirs, sample.what)


@pytest.mark.parametrize(
    ("name", "number"),
    {"native_layer_norm": 4, "nn.functional.group_norm": 2, "nn.functional.rms_norm": 3}.items(),
)
def test_operators_raise(name, number):
    """The layers raise what the operators do, of a parameter with a wrong shape, too."""
    op = torch_samples.operator(name)
    seen = 0
    for error in op.error_inputs("cpu"):
        x, (first, *rest) = error.sample_input.input, error.sample_input.args
        with pytest.raises(error.error_type):
            op(x, first, *rest)
        if name == "nn.functional.group_norm":
            layer = layers.GroupNorm(first, first, affine=False)
        else:
            make = layers.RMSNorm if name == "nn.functional.rms_norm" else layers.LayerNorm
            layer = make(first, elementwise_affine=False)
        for key, value in zip(("weight", "bias"), rest[:-1], strict=False):
            setattr(layer, key, None if value is None else nn.Parameter(value))
        with pytest.raises(error.error_type):
            layer(x)
        seen += 1
    assert not IS_PINNED or seen == number

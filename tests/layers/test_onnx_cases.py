"""The backend test cases of ONNX's norm operators, by `normalize` and by the layers.

Each operator is a scheme, its attributes say which. The inputs and the expected outputs are those
that come with the package onnx, and so is the tolerance.
"""

import importlib
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import outside
from normbook import layers
from normbook.core.normalize import normalize

# The operators, the number of their cases, and the module of onnx that defines them.
OPERATORS = {
    "BatchNormalization": (4, "batch_normalization"),
    "GroupNormalization": (2, "groupnormalization"),
    "InstanceNormalization": (2, "instance_normalization"),
    "LayerNormalization": (19, "layernormalization"),
    "MeanVarianceNormalization": (1, "meanvariancenormalization"),
    "RMSNormalization": (19, "rmsnormalization"),
}
# Those whose name sounds like a norm's, and why they are left out.
LEFT_OUT = {
    "LpNormalization": "divides by the length of a vector: no statistics, no eps",
    "Normalizer": "of ai.onnx.ml: divides a row by its maximum, sum or length",
    "StringNormalizer": "changes letters to upper or lower case",
}
every_operator = pytest.mark.parametrize("operator", OPERATORS)


@cache
def load():
    """All cases of the modules above, by name. Importing a module makes its cases."""
    from onnx.backend.test.case import node

    state = np.random.get_state()  # each module seeds numpy's generator
    for _, module in OPERATORS.values():
        importlib.import_module(f"{node.__name__}.{module}")
    np.random.set_state(state)
    return {case.name: case for case in node._NodeTestCases}


def operators_in(case):
    return {node.op_type for node in case.model.graph.node}


def cases_of(operator):
    """Name, attributes, inputs, expected outputs and tolerances of each case of an operator."""
    from onnx.helper import get_attribute_value

    for name, case in load().items():
        if operators_in(case) == {operator}:
            (node,) = case.model.graph.node
            attributes = {a.name: get_attribute_value(a) for a in node.attribute}
            ((inputs, outputs),) = case.data_sets
            yield name, attributes, inputs, outputs, {"rtol": case.rtol, "atol": case.atol}


def test_no_operator_is_overlooked():
    """Neither in the specification nor among the modules with cases."""
    from onnx import defs
    from onnx.backend.test.case import node

    specified = {schema.name for schema in defs.get_all_schemas() if "Normaliz" in schema.name}
    assert specified == {*OPERATORS, *LEFT_OUT}
    tested = {}
    for path in Path(node.__file__).parent.glob("*.py"):
        for name in re.findall(r'"(\w*(?:Normaliz|Norm\b)\w*)"', path.read_text(encoding="utf8")):
            tested.setdefault(name, set()).add(path.stem)
    assert set(tested) <= specified and set(tested) >= {*OPERATORS}
    for operator, (_, module) in OPERATORS.items():
        assert tested[operator] == {module}


def test_no_case_is_overlooked():
    """Every case of the modules is one of an operator, or such a one in simpler operators."""
    for name, case in load().items():
        if operators_in(case) & {*OPERATORS}:
            assert len(case.model.graph.node) == 1, name
            continue
        original, _, rest = name.partition("_expanded")
        assert rest in ("", "_ver18"), name
        pair = case.data_sets[0], load()[original].data_sets[0]
        for numbers, originals in zip(*pair, strict=True):  # the inputs, then the outputs
            for one, other in zip(numbers, originals, strict=True):
                np.testing.assert_array_equal(one, other)
    counts = {operator: len([*cases_of(operator)]) for operator in OPERATORS}
    assert counts == {operator: number for operator, (number, _) in OPERATORS.items()}


# Each operator takes its attributes out of a dictionary, which must be empty in the end, and its
# inputs, as arrays of either library. The defaults are those of ONNX's specification.


def batch_normalization(attributes, x, scale, bias, mean, var):
    eps, momentum = attributes.pop("epsilon", 1e-5), attributes.pop("momentum", 0.9)
    scheme = outside.batch(x.ndim)
    if not attributes.pop("training_mode", 0):
        return [normalize(x, scheme, scale, bias, eps, running=(mean, var)).output]
    output, own = normalize(x, scheme, scale, bias, eps)
    # The momentum is the weight of the old value, and the variance that is stored the biased one.
    new = [momentum * old + (1 - momentum) * now for old, now in ((mean, own.mean), (var, own.var))]
    return [output, *new]


def group_normalization(attributes, x, scale, bias):
    scheme = outside.group(x.ndim, attributes.pop("num_groups"))
    return [normalize(x, scheme, scale, bias, attributes.pop("epsilon", 1e-5)).output]


def instance_normalization(attributes, x, scale, bias):
    eps = attributes.pop("epsilon", 1e-5)
    return [normalize(x, outside.instance(x.ndim), scale, bias, eps).output]


def layer_normalization(attributes, x, scale, bias):
    axis, eps = attributes.pop("axis", -1) % x.ndim, attributes.pop("epsilon", 1e-5)
    output, (mean, var, _) = normalize(x, outside.last_axes(x.ndim, axis), scale, bias, eps)
    shape = (*x.shape[:axis], *[1] * (x.ndim - axis))
    return [output, mean.reshape(shape), ((var + eps) ** -0.5).reshape(shape)]


def rms_normalization(attributes, x, scale):
    axis, eps = attributes.pop("axis", -1) % x.ndim, attributes.pop("epsilon", 1e-5)
    return [normalize(x, outside.last_axes(x.ndim, axis, centered=False), scale, eps=eps).output]


def mean_variance_normalization(attributes, x):
    assert attributes.pop("axes", [0, 2, 3]) == [0, 2, 3]
    # 1e-9 is added to the standard deviation, not to the variance: no eps comes closer than 0.
    return [normalize(x, outside.batch(x.ndim), eps=0.0).output]


NORMALIZE = {
    "BatchNormalization": batch_normalization,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "RMSNormalization": rms_normalization,
}


def assert_equal(what, actual, expected, tolerances):
    """All outputs, of the expected dtype, within the case's tolerances and within float32's."""
    assert len(actual) == len(expected), what
    for i, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        ours = np.asarray(ours)
        assert ours.dtype == theirs.dtype, what
        for tolerance in (tolerances, {"rtol": 1e-5, "atol": 1e-6}):
            np.testing.assert_allclose(ours, theirs, **tolerance, err_msg=f"{what}, output {i}")


@every_operator
@pytest.mark.parametrize("convert", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_normalize(operator, convert):
    for name, attributes, inputs, outputs, tolerances in cases_of(operator):
        actual = NORMALIZE[operator](attributes, *map(convert, inputs))
        assert not attributes, f"{name}: {[*attributes]} had no effect"
        assert_equal(name, actual, outputs, tolerances)


@every_operator
def test_normalize_in_float64(operator):
    """What is left are the errors of the expected outputs, which were computed in float32."""
    for name, attributes, inputs, outputs, tolerances in cases_of(operator):
        actual = NORMALIZE[operator](attributes, *[a.astype(np.float64) for a in inputs])
        assert_equal(name, [a.astype(np.float32) for a in actual], outputs, tolerances)


def layer_of(operator, attributes, x):
    """Our layer for the operator; MeanVarianceNormalization is a batch norm without parameters."""
    eps = attributes.get("epsilon", 1e-5)
    if operator == "BatchNormalization":
        make = layers.BatchNorm2d if x.ndim == 4 else layers.BatchNorm1d
        layer = make(x.shape[1], eps, 1 - attributes.get("momentum", 0.9))
        return layer.train(attributes.get("training_mode") == 1)
    if operator == "GroupNormalization":
        return layers.GroupNorm(attributes["num_groups"], x.shape[1], eps)
    if operator == "InstanceNormalization":
        make = layers.InstanceNorm2d if x.ndim == 4 else layers.InstanceNorm1d
        return make(x.shape[1], eps, affine=True)
    if operator == "MeanVarianceNormalization":
        return layers.BatchNorm2d(x.shape[1], 1e-12, affine=False, track_running_stats=False)
    make = layers.LayerNorm if operator == "LayerNormalization" else layers.RMSNorm
    return make(x.shape[attributes.get("axis", -1) % x.ndim :], eps)


@every_operator
def test_layers(operator):
    for name, attributes, inputs, outputs, tolerances in cases_of(operator):
        x, *values = map(torch.tensor, inputs)
        layer = layer_of(operator, attributes, x)
        names = ("weight", "bias", "running_mean", "running_var")
        layer.load_state_dict(layer.state_dict() | dict(zip(names, values, strict=False)))
        assert_equal(name, [layer(x).detach()], outputs[:1], tolerances)
        if operator == "BatchNormalization" and layer.training:
            _, mean, var = outputs
            # Ours stores the unbiased variance: m / (m - 1) of the batch's, by its weight.
            m, old = x.numel() / x.shape[1], inputs[4]
            weight = layer.momentum
            new = (var - (1 - weight) * old) / weight
            expected = ((1 - weight) * old + weight * new * m / (m - 1)).astype(np.float32)
            stored = [layer.running_mean, layer.running_var]
            assert_equal(name, stored, [mean, expected], tolerances)

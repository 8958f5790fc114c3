"""The front end of SharedStatistics without a browser: its numbers, its lines, and its door."""

import itertools
import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from anywidget import AnyWidget
from py_mini_racer import JSEvalException, MiniRacer

import normbook.widgets
import widget_golden
from calculator import check_formulas, run, value_of
from new_schemes import NEW_CASES
from normbook.core.scheme import (
    BATCH_NORM_2D,
    GROUP_NORM,
    LAYER_NORM,
    LAYERS,
    MORE_LAYERS,
    layout_of,
)
from normbook.data.examples import FEATURE_MAPS
from normbook.widgets import SharedStatistics
from normbook.widgets.join import join

FRONT = Path(normbook.widgets.__file__).parent / "shared_statistics_front"


@pytest.fixture(scope="module")
def call():
    """Calls a function of the front end: its name, or an expression."""
    with MiniRacer() as engine:
        engine.eval(f"{join(FRONT / 'state.js')};0")

        def call(function, *arguments):
            listed = json.dumps(arguments, allow_nan=False)
            plain = "(_, v) => (ArrayBuffer.isView(v) ? Array.from(v) : v)"
            result = engine.eval(f"JSON.stringify(({function})(...{listed}), {plain})")
            return json.loads(result)

        yield call


COMPUTE = """({ scheme, shape, x, gamma, beta, dy, mask, running }, eps, momentum) => {
    const groups = groupsOf(scheme, shape, mask);
    const own = moments(x, groups, scheme.centered);
    const used = running ? { mean: running[0], variance: running[1] } : own;
    const params = numbering(scheme, scheme.params, shape);
    const layer = { eps, gamma, beta, params, centered: scheme.centered, constant: !!running };
    const start = (v) => Array(groups.size).fill(v);
    const tracked = track({ mean: start(0), variance: start(1) }, own, momentum);
    return {
        groups: groups.of, ...own, tracked: [tracked.mean, tracked.variance],
        output: normalize(x, groups, used, layer), dx: backward(dy, x, groups, used, layer),
    };
}"""
GOLDEN = json.loads(widget_golden.GOLDEN.read_text(encoding="utf8"))


@pytest.mark.parametrize("entry", GOLDEN["entries"], ids=lambda entry: entry["name"])
def test_the_arithmetic_is_pytorchs(call, entry):
    found = call(COMPUTE, entry, GOLDEN["eps"], GOLDEN["momentum"])
    if entry["mask"]:
        del found["groups"]  # -1 where it hides
    if not entry["tracked"]:
        del found["tracked"]
    for key, values in found.items():
        np.testing.assert_allclose(values, entry[key], rtol=1e-9, atol=1e-9, err_msg=key)


SCHEMES = pytest.mark.parametrize(
    "scheme",
    (*LAYERS, *MORE_LAYERS, *(case.described for case in NEW_CASES)),
    ids=lambda scheme: f"{scheme.name} {scheme.cells}",
)


@SCHEMES
def test_the_lines_of_code_are_the_schemes_own(call, scheme):
    scheme = scheme.with_lengths(g=2) if "g" in scheme.axes else scheme
    shape = {5: (2, 3, 2, 2, 2), 4: (2, 4, 3, 5), 3: (2, 3, 4), 2: (3, 5)}[len(scheme.tokens)]
    for eps in (1e-5, 1e-3, 1e-12, 0.0, 1.0):
        for masked in (False, True):
            lines = call("code", asdict(scheme), shape, {"eps": eps, "masked": masked})
            assert lines["numpy"] == scheme.numpy(shape, eps, masked)
            assert lines["torch"] == scheme.pytorch(shape, eps, masked)


def test_formulas_evaluate_to_what_they_show(call):
    rng = np.random.default_rng(0)
    for trial in range(200):
        scale = 10.0 ** rng.integers(-6, 7)
        cells = (rng.normal(rng.integers(-3, 4), 1, rng.integers(1, 9)) * scale).tolist()
        if trial % 3 == 0:
            cells = [round(c) for c in cells]
        x, centered = cells[0], bool(trial % 4)
        mean = float(np.mean(cells)) if centered else 0.0
        given = {
            "x": x, "cells": cells, "mean": mean,
            "variance": float(np.mean((np.array(cells) - mean) ** 2)),
            "eps": [1e-5, 0.5, 1e-12][trial % 3], "centered": centered, "constant": trial % 5 == 0,
            "gamma": float(rng.normal()), "beta": float(rng.normal()),
        }  # fmt: skip
        lines = call("formulas", given)
        check_formulas({key: line.split(" = ")[1:] for key, line in lines.items()})
        hat = (x - mean) / math.sqrt(given["variance"] + given["eps"])
        assert value_of(lines["normalized"].split(" = ")[-1]) == pytest.approx(
            hat, rel=1e-5, abs=1e-6
        )


@pytest.mark.parametrize(
    ("value", "decimals", "shown"),
    [
        (0.1 + 0.2, 6, "0.3"), (1 / 3, 6, "0.333333"), (-2.5, 6, "−2.5"), (-1e-9, 2, "−1e-9"),
        (123456.7, 2, "1e5"), (-0.004, 2, "−4e-3"), (-0.005, 2, "−0.01"), (3, 1, "3"),
        (2 / 3, 1, "0.7"), (99999, 2, "99999"),
    ],
)  # fmt: skip
def test_numbers_are_written_briefly(call, value, decimals, shown):
    assert call("brief", value, decimals) == shown


@pytest.mark.parametrize(
    "scheme", LAYERS + MORE_LAYERS, ids=lambda scheme: f"{scheme.name} {scheme.cells}"
)
def test_refuses_where_pytorch_does_in_its_words(call, scheme):
    refused = 0
    for shape in itertools.product((1, 2), repeat=len(layout_of(scheme).split())):
        for groups in {1, shape[1]} if "g" in scheme.axes else {None}:
            layer = scheme.with_lengths(g=groups) if groups else scheme
            for eps in (1e-5, 0.0):
                try:
                    run(layer.pytorch(shape, eps), torch.zeros(shape, dtype=float))
                    expected = ""
                except ValueError as error:
                    expected = f"ValueError: {error}"
                shown = call("refusal", asdict(layer), shape, layer.group_size(shape), eps)
                assert shown == expected, (shape, eps)
                refused += bool(expected)
    assert bool(refused) == (bool(scheme.running) or scheme.name.startswith("GroupNorm"))


# The door


# One state after another that the model holds, and the one that is taken each time.
TAKE = """(...states) => {
    let held = states[0];
    const state = new State({ get: (key) => held[key] }, () => {});
    return states.map((next) => {
        held = next;
        let refusal = "";
        try { state.take(); } catch (error) { refusal = `${error}`; }
        return [refusal, state.given];
    });
}"""


@pytest.fixture(scope="module")
def valid():
    """A state as a page holds it."""
    widget = SharedStatistics(
        FEATURE_MAPS.x, BATCH_NORM_2D, mode="eval", running_mean=[1, 2, 3], running_var=[1, 2, 3],
        gamma=[1, 2, 3], beta=[1, 2, 3], mask=np.ones(FEATURE_MAPS.shape), batches=[1, 1, 1],
        goal={"ask": "Which?"}, prompt={"cell": (0, 0, 0, 1), "value": 5}, label="maps",
    )  # fmt: skip
    names = set(SharedStatistics.class_traits(sync=True)) - set(AnyWidget.class_traits())
    return json.loads(json.dumps(widget.get_state(names)))


def tensor(shape, value):
    return {"shape": shape, "data": [value] * math.prod(shape)}


WRONG = {
    "values": [None, [], tensor([2, 3, 5, 4], 1), tensor([2, 3, 5, 5], "1"), tensor([3], 1)],
    "scheme": [{}, asdict(LAYER_NORM), asdict(GROUP_NORM.with_lengths(g=2))],
    "mask": [tensor([2, 3, 5, 5], 2), tensor([2, 3], 1), 1],
    "selection": [[0, 0, 0], [0, 0, 0, 5], [0, 0, 0, 0.5], "none"],
    "eps": [-1, "0.5", None],
    "gamma": [tensor([2], 1), tensor([3], None), [1, 2, 3]],
    "beta": [tensor([2], 1)],
    "running_mean": [tensor([2], 1), tensor([3], "x")],
    "running_var": [tensor([3], -1)],
    "batches": [[-1, 1, 1], None, [0.5]],
    "momentum": [2, "0.1"],
    "batch": [0, 3, 1.5],
    "mode": ["test", ["eval"]],
    "view": ["gradients", None],
    "share": ["cells"],
    "upstream": ["1", None],
    "layers": [None, [{}]],
    "named": [[asdict(LAYER_NORM)]],
    "cells": ["n c h", 4],
    "label": [None, ["maps"]],
    "controls": [[1], None],
    "prompt": [{}, {"cell": [0], "value": 1}, {"cell": [0, 0, 0, 0], "value": "1"}],
    "goal": [{}, {"ask": 1}],
    "next": [1],
    "words": [{}, {"axes": {"n": 1}}],
    "looks": [[], [["#000", 1]]],
}


def test_every_trait_is_looked_at(call, valid):
    ((refusal, given),) = call(TAKE, valid)
    assert refusal == ""
    assert given == valid
    assert valid.keys() == WRONG.keys()


@pytest.mark.parametrize("trait", WRONG)
def test_what_does_not_fit_is_named_and_what_was_stays(call, valid, trait):
    for value in WRONG[trait]:
        _, (refusal, given), after = call(TAKE, valid, valid | {trait: value}, valid)
        shown = json.dumps(value, separators=(",", ":"))[:90]
        assert refusal.startswith(f"TypeError: {trait} is {shown}"), refusal
        assert refusal.endswith(", which doesn't fit")
        assert given == valid
        assert after == ["", valid]
        with pytest.raises(JSEvalException, match=r"TypeError: \w+ is .*, which doesn't fit"):
            call(TAKE, valid | {trait: value})

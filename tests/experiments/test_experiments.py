"""The experiments of the book: their records are those of the present code, and come out again."""

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from helpers import ROOT
from normbook.data import Dataset
from normbook.experiments import NAMES, mlp_layer_norm
from normbook.experiments.code_hash import reached
from normbook.experiments.models import (
    NORMS_1D,
    NORMS_2D,
    ChannelLayerNorm,
    cnn,
    mlp,
    values_per_statistic,
)
from normbook.experiments.records import FOLDER, Experiment
from normbook.layers.norms import LayerNorm

EXPERIMENTS = [Experiment(f"normbook.experiments.{name}") for name in NAMES]


def by_name(argument):
    return argument.name


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=by_name)
def test_records_are_of_the_present_code(experiment):
    rows = experiment.records()
    configurations = experiment.configurations()
    recorded = {tuple(row[key] for key in configurations[0]) for row in rows}
    assert recorded == {tuple(config.values()) for config in configurations}
    assert experiment.pending() == []


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=by_name)
def test_a_sample_comes_out_again(experiment):
    differences = [line for config in experiment.sample() for line in experiment.check(config)]
    assert differences == []


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=by_name)
def test_arms_are_paired(experiment):
    """At least ten seeds, the same for each arm."""
    seeds = {}
    for config in experiment.configurations():
        arm = tuple(value for key, value in config.items() if key != "seed")
        seeds.setdefault(arm, []).append(config["seed"])
    assert len(seeds) > 1
    assert all(len(set(own)) == len(own) >= 10 for own in seeds.values())
    assert len({tuple(sorted(own)) for own in seeds.values()}) == 1


def test_every_record_has_its_experiment():
    assert {path.stem for path in FOLDER.iterdir()} <= set(NAMES)


def test_all_records_together_take_an_hour_at_most():
    assert sum(experiment.seconds() for experiment in EXPERIMENTS) < 3600


# Prints the definitions of the book that a run enters, each as its module and the line it is on.
PROFILE = """
import sys
from pathlib import Path
import normbook
from normbook.experiments.records import Experiment
experiment, seen, entered = Experiment({module!r}), set(), set()
experiment.configurations()  # imports it all
home = Path(normbook.__file__).parent
def note(frame, event, argument):
    code = frame.f_code
    if event != "call" or code in seen:
        return
    seen.add(code)
    path = Path(code.co_filename)
    if code.co_name != "<module>" and path.is_relative_to(home):
        entered.add((path.relative_to(home), code.co_firstlineno))
sys.setprofile(note)
experiment.run({config!r})
sys.setprofile(None)
for path, line in entered:
    print(".".join(["normbook", *path.with_suffix("").parts]), line)
"""


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=by_name)
def test_the_hash_covers_what_runs(experiment):
    """Every function of the book that a run enters counts, but for the one that starts it."""
    config = next(iter(experiment.sample(0.0)))
    script = PROFILE.format(module=experiment.module, config=config)
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    entered = {tuple(line.split()) for line in output.stdout.splitlines()}
    covered = reached(experiment.module, "run", "CONFIGURATIONS")
    assert len(entered) > 5
    for module, line in entered:
        tree = ast.parse(Path(find_spec(module).origin).read_text("utf8"))
        (statement,) = (
            node for node in tree.body if _first_line(node) <= int(line) <= node.end_lineno
        )
        if module != "normbook.experiments.records":
            names = {name for where, name in covered if where == module}
            assert names & set(_bound_by(statement)), f"{module}:{line}"


def _first_line(node):
    return min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", ()))])


def _bound_by(statement):
    if hasattr(statement, "name"):
        return [statement.name]
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=by_name)
def test_records_are_of_the_pinned_versions(experiment):
    """After a change of a pin, the records are to be verified."""
    lines = (ROOT / "requirements.txt").read_text("utf8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and ";" not in line)
    recorded = experiment.versions()
    for name in ("torch", "numpy"):
        assert recorded[name].partition("+")[0] == pins[name]


def test_reading_records_needs_no_torch():
    script = (
        "import sys; from normbook.experiments.records import records;"
        f"records({NAMES[0]!r}); print('torch' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "False"


@pytest.mark.slow
def test_a_run_in_another_process_is_the_same():
    """With other settings for threads, as well."""
    experiment = EXPERIMENTS[0]
    config = next(iter(experiment.sample(0.0)))
    script = (
        "from normbook.experiments.records import Experiment;"
        f"print(Experiment({experiment.module!r}).run({config!r}))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"OMP_NUM_THREADS": threads},
        ).stdout.strip()
        for threads in ("1", "2")
    }
    assert outputs == {str(experiment.run(config))}


def test_unknown_experiment():
    command = [sys.executable, "-m", "normbook.experiments", "forgotten"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 2
    assert "there is no experiment forgotten" in process.stderr


@pytest.mark.parametrize("norm", NORMS_1D)
def test_mlp(norm):
    model = mlp(norm, inputs=6, width=8, depth=3)
    assert [type(layer).__name__ for layer in model[1:4]] == [
        "Linear",
        type(NORMS_1D[norm](8)).__name__,
        "ReLU",
    ]
    assert len(model) == 1 + 3 * 3 + 1
    assert model(torch.randn(5, 1, 2, 3)).shape == (5, 10)


def test_mlp_with_the_norm_last():
    kinds = [type(layer) for layer in mlp("layer", last=True)]
    assert kinds == [nn.Flatten, *[nn.Linear, nn.ReLU, nn.LayerNorm] * 2, nn.Linear]


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("norm", NORMS_2D)
def test_cnn(norm, pool):
    model = cnn(norm, strides=(1, 2, 1), pool=pool)
    assert model(torch.randn(5, 1, 8, 8)).shape == (5, 10)
    assert model[-1].in_features == (32 if pool else 32 * 4 * 4)
    assert sum(isinstance(layer, nn.Conv2d) for layer in model) == 3


def test_all_arms_begin_with_the_same_weights():
    def weights(norm):
        torch.manual_seed(3)
        model = cnn(norm, strides=(1, 2))
        return [layer.weight for layer in model if isinstance(layer, nn.Conv2d | nn.Linear)]

    reference = weights("none")
    for norm in NORMS_2D:
        assert all(map(torch.equal, weights(norm), reference))


def test_he_initialization():
    torch.manual_seed(0)
    first, hidden, last = (
        layer for layer in mlp("none", inputs=400, width=900) if isinstance(layer, nn.Linear)
    )
    assert float(first.weight.detach().std()) == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert float(hidden.weight.detach().std()) == pytest.approx((2 / 900) ** 0.5, rel=0.02)
    assert float(last.weight.detach().std()) == pytest.approx((1 / 900) ** 0.5, rel=0.05)
    assert not any(layer.bias.any() for layer in (first, hidden, last))


def test_default_initialization():
    torch.manual_seed(0)
    hidden = mlp("none", width=900, init="default")[4]
    assert float(hidden.weight.detach().std()) == pytest.approx((1 / (3 * 900)) ** 0.5, rel=0.02)
    assert float(hidden.bias.detach().abs().max()) == pytest.approx(1 / 30, rel=0.05)


def test_unknown_initialization():
    with pytest.raises(ValueError, match="init is 'xavier'; expected 'he' or 'default'"):
        mlp("none", init="xavier")


def test_channel_layer_norm_is_that_of_the_book():
    x = torch.randn(2, 5, 3, 4, dtype=torch.float64)
    layer, ours = ChannelLayerNorm(5, dtype=torch.float64), LayerNorm(5, dtype=torch.float64)
    state = {"weight": torch.randn(5), "bias": torch.randn(5)}
    layer.load_state_dict(state)
    ours.load_state_dict(state)
    torch.testing.assert_close(layer(x), ours(x.movedim(1, -1)).movedim(-1, 1))


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("none", []),
        ("batch", [7 * 64, 7 * 16]),
        ("layer", [16 * 64, 32 * 16]),
        ("layer, γ per channel", [16 * 64, 32 * 16]),
        ("layer over channels", [16, 32]),
        ("group", [4 * 64, 8 * 16]),
        ("instance", [64, 16]),
    ],
)
def test_values_per_statistic_of_a_cnn(norm, expected):
    model = cnn(norm, strides=(1, 2))
    before = model.training, [p.clone() for p in model.buffers()]
    assert values_per_statistic(model, batch_size=7) == expected
    assert model.training == before[0]
    assert all(map(torch.equal, model.buffers(), before[1]))


@pytest.mark.parametrize(
    ("norm", "expected"),
    [("batch", [7, 7]), ("layer", [64, 64]), ("layer, no γ and β", [64, 64]), ("rms", [64, 64])],
)
def test_values_per_statistic_of_an_mlp(norm, expected):
    assert values_per_statistic(mlp(norm), batch_size=7) == expected


def test_mnist_keeps_its_own_test_part(monkeypatch):
    """Without training: what the two-layer network would be trained with."""
    rng = np.random.default_rng(0)
    images = rng.random((70_000, 2, 3), np.float32)
    data = Dataset(images, rng.integers(0, 10, 70_000), "mnist", "")
    asked = {}

    def train_best(build, parts, rates, **how):
        asked.update(model=build(), parts=parts, rates=rates, how=how)
        return None, []

    monkeypatch.setattr(mlp_layer_norm, "load", {"mnist": data}.__getitem__)
    monkeypatch.setattr(mlp_layer_norm, "train_best", train_best)
    experiment = Experiment("normbook.experiments.mlp_layer_norm", source="mnist")
    config = experiment.configurations()[0]
    assert config == {"norm": "layer", "seed": 0, "source": "mnist"}
    experiment.run(config)
    parts = asked["parts"]
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [
        55_000,
        5_000,
        10_000,
    ]
    assert torch.equal(parts.test.y, torch.from_numpy(data.labels[60_000:]))
    assert asked["rates"] == (0.001,)
    assert asked["how"]["epochs"] == 10
    assert asked["model"][1].weight.shape == (1000, 6)


def test_a_source_that_no_experiment_takes():
    command = [sys.executable, "-m", "normbook.experiments", "forgotten_eval", "--source", "mnist"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 2
    assert "no experiment that you named takes mnist" in process.stderr

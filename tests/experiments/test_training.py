"""The loops that experiments share: right, fair to all arms, and the same to the bit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from normbook.data import load
from normbook.experiments import training
from normbook.experiments.models import mlp
from normbook.experiments.training import (
    Images,
    batches,
    error,
    reproducible,
    split,
    train,
    train_best,
)


@pytest.fixture(scope="module")
def parts():
    return split(load(), seed=0)


def small(norm="batch"):
    torch.manual_seed(0)
    return mlp(norm, width=16)


def trained(norm="batch", seed=0):
    """A few steps: the rows, and the first weights afterwards."""
    with reproducible(seed):
        model = small(norm)
        rows = train(model, split(load(), seed).train, epochs=1, batch_size=64, rate=0.1, seed=seed)
    return rows, model[1].weight.detach()


def test_split(parts):
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [1257, 180, 360]
    assert parts.train.x.shape == (1257, 1, 8, 8)
    assert (parts.train.x.dtype, parts.train.y.dtype) == (torch.float32, torch.int64)
    assert float(parts.train.x.mean()) == pytest.approx(0, abs=1e-5)
    assert float(parts.train.x.std(correction=0)) == pytest.approx(1, abs=1e-5)
    # The same two numbers for the other parts, which so are not quite 0 and 1.
    assert 1e-4 < abs(float(parts.test.x.mean())) < 0.1


def test_split_shares_no_image(parts):
    flat = [part.x.flatten(1).numpy() for part in (parts.train, parts.validation, parts.test)]
    whole = np.concatenate(flat)
    distinct = {image.tobytes() for image in load().images}
    assert len({image.tobytes() for image in whole}) == len(distinct)
    assert len(whole) == len(load())


def test_batches():
    order = torch.stack(list(batches(n=10, batch_size=3, epochs=2, seed=1)))
    assert order.shape == (6, 3)
    for epoch in order.view(2, 9):
        assert len(set(epoch.tolist())) == 9  # each image once, one left out
    assert not torch.equal(order[:3], order[3:])
    assert torch.equal(order, torch.stack(list(batches(10, 3, 2, seed=1))))
    assert not torch.equal(order, torch.stack(list(batches(10, 3, 2, seed=2))))


@pytest.mark.parametrize("size", [0, 11])
def test_batches_of_a_wrong_size(size):
    with pytest.raises(ValueError, match=f"batch_size is {size}; expected 1 to 10"):
        next(batches(10, size, 1, seed=0))


def test_train_is_gradient_descent():
    """Two steps by hand, in float64: momentum 0.9 from the second one on."""
    x = torch.tensor([[1.0], [2.0], [-1.0], [0.5]], dtype=torch.float64)
    images = Images(x, torch.tensor([0, 1, 1, 0]))
    model = nn.Linear(1, 2, bias=False, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    rows = train(model, images, epochs=2, batch_size=4, rate=0.5, seed=0)

    def slope(weight):
        p = torch.softmax(x @ weight.T, 1) - nn.functional.one_hot(images.y, 2)
        return p.T @ x / 4

    first = slope(torch.zeros(2, 1, dtype=torch.float64))
    weight = -0.5 * first
    expected = weight - 0.5 * (0.9 * first + slope(weight))
    torch.testing.assert_close(model.weight.detach(), expected)
    assert rows[0] == {"step": 1, "loss": pytest.approx(np.log(2))}
    assert rows[1]["step"] == 2


def test_train_learns(parts):
    for optimizer, rate in (("sgd", 0.1), ("adam", 0.01)):
        model = small()
        before = error(model, parts.test)
        train(model, parts.train, epochs=3, batch_size=32, rate=rate, seed=0, optimizer=optimizer)
        assert before > 70
        assert error(model, parts.test) < 10


def test_unknown_optimizer(parts):
    with pytest.raises(ValueError, match="optimizer is 'sdg'; expected one of sgd, adam"):
        train(small(), parts.train, epochs=1, batch_size=8, rate=1, seed=0, optimizer="sdg")


def test_divergence_ends_training(parts):
    model = small("none")
    rows = train(model, parts.train, epochs=20, batch_size=8, rate=1e10, seed=0)
    assert rows[-1]["loss"] is None
    assert None not in [row["loss"] for row in rows[:-1]]
    assert len(rows) < 100
    assert 0 <= error(model, parts.test) <= 100


def test_error_counts(parts):
    class Always(nn.Module):
        def forward(self, x):
            return nn.functional.one_hot(torch.full((len(x),), 3), 10)

    threes = int((parts.test.y == 3).sum())
    assert error(Always(), parts.test) == pytest.approx(100 * (1 - threes / 360))
    assert error(Always(), parts.test[parts.test.y == 3], batch_size=7) == 0


def test_error_in_train_mode_uses_the_batch(parts):
    model = small()
    train(model, parts.train, epochs=2, batch_size=32, rate=0.1, seed=0)
    order = parts.test[torch.argsort(parts.test.y)]
    assert error(model, order, batch_size=36) == error(model, parts.test)
    assert error(model, order, mode="train", batch_size=36) > error(model, parts.test) + 20


def test_error_leaves_the_model_alone(parts):
    model = small()
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    error(model, parts.test, mode="train", batch_size=36)
    error(model, parts.test)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_unknown_mode(parts):
    with pytest.raises(ValueError, match="mode is 'test'"):
        error(small(), parts.test, mode="test")


def test_train_best_chooses_by_validation(parts):
    rates = (1e-6, 0.1, 1e10)
    model, rows = train_best(small, parts, rates, epochs=1, batch_size=32, seed=0)
    assert [row["rate"] for row in rows] == list(rates)
    assert [row["chosen"] for row in rows] == [False, True, False]
    assert rows[2]["loss"] is None
    assert rows[1]["error"] == pytest.approx(error(model, parts.test), abs=1e-4)
    finite = [row["validation_loss"] for row in rows if row["validation_loss"] is not None]
    assert rows[1]["validation_loss"] == min(finite)
    # All begin with the same weights and see the same batches.
    alone = small()
    losses = train(alone, parts.train, epochs=1, batch_size=32, seed=0, rate=0.1)
    first = np.mean([row["loss"] for row in losses[: training.FIRST]])
    assert rows[1]["first_loss"] == pytest.approx(first, abs=1e-6)


def test_train_best_never_looks_at_the_test_part(parts):
    """With other test images the same model is chosen."""
    rest = parts.test[torch.arange(359, -1, -1)]
    other = training.Parts(parts.train, parts.validation, Images(rest.x, rest.y.roll(1)))
    how = {"rates": (0.01, 0.1), "epochs": 1, "batch_size": 32, "seed": 0}
    chosen = [train_best(small, p, **how)[1] for p in (parts, other)]
    assert chosen[0][0]["error"] != chosen[1][0]["error"]
    assert [row["chosen"] for row in chosen[0]] == [row["chosen"] for row in chosen[1]]


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
def test_twice_the_same_to_the_bit(norm):
    (rows, weight), (again, weight_again) = trained(norm), trained(norm)
    assert rows == again
    assert torch.equal(weight, weight_again)
    assert trained(norm, seed=1)[0] != rows


def test_the_same_in_another_process():
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_training import trained;"
        "print([row['loss'] for row in trained()[0]])"
    )
    folder = str(Path(__file__).parent)
    output = subprocess.run(
        [sys.executable, "-c", script, folder], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == str([row["loss"] for row in trained()[0]])


def test_the_same_whatever_came_before():
    rows, _ = trained()
    torch.manual_seed(123)
    torch.rand(7)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert trained()[0] == rows
    finally:
        torch.set_num_threads(threads)


def test_arms_share_weights_and_batches():
    """With the first layer's norm left out of the comparison: its inputs are the same."""
    first = {norm: small(norm)[1].weight for norm in ("batch", "layer", "none")}
    assert torch.equal(first["batch"], first["layer"])
    assert torch.equal(first["batch"], first["none"])


def test_reproducible_leaves_no_trace():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with pytest.raises(KeyError), reproducible(0):
        assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.mkldnn.enabled
        torch.rand(10)
        raise KeyError
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert torch.backends.mkldnn.enabled
    assert torch.equal(torch.rand(3), expected)

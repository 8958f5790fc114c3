"""Batch norm of sequences, against torch's batch norm of what is real."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

from normbook.core.normalize import normalize
from normbook.core.scheme import BATCH_NORM_PER_STEP, BATCH_NORM_POOLED
from normbook.data.examples import RAGGED, RAGGED_LENGTHS
from normbook.layers.batch_norm_over_time import BatchNormPerStep, BatchNormPooled

FIVE = (*RAGGED_LENGTHS[:4], 5)  # as in figure 6-15, without the step that one sample reaches
LAYERS = [("per step", lambda **kwargs: BatchNormPerStep(3, 6, **kwargs))]
LAYERS += [("pooled", lambda **kwargs: BatchNormPooled(3, **kwargs))]
every_layer = pytest.mark.parametrize("make", [m for _, m in LAYERS], ids=[n for n, _ in LAYERS])
anything = settings(max_examples=40, deadline=None, derandomize=True)


def sample(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def prepared(make, **kwargs):
    """A layer in float64 with any gamma, beta and running statistics."""
    layer = make(**{"dtype": torch.float64} | kwargs)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in layer.state_dict().values():
            if value.is_floating_point():
                value.copy_(0.5 + torch.rand(value.shape, generator=generator))
    return layer


def close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def mask_of(lengths, steps):
    return torch.arange(steps) < torch.tensor(lengths)[:, None]


# Against torch


@anything
@given(
    st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=5), min_size=1, max_size=4),
    st.sampled_from([None, 0.1, 1.0]),
    st.booleans(),
    st.sampled_from([1e-5, 0.1]),
)
def test_every_step_is_a_batch_norm_of_torch(batches, momentum, affine, eps):
    """Several batches, one batch norm for every step; then eval mode."""
    ours = BatchNormPerStep(3, 6, eps, momentum, affine, dtype=torch.float64)
    theirs = [nn.BatchNorm1d(3, eps, momentum, affine, dtype=torch.float64) for _ in range(6)]
    if affine:
        with torch.no_grad():
            ours.weight.copy_(torch.tensor([1.0, -2.0, 0.5]))
            ours.bias.copy_(torch.tensor([0.0, 1.0, -1.0]))
        for norm in theirs:
            norm.weight, norm.bias = ours.weight, ours.bias  # shared by all steps
    for seed, lengths in enumerate(batches):
        longest = sorted(lengths)[-2]  # so that two get to the last step
        lengths = [min(length, longest) for length in lengths]
        x, dy = sample(len(lengths), 5, 3, seed=seed), sample(len(lengths), 5, 3, seed=9)
        results = []
        for one in (True, False):
            a = x.clone().requires_grad_()
            if one:
                output = ours(a, lengths)
            else:
                output = torch.zeros_like(a)
                for t in range(longest):
                    rows = torch.tensor([length > t for length in lengths])
                    output[rows, t] = theirs[t](a[rows, t])
            leaves = [a, *ours.parameters()]
            results.append([output, *torch.autograd.grad(output, leaves, dy)])
        for mine, other in zip(*results, strict=True):
            close(mine, other, 1e-9)
        for t, norm in enumerate(theirs):
            close(ours.running_mean[t], norm.running_mean)
            close(ours.running_var[t], norm.running_var)
            assert ours.num_batches_tracked[t] == norm.num_batches_tracked
    reached = int(ours.num_batches_tracked.count_nonzero())
    ours.eval()
    x = sample(4, 6, 3, seed=7)
    expected = [theirs[min(t, reached - 1)].eval()(x[:, t]) for t in range(6)]
    close(ours(x), torch.stack(expected, 1))


@anything
@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=5),
    st.sampled_from([None, 0.1]),
    st.booleans(),
)
def test_pooled_is_batch_norm_of_packed_steps(lengths, momentum, affine):
    ours = BatchNormPooled(3, momentum=momentum, affine=affine, dtype=torch.float64)
    theirs = nn.BatchNorm1d(3, momentum=momentum, affine=affine, dtype=torch.float64)
    mask = mask_of(lengths, 5)
    for train in (True, True, False):
        ours.train(train), theirs.train(train)
        x = sample(len(lengths), 5, 3)
        packed = pack_padded_sequence(
            x, torch.tensor(lengths), batch_first=True, enforce_sorted=False
        )
        theirs(packed.data)  # their order of the rows doesn't matter
        output = ours(x, lengths)
        close(ours.running_mean, theirs.running_mean)
        close(ours.running_var, theirs.running_var)
        assert (output[~mask] == 0).all()
        close(output[mask], copy.deepcopy(theirs)(x[mask]))


@pytest.mark.parametrize("lengths", [[5, 5, 5], [5, 2, 1], [1, 1, 0]])
def test_pooled_is_told_of_padding(lengths):
    """With gradients; and whatever lies in the padding. A sample may be nothing but padding."""
    ours = prepared(lambda **kwargs: BatchNormPooled(3, **kwargs))
    theirs = nn.BatchNorm1d(3, dtype=torch.float64)
    theirs.load_state_dict(ours.state_dict())
    real = mask_of(lengths, 5)
    x, dy = sample(3, 5, 3).requires_grad_(), sample(3, 5, 3, seed=9)
    junk = torch.where(real[..., None], x, torch.nan)
    output, expected = ours(junk, padding=~real), theirs(x[real])
    close(output[real], expected)
    assert (output[~real] == 0).all()
    gradients = [torch.autograd.grad(y, x, g) for y, g in ((output, dy), (expected, dy[real]))]
    close(*gradients)
    close(list(ours.buffers()), list(theirs.buffers()))


def test_without_lengths_every_step_is_real():
    x = sample(4, 5, 3)
    per_step, pooled = prepared(LAYERS[0][1]), prepared(LAYERS[1][1])
    same = copy.deepcopy(per_step), copy.deepcopy(pooled)
    for layer, other in zip((per_step, pooled), same, strict=True):
        close(layer(x), other(x, [5, 5, 5, 5]))
        for a, b in zip(layer.state_dict().values(), other.state_dict().values(), strict=True):
            close(a, b)


# Against the scheme, on the batch of figure 6-15


def test_the_batch_of_figure_6_15():
    """Cut before the step with one sample, which isn't for training."""
    x, mask = torch.as_tensor(RAGGED.x), mask_of(FIVE, 6)
    layer = BatchNormPerStep(4, 6, momentum=1.0, dtype=torch.float64)
    output = layer(x, FIVE)
    used = normalize(x[:, :5], BATCH_NORM_PER_STEP, mask=mask[:, :5])
    close(output[:, :5].detach(), used.output)
    assert (output[:, 5] == 0).all()
    assert used.statistics.count[:, 0].tolist() == [5, 5, 4, 3, 2]
    close(layer.running_mean[:5], used.statistics.mean)
    counts = used.statistics.count
    close(layer.running_var[:5], used.statistics.var * counts / (counts - 1))
    assert layer.num_batches_tracked.tolist() == [1, 1, 1, 1, 1, 0]
    pooled = BatchNormPooled(4, dtype=torch.float64)(x, RAGGED_LENGTHS)
    mask = mask_of(RAGGED_LENGTHS, 6)
    close(pooled.detach(), normalize(x, BATCH_NORM_POOLED, mask=mask).output)


def test_the_step_with_one_sample_is_refused():
    x = torch.as_tensor(RAGGED.x)
    layer = BatchNormPerStep(4, 6, dtype=torch.float64)
    before = copy.deepcopy(layer.state_dict())
    message = "more than 1 value per channel when training, got 1 real sample in step t=5,"
    with pytest.raises(ValueError, match=message):
        layer(x, RAGGED_LENGTHS)
    for key, value in layer.state_dict().items():
        assert (value == before[key]).all()  # nothing has half happened
    assert layer.eval()(x, RAGGED_LENGTHS).isfinite().all()


# Longer than any training sequence


def trained_to_five(**kwargs):
    layer = BatchNormPerStep(4, 8, momentum=1.0, dtype=torch.float64, **kwargs)
    layer(torch.as_tensor(RAGGED.x), FIVE)
    return layer.eval()


def test_the_last_trained_step_stands_in():
    """The seventh word -3, 2, -4, 1 by hand, with mean and unbiased variance of step 5."""
    layer = trained_to_five()
    x = torch.zeros(1, 7, 4, dtype=torch.float64)
    x[0, 6] = torch.tensor([-3.0, 2.0, -4.0, 1.0])
    mean = torch.tensor([-1.0, -1.5, -2.0, -2.5], dtype=torch.float64)
    var = torch.tensor([18.0, 12.5, 18.0, 12.5], dtype=torch.float64)  # of ±3 and ±2.5, two each
    output = layer(x).detach()
    close(output[0, 6], (x[0, 6] - mean) / torch.sqrt(var + 1e-5))
    close(output[0, 5], output[0, 4])
    close(layer(torch.cat([x, x], 1))[:, :7], output)  # also beyond num_steps


def test_or_it_is_an_error():
    layer = trained_to_five(beyond="error")
    layer(torch.zeros(1, 5, 4, dtype=torch.float64))
    message = "step t=5, counted from 0; expected t < 5, the longest training sequence"
    with pytest.raises(ValueError, match=message):
        layer(torch.zeros(1, 7, 4, dtype=torch.float64))
    layer(torch.zeros(1, 7, 4, dtype=torch.float64), [5])  # the rest is padding


def test_never_trained():
    """Mean 0 and variance 1, as in torch."""
    layer = BatchNormPerStep(3, 2, dtype=torch.float64).eval()
    x = sample(2, 4, 3)
    close(layer(x), x / math.sqrt(1 + 1e-5))


# In a recurrence


def test_one_step_at_a_time_is_all_at_once():
    whole, stepwise = (BatchNormPerStep(3, 6, dtype=torch.float64) for _ in range(2))
    for seed in range(3):
        x = sample(4, 5, 3, seed=seed)
        output = whole(x)
        for t in range(5):
            close(stepwise(x[:, t : t + 1], first_step=t), output[:, t : t + 1])
    for a, b in zip(whole.state_dict().values(), stepwise.state_dict().values(), strict=True):
        close(a, b)
    x = sample(1, 8, 3)
    output = whole.eval()(x)
    stepwise.eval()
    for t in range(8):
        close(stepwise(x[:, t : t + 1], first_step=t), output[:, t : t + 1])


# Properties

lengths_of_batch = st.lists(st.integers(1, 5), min_size=2, max_size=5).map(
    lambda lengths: [min(length, sorted(lengths)[-2]) for length in lengths]
)


@every_layer
@anything
@given(
    lengths=lengths_of_batch,
    train=st.booleans(),
    filling=st.sampled_from([0.0, 7.0, math.inf, math.nan]),
)
def test_padding_never_reaches_a_real_step(make, lengths, train, filling):
    clean = sample(len(lengths), 5, 3)
    filled = torch.where(mask_of(lengths, 5)[..., None], clean, filling)
    results = []
    for x in (clean, filled):
        layer = prepared(make).train(train)
        x = x.clone().requires_grad_()
        output = layer(x, lengths)
        gradients = torch.autograd.grad(output.square().sum(), [x, *layer.parameters()])
        results.append([output, *gradients, *layer.state_dict().values()])
    for a, b in zip(*results, strict=True):
        close(a, b, atol=0)
    assert (results[0][1][~mask_of(lengths, 5)] == 0).all()


@every_layer
@anything
@given(lengths=lengths_of_batch, random=st.randoms(use_true_random=False))
def test_permuting_the_batch_permutes_the_outputs(make, lengths, random):
    x, order = sample(len(lengths), 5, 3), list(range(len(lengths)))
    random.shuffle(order)
    output = prepared(make)(x, lengths)
    other = prepared(make)(x[order], [lengths[i] for i in order])
    close(other, output[order])


@every_layer
def test_a_sequence_depends_on_its_batch_in_train_mode_alone(make):
    x = sample(4, 5, 3)
    layer = prepared(make)
    assert (layer(x)[:2] - layer(x[:2])).abs().max() > 0.1
    layer.eval()
    close(layer(x)[:1], layer(x[:1]))


@every_layer
def test_gradcheck(make):
    layer = prepared(make, momentum=0.0)
    leaves = [sample(4, 3, 3).requires_grad_(), *layer.parameters()]

    for train in (True, False):
        layer.train(train)
        assert torch.autograd.gradcheck(lambda x, *_: layer(x, [3, 2, 1, 3]), leaves)


@every_layer
def test_state_dict(make):
    layer, other = prepared(make), make(dtype=torch.float64)
    x = sample(4, 5, 3)
    layer(x)
    other.load_state_dict(layer.state_dict())
    close(other.eval()(x), layer.eval()(x), atol=0)
    assert repr(other) == repr(layer)


# To torch's tools

every_batch_norm_of_torch = pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            make,
            id=name,
        )
        for name, make in LAYERS
    ],
)


@every_batch_norm_of_torch
def test_is_a_batch_norm_of_torch_and_resets(make):
    layer = prepared(make)
    assert isinstance(layer, nn.modules.batchnorm._BatchNorm)
    new, keys = make(dtype=torch.float64).state_dict(), list(layer.state_dict())
    assert keys == list(nn.BatchNorm1d(3).state_dict()) == list(new)
    layer(sample(4, 5, 3))
    layer.reset_running_stats()
    for name, value in layer.state_dict().items():
        assert (value == new[name]).all() == name.startswith(("running", "num"))
    layer.reset_parameters()
    close(layer.state_dict(), new, atol=0)


@every_batch_norm_of_torch
def test_statistics_of_averaged_weights(make):
    """`update_bn` averages over all batches alike, every step over those that got to it."""
    layer = prepared(make)
    batches = [sample(4, 5, 3, seed=1), sample(4, 3, 3, seed=2)]
    torch.optim.swa_utils.update_bn(batches, nn.Sequential(layer))
    expected = make(dtype=torch.float64, momentum=None)
    for x in batches:
        expected(x)
    assert layer.momentum == 0.1
    for name, value in layer.named_buffers():
        close(value, expected.state_dict()[name])
    if isinstance(layer, BatchNormPerStep):
        assert layer.num_batches_tracked.tolist() == [2, 2, 2, 1, 1, 0]
        both = torch.stack([x[:, 2].mean(0) for x in batches]).mean(0)
        close(layer.running_mean[2], both)
        close(layer.running_mean[4], batches[0][:, 4].mean(0))


def test_without_running_statistics_it_is_always_the_batch():
    """As `torch.func` makes all batch norms, to differentiate through them."""
    layer, x = prepared(LAYERS[0][1]), sample(4, 5, 3)
    expected = layer(x)
    torch.func.replace_all_batch_norm_modules_(layer)
    for train in (True, False):
        close(layer.train(train)(x), expected)
        gradient = torch.func.grad(lambda x: layer(x).square().sum())(x)
        (other,) = torch.autograd.grad(layer(x.requires_grad_()).square().sum(), x)
        close(gradient, other)


def test_there_is_no_synchronized_one():
    """torch's takes the second axis for the channels."""
    for layer in (BatchNormPerStep(3, 6), BatchNormPerStep(5, 5)):
        with pytest.raises(RuntimeError, match="running_mean should contain 5 elements"):
            nn.SyncBatchNorm.convert_sync_batchnorm(layer)(torch.zeros(4, 5, layer.num_features))


@pytest.mark.parametrize("lengths", [None, [5, 5, 3, 2]])
@pytest.mark.parametrize("behind", [[], [nn.Linear(3, 2), nn.Tanh()]], ids=["alone", "in front"])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_checkpoint_moves_all_running_statistics_alike(lengths, behind, momentum):
    """Once or twice: recomputation stops where it has what the backward pass needs."""
    layer, twin = (prepared(LAYERS[0][1], momentum=momentum) for _ in range(2))
    behind, x = nn.Sequential(*behind).double(), sample(4, 5, 3)

    def run(x):
        return behind(layer(x, lengths))

    gradients = []
    for again in (False, True):
        a = x.clone().requires_grad_()
        output = checkpoint(run, a, use_reentrant=False) if again else behind(twin(a, lengths))
        gradients.append(torch.autograd.grad(output.square().sum(), a)[0])
    close(*gradients)
    for _ in range(int(layer.num_batches_tracked[0]) - 1):
        twin(x, lengths)
    assert layer.num_batches_tracked[0] in (1, 2)
    for value, expected in zip(layer.buffers(), twin.buffers(), strict=True):
        close(value, expected)


HALF = torch.bfloat16


@every_layer
@pytest.mark.parametrize("lengths", [None, [5, 5, 3, 2]])
@pytest.mark.parametrize("autocast", [False, True])
def test_half_precision_with_parameters_in_float32(make, lengths, autocast):
    """As torch's batch norm: output in the input's dtype, statistics in float32."""
    layer, exact = (prepared(make, dtype=torch.float32) for _ in range(2))
    theirs, x = nn.BatchNorm1d(3), sample(4, 5, 3).float()
    for train in (True, False):
        for dtype in (torch.float32, HALF):
            given = x.to(dtype).requires_grad_()
            with torch.autocast("cpu", dtype=HALF, enabled=autocast):
                output = layer.train(train)(given, lengths)
                assert output.dtype == theirs(given.transpose(1, 2)).dtype == dtype
            expected = exact.train(train)(given.float(), lengths)
            close(output.float(), expected, 0 if dtype == torch.float32 else 0.02)
            dy = sample(4, 5, 3, seed=9).float()
            leaves = [given, *layer.parameters()], [given, *exact.parameters()]
            pair = [
                torch.autograd.grad(y.float(), leaf, dy)
                for y, leaf in zip((output, expected), leaves, strict=True)
            ]
            for one, other in zip(*pair, strict=True):
                assert (one - other).norm() <= 0.05 * other.norm()
    close(list(layer.buffers()), list(exact.buffers()), 1e-6)


def test_fake_tensors():
    with FakeTensorMode():
        layer = BatchNormPerStep(3, 6)
        for train in (True, False):
            assert layer.train(train)(torch.zeros(4, 5, 3)).shape == (4, 5, 3)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("tool", [torch.jit.script, torch.fx.symbolic_trace])
@every_layer
def test_tools_that_cannot_follow_say_so(make, tool):
    with pytest.raises((RuntimeError, TypeError, torch.jit.frontend.NotSupportedError)):
        tool(make())


# Errors

STEPS, REAL = torch.zeros(2, 5, 3), mask_of([5, 5], 5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda a, _: a(torch.zeros(4, 3)), ValueError, r"\(N, T, 3\), got shape \(4, 3\)"),
        (lambda _, b: b(torch.zeros(4, 5, 2)), ValueError, r"\(N, T, 3\), got shape \(4, 5, 2\)"),
        (lambda a, _: a(torch.zeros(4, 7, 3)), ValueError, "step t=6, .* expected t < num_steps=6"),
        (lambda a, _: a(torch.zeros(4, 1, 3), None, 6), ValueError, "step t=6"),
        (lambda a, _: a(torch.zeros(4, 5, 3).double()), RuntimeError, "float64 .* torch.float32"),
        (lambda _, b: b(torch.zeros(4, 5, 3).double()), RuntimeError, "float64 .* torch.float32"),
        (lambda a, _: a(torch.zeros(1, 5, 3)), ValueError, "1 real sample in step t=0"),
        (lambda _, b: b(torch.zeros(1, 5, 3), [1]), ValueError, "more than 1 value per channel"),
        (lambda a, _: a(torch.zeros(2, 5, 3), [5, 9]), ValueError, "length of sample 1 is 9"),
        (lambda _, b: b(torch.zeros(2, 5, 3), [5]), ValueError, "one for each of 2 samples"),
        (
            lambda _, b: b(STEPS, padding=REAL[:, 1:]),
            ValueError,
            r"padding .* \(2, 4\); .* \(2, 5\)",
        ),
        (lambda _, b: b(STEPS, padding=REAL.long()), TypeError, "padding has dtype torch.int64"),
        (lambda _, b: b(STEPS, [5, 5], ~REAL), TypeError, "lengths and padding are both given"),
        (
            lambda a, _: a(torch.nested.nested_tensor([STEPS[0], STEPS[1, :2]])),
            TypeError,
            "BatchNormPerStep: input is a nested tensor; expected a padded one",
        ),
        (lambda _, b: b([1.0]), TypeError, "BatchNormPooled: input is a list; expected a tensor"),
        (lambda a, _: a(torch.zeros(2, 5, 3).short()), RuntimeError, "input of torch.int16"),
        (lambda *_: BatchNormPerStep(3, 2, affine=0), TypeError, "affine is 0; expected True or"),
        (lambda *_: BatchNormPerStep(3, 0), ValueError, "num_steps is 0"),
        (lambda *_: BatchNormPerStep(3.0, 2), TypeError, "num_features is 3.0"),
        (lambda *_: BatchNormPerStep(3, 2, beyond="first"), ValueError, "beyond is 'first'"),
    ],
)
def test_messages(attempt, error, message):
    with pytest.raises(error, match=message):
        attempt(BatchNormPerStep(3, 6), BatchNormPooled(3))

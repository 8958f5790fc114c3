"""The package against numbers from outside it: worked examples, papers and torch, recomputed."""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import helpers
from helpers import VECTORS
from normbook.core import scheme as schemes
from normbook.core.normalize import backward, normalize, statistics
from normbook.layers import norms as layers

# The layer of every vector that gives statistics and a normalized output.
NORMALIZED = {
    "bn.s000.conv": schemes.BATCH_NORM_2D,
    "bn.s002.feature_maps": schemes.BATCH_NORM_2D,
    "bn.s004.randn_train": schemes.BATCH_NORM_1D,
    "bn.batch_of_two": schemes.BATCH_NORM_1D,
    "bn.s000.seq_as_channel": schemes.BATCH_NORM_SEQUENCE_AS_CHANNEL,
    "bn.s000.emb_as_channel": schemes.BATCH_NORM_POOLED,
    "ln.s000.conv": schemes.LAYER_NORM_CHW,
    "ln.s002.feature_maps_eps0": schemes.LAYER_NORM_CHW,
    "ln.s002.feature_maps_eps1e-5": schemes.LAYER_NORM_CHW,
    "in.s002.feature_maps": schemes.INSTANCE_NORM_2D,
    "ln.s000.nlp": schemes.LAYER_NORM_TOKEN,
    "ln.repo.nlp_2x4x3": schemes.LAYER_NORM_TOKEN,
    "ln.s004.one_to_five": schemes.LAYER_NORM,
    "ln.s004.batch3": schemes.LAYER_NORM,
    "ln.s004.randn": schemes.LAYER_NORM,
}
TESTED = set(NORMALIZED)
about = partial(helpers.about, TESTED)
DTYPES = {"float64": "atol_float64", "float32": "atol_float32"}
LIBRARIES = {"numpy": np.asarray, "torch": torch.as_tensor}

dtypes = pytest.mark.parametrize("dtype", DTYPES)
libraries = pytest.mark.parametrize("library", LIBRARIES)


def close(actual, expected, atol=1e-9):
    if isinstance(actual, torch.Tensor):
        actual = actual.detach()
    expected = np.asarray(expected)
    assert tuple(actual.shape) == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def array(values):
    return np.array(values, dtype=np.float64)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def test_every_vector_is_tested():
    # Those of recurrent networks are in test_recurrent.py, those of both in the chapters' tests.
    core = {identifier for identifier in VECTORS if not identifier.startswith(("rnn.", "tf."))}
    assert TESTED == core
    assert len(core) == 38 and len(VECTORS) == 44


@pytest.mark.parametrize("identifier", NORMALIZED)
@dtypes
@libraries
def test_normalized(identifier, dtype, library):
    vector, scheme = VECTORS[identifier], NORMALIZED[identifier]
    eps, expected, atol = vector["params"]["eps"], vector["expected"], vector[DTYPES[dtype]]
    averaged = tuple(vector["params"]["axes"])
    assert scheme.averaged_positions == averaged
    x = LIBRARIES[library](array(vector["inputs"]["x"]).astype(dtype))
    output, (mean, var, count) = normalize(x, scheme, eps=eps)
    assert str(output.dtype).endswith(dtype)
    close(output, expected["y"], atol)
    close(mean.reshape(-1), expected["mean"], atol * max(1, np.abs(expected["mean"]).max()))
    relative = atol * max(1, np.abs(expected["var_biased"]).max())
    close(var.reshape(-1), expected["var_biased"], relative)
    m = int(count.reshape(-1)[0])
    close(var.reshape(-1) * (m / (m - 1)), expected["var_unbiased"], 2 * relative)
    if "out_std" in expected:
        close(np.asarray(output).std(1), expected["out_std"], atol)
    for i, side in enumerate(("left", "right")):
        for value, y in expected.get(f"by_value_{side}", {}).items():
            close(output[i][x[i] == int(value)], np.full(int((x[i] == int(value)).sum()), y), atol)
    for i, total in enumerate(expected.get("sum", ())):
        assert (int(x[i].sum()), int((x[i] ** 2).sum())) == (total, expected["sum_sq"][i])


# Batch norm


@about("bn.s000.running_then_eval")
def test_running_statistics_then_eval(inputs, expected):
    x = tensor(inputs["x"])
    layer = layers.BatchNorm2d(2, momentum=inputs["momentum"], dtype=torch.float64)
    close(layer.running_mean, inputs["rm0"])
    close(layer.running_var, inputs["rv0"])
    layer(x)
    close(layer.running_mean, expected["running_mean"])
    close(layer.running_var, expected["running_var"])
    close(layer.eval()(x), expected["eval_y"])
    running = array(expected["running_mean"]), array(expected["running_var"])
    close(normalize(x.numpy(), schemes.BATCH_NORM_2D, running=running).output, expected["eval_y"])


@about("bn.s002.feature_maps_affine")
def test_feature_maps_scaled_and_shifted(inputs, expected):
    x, gamma, beta = (array(inputs[key]) for key in ("x", "gamma", "beta"))
    output = normalize(x, schemes.BATCH_NORM_2D, gamma, beta, inputs["eps"]).output
    close(output, expected["y"])
    layer = layers.BatchNorm2d(3, eps=inputs["eps"], dtype=torch.float64)
    layer.load_state_dict(layer.state_dict() | {"weight": tensor(gamma), "bias": tensor(beta)})
    close(layer(tensor(x)), expected["y"])
    close(output[:, -1], expected["last_channel_4dp"], 5e-5)


@about("bn.s004.randn_eval_untrained")
def test_eval_mode_untrained_normalizes_nothing(inputs, expected):
    x = tensor(inputs["x"])
    y = layers.BatchNorm1d(5, dtype=torch.float64).eval()(x).detach()
    close(y, expected["y"])
    close(y, expected["factor"] * x)
    assert (y - x).abs().max().item() == pytest.approx(expected["max_abs_diff_from_input"])
    close(y.mean(0), expected["col_mean"])
    close(y.std(0, correction=0), expected["col_std"])


@about("bn.running.ema_0.1")
def test_running_statistics_of_three_batches(inputs, expected):
    batches = [tensor(batch) for batch in inputs["batches"]]
    layer = layers.BatchNorm1d(2, dtype=torch.float64)
    assert layer.momentum == VECTORS["bn.running.ema_0.1"]["params"]["momentum"]
    for batch, after in zip(batches, expected["history"], strict=True):
        layer(batch)
        close(layer.running_mean, after["running_mean"])
        close(layer.running_var, after["running_var"])


@about("torch.error_messages")
def test_messages_are_torchs(inputs, expected):
    attempts = {
        "BatchNorm1d train, one value per channel, input (1,3)": lambda nn: nn.BatchNorm1d(3)(
            torch.zeros(1, 3)
        ),
        "BatchNorm2d train, input (1,3,1,1)": lambda nn: nn.BatchNorm2d(3)(torch.zeros(1, 3, 1, 1)),
        "BatchNorm1d(3,eps=0) train": lambda nn: nn.BatchNorm1d(3, eps=0.0)(torch.zeros(2, 3)),
        "BatchNorm1d(2) on (2,4,2)": lambda nn: nn.BatchNorm1d(2)(torch.zeros(2, 4, 2)),
        "seq-as-channel BatchNorm1d(4).eval() on a length-5 sequence (1,5,2)": (
            lambda nn: nn.BatchNorm1d(4).eval()(torch.zeros(1, 5, 2))
        ),
        "LayerNorm([3,5,5]) on (2,3,6,6)": lambda nn: nn.LayerNorm([3, 5, 5])(
            torch.zeros(2, 3, 6, 6)
        ),
        "InstanceNorm2d(3) train on (2,3,1,1)": lambda nn: nn.InstanceNorm2d(3)(
            torch.zeros(2, 3, 1, 1)
        ),
        "GroupNorm(4,6)": lambda nn: nn.GroupNorm(4, 6),
        ".to('cuda') on a CPU build": lambda nn: nn.LayerNorm(3).to("cuda"),
    }
    assert set(attempts) == set(expected)
    for what, attempt in attempts.items():
        if "cuda" in what and torch.version.cuda:
            continue
        kind, text = expected[what].split(": ", 1)
        for nn in (torch.nn, layers):
            with pytest.raises(Exception) as caught:
                attempt(nn)
            assert type(caught.value).__name__ == kind, what
            # "at least as clear": all that torch says is there
            assert text in " ".join(str(caught.value).split()), what


@about("bn.batch_statistics_noise")
def test_noise_of_batch_statistics(inputs, expected):
    rng = np.random.default_rng(0)
    for i, m in enumerate(inputs["m"]):
        assert expected["expected_biased_var"][i] == pytest.approx((m - 1) / m)
        mean, var, count = statistics(rng.standard_normal((m, 40_000)), schemes.BATCH_NORM_1D)
        assert (count == m).all()
        assert var.mean() == pytest.approx(expected["expected_biased_var"][i], rel=0.02)
        unbiased = var * m / (m - 1)
        assert unbiased.std() == pytest.approx(expected["rel_std_of_unbiased_var"][i], rel=0.03)
        assert mean.std() == pytest.approx(expected["std_of_mean"][i], rel=0.02)


@about("bn.fig6_15.per_step")
def test_ragged_batch_step_by_step(inputs, expected):
    lengths = np.array(inputs["lengths"])
    n, t, d = np.indices(inputs["shape"])
    assert inputs["x_formula"].startswith("x[n,t,d]=((7n+3t+5d) mod 11)-5, zero-based")
    real = t < lengths[:, None, None]
    x = np.where(real, (7 * n + 3 * t + 5 * d) % 11 - 5.0, 0)
    mask = real[..., 0]
    used = statistics(x, schemes.BATCH_NORM_PER_STEP, mask)
    padded = statistics(x, schemes.BATCH_NORM_PER_STEP)
    assert used.count[:, 0].tolist() == expected["counts"] == [5, 5, 4, 3, 2, 1]
    for step in expected["per_step"]:
        i = step["t"] - 1
        assert used.count[i].tolist() == [step["n"]] * 4
        close(used.mean[i], step["mean"])
        close(used.var[i], step["var"])
        close(padded.mean[i], step["padded_mean"])
        close(padded.var[i], step["padded_var"])


def check_gradients(scheme, inputs, expected):
    keys = ("dy", "x", "gamma", "beta")
    dy, x, gamma, beta = (array(inputs[key]) if key in inputs else None for key in keys)
    eps = inputs.get("eps", 1e-5)
    for convert in LIBRARIES.values():
        a, d, g, b = (None if v is None else convert(v) for v in (x, dy, gamma, beta))
        if "y" in expected:
            close(normalize(a, scheme, g, b, eps).output, expected["y"])
        actual = backward(d, a, scheme, g, eps)
        close(actual.x, expected["dx"])
        if "dgamma" in expected:
            close(actual.gamma, expected["dgamma"])
            close(actual.beta, expected["dbeta"])
    return x, dy, gamma, beta


@about("bn.backward")
def test_backward_of_batch_norm(inputs, expected):
    x, dy, gamma, beta = check_gradients(schemes.BATCH_NORM_1D, inputs, expected)
    layer = layers.BatchNorm1d(2, eps=inputs["eps"], dtype=torch.float64)
    layer.load_state_dict(layer.state_dict() | {"weight": tensor(gamma), "bias": tensor(beta)})
    leaf = tensor(x).requires_grad_()
    layer(leaf).backward(tensor(dy))
    close(leaf.grad, expected["dx"])
    close(layer.weight.grad, expected["dgamma"])
    close(layer.bias.grad, expected["dbeta"])


# Layer norm


@about("ln.s000.conv_backward")
def test_backward_of_layer_norm_of_images(inputs, expected):
    assert schemes.LAYER_NORM_CHW.averaged_positions == tuple(inputs["axes"])
    check_gradients(schemes.LAYER_NORM_CHW, inputs, expected)


@about("ln.backward")
def test_backward_of_layer_norm(inputs, expected):
    x, dy, gamma, beta = check_gradients(schemes.LAYER_NORM, inputs, expected)
    layer = layers.LayerNorm(5, eps=inputs["eps"], dtype=torch.float64)
    layer.load_state_dict({"weight": tensor(gamma), "bias": tensor(beta)})
    leaf = tensor(x).requires_grad_()
    layer(leaf).backward(tensor(dy))
    close(leaf.grad, expected["dx"])
    close(layer.weight.grad, expected["dgamma"])
    close(layer.bias.grad, expected["dbeta"])


@about("ln.s000.feature1_wrong_bessel")
def test_variance_of_feature1_is_biased(inputs, expected):
    x = array([inputs["x"]])
    output, (mean, var, count) = normalize(x, schemes.LAYER_NORM_CHW)
    assert (mean[0], var[0]) == (expected["mean"], expected["var_biased"]) == (0.75, 0.6875)
    assert var[0] * count[0] / (count[0] - 1) == pytest.approx(expected["var_unbiased"])
    close(output[0], expected["y_biased"])
    wrong = (x - mean[0]) / np.sqrt(expected["var_unbiased"] + 1e-5)
    close(wrong[0], expected["y_if_bessel"])
    assert np.abs(output - wrong).max() == pytest.approx(0.136310, abs=1e-6)


@about("ln.s002.last_channels")
def test_printed_last_channels(inputs, expected):
    maps = array(VECTORS["ln.s002.feature_maps_eps0"]["inputs"]["x"])
    for eps in (0.0, 1e-5):
        output = normalize(maps, schemes.LAYER_NORM_CHW, eps=eps).output
        for i, side in enumerate(("left", "right")):
            channel = array(inputs[f"last_channel_{side}"])
            close(maps[i, -1], channel)
            printed = np.empty_like(channel)
            for value, y in expected[f"printed_{side}"].items():
                printed[channel == int(value)] = y
            close(output[i, -1], printed, 5e-5)


@about("ln.s002.eq624_rounding_trap")
def test_equation_6_24_is_not_the_value_without_eps(inputs, expected):
    maps = array(VECTORS["ln.s002.feature_maps_eps0"]["inputs"]["x"])[:1]
    exact = normalize(maps, schemes.LAYER_NORM_CHW, eps=0.0)
    assert exact.statistics.mean[0] == pytest.approx(inputs["mu1"], abs=1e-12)
    assert exact.statistics.var[0] == pytest.approx(inputs["var1"], abs=1e-12)
    two = exact.output[maps == 2][0]
    assert two == pytest.approx(expected["exact_eps0"], abs=1e-9)
    default = normalize(maps, schemes.LAYER_NORM_CHW).output[maps == 2][0]
    assert default == pytest.approx(expected["exact_eps1e5"], abs=1e-9)
    mean, var = (round(float(s[0]), 4) for s in exact.statistics[:2])
    rounded = (2 - mean) / math.sqrt(var)
    assert rounded == pytest.approx(expected["from_rounded_inputs"], abs=1e-9)
    assert [round(float(v), 4) for v in (two, default, rounded)] == [2.5230, 2.5229, 2.5231]
    assert round(float(default), 4) == expected["printed"]


@about("ln.s003.formula_variants")
def test_eps_stands_inside_the_root(inputs, expected):
    x, eps = array([inputs["x"]]), inputs["eps"]
    output, (mean, var, _) = normalize(x, schemes.LAYER_NORM, eps=eps)
    close(output[0], expected["sqrt_var_plus_eps"])
    variants = {
        "sigma_plus_eps": np.sqrt(var) + eps,
        "var_plus_eps": var + eps,
        "bessel": np.sqrt(var * 5 / 4 + eps),
    }
    for name, divisor in variants.items():
        close((x - mean)[0] / divisor, expected[name])
        assert np.abs(output[0] - expected[name]).max() > 1e-6


@about("ln.eps_dominates")
def test_eps_dominates_small_variances(inputs, expected):
    x = np.arange(1, 6) * array(inputs["scale"])[:, None]
    for name, eps in {"eps1e5": inputs["eps"], "eps1e12": 1e-12, "eps1e3": 1e-3}.items():
        output, (mean, var, _) = normalize(x, schemes.LAYER_NORM, eps=eps)
        close(output.std(1), expected[f"out_std_{name}"])
    mean, var, _ = statistics(x, schemes.LAYER_NORM)
    wrong = (x - mean[:, None]) / (var + inputs["eps"])[:, None]
    close(wrong.std(1), expected["var_plus_eps_code_003"])


@about("ln.two_features")
def test_two_features_pass_one_bit(inputs, expected):
    close(normalize(array(inputs["pairs"]), schemes.LAYER_NORM).output, expected["y"])


@about("ln.two_features_gradient")
def test_gradient_of_two_features(inputs, expected):
    x = array(inputs["x"])
    dy = np.tile(array(inputs["dy"]), (len(x), 1))
    dx = backward(dy, x, schemes.LAYER_NORM).x
    close(dx, np.stack([expected["dx0"], expected["dx1"]], 1), 1e-8)


@about("ln.constant_vector")
def test_constant_vector(inputs, expected):
    x, gamma, beta = (array(inputs[key]) for key in ("x", "gamma", "beta"))
    x = x[None]
    close(normalize(x, schemes.LAYER_NORM, gamma, beta).output[0], expected["y"])
    close(normalize(x, schemes.LAYER_NORM).output[0], expected["y_no_affine"])
    dx = backward(array([[1, 0, 0]]), x, schemes.LAYER_NORM).x
    close(dx[0], expected["grad_for_dy_100"])
    assert expected["eps0"].startswith("nan")
    with np.errstate(all="ignore"):
        assert np.isnan(normalize(x, schemes.LAYER_NORM, eps=0.0).output).all()
    assert normalize(tensor(x), schemes.LAYER_NORM, eps=0.0).output.isnan().all()


@about("rms.one_to_five")
def test_rms_norm(inputs, expected):
    x = array([inputs["x"]])
    mean, square, _ = statistics(x, schemes.RMS_NORM)
    assert mean.item() == 0
    assert math.sqrt(square.item()) == pytest.approx(expected["rms"], abs=1e-12)
    close(normalize(x, schemes.RMS_NORM).output[0], expected["y_eps1e5"])
    close(layers.RMSNorm(5, dtype=torch.float64)(tensor(x))[0], expected["y_default_eps"])


# Ba et al. 2016, table 1


@about("norm.invariances")
def test_invariances(inputs, expected):
    rng = np.random.default_rng(0)
    w, x, shift = rng.standard_normal((6, 5)), rng.standard_normal((8, 6)), rng.standard_normal(6)
    vector, case = np.ones(5), np.ones((8, 1))
    vector[2], case[3] = 3, 3
    changes = {  # of the weights, a column for each unit, and of the data, a row for each case
        "weight matrix re-scaling": (3 * w, x),
        "weight matrix re-centering": (w + shift[:, None], x),
        "weight vector re-scaling": (w * vector, x),
        "dataset re-scaling": (w, 3 * x),
        "dataset re-centering": (w, x + shift),
        "single case re-scaling": (w, x * case),
    }
    assert list(changes) == inputs["rows"]
    methods = {
        "BN": lambda w, x: normalize(x @ w, schemes.BATCH_NORM_1D, eps=0.0).output,
        "LN": lambda w, x: normalize(x @ w, schemes.LAYER_NORM, eps=0.0).output,
        "WN": lambda w, x: x @ w / np.linalg.norm(w, axis=0),  # weight norm, for comparison
    }
    assert set(methods) == set(expected)
    for name, method in methods.items():
        moved = [np.abs(method(*change) - method(w, x)).max() for change in changes.values()]
        assert [change < 1e-12 for change in moved] == expected[name]
        assert all(change < 1e-12 or change > 0.1 for change in moved)


# Numerics


@about("num.cancellation")
def test_two_passes_do_not_cancel(inputs, expected):
    for row in expected["rows"]:
        x = np.array([row["x"]], np.float32)
        one_pass = (x * x).mean(dtype=np.float32) - x.mean(dtype=np.float32) ** 2
        assert one_pass == row["one_pass_f32"]
        for convert in LIBRARIES.values():
            var = statistics(convert(x), schemes.LAYER_NORM).var
            assert str(var.dtype).endswith("float32")
            assert var.item() == row["two_pass_f32"] == row["welford_f32"] == row["true"] == 1.25


@about("num.half_precision")
def test_half_precision(inputs, expected):
    half, bfloat = np.float16, torch.bfloat16
    assert np.finfo(half).max == expected["fp16_max"]
    with np.errstate(over="ignore"):
        assert str(half(256) * half(256)) == expected["fp16_256_squared"]
    assert half(1e-5) == expected["fp16_eps_1e5"]
    assert half(1e-8) == expected["fp16_1e8"] and half(1e-12) == expected["fp16_1e12"]
    assert half(1) + half(1e-5) == expected["fp16_one_plus_1e5"]
    assert half(2049) == expected["fp16_2049"] and np.finfo(half).eps == expected["fp16_finfo_eps"]
    assert torch.tensor(257, dtype=bfloat) == expected["bf16_257"]
    assert torch.finfo(bfloat).eps == expected["bf16_finfo_eps"]
    assert torch.tensor(1e-5, dtype=bfloat) == expected["bf16_1e5"]
    x = np.array([[300, -300, 600, -600]], half)
    with np.errstate(over="ignore"):
        naive = x / np.sqrt((x * x).mean(dtype=half) + half(1e-5))
    close(naive[0], expected["naive_fp16_LN_of_300_-300_600_-600"], 0)
    rounded, t = expected["F.layer_norm_fp16"], torch.from_numpy(x)
    assert F.layer_norm(t, (4,))[0].tolist() == rounded
    assert normalize(x, schemes.LAYER_NORM).output[0].tolist() == rounded
    assert normalize(t, schemes.LAYER_NORM).output[0].tolist() == rounded
    assert layers.LayerNorm(4, dtype=torch.float16)(t)[0].tolist() == rounded
    close(normalize(x.astype(float), schemes.LAYER_NORM).output[0], expected["true"], 1e-9)


@about("num.float32_tolerance")
def test_float32_is_about_as_exact_as_torch(inputs, expected):
    assert inputs["x"] == "mean+randn(64,256), manual_seed(0)"
    torch.manual_seed(0)
    noise = torch.randn(64, 256)
    for row in expected["rows"]:
        x = row["mean"] + noise
        exact = {
            "ln": (schemes.LAYER_NORM, F.layer_norm(x.double(), (256,))),
            "bn": (schemes.BATCH_NORM_1D, F.batch_norm(x.double(), None, None, training=True)),
        }
        for name, (scheme, y) in exact.items():
            for convert in (np.asarray, torch.as_tensor):
                output = torch.as_tensor(normalize(convert(x), scheme).output)
                error = (output.double() - y).abs().max()
                assert 0 < error < 4 * row[f"{name}_err"]  # an order of magnitude, no more

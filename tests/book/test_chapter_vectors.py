"""What the chapters compute by code of their own, against numbers from outside."""

from functools import partial

import numpy as np

import helpers
from helpers import VECTORS

TESTED = set()
about = partial(helpers.about, TESTED)


def close(actual, expected, atol=1e-9):
    assert np.shape(actual) == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def test_every_vector_is_tested():
    # The chapter has no LSTM; the package does.
    chapters = {i for i in VECTORS if i.startswith(("rnn.", "tf."))}
    assert chapters - {"rnn.ln_lstm_carry_normalised"} == TESTED


@about("rnn.ln_rnn_ba_eq4")
def test_layer_norm_before_tanh(inputs, expected, executions):
    values = executions["rnn"].values
    close(values["x"], inputs["x"])
    close(np.swapaxes(values["before"], 0, 1), expected["h_by_step"])
    close(values["h"], expected["h_by_step"][-1])  # with torch.nn's layer norm


@about("rnn.ln_after_tanh_fed_back")
def test_layer_norm_after_tanh(inputs, expected, executions):
    close(np.array(executions["rnn"].values["after"])[:, -1], expected["h_last"])


@about("rnn.plain_rnn_then_ln")
def test_layer_norm_on_the_outputs(inputs, expected, executions):
    values = executions["rnn"].values
    close(values["plain"], expected["rnn_out"])
    close(values["states"], expected["rnn_out"])  # of torch.nn's layer
    close(values["on_outputs"], expected["ln_of_out"])
    close(values["y"], expected["ln_of_out"])


@about("tf.s004.parameter_count")
def test_parameters_of_the_transformer_layer(inputs, expected, executions):
    values = executions["transformer"].values
    assert [values["d"], values["d_ff"]] == [inputs["d_model"], inputs["d_ff"]]
    assert values["sizes"] == [inputs["d_model"], inputs["n_heads"], inputs["d_ff"]]
    parts = {"mha": "attention", "ffn": "network", "layer_norms": "norms"}
    assert {part: values[name] for part, name in parts.items()} == expected["breakdown"]
    assert values["total"] == expected["total"] == 3_152_384


@about("tf.s004.post_ln_token_stats")
def test_tokens_after_the_transformer_layer(inputs, expected, executions):
    values = executions["transformer"].values
    close(values["mean_after"], np.full((2, 5), expected["mean"]))
    close(values["std_after"], np.full((2, 5), expected["std"]), 1e-5)
    assert np.min(values["std_after"]) >= expected["std_lower_bound_seen"] - 1e-7
    unbiased = np.multiply(values["std_after"], expected["std_unbiased_factor"])
    assert set(unbiased.ravel().round(5)) == {1.00097}

"""The examples against the source documents' numbers, as the test vectors hold them."""

import numpy as np
import pytest

from helpers import VECTORS
from normbook.core.scheme import Scheme
from normbook.data import examples

EXAMPLES = {name: e for name, e in vars(examples).items() if isinstance(e, examples.Example)}
SAME = {
    "CONV_OUTPUT": "ln.s000.conv",
    "FEATURE_MAPS": "ln.s002.feature_maps_eps0",
    "FOUR_TOKENS": "ln.s000.nlp",
    "FOUR_TOKENS_3": "ln.repo.nlp_2x4x3",
    "ONE_TO_FIVE": "ln.s004.one_to_five",
    "THREE_SCALES": "ln.s004.batch3",
    "RANDN": "ln.s004.randn",
    "RECURRENT": "rnn.ln_rnn_ba_eq4",
}


def test_every_example_is_compared():
    assert {*SAME, "RAGGED"} == set(EXAMPLES)


@pytest.mark.parametrize("name", SAME)
def test_numbers(name):
    np.testing.assert_array_equal(EXAMPLES[name].x, VECTORS[SAME[name]]["inputs"]["x"])


def test_ragged():
    vector = VECTORS["bn.fig6_15.per_step"]
    assert list(examples.RAGGED_LENGTHS) == vector["inputs"]["lengths"]
    x = examples.RAGGED.x
    real = np.arange(6) < np.array(examples.RAGGED_LENGTHS)[:, None]
    assert not x[~real].any()
    for t, step in enumerate(vector["expected"]["per_step"]):
        np.testing.assert_allclose(x[real[:, t], t].mean(0), step["mean"], atol=1e-12)
        np.testing.assert_allclose(x[:, t].var(0), step["padded_var"], atol=1e-12)


def test_recurrent_weights():
    for vector in (v for v in VECTORS.values() if v["chapter"] == "rnn" and "W_xh" in v["inputs"]):
        for name, part in zip(
            ("W_xh", "W_hh", "gamma", "beta"), examples.RECURRENT.weights, strict=True
        ):
            np.testing.assert_array_equal(part, vector["inputs"][name])
            assert part.dtype == np.float64


@pytest.mark.parametrize("name", EXAMPLES)
def test_cells_name_every_axis(name):
    example = EXAMPLES[name]
    assert example.x.dtype == np.float64
    assert example.shape == example.x.shape
    assert Scheme("", example.cells, stats="").on(example.shape).lengths
    assert example.source.startswith("document 00")


def test_x_is_new_each_time():
    examples.CONV_OUTPUT.x[:] = 0
    assert examples.CONV_OUTPUT.x.any()

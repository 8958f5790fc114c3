import inspect
import json
import re
import string
from dataclasses import replace

import numpy as np
import pytest
import torch
from traitlets import TraitError

import widget_golden
from new_schemes import BATCH_NORM_3D, NEW_CASES
from normbook.core.scheme import (
    BATCH_NORM_1D,
    BATCH_NORM_2D,
    BATCH_NORM_PER_STEP,
    GROUP_NORM,
    LAYER_NORM,
    LAYER_NORM_CHW,
    LAYER_NORM_TOKEN,
    LAYERS,
    MORE_LAYERS,
    RMS_NORM,
    Scheme,
    layout_of,
)
from normbook.data.examples import FEATURE_MAPS, FOUR_TOKENS, RAGGED, RAGGED_LENGTHS, THREE_SCALES
from normbook.widgets import SharedStatistics, use_language
from normbook.widgets.shared_statistics import MAX_CELLS, layers_for
from normbook.widgets.translations import CHINESE, ENGLISH, LANGUAGES


@pytest.fixture
def images():
    return SharedStatistics(FEATURE_MAPS.x, LAYER_NORM_CHW)


@pytest.fixture
def ragged():
    return SharedStatistics(RAGGED.x, BATCH_NORM_PER_STEP, lengths=RAGGED_LENGTHS)


def test_the_golden_file_is_up_to_date():
    stored = json.loads(widget_golden.GOLDEN.read_text(encoding="utf8"))
    fresh = json.loads(json.dumps(widget_golden.golden()))
    assert len(stored["entries"]) == len(fresh["entries"])
    for one, other in zip(stored["entries"], fresh["entries"], strict=True):
        assert one.keys() == other.keys()
        for key in one:
            if isinstance(one[key], list) and one[key] and isinstance(one[key][0], float):
                np.testing.assert_allclose(one[key], other[key], rtol=1e-11, atol=1e-12)
            elif key != "tracked":
                assert one[key] == other[key], (one["name"], key)


def test_every_layer_of_the_table_is_offered_where_it_fits():
    offered = [
        layer for layout in ("n c h w", "n t d", "n d l", "n d") for layer in layers_for(layout)
    ]
    assert set(offered) == set(LAYERS + MORE_LAYERS)
    widget = SharedStatistics(FEATURE_MAPS.x)
    assert [layer.name for layer in widget.layers] == [
        layer.name for layer in LAYERS if layout_of(layer) == "n c h w"
    ]


@pytest.mark.parametrize("case", NEW_CASES, ids=lambda case: case.name)
def test_a_scheme_of_any_axes_is_offered_with_those_of_the_table(case):
    widget = SharedStatistics(np.zeros(case.shape), case.scheme)
    assert widget.scheme == case.scheme
    known = tuple(layer for layer in LAYERS if layer.cells == widget.cells)
    assert widget.layers == (*known, case.scheme)
    assert bool(known) == (widget.cells == "n t d")
    again = SharedStatistics(np.zeros(case.shape), case.scheme)
    again.set_state(json.loads(json.dumps(widget.get_state(("scheme",)))))
    assert again.scheme == case.scheme


def test_a_split_axis_may_be_any():
    halves = Scheme("halves", "o (g k) h w", stats="o g", params="(g k)").with_lengths(g=2)
    widget = SharedStatistics(np.zeros((2, 4, 3, 3)), halves, cells="o i h w")
    assert widget.cells == "o i h w"
    widget.gamma = np.ones(4)
    with pytest.raises(TraitError, match="expected a layer for 'o g h w'"):
        SharedStatistics(np.zeros((2, 4, 3, 3)), halves, cells="o g h w")


def test_axes_are_called_what_they_stand_for():
    axes = SharedStatistics(np.zeros((1, 2, 2, 2, 2)), BATCH_NORM_3D).words["axes"]
    assert (axes["d"], axes["c"]) == ("depth", "channel")
    chinese = SharedStatistics(np.zeros((1, 2, 2, 2, 2)), BATCH_NORM_3D, language="zh").words
    assert chinese["axes"]["d"] == "深度"
    assert ENGLISH["axes"]["d"] == SharedStatistics(THREE_SCALES.x).words["axes"]["d"] == "feature"
    named = replace(BATCH_NORM_3D, names=(("d", "slice"),))
    assert SharedStatistics(np.zeros((1, 2, 2, 2, 2)), named).words["axes"]["d"] == "slice"


def test_all_that_is_offered_takes_the_mask():
    by_cell = Scheme("by cell", "n t d", stats="n t", mask="n t d")
    widget = SharedStatistics(FOUR_TOKENS.x, by_cell, mask=FOUR_TOKENS.x > -9)
    assert widget.layers == (by_cell,)
    assert widget.named == ()


def test_the_shape_tells_the_axes_unless_the_scheme_does():
    assert SharedStatistics(FEATURE_MAPS.x).cells == "n c h w"
    assert SharedStatistics(FOUR_TOKENS.x).cells == "n t d"
    assert SharedStatistics(FOUR_TOKENS.x, cells="n d l").cells == "n d l"
    assert SharedStatistics(THREE_SCALES.x).scheme is BATCH_NORM_1D


@pytest.mark.parametrize("x", [[[1, 2], [3, 4]], torch.tensor([[1, 2], [3, 4]]), ((1, 2), (3, 4))])
def test_anything_that_reads_as_numbers_is_a_tensor(x):
    widget = SharedStatistics(x)
    assert widget.values.dtype == np.float64
    assert widget.values.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="read-only"):
        widget.values[0, 0] = 5  # nobody would be told


@pytest.mark.parametrize(
    "x, message",
    [
        (np.zeros(3), "values has 1 axes, shape (3,); expected 2"),
        (
            np.zeros((1, 2, 3, 4, 5)),
            "values has 5 axes, shape (1, 2, 3, 4, 5); expected 2 to 4, or a scheme that tells",
        ),
        (np.zeros((2, 0)), "values has no cells, shape (2, 0)"),
        ([["a", "b"]], "values is [['a', 'b']]; expected real numbers"),
        (np.zeros((2, 2), complex), "expected real numbers"),
        (np.zeros((8, 16, 28, 28)), "at most 4,096 are drawn: slice it, as x[:8, :"),
    ],
)
def test_what_is_no_tensor_to_draw_is_refused(x, message):
    with pytest.raises(TraitError, match=re.escape(message)):
        SharedStatistics(x)


def test_the_slice_that_an_error_proposes_can_be_drawn():
    x = np.zeros((64, 64, 9, 2))
    with pytest.raises(TraitError) as caught:
        SharedStatistics(x)
    proposed = re.search(r"x\[.*\]", str(caught.value))[0]
    assert 0 < SharedStatistics(eval(proposed)).values.size <= MAX_CELLS


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("values", np.zeros((2, 3)), "values has shape (2, 3); expected (2, 3, 5, 5)"),
        ("values", None, "values is None"),
        ("scheme", LAYER_NORM_TOKEN, "expected a layer for 'n c h w'"),
        ("scheme", GROUP_NORM.with_lengths(g=2), "an axis of length 3 can't be (g k) with g=2"),
        ("scheme", "LayerNorm", "Scheme"),
        ("mask", np.ones((2, 3)), "mask has shape (2, 3)"),
        ("mask", np.full((2, 3, 5, 5), 2), "expected True and False"),
        ("selection", (0, 0, 0, 5), "selection is (0, 0, 0, 5); expected the index of a cell"),
        ("selection", 3, "selection is 3"),
        ("selection", (0, 0, 0, 0.5), "selection is (0, 0, 0, 0.5)"),
        ("eps", -1, "eps is -1; expected a finite number that is at least 0"),
        ("eps", "small", "eps is 'small'"),
        ("eps", float("nan"), "eps is nan"),
        ("gamma", np.ones(3), "gamma has shape (3,); LayerNorm over C, H, W takes one value per c"),
        ("running_mean", np.ones(3), "LayerNorm over C, H, W keeps no running statistics"),
        ("batch", 3, "batch is 3; expected 1 to 2"),
        ("batch", 0, "0"),
        ("mode", "test", "test"),
        ("view", "y", "y"),
        ("share", "mean", "mean"),
        ("momentum", 2.0, "2"),
        ("controls", ["colors"], "colors"),
    ],
)
def test_a_wrong_assignment_raises_at_once_and_changes_nothing(images, name, value, message):
    before = images.get_state()
    with pytest.raises(TraitError, match=re.escape(message)):
        setattr(images, name, value)
    assert images.get_state() == before


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="no 'color'"):
        SharedStatistics(FEATURE_MAPS.x, color="red")
    with pytest.raises(ValueError, match="cells='n x y': the book has no layer for these axes"):
        SharedStatistics(FOUR_TOKENS.x, cells="n x y")
    with pytest.raises(TypeError, match="scheme: 'LayerNorm' is a str; expected a Scheme, such as"):
        SharedStatistics(FOUR_TOKENS.x, "LayerNorm")
    with pytest.raises(TypeError, match="layers: 'LayerNorm' is a str; expected a Scheme"):
        SharedStatistics(FOUR_TOKENS.x, layers=(LAYER_NORM_TOKEN, "LayerNorm"))
    for cells in ("n  d", "n d d", "n (g k)", "N d"):
        with pytest.raises(TraitError, match=r"cells is '.*'; expected a letter for every axis"):
            SharedStatistics(THREE_SCALES.x, LAYER_NORM, cells=cells)
    with pytest.raises(TraitError, match="LayerNorm with cells 'n d'; expected a layer for 'o i'"):
        SharedStatistics(THREE_SCALES.x, LAYER_NORM, cells="o i")
    with pytest.raises(ValueError, match="lengths and mask were given"):
        SharedStatistics(FOUR_TOKENS.x, lengths=(1, 2), mask=np.ones((2, 4), bool))
    with pytest.raises(ValueError, match=r"lengths is \[5, 9\]; expected 2 numbers from 0 to 4"):
        SharedStatistics(FOUR_TOKENS.x, lengths=(5, 9))
    with pytest.raises(ValueError, match="lengths are those of sequences of tokens"):
        SharedStatistics(FEATURE_MAPS.x, lengths=(1, 2))
    with pytest.raises(TraitError, match="GroupNorm needs the length of 'g'"):
        SharedStatistics(FEATURE_MAPS.x, GROUP_NORM)
    rms = SharedStatistics(FOUR_TOKENS.x, RMS_NORM)
    with pytest.raises(TraitError, match="beta was given, but RMSNorm has no beta"):
        rms.beta = np.zeros(2)


def test_lengths_are_a_mask(ragged):
    assert ragged.mask.sum(axis=0).tolist() == [5, 5, 4, 3, 2, 1]
    assert SharedStatistics(RAGGED.x, lengths=(0, 6, 6, 6, 6)).mask[0].any() == np.False_


def test_changes_can_be_observed(images):
    seen = []
    images.observe(lambda change: seen.append(change["name"]))
    images.values = images.values + 1
    images.selection = [1, 2, 3, 4]
    images.eps = 0
    images.scheme = BATCH_NORM_2D
    assert seen[:4] == ["values", "selection", "eps", "scheme"]
    assert images.selection == (1, 2, 3, 4)


def test_what_is_done_by_hand_arrives_in_python(images):
    """The state that the front end sends is read back as it was."""
    x = images.values.copy()
    x[0, 0, 0, 1] = np.nan
    custom = Scheme("no usual name", "n c h w", stats="n w")
    other = SharedStatistics(x, custom, selection=(0, 0, 0, 1), eps=0.5)
    images.set_state(
        json.loads(json.dumps(other.get_state(("values", "scheme", "selection", "eps"))))
    )
    np.testing.assert_array_equal(images.values, x)
    assert images.scheme == custom
    assert images.selection == (0, 0, 0, 1)
    assert images.eps == 0.5


def test_a_new_scheme_forgets_the_parameters_of_the_old():
    widget = SharedStatistics(
        FEATURE_MAPS.x, BATCH_NORM_2D, gamma=[1, 2, 3], running_mean=[0, 0, 0], batches=[1, 1, 1]
    )
    widget.scheme = LAYER_NORM_CHW
    assert widget.gamma is None
    assert widget.running_mean is None
    assert widget.batches == []


def test_a_smaller_batch_shows_its_first_samples(images):
    images.batch = 1
    np.testing.assert_array_equal(images.shown, FEATURE_MAPS.x[:1])


@pytest.mark.parametrize("example", [FEATURE_MAPS, THREE_SCALES, FOUR_TOKENS])
def test_the_still_picture_shows_the_tensor_and_its_groups(example):
    picture = SharedStatistics(example.x, label="A & B")._repr_html_()
    assert picture.count("<rect") >= example.x.size
    assert "A &amp; B: average over" in picture


def test_what_is_too_much_for_a_picture_is_described_in_words():
    large = SharedStatistics(np.zeros((4, 4, 16, 16)), LAYER_NORM_CHW, label="</script>")
    assert large._repr_html_() == (
        "<p>LayerNorm over C, H, W. &lt;/script&gt;: average over c, h, w → one (μ, σ²) per n</p>"
    )
    layer = next(layer for layer in LAYERS if layer.name.endswith("sequence as channel"))
    empty_step = SharedStatistics(RAGGED.x, layer, lengths=(5, 2, 4, 3, 5))
    assert "average over n, d" in empty_step._repr_html_()


def test_all_words_are_in_both_languages():
    def keys(words):
        return {
            k: keys(v) if isinstance(v, dict) else None for k, v in words.items() if k != "layers"
        }

    assert keys(ENGLISH) == keys(CHINESE)
    for key, english in ENGLISH.items():
        if isinstance(english, str):
            fields = [
                {f for _, f, _, _ in string.Formatter().parse(w[key]) if f}
                for w in LANGUAGES.values()
            ]
            assert fields[0] == fields[1], key
    names = {layer.name for layer in LAYERS + MORE_LAYERS}
    for language in LANGUAGES.values():
        assert {re.sub(r" \(n .*", "", name) for name in language["layers"]} <= names


def test_every_word_that_the_front_end_asks_for_exists():
    script = str(SharedStatistics._esm)
    asked = set(re.findall(r'\bt\("(\w+)"', script)) | set(re.findall(r"\bwords\.(\w+)", script))
    assert {"hint", "language"} <= asked <= set(ENGLISH)


def test_one_call_switches_the_language():
    try:
        use_language("zh")
        assert SharedStatistics(THREE_SCALES.x).words == CHINESE
        assert SharedStatistics(THREE_SCALES.x, language="en").words == ENGLISH
    finally:
        use_language("en")
    assert SharedStatistics(THREE_SCALES.x).words == ENGLISH
    with pytest.raises(ValueError, match="language is 'fr'"):
        use_language("fr")


def test_the_front_end_loads_nothing():
    script = str(SharedStatistics._esm)
    assert not re.search(r"^\s*import\b|\bimport\(|https?://(?!www\.w3\.org)", script, re.M)


def test_names_are_data():
    scheme = replace(LAYER_NORM, name="</script><b>")
    widget = SharedStatistics(THREE_SCALES.x, scheme, label="</script>")
    assert "</script><b>" not in widget._repr_html_()
    assert widget.get_state()["scheme"]["name"] == scheme.name


def test_the_docstring_names_every_argument():
    fields = re.findall(r"^    ((?:\w+, )*\w+)\n        ", SharedStatistics.__doc__, re.M)
    named = {name for field in fields for name in field.split(", ")}
    assert set(inspect.signature(SharedStatistics.__init__).parameters) - {"self"} <= named

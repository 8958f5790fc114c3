import html
import inspect
import json
import re

import numpy as np
import pytest
from traitlets import TraitError

from explorer_samples import BATCHES, ERRORS, MEANS, SIZES, errors, running
from normbook.page.figures import STROKES
from normbook.widgets import Explorer
from normbook.widgets.translations import LANGUAGES


def test_what_is_sent_is_what_was_given():
    chart = running().get_state()["chart"]
    assert chart["x"] == BATCHES.tolist()
    np.testing.assert_allclose(np.reshape(chart["y"], MEANS.shape), MEANS, atol=5e-4)
    assert chart["low"] is chart["high"] is None
    assert chart["curves"] == ["mean", "var"]
    (momentum,) = chart["parameters"]
    assert momentum["values"] == ["0.01", "0.1", "0.5", "1"]
    assert momentum["slider"] and not momentum["play"]
    json.dumps(chart, allow_nan=False)


def test_strings_are_buttons_and_numbers_a_slider():
    placement, depth = errors(play="depth").chart["parameters"]
    assert placement["values"] == ["pre", "post"]
    assert (placement["slider"], depth["slider"]) == (False, True)
    assert (placement["play"], depth["play"]) == (False, True)


def test_the_axes_are_those_of_the_whole_family():
    widget = errors()
    for axis, values in (("x_axis", SIZES), ("y_axis", [ERRORS - 1, ERRORS + 1])):
        axis = widget.chart[axis]
        low, high = axis["ends"]
        assert low < np.min(values) and np.max(values) < high
        assert all(low <= tick <= high for tick, _ in axis["ticks"])
    assert [label for _, label in widget.chart["x_axis"]["ticks"]] == [str(n) for n in SIZES]
    assert widget.chart["x_axis"]["log"] and not widget.chart["y_axis"]["log"]
    assert errors(y_range=(0, 100)).chart["y_axis"]["ends"] == [0, 100]


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e-3, 1, 12, 100, 1e7, 1e30])
@pytest.mark.parametrize("y_scale", ["linear", "log"])
def test_values_are_rounded_to_what_can_be_told_apart(scale, y_scale):
    chart = errors(y=ERRORS * scale, low=None, high=None, y_scale=y_scale).chart
    sent = np.reshape(chart["y"], ERRORS.shape)
    np.testing.assert_allclose(sent, ERRORS * scale, rtol=1e-3)
    assert max(len(json.dumps(value)) for value in chart["y"]) <= 11


def test_whole_numbers_have_no_decimals():
    chart = running(y=MEANS.round()).chart
    assert chart["decimals"] == 0
    assert all(isinstance(value, int) for value in chart["y"])


def test_nan_is_a_gap():
    y = MEANS.copy()
    y[1, 0, 3] = np.nan
    assert [i for i, v in enumerate(running(y=y).chart["y"]) if v is None] == [2 * 21 + 3]


def test_selected_starts_where_it_is_told():
    assert running().selected == [0]
    assert running(start={"momentum": 0.5}).selected == [2]
    assert errors(start={"depth": np.int64(4)}).selected == [0, 2]


def test_selected_can_be_set_and_observed():
    widget, seen = errors(), []
    widget.observe(lambda change: seen.append(change["new"]), "selected")
    widget.selected = (1, np.int64(3))
    assert seen == [[1, 3]]
    assert widget.get_state()["selected"] == [1, 3]


@pytest.mark.parametrize("value", [None, 3, [0], [0, 4], [-1, 0], [0, 0.5], "00", [0, "a"]])
def test_what_is_no_member_is_refused(value):
    widget = errors()
    with pytest.raises(TraitError, match=re.escape(repr(value))):
        widget.selected = value
    assert widget.selected == [0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": MEANS[0]}, "y has shape (2, 21); expected (4, 2, 21)"),
        ({"x": BATCHES[:-1]}, "y has shape (4, 2, 21); expected (4, 2, 20)"),
        ({"x": MEANS}, "x has shape (4, 2, 21); expected (points,)"),
        ({"x": np.where(BATCHES == 3, np.nan, BATCHES)}, "x is nan at 3"),
        (
            {"y": np.zeros((4, 2, 6251)), "x": range(6251)},
            "y has 50,008 values, shape (4, 2, 6251); at most 50,000",
        ),
        ({"low": MEANS}, "a band has two ends"),
        ({"low": MEANS, "high": MEANS[:2]}, "high has shape (2, 2, 21); expected (4, 2, 21)"),
        ({"low": MEANS + 1, "high": MEANS}, "low is 1 at (0, 0, 0), above high, 0"),
        ({"parameters": {}}, "there are 0 parameters"),
        ({"parameters": dict.fromkeys("abc", (1, 2))}, "there are 3 parameters"),
        ({"parameters": {"a": ()}}, "the parameter 'a' has no values"),
        ({"parameters": {"a": (1, "b")}}, "the parameter 'a' has the value 'b'; expected finite"),
        ({"parameters": {"a": ("b", 1)}}, "the parameter 'a' has the value 1; expected strings"),
        ({"parameters": {"a": (1, np.inf)}}, "the parameter 'a' has the value inf"),
        ({"parameters": {"a": (True, False)}}, "the parameter 'a' has the value True"),
        ({"curves": "mean var four five six seven eight nine".split()}, "there are 8 curves"),
        ({"curves": ()}, "there are 0 curves"),
        ({"play": "time"}, "'time' is no parameter; expected one of ['momentum']"),
        ({"start": {"time": 1}}, "'time' is no parameter"),
        ({"start": {"momentum": 0.2}}, "momentum starts at 0.2; expected one of [0.01"),
        ({"x_scale": "log"}, "x holds 0; a log scale starts above 0"),
        ({"y_scale": "log"}, "y holds 0; a log scale starts above 0"),
        ({"y_scale": "root"}, "the scale of y is 'root'"),
        ({"y_range": (2, 1)}, "the ends of y are (2, 1)"),
        ({"y": MEANS * np.nan}, "y holds no number"),
        ({"y": np.where(BATCHES == 3, np.inf, MEANS)}, "y holds inf; leave a gap there, with NaN"),
        ({"language": "fr"}, "language is 'fr'"),
    ],
)
def test_what_does_not_fit_is_named(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        running(**options)


def test_the_arrays_are_copies():
    y = MEANS.copy()
    widget = running(y=y)
    y[:] = 0
    assert widget.y.max() > 0
    with pytest.raises(ValueError, match="read-only"):
        widget.y[0] = 1
    with pytest.raises(TraitError):
        widget.chart = {}


def test_the_picture_shows_the_selected_member():
    widget = errors(title="Error against batch", y=np.where(ERRORS < 3, np.nan, ERRORS))
    widget.selected = [1, 2]
    drawn = widget._repr_html_()
    assert "norm: post, depth: 4" in drawn
    assert "<figcaption>Error against batch. Shaded: 10 seeds</figcaption>" in drawn
    assert "test error (%), against batch" in drawn
    assert all(f">{name}</text>" in drawn for name in widget.curves)
    colors = [color.lower() for color, _ in STROKES[:3]]
    assert re.findall(r"fill:(#\w+);fill-opacity:0.2", drawn) == colors  # the bands
    widget.selected = [0, 2]
    assert widget._repr_html_() != drawn
    assert "<figcaption>running statistic, batches</figcaption>" in running()._repr_html_()


def test_names_are_data():
    bad = "</script><img src=x onerror=alert(1)>"
    widget = running(
        curves=(bad, "b"), title=bad, x_label=bad, y_label=bad, parameters={bad: "abcd"}
    )
    assert "<img" not in widget._repr_html_()
    assert html.escape(bad) in widget._repr_html_()
    assert widget.chart["curves"][0] == bad


def test_there_are_the_same_words_in_both_languages():
    english, chinese = (LANGUAGES[name]["explorer"] for name in ("en", "zh"))
    assert english.keys() == chinese.keys()
    assert running(language="zh").words["play"] == chinese["play"]
    assert running(language="zh").words["language"] == "zh"


def test_every_word_that_the_front_end_asks_for_exists():
    script = str(Explorer._esm)
    asked = set(re.findall(r"\bwords\.(\w+)", script))
    asked |= {
        word
        for names in re.findall(r"\bwords\[(.+?)\]", script)
        for word in re.findall(r'"(\w+)"', names)
    }
    assert {"to", "play"} <= asked == set(running().words)


def test_the_front_end_loads_nothing():
    script = str(Explorer._esm)
    assert not re.search(r"^\s*import\b|\bimport\(|https?://(?!www\.w3\.org|\$)", script, re.M)


def test_the_docstring_names_every_argument():
    fields = re.findall(r"^    ((?:\w+, )*\w+)\n        ", Explorer.__doc__, re.M)
    named = {name for field in fields for name in field.split(", ")}
    assert set(inspect.signature(Explorer.__init__).parameters) - {"self"} <= named

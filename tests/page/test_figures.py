import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from cases import number_cells
from new_schemes import BATCH_NORM_3D, NEW_CASES, WEIGHT_STANDARDIZATION
from normbook.core.scheme import (
    BATCH_NORM_1D_LENGTH,
    BATCH_NORM_2D,
    BATCH_NORM_POOLED,
    GROUP_NORM,
    LAYER_NORM,
    LAYER_NORM_CHANNELS,
    LAYER_NORM_CHW,
    LAYER_NORM_TOKEN,
    Scheme,
)
from normbook.data.examples import CONV_OUTPUT, FEATURE_MAPS, FOUR_TOKENS, THREE_SCALES
from normbook.page.figures import (
    LOOKS,
    PALETTE,
    STROKES,
    Curve,
    Flow,
    Plot,
    draw_curves,
    draw_flow,
    draw_sharing,
    strip_plot,
)
from normbook.page.figures.figure import PATTERNS
from normbook.page.figures.plot import PLOT_AREA, PLOT_MARGINS
from normbook.page.figures.scales import scale_for


def parse(figure):
    """The figure as XML: it must be well formed to be drawn everywhere."""
    return ET.fromstring(figure._repr_html_())


def drawn(figure):
    """The cells of the first panel in drawing order: pairs of fill and text."""
    svg = next(element for element in parse(figure).iter("svg"))
    rects = [rect.get("fill") for rect in svg.iter("rect")]
    texts = [text.text for text in svg.iter("text") if text.get("class") != "nb-label"]
    return list(zip(rects, texts, strict=True))


def same_partition(colors, groups):
    """Whether two lists put the same pairs together."""
    pairs = set(zip(colors, groups, strict=True))
    return len(pairs) == len(set(colors)) == len(set(groups))


@pytest.mark.parametrize(
    ("scheme", "example"),
    [
        (LAYER_NORM_CHW, FEATURE_MAPS),
        (BATCH_NORM_2D, FEATURE_MAPS),
        (GROUP_NORM.with_lengths(g=3), FEATURE_MAPS),
        (BATCH_NORM_POOLED, FOUR_TOKENS),
        (LAYER_NORM, THREE_SCALES),
    ],
)
def test_color_is_group_and_text_is_value(scheme, example):
    cells = drawn(draw_sharing(scheme, x=example.x, caption="c"))
    assert [float(text) for _, text in cells] == example.x.ravel().tolist()
    assert same_partition([fill for fill, _ in cells], scheme.groups(example.shape).ravel())


def test_more_groups_than_colors_are_cycled_and_numbered():
    cells = drawn(draw_sharing(LAYER_NORM_CHANNELS, x=FEATURE_MAPS.x, caption="c", show="groups"))
    groups = LAYER_NORM_CHANNELS.groups(FEATURE_MAPS.shape).ravel()
    assert [int(text) for _, text in cells] == groups.tolist()
    assert len({fill for fill, _ in cells}) == len(LOOKS) == len(PALETTE) ** 2 < len(set(groups))


def test_parameters():
    figure = draw_sharing(
        LAYER_NORM_CHW, x=FEATURE_MAPS.x, caption="c", share="parameters", show="groups"
    )
    numbers = [int(text) for _, text in drawn(figure)]
    assert numbers == [*range(75), *range(75)]
    assert "one (γ, β) per c, h, w" in figure._repr_html_()


def test_masked_cells_are_empty():
    x = FOUR_TOKENS.x
    mask = np.array([[True, True, True, False], [True, False, False, False]])
    figure = draw_sharing(BATCH_NORM_POOLED, x=x, caption="c", mask=mask)
    svg = next(parse(figure).iter("svg"))
    filled = [rect.get("fill") != "none" for rect in svg.findall("rect")]
    assert filled == np.repeat(mask.ravel(), 2).tolist()
    texts = [text.text for text in svg.findall("text") if text.get("class") != "nb-label"]
    assert [float(text) for text in texts] == x[mask].ravel().tolist()
    assert "4 cells, μ 0.75" in figure._repr_html_()
    tokens = draw_sharing(LAYER_NORM_TOKEN, x=x, caption="c", mask=mask)
    alt = next(parse(tokens).iter("svg")).get("aria-label")
    assert "4 in all" in alt and "padding takes no part" in alt


def test_legend_leaves_out_groups_without_a_cell():
    mask = np.array([[True, True, True, False], [True, False, False, False]])
    figure = draw_sharing(LAYER_NORM_TOKEN, x=FOUR_TOKENS.x[:, :3], mask=mask[:, :3], caption="c")
    labels = [label.text for label in parse(figure).iter("b")]
    assert labels == ["n=0, t=0", "n=0, t=1", "n=0, t=2", "n=1, t=0"]


def test_legend_has_the_statistics():
    text = "".join(parse(draw_sharing(LAYER_NORM_CHW, x=FEATURE_MAPS.x, caption="c")).itertext())
    assert "n=0 75 cells, μ 0.4933, σ² 0.3566" in text
    assert "n=1 75 cells, μ 0.7733, σ² 0.5486" in text


def test_every_color_has_a_pattern_of_its_own():
    assert len(set(PALETTE)) == len(set(PATTERNS)) == len(PALETTE) == len(PATTERNS)
    assert LOOKS[: len(PALETTE)] == tuple(zip(PALETTE, PATTERNS, strict=True))


def test_groups_of_one_color_differ_in_their_pattern():
    assert len(set(LOOKS)) == len(LOOKS) == len(PALETTE) ** 2
    svg = parse(draw_sharing(LAYER_NORM_TOKEN, x=FOUR_TOKENS.x, caption="eight groups"))
    rects = [(rect.get("fill"), rect.get("stroke")) for rect in svg.iter("rect")]
    assert len({fill for fill, _ in rects}) == 8
    assert len({stroke for _, stroke in rects}) == len(PALETTE)


@pytest.mark.parametrize("scheme", [LAYER_NORM_TOKEN, BATCH_NORM_1D_LENGTH])
def test_three_axes_stay_inside_the_picture(scheme):
    svg = next(
        parse(draw_sharing(scheme, x=np.arange(24.0).reshape(2, 3, 4), caption="c")).iter("svg")
    )
    width, height = float(svg.get("width")), float(svg.get("height"))
    for rect in svg.findall("rect"):
        assert 0 <= float(rect.get("x")) <= width - float(rect.get("width"))
        assert 0 <= float(rect.get("y")) <= height - float(rect.get("height"))


@pytest.mark.parametrize("show", ["values", "groups"])
def test_narrow_maps_leave_room_for_their_labels(show):
    figure = draw_sharing(BATCH_NORM_2D, x=CONV_OUTPUT.x, caption="c", show=show)
    svg = next(parse(figure).iter("svg"))
    starts = [float(text.get("x")) for text in svg.iter("text") if text.get("class") == "nb-label"]
    room = 8 * 7.5  # px: "n=0, c=1" at 13 px
    assert starts[0] + room <= starts[1] and starts[1] + room <= float(svg.get("width"))


def test_no_two_cells_overlap():
    svg = next(parse(draw_sharing(BATCH_NORM_2D, x=FEATURE_MAPS.x, caption="c")).iter("svg"))
    corners = [(rect.get("x"), rect.get("y")) for rect in svg.findall("rect")]
    assert len(set(corners)) == FEATURE_MAPS.x.size


def test_has_words_for_those_who_cannot_see_it():
    html = draw_sharing(LAYER_NORM_CHW, x=FEATURE_MAPS.x, caption="a < b")._repr_html_()
    assert re.search(r'role="img" aria-label="LayerNorm over C, H, W: average over c, h, w', html)
    assert "<figcaption>a &lt; b</figcaption>" in html


def test_ids_are_unique_among_figures():
    figures = [
        draw_sharing(scheme, x=FEATURE_MAPS.x, caption="c")
        for scheme in (LAYER_NORM_CHW, BATCH_NORM_2D)
    ]
    ids = [e.get("id") for figure in figures for e in parse(figure).iter("pattern")]
    assert len(set(ids)) == len(ids) > 0


def test_figures_of_one_tensor_have_patterns_of_their_own():
    """Else a figure had none where another one, with the same, is hidden."""
    figures = [draw_sharing(LAYER_NORM_CHW, x=FEATURE_MAPS.x, caption=c) for c in ("a", "b")]
    ids = [{e.get("id") for e in parse(figure).iter("pattern")} for figure in figures]
    assert ids[0].isdisjoint(ids[1])


def test_every_pattern_that_is_named_is_there():
    figure = draw_sharing(BATCH_NORM_2D, x=FEATURE_MAPS.x, caption="c")  # with a legend
    named = set(re.findall(r"url\(#(\w+)\)", figure._repr_html_()))
    assert named == {e.get("id") for e in parse(figure).iter("pattern")} != set()


@pytest.mark.parametrize("share", ["statistics", "parameters"])
@pytest.mark.parametrize("case", NEW_CASES, ids=lambda case: case.name)
def test_a_layer_of_any_axes_is_drawn(case, share):
    x = np.arange(np.prod(case.shape), dtype=float).reshape(case.shape)
    figure = draw_sharing(case.scheme, x=x, caption="c", share=share)
    cells = drawn(figure)
    assert [float(text) for _, text in cells] == x.ravel().tolist()
    indices = case.scheme.stats if share == "statistics" else case.scheme.params
    fills = [fill for fill, _ in cells]
    if indices:
        numbers = number_cells(case.scheme, indices, case.lengths)
        assert same_partition(fills, numbers.ravel())
    else:
        assert set(fills) == {"none"}
        assert "no γ, β" in figure._repr_html_()
    if indices == "1":
        assert "one γ for all cells" in figure._repr_html_()


def corners(scheme, shape):
    """Where the cells of a picture are, from the left and from the top: arrays of this shape."""
    figure = draw_sharing(scheme, x=np.ones(shape), caption="c")
    rects = next(parse(figure).iter("svg")).findall("rect")
    places = [[float(rect.get(key)) for rect in rects] for key in "xy"]
    return [np.reshape(place, shape) for place in places]


def labels(scheme, shape):
    svg = next(parse(draw_sharing(scheme, x=np.ones(shape), caption="c")).iter("svg"))
    return [text.text for text in svg.iter("text") if text.get("class") == "nb-label"]


def test_five_axes_are_rows_of_maps():
    shape = (2, 3, 2, 4, 5)
    x, y = corners(BATCH_NORM_3D, shape)
    assert (np.ptp(x, axis=(0, 1, 3)) == 0).all() and (np.ptp(y, axis=(2, 4)) == 0).all()
    assert len(np.unique(x)) == 2 * 5 and len(np.unique(y)) == 2 * 3 * 4
    wide = labels(BATCH_NORM_3D, (1, 2, 2, 1, 8))
    assert wide[1:3] == ["sample 0, channel 0, depth 1", "sample 0, channel 1, depth 0"]
    assert labels(BATCH_NORM_3D, shape)[-1] == "n=1, c=2, d=1"


def test_labels_say_what_the_letters_stand_for():
    assert labels(WEIGHT_STANDARDIZATION, (1, 2, 1, 9)) == [
        "output channel 0, input channel 0", "output channel 0, input channel 1",
    ]  # fmt: skip
    assert labels(WEIGHT_STANDARDIZATION, (1, 2, 1, 2)) == ["o=0, i=0", "o=0, i=1"]
    assert labels(Scheme("q", "q x", stats="q"), (2, 3)) == ["q=0", "q=1"]
    named = Scheme("q", "q x", stats="q", names=(("q", "query"),))
    assert labels(named, (2, 3)) == ["query 0", "query 1"]
    assert labels(Scheme("a vector", "n", stats=""), (3,)) == []


@pytest.mark.parametrize(
    ("cells", "shape"),
    [("n", (4,)), ("o i", (2, 3)), ("b t e", (2, 3, 4)), ("b s e", (2, 3, 4)),
     ("n c d h w", (1, 2, 2, 2, 2)), ("a b c d e f", (1, 2, 1, 2, 2, 2))],
)  # fmt: skip
def test_no_cell_covers_another_whatever_the_axes(cells, shape):
    scheme = Scheme("layer", cells, stats="")
    x, y = corners(scheme, shape)
    assert len({*zip(x.ravel(), y.ravel(), strict=True)}) == x.size
    svg = next(parse(draw_sharing(scheme, x=np.ones(shape), caption="c")).iter("svg"))
    assert x.max() < float(svg.get("width")) and y.max() < float(svg.get("height"))


def test_bad_arguments_are_named():
    x = np.zeros((2, 3))
    with pytest.raises(ValueError, match="share='gamma'"):
        draw_sharing(LAYER_NORM, x=x, caption="c", share="gamma")
    with pytest.raises(ValueError, match="show='x'"):
        draw_sharing(LAYER_NORM, x=x, caption="c", show="x")
    with pytest.raises(ValueError, match=r"x has 1 axes, shape \(3,\); LayerNorm expected 2: n d"):
        draw_sharing(LAYER_NORM, x=x[0], caption="c")


RECURRENT = Flow("after", ("Wx + Wh", "tanh", "LN", "h"), ((3, 0),))
RESIDUAL = Flow("post-LN", ("x", "attention", "+", "LN"), ((0, 2),))


def arrows(svg):
    """Lines that end in a head, each with its head: pairs of paths."""
    paths = svg.findall("path")
    return list(zip(paths[::2], paths[1::2], strict=True))


def test_flow_has_every_step_and_colors_the_norm():
    svg = next(parse(draw_flow(RECURRENT, caption="c")).iter("svg"))
    assert [text.text for text in svg.findall("text")] == list(RECURRENT.steps)
    assert [rect.get("fill") for rect in svg.findall("rect")] == [
        "none",
        "none",
        PALETTE[1],
        "none",
    ]
    assert len(arrows(svg)) == 3 + 1  # from step to step, and the jump


@pytest.mark.parametrize(("flow", "dashed"), [(RECURRENT, True), (RESIDUAL, False)])
def test_flow_dashes_what_goes_back(flow, dashed):
    line, head = arrows(next(parse(draw_flow(flow, caption="c")).iter("svg")))[-1]
    assert (line.get("stroke-dasharray") is not None) == dashed
    assert head.get("stroke-dasharray") is None
    assert line.get("d").endswith(head.get("d").split("L")[1])  # the head is where the line ends


def test_flow_says_its_steps_and_jumps():
    first, second = parse(draw_flow(RECURRENT, RESIDUAL, caption="c")).iter("svg")
    assert "Wx + Wh → tanh → LN → h; h also goes to Wx + Wh in the next" in first.get("aria-label")
    assert second.get("aria-label").endswith("x also goes to + directly")


@pytest.mark.parametrize("jump", [(0, 0), (0, 2), (-1, 0)])
def test_flow_refuses_a_jump_to_nowhere(jump):
    with pytest.raises(ValueError, match="two different positions among 2 steps"):
        draw_flow(Flow("f", ("x", "y"), (jump,)), caption="c")


ANGLE = np.linspace(0, 2 * np.pi, 60)
CIRCLE = Curve(3 * np.cos(ANGLE), 3 * np.sin(ANGLE))
PATH = Curve([-3, 0, 1.5], [0, 1, 0], name="a path", dots=True)
PLOT = Plot("a title", "width (m)", "height (m)", (CIRCLE, PATH), equal=True)


def lines(plot):
    """The curves as drawn: for each its group, and its points in pixels."""
    svg = next(parse(draw_curves(plot, caption="c")).iter("svg"))
    for group in svg.findall("g"):
        yield (
            group,
            np.array(re.findall(r"[ML]([-\d.]+) ([-\d.]+)", group.find("path").get("d")), float),
        )


def number(text):
    return float(text.replace("−", "-"))


def ticks(plot):
    """The numbers at either axis, each with its place in pixels."""
    svg = next(parse(draw_curves(plot, caption="c")).iter("svg"))
    texts = [t for t in svg.findall("text") if t.get("class") not in ("nb-axis", "nb-label")]
    x = [(number(t.text), float(t.get("x"))) for t in texts if t.get("class") is None]
    y = [(number(t.text), float(t.get("y"))) for t in texts if t.get("class") == "nb-end"]
    return np.array(x), np.array(y)


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("scale", [1e-5, 0.3, 1, 70, 2e9])
def test_curves_stand_where_the_ticks_say(equal, scale):
    curves = tuple(
        Curve(scale * np.array(c.x), scale * np.array(c.y), c.name) for c in (CIRCLE, PATH)
    )
    plot = Plot("t", "x", "y", curves, equal=equal)
    places = [np.polynomial.Polynomial.fit(*axis.T, 1) for axis in ticks(plot)]
    for curve, (_, drawn) in zip(curves, lines(plot), strict=True):
        expected = np.stack(
            [place(v) for place, v in zip(places, (curve.x, curve.y), strict=True)], 1
        )
        np.testing.assert_allclose(drawn, expected, atol=0.3)


@pytest.mark.parametrize("high", [0.7, 1, 3, 4.9, 12, 1e6])
def test_ticks_are_few_and_round(high):
    for axis in ticks(Plot("t", "x", "y", (Curve([0, high], [0, -high]),))):
        steps = np.diff(np.sort(axis[:, 0]))
        assert 2 <= len(axis) <= 6
        np.testing.assert_allclose(steps, steps[0])
        assert f"{steps[0]:e}"[0] in "125"
        assert f"{steps[0]:.6e}"[2:8] == "000000"


def test_equal_units_keep_a_circle_round():
    _, circle = next(lines(PLOT))
    width, height = np.ptp(circle, axis=0)
    assert abs(width - height) < 0.3
    _, ellipse = next(lines(Plot("t", "x", "y", (CIRCLE,))))
    assert np.ptp(ellipse, axis=0)[0] > 1.1 * np.ptp(ellipse, axis=0)[1]


def test_curves_stay_inside_the_axes():
    left, _, top, _ = PLOT_MARGINS
    for _, points in lines(PLOT):
        assert (points >= (left, top)).all()
        assert (points <= np.add((left, top), PLOT_AREA)).all()


def test_curves_have_colors_names_and_labels():
    groups = [group for group, _ in lines(PLOT)]
    assert [group.get("stroke") for group in groups] == ["currentColor", STROKES[0][0]]
    assert groups[1].findall("path")[1].get("d").count("M") == 3  # its dots
    figure = parse(draw_curves(PLOT, caption="a < b"))
    assert [item.find("span").text for item in figure.iter("li")] == ["a path"]
    text = "".join(figure.itertext())
    assert all(words in text for words in ("a title", "width (m)", "height (m)", "a < b"))
    label = next(figure.iter("svg")).get("aria-label")
    assert label == "a title: height (m), against width (m)"


def test_points_can_stand_alone():
    alone = Curve([1, 2, 3], [1, 4, 9], "alone", line=False)
    figure = parse(draw_curves(Plot("t", "x", "y", (alone,)), caption="c"))
    drawn = [path.get("d") for svg in figure.iter("svg") for path in svg.findall("g/path")]
    assert [path.count("h0") for path in drawn] == [3, 1]  # in the plot and in the legend
    assert not any("L" in path for path in drawn)


def test_a_line_has_a_gap_where_there_is_no_value():
    ((group, _),) = lines(
        Plot("t", "x", "y", (Curve(range(6), [1, 2, np.nan, 3, np.nan, 4], "c"),))
    )
    line, alone = (path.get("d") for path in group.findall("path"))
    assert [part.count("L") for part in line.split("M")[1:]] == [1, 0, 0]
    assert alone.count("h0") == 2  # the points without a neighbor


def test_a_band_lies_around_its_curve():
    x, y = np.arange(5), np.array([1, 3, 2, 5, 4])
    low, high = y - np.array([1, 1, np.nan, 0, 1]), y + 2
    curve = Curve(x, y, "c", low=low, high=high)
    plot = Plot("t", "x", "y", (curve,))
    svg = next(parse(draw_curves(plot, caption="c")).iter("svg"))
    (band,) = (path for path in svg.findall("path") if path.get("fill"))
    assert band.get("fill") == STROKES[0][0]
    to_x, to_y = (np.polynomial.Polynomial.fit(*axis.T, 1) for axis in ticks(plot))
    parts = [
        np.array(re.findall(r"[-\d.]+", part), float).reshape(-1, 2)
        for part in band.get("d").split("M")[1:]
    ]
    for part, run in zip(parts, (slice(0, 2), slice(3, 5)), strict=True):
        around = np.concatenate([high[run], low[run][::-1]])
        np.testing.assert_allclose(
            part[:, 0], to_x(np.concatenate([x[run], x[run][::-1]])), atol=0.3
        )
        np.testing.assert_allclose(part[:, 1], to_y(around), atol=0.3)


def test_a_log_scale_puts_equal_ratios_equally_far_apart():
    curve = Curve([2, 4, 8, 16], [1, 10, 100, 1000], "c")
    plot = Plot("t", "batch", "loss", (curve,), x_scale="log", y_scale="log")
    ((_, points),) = lines(plot)
    np.testing.assert_allclose(np.diff(points, axis=0), np.diff(points, axis=0)[[0] * 3], atol=0.2)
    x, y = ticks(plot)
    assert (x[:, 0].tolist(), y[:, 0].tolist()) == ([2, 4, 8, 16], [1, 10, 100, 1000])


def test_a_scale_can_be_given():
    curve = Curve([0, 1], [20, 30], "c")
    _, y = ticks(Plot("t", "x", "y", (curve,), y_scale=scale_for([0], ends=(0, 100))))
    assert y[:, 0].tolist() == [0, 20, 40, 60, 80, 100]


def test_strips_have_a_row_for_each_arm():
    rows = [("BN", "batch norm", [1, 2, 6]), ("LN", "layer norm", [2, 2, 2])]
    plot = strip_plot("t", "wrong (%)", "norm", rows, scale_for([0, 10]), line=5)
    svg = next(parse(draw_curves(plot, caption="c")).iter("svg"))
    heights = {t.text: float(t.get("y")) for t in svg.findall("text") if t.text in ("BN", "LN")}
    assert heights["BN"] < heights["LN"]

    bars, *points = plot.curves
    assert bars.x.tolist() == [3, 3, 3, 2, 2, 2, 5, 5]  # the means, and the line
    at = [(number(t.text), float(t.get("x"))) for t in svg.findall("text") if not t.get("class")]
    to_x = np.polynomial.Polynomial.fit(*np.array(at).T, 1)
    for (short, name, values), curve, (_, drawn) in zip(
        rows, points, [*lines(plot)][1:], strict=True
    ):
        assert curve.name == name
        np.testing.assert_allclose(drawn[:, 0], to_x(np.array(values)), atol=0.3)
        assert (np.diff(drawn[:, 1]) > 0).all()  # in their order, from top to bottom
        assert np.mean(drawn[:, 1]) == pytest.approx(heights[short], abs=0.1)
        assert np.ptp(drawn[:, 1]) < heights["LN"] - heights["BN"]


def test_strokes_differ_in_color_and_in_dashes():
    assert (
        len({color for color, _ in STROKES}) == len({dash for _, dash in STROKES}) == len(STROKES)
    )


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ((), "has 0 curves"),
        ((PATH,) * 8, "8 with a name"),
        ((Curve([], []),), "0 x and 0 y"),
        ((Curve([1, 2], [1]),), "2 x and 1 y"),
        ((Curve([1, np.inf], [1, 2]),), "all x finite"),
        ((Curve([1, 2], [1, 2], low=[1], high=[2, 3]),), "1 low and 2 high"),
        ((Curve([1, 2], [1, np.inf]),), "'t': y holds inf"),
    ],
)
def test_bad_curves_are_named(curves, message):
    with pytest.raises(ValueError, match=message):
        draw_curves(Plot("t", "x", "y", curves), caption="c")

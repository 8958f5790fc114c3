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
from normbook.page.figures import LOOKS, PALETTE, Flow, draw_flow, draw_sharing
from normbook.page.figures.figure import PATTERNS


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

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib.pyplot as plt
import numpy as np
import pytest

from normbook.page.figures import INK, PALETTE, STROKES, STYLE, draw_figure, strip_plot
from normbook.page.figures.plots import number_text


@pytest.fixture(autouse=True)
def style():
    with plt.style.context(STYLE):
        yield
    plt.close("all")


def curves(**labels):
    """A figure of two curves, one with a band."""
    fig, ax = plt.subplots()
    x = np.arange(1, 6)
    ax.plot(x, x**2, marker="o", label="squares")
    ax.fill_between(x, x**2 - 1, x**2 + 1, alpha=0.2)
    ax.plot(x, x * 3, label="multiples")
    ax.set(**{"title": "a title", "xlabel": "width (m)", "ylabel": "height (m)"} | labels)
    ax.legend()
    return fig


def parse(figure):
    """The figure as XML: it must be well formed to be drawn everywhere."""
    return ET.fromstring(figure._repr_html_())


def svgs(figure):
    return list(parse(figure).iter("svg"))


def texts(svg):
    """Each text with its place; one of several lines has no x and y."""
    places = [
        (text.get("x"), text.get("y"))
        if text.get("x")
        else re.match(r"translate\(([\d.]+) ([\d.]+)\)", text.get("transform")).groups()
        for text in svg.iter("text")
    ]
    written = [text.text for text in svg.iter("text")]
    return dict(zip(written, (tuple(map(float, place)) for place in places), strict=True))


def styles(svg):
    return [element.get("style") for element in svg.iter() if element.get("style")]


def points(path):
    """Where the points of a path are that has steps alone, from one to the next."""
    steps = np.array(re.findall(r"-?[\d.]+", path.get("d")), float).reshape(-1, 2)
    return steps.cumsum(axis=0)


def curve(svg, color):
    """The points of a curve that no band and no marker belongs to."""
    (path,) = (p for p in svg.iter("path") if f"stroke:{color.lower()}" in p.get("style", ""))
    return points(path)


def to_pixels(svg, axis, shown):
    """The scale of an axis as its ticks tell it: what makes pixels of a value, or of its log."""
    places = [(float(v), place[axis]) for v, place in texts(svg).items() if v in shown]
    assert len(places) == len(shown)
    return np.polynomial.Polynomial.fit(*np.array(places).T, 1)


def test_a_curve_stands_where_the_ticks_say():
    x, y = np.array([0, 1, 2.5, 4]), np.array([10, 30, 20, 50])
    fig, ax = plt.subplots()
    ax.plot(x, y)
    svg, *_ = svgs(draw_figure(fig, caption="c"))
    to_x, to_y = to_pixels(svg, 0, ["0", "1", "2", "4"]), to_pixels(svg, 1, ["10", "30", "50"])
    # Baselines are below the middle of the digits, all by as much.
    drawn = curve(svg, PALETTE[1]) - (0, curve(svg, PALETTE[1])[0, 1] - to_y(10))
    np.testing.assert_allclose(drawn, np.stack([to_x(x), to_y(y)], 1), atol=0.4)


@pytest.mark.parametrize("high", [0.7, 1, 3, 4.9, 12, 1e6])
def test_ticks_are_few_and_round(high):
    fig, ax = plt.subplots()
    ax.plot([0, high], [0, high])
    draw_figure(fig, caption="c")
    for ticks, (low, top) in ((ax.get_xticks(), ax.get_xlim()), (ax.get_yticks(), ax.get_ylim())):
        ticks = ticks[(low <= ticks) & (ticks <= top)]
        assert 3 <= len(ticks) <= 7
        assert f"{ticks[1] - ticks[0]:.3e}"[:5] in ("1.000", "2.000", "5.000")


def test_the_ticks_of_a_log_axis_are_numbers():
    fig, ax = plt.subplots()
    ax.plot([2, 4, 16], [1e-9, 1e-4, 1e3])
    ax.set(xscale="log", yscale="log", xticks=[2, 4, 16])
    svg, *_ = svgs(draw_figure(fig, caption="c"))
    written = texts(svg)
    assert list(written)[:3] == ["2", "4", "16"]
    assert "1e-8" in written and not any("$" in text for text in written)
    left, middle, right = (written[text][0] for text in ("2", "4", "16"))
    assert right - middle == pytest.approx(2 * (middle - left), abs=0.3)


def test_a_line_has_a_gap_where_there_is_no_value():
    fig, ax = plt.subplots()
    ax.plot(range(5), [1, 2, np.nan, 3, 4])
    svg, *_ = svgs(draw_figure(fig, caption="c"))
    (path,) = (p for p in svg.iter("path") if "stroke:#0072b2" in p.get("style", ""))
    assert path.get("d").count("m") == 2


def test_a_band_has_the_color_of_its_curve():
    svg, _ = svgs(draw_figure(curves(), caption="c"))
    assert f"fill:{PALETTE[1].lower()};fill-opacity:0.2" in styles(svg)


def test_equal_units_keep_a_circle_round_whatever_the_panel():
    angle = np.linspace(0, 2 * np.pi, 60)
    fig, axes = plt.subplots(1, 2)
    for ax in axes:
        ax.plot(3 * np.cos(angle), 3 * np.sin(angle))
        ax.set_aspect("equal", "datalim")
    for svg in svgs(draw_figure(fig, caption="c")):
        width, height = np.ptp(curve(svg, PALETTE[1]), axis=0)
        assert width == pytest.approx(height, abs=0.3)
        assert height > 0.8 * (266 - 2 * 40)  # fills its panel


def test_each_axes_becomes_a_panel_with_ticks_of_its_own():
    fig, axes = plt.subplots(1, 2, sharex=True, sharey=True)
    for number, ax in enumerate(axes):
        ax.plot([0, 10], [0, 10])
        ax.set(title=f"panel {number}", xlabel="x", ylabel=f"y {number}")
    figure = draw_figure(fig, caption="c")
    titles = [strong.text for strong in parse(figure).iter("strong")]
    assert titles == ["panel 0", "panel 1"]
    for number, svg in enumerate(svgs(figure)):
        assert (svg.get("width"), svg.get("height")) == ("320", "266")
        assert texts(svg).keys() >= {"0", "10", f"y {number}", "x"}
        assert f"panel {number}" not in texts(svg)


def test_nothing_is_drawn_outside_of_its_panel():
    figure = draw_figure(curves(ylabel="word " * 20, xlabel="word " * 9), caption="c")
    for svg in svgs(figure):
        _, _, width, height = map(float, svg.get("viewBox").split())
        assert len(texts(svg)) > 1
        for x, y in texts(svg).values():
            assert 0 <= x <= width and 9 <= y <= height
        for path in svg.iter("path"):
            if path.get("style"):
                assert (points(path) >= -1).all() and (
                    points(path) <= (width + 1, height + 1)
                ).all()
    assert sum("word" in text for text in texts(svgs(figure)[0])) > 1  # in several lines


def test_the_legend_stands_behind_the_panels():
    fig, axes = plt.subplots(1, 2)
    for ax in axes:
        for name in ("one", "two"):
            ax.plot([1, 2], [3, 4], label=name)
    axes[0].legend()
    *panels, legend = svgs(draw_figure(fig, caption="c"))
    assert len(panels) == 2
    assert not any("one" in texts(panel) for panel in panels)
    assert list(texts(legend)) == ["one", "two"]
    assert legend.get("aria-label") == "Legend: one; two"
    for (color, dashes), path in zip(STROKES[:2], legend.findall("path"), strict=True):
        assert f"stroke:{color.lower()}" in path.get("style")
        assert ("stroke-dasharray" in path.get("style")) == bool(dashes)


def test_curves_differ_in_color_and_in_dashes():
    colors, dashes = zip(*STROKES, strict=True)
    assert len(set(colors)) == len(set(dashes)) == len(STROKES)
    assert set(colors) <= {*PALETTE, "currentColor"}
    fig, ax = plt.subplots()
    for i in range(len(STROKES)):
        ax.plot([0, 1], [i, i + 1])
    svg, *_ = svgs(draw_figure(fig, caption="c"))
    drawn = [style for style in styles(svg) if "stroke-width:2" in style]
    for style, (color, dash) in zip(drawn, STROKES, strict=True):
        assert f"stroke:{color}".lower() in style.lower()
        written = re.search(r"stroke-dasharray:([\d,]+)", style)
        assert (written[1] if written else "") == ",".join(map(str, dash))


def test_strips_have_a_row_for_each_arm():
    fig, ax = plt.subplots()
    strip_plot(ax, [("BN", "batch norm", [1, 2, 6]), ("LN", "layer norm", [2, 2, 2])])
    ax.legend()
    svg, legend = svgs(draw_figure(fig, caption="c"))
    assert list(texts(legend)) == ["batch norm", "layer norm"]
    to_x = to_pixels(svg, 0, ["1", "2", "6"])
    uses = [(float(use.get("x")), float(use.get("y"))) for use in svg.iter("use")]
    batch, layer = np.array(uses).reshape(2, 3, 2)
    np.testing.assert_allclose(batch[:, 0], to_x(np.array([1, 2, 6])), atol=0.3)
    np.testing.assert_allclose(layer[:, 0], to_x(2), atol=0.3)
    assert (np.diff(batch[:, 1]) > 0).all() and batch[:, 1].max() < layer[:, 1].min()
    bars = [points(p) for p in svg.iter("path") if "stroke-opacity:0.5" in p.get("style", "")]
    np.testing.assert_allclose([bar[:, 0].mean() for bar in bars], to_x(np.array([3, 2])), atol=0.3)


def test_all_colors_are_the_pages_or_the_palettes():
    figure = draw_figure(curves(), caption="c")
    assert INK not in figure._repr_html_()
    found = re.findall(r"(?:fill|stroke):([^;]+)", ";".join(styles(parse(figure))))
    assert set(found) == {"none", "currentColor", *(color.lower() for color, _ in STROKES[:2])}


@pytest.mark.parametrize("change", [{"facecolor": "white"}, {"xlabel": "x"}])
def test_what_one_theme_would_hide_is_refused(change):
    with plt.style.context("default"):
        fig, ax = plt.subplots()
        ax.set(**change)
    with pytest.raises(ValueError, match=r"has #(ffffff|000000), so .* plt.style.use\(STYLE\)"):
        draw_figure(fig, caption="c")


def test_what_has_nothing_in_the_color_of_text_is_refused():
    fig, ax = plt.subplots()
    ax.plot([1, 2], color="red")
    ax.set_axis_off()
    with pytest.raises(ValueError, match="has nothing in the color of text"):
        draw_figure(fig, caption="c")


def test_a_figure_without_axes_or_with_two_legends_is_refused():
    with pytest.raises(ValueError, match="0 axes and 0 legends"):
        draw_figure(plt.figure(), caption="c")
    fig, axes = plt.subplots(1, 2)
    for ax in axes:
        ax.plot([1, 2], label="a")
        ax.legend()
    with pytest.raises(ValueError, match="2 axes and 2 legends"):
        draw_figure(fig, caption="c")


def test_a_figure_can_be_drawn_again_and_is_the_same():
    fig = curves()
    first = draw_figure(fig, caption="c")
    assert draw_figure(fig, caption="c") == first == draw_figure(curves(), caption="c")
    assert not plt.get_fignums()  # notebooks show what is left open


DRAW = """
import matplotlib.pyplot as plt
from normbook.page import STYLE, draw_figure
plt.style.use(STYLE)
fig, ax = plt.subplots()
ax.plot([1, 2, 5], [3, 1, 2], marker="s", label="a")
ax.legend()
print(draw_figure(fig, caption="c")._repr_html_())
"""


@pytest.mark.slow
def test_another_process_draws_the_same():
    command = [sys.executable, "-c", DRAW]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in "ab"
    )
    assert first == second and "<use" in first


def test_every_id_is_named_and_no_figures_share_one():
    figures = [draw_figure(curves(), caption=caption) for caption in "ab"]
    fig, axes = plt.subplots(1, 2)
    for ax in axes:
        ax.plot([1, 2], marker="o")
    figures.append(draw_figure(fig, caption="two panels that look the same"))
    ids = []
    for svg in (svg for figure in figures for svg in svgs(figure)):
        own = [e.get("id") for e in svg.iter() if e.get("id")]
        named = re.findall(r'(?:href="|url\()#(\w+)', ET.tostring(svg, encoding="unicode"))
        assert set(named) == set(own)
        ids += own
    assert len(set(ids)) == len(ids) > 6


@pytest.mark.parametrize("text", ["<script>a</script>", 'a" onload="b', "a & b", "$x_1$", "a\\b"])
def test_words_are_words(text):
    figure = draw_figure(curves(title=text, xlabel=text, ylabel=text), caption=text)
    svg, _ = svgs(figure)
    assert text in texts(svg)
    assert svg.get("aria-label") == f"{text}: {text}, against {text}"
    assert parse(figure).find("figcaption").text == text


def test_a_page_takes_it_as_it_is():
    figure = draw_figure(curves(), caption="c")
    html = figure._repr_html_()
    assert not re.search(r"<\?xml|<!DOCTYPE|<metadata|xlink|https?:|<script", html)
    assert html.count("<style") == 1  # of all figures; that of matplotlib would hold everywhere
    for svg in svgs(figure):
        assert svg.get("role") == "img" and svg.get("aria-label")


def test_lengths_have_a_tenth_of_a_pixel():
    svg, _ = svgs(draw_figure(curves(), caption="c"))
    lengths = [e.get(key) for e in svg.iter() for key in ("d", "x", "y", "width") if e.get(key)]
    assert len(lengths) > 30
    assert not re.search(r"\.\d\d", " ".join(lengths))


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (-3, "−3"),
        (0.0001, "0.0001"),
        (1e-5, "1e-5"),
        (-2.5e-10, "−2.5e-10"),
        (250_000, "250000"),
        (1e6, "1e6"),
        (1e100, "1e100"),
        (1 / 3, "0.333333"),
    ],
)
def test_numbers_are_short(number, shown):
    assert number_text(number) == shown

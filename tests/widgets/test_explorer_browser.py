"""Explorer in a browser without network: what it draws, says, and lets be done."""

import re
from itertools import pairwise

import numpy as np
import pytest

from explorer_samples import BATCHES, ERRORS, MEANS, MOMENTA, SIZES, errors, running
from helpers import check_accessibility
from normbook.widgets import Explorer
from normbook.widgets.explorer import MOST_VALUES
from widget_page import write_page

SETTLE = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
GAPPED = np.where(ERRORS > 7, np.nan, ERRORS)
HOSTILE = '</script><img src=x onerror="window.hacked = 1"><!--<script>'


class Touched:
    """A widget on a page, and how to use it as a reader does."""

    def __init__(self, visit):
        self.visit, self.page = visit, visit.page
        self.page.wait_for_function("window.ready")
        self.page.evaluate(SETTLE)

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        self.page.evaluate(SETTLE)

    def click(self, name, role="button"):
        self.page.get_by_role(role, name=name, exact=True).click()
        self.page.evaluate(SETTLE)

    def get(self, trait):
        return self.page.evaluate("name => model.get(name)", trait)

    def set(self, trait, value):
        self.page.evaluate("([name, value]) => model.set(name, value)", [trait, value])
        self.page.evaluate(SETTLE)

    def slider(self, name):
        return self.page.get_by_role("slider", name=name, exact=True)

    def chart(self):
        return self.page.locator(".ex-stage")

    def values(self):
        """What the legend shows: for each curve its value, with the ends of its band if any."""
        return [
            numbers(text.rpartition(": ")[2])
            for text in self.page.locator(".ex li").all_inner_texts()
        ]

    def x(self):
        return numbers(self.page.locator(".ex-x b").inner_text())[0]

    def points(self, curve, kind="line"):
        """The points of a curve as drawn, in px: a list for each of its parts."""
        path = self.page.locator(f".ex-{kind}[stroke]:not(li *)").nth(curve).get_attribute("d")
        return [
            np.reshape(numbers(part.removesuffix("h0")), (-1, 2)) for part in path.split("M")[1:]
        ]

    def ticks(self, anchor):
        """The labels of an axis as numbers, each with its place in px."""
        texts = self.page.locator(f".ex text[text-anchor={anchor}]")
        side = "x" if anchor == "middle" else "y"
        shift = 0 if side == "x" else 4  # from the baseline of the label to its middle
        labels = [(text.text_content(), text.get_attribute(side)) for text in texts.all()]
        return np.array([(numbers(t)[0], float(p) - shift) for t, p in labels if t])

    def table(self):
        rows = self.page.locator(".ex tr").all()
        return [row.locator("th, td").all_inner_texts() for row in rows]


def numbers(text):
    found = re.findall(r"[-−]?\d[\d.]*(?:e[-−]?\d+)?", text)
    return [float(number.replace("−", "-")) for number in found]


@pytest.fixture
def touch(visit, tmp_path):
    def show(widget, theme="light", **options):
        path = write_page(widget, tmp_path, theme)
        return Touched(visit(path, color_scheme=theme, **options))

    return show


def check_drawn(widget, curve, x, y, logs=(False, False)):
    """The curve stands where the labels of the axes say, with a gap at every NaN."""
    to_px = []
    for anchor, log in zip(("middle", "end"), logs, strict=True):
        value, place = widget.ticks(anchor).T
        fit = np.polynomial.Polynomial.fit(np.log(value) if log else value, place, 1)
        to_px.append(lambda v, fit=fit, log=log: fit(np.log(v) if log else v))
    there = ~np.isnan(y)
    expected = np.stack([to_px[0](np.asarray(x, float)), to_px[1](y)], 1)[there]
    parts = widget.points(curve)
    np.testing.assert_allclose(np.concatenate(parts), expected, atol=0.35)
    runs = np.flatnonzero(np.diff(there, prepend=False, append=False)).reshape(-1, 2)
    assert [len(part) for part in parts] == np.diff(runs).ravel().tolist()


# What is shown


def test_the_slider_changes_the_curves_and_the_readout(touch):
    widget = touch(running())
    before = widget.points(0)[0]
    for i, momentum in enumerate(MOMENTA):
        if i:
            widget.slider("momentum").press("ArrowRight")
            widget.page.evaluate(SETTLE)
        assert widget.slider("momentum").get_attribute("aria-valuetext") == f"{momentum:g}"
        assert widget.page.locator(".ex-control b").inner_text() == f"{momentum:g}"
        assert widget.x() == 20
        np.testing.assert_allclose(np.ravel(widget.values()), MEANS[i, :, -1], atol=5e-4)
        for curve in range(2):
            check_drawn(widget, curve, BATCHES, MEANS[i, curve])
    assert not np.allclose(before, widget.points(0)[0])
    assert widget.get("selected") == [3]
    assert widget.page.evaluate("model.saved") == 3


def test_the_axes_stay_while_the_slider_moves(touch):
    widget = touch(running())
    grid = "document.querySelector('.ex-stage g').outerHTML"
    before = widget.page.evaluate(grid)
    widget.slider("momentum").press("End")
    assert widget.page.evaluate(grid) == before


def test_buttons_and_a_slider_pick_of_two_parameters(touch):
    widget = touch(errors(y=GAPPED, low=None, high=None))
    widget.click("post")
    widget.slider("depth").press("End")
    assert widget.get("selected") == [1, 3]
    pressed = [widget.page.get_by_role("button", name=name) for name in ("pre", "post")]
    assert [button.get_attribute("aria-pressed") for button in pressed] == ["false", "true"]
    for curve in range(3):
        check_drawn(widget, curve, SIZES, GAPPED[1, 3, curve], logs=(True, False))


def test_log_axes(touch):
    y = 10.0 ** np.linspace(-9, 4, ERRORS.size).reshape(ERRORS.shape)
    widget = touch(errors(y=y, low=None, high=None, y_scale="log"))
    check_drawn(widget, 1, SIZES, y[0, 0, 1], logs=(True, True))
    np.testing.assert_allclose(np.ravel(widget.values()), y[0, 0, :, -1], rtol=5e-4)
    first = widget.page.locator(".ex li").first.inner_text()
    assert first == f"BN: {y[0, 0, 0, -1]:.3e}".replace("e-0", "e-")


def test_the_band_is_drawn_and_told(touch):
    low = np.where(ERRORS < 4, np.nan, ERRORS - 0.5)
    widget = touch(errors(low=low))
    assert "Shaded: 10 seeds" in widget.page.locator(".ex").inner_text()
    for curve in range(3):
        y, ends = ERRORS[0, 0, curve], low[0, 0, curve]
        told = [[a] if np.isnan(b) else [a, b, a + 1] for a, b in zip(y, ends, strict=True)]
        for i, expected in enumerate(told):
            widget.chart().focus()
            widget.press("Home", *["ArrowRight"] * i)
            np.testing.assert_allclose(widget.values()[curve], expected, atol=5e-4)
        runs = np.flatnonzero(np.diff(np.isnan(ends), prepend=True, append=True)).reshape(-1, 2)
        areas = widget.points(curve, "area")
        assert [len(area) for area in areas] == (2 * np.diff(runs).ravel()).tolist()
        (line,) = widget.points(curve)
        for area, (start, end) in zip(areas, runs, strict=True):
            upper, lower = area[: end - start], area[end - start :][::-1]
            np.testing.assert_allclose(upper[:, 0], line[start:end, 0])
            np.testing.assert_allclose(lower[:, 0], line[start:end, 0])
            ratio = (lower - line[start:end])[:, 1] / (line[start:end] - upper)[:, 1]
            np.testing.assert_allclose(ratio, 0.5, atol=0.02)


def test_a_gap_has_no_value_and_a_lone_point_is_a_dot(touch):
    y = np.full((1, 1, 6), [1, 2, np.nan, 4, np.nan, np.nan])
    widget = touch(errors(y=y, low=None, high=None, curves=("a",), parameters={"p": (1,)}))
    assert widget.page.locator(".ex li").inner_text() == "a: –"
    assert [len(part) for part in widget.points(0)] == [2, 1]
    (dot,) = widget.points(0, "dots")
    np.testing.assert_array_equal(dot, widget.points(0)[1])
    assert widget.points(0, "now") == []
    widget.chart().focus()
    widget.press("Home")
    assert len(widget.points(0, "now")) == 1


def test_markers_are_at_every_point(touch):
    widget = touch(errors(y=GAPPED, markers=True))
    dots = np.concatenate(widget.points(0, "dots"))[:, 0]
    assert len(dots) == np.count_nonzero(~np.isnan(GAPPED[0, 0, 0]))


def test_hover_tells_the_values_at_the_nearest_point(touch):
    widget = touch(running())
    box = widget.page.locator(".ex-stage > svg").bounding_box()
    for i in (0, 7, 20, 3):
        x, y = widget.points(0)[0][i]
        widget.page.mouse.move(box["x"] + x + 3, box["y"] + y + 20)
        assert widget.x() == BATCHES[i]
        np.testing.assert_allclose(np.ravel(widget.values()), MEANS[0, :, i], atol=5e-4)
        assert np.allclose(widget.points(0, "now")[0][0], (x, y))
    widget.page.mouse.move(0, 0)
    assert widget.x() == 3  # it stays


def test_a_finger(browser, tmp_path):
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    page.goto(write_page(running(), tmp_path).as_uri())
    page.wait_for_function("window.ready")
    box = page.locator(".ex-stage > svg").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + 60)
    assert 7 <= numbers(page.locator(".ex-x b").inner_text())[0] <= 12
    context.close()


def test_the_table_holds_the_data(touch):
    widget = touch(errors(y=GAPPED, low=GAPPED - 1, high=GAPPED + 1))
    assert widget.table() == []
    widget.click("post")
    widget.page.locator("summary").click()
    widget.page.evaluate(SETTLE)
    for depth in (0, 1):
        widget.set("selected", [1, depth])
        head, *rows = widget.table()
        assert head == ["batch", "BN", "LN", "none"]
        assert widget.page.locator("caption").inner_text() == f"norm: post, depth: {depth + 1}"
        assert [row[0] for row in rows] == [str(n) for n in SIZES]
        for row, values in zip(rows, GAPPED[1, depth].T, strict=True):
            for cell, value in zip(row[1:], values, strict=True):
                expected = [] if np.isnan(value) else [value, value - 1, value + 1]
                np.testing.assert_allclose(numbers(cell), expected, atol=5e-4)
                assert cell == "–" or expected


# By keyboard


def test_everything_can_be_reached_and_done_by_keyboard(touch):
    page = (widget := touch(errors(play="depth"))).page
    stops = []
    for _ in range(6):
        widget.press("Tab")
        stops.append(
            page.evaluate(
                "(document.activeElement.ariaLabel ?? document.activeElement.textContent)"
            )
        )
    assert stops[:4] == ["pre", "post", "depth", "play"]
    assert stops[4].startswith("test error (%). Left and right")
    assert stops[5] == "Show as table"
    widget.press("Enter")
    widget.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "region"
    page.get_by_role("button", name="post").focus()
    widget.press("Enter")
    assert widget.get("selected") == [1, 0]
    widget.chart().focus()
    widget.press("Home")
    assert widget.x() == 2
    widget.press("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown")
    assert widget.x() == 4
    widget.press("ArrowLeft", "ArrowLeft", "ArrowLeft")
    assert widget.x() == 2
    widget.press("End", "ArrowRight")
    assert widget.x() == 64
    np.testing.assert_allclose([v[0] for v in widget.values()], ERRORS[1, 0, :, -1], atol=5e-4)
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_chart_is_a_slider_and_says_where_it_is(touch):
    widget = touch(errors(title="Error by batch"))
    widget.chart().focus()
    widget.press("Home", "ArrowRight")
    chart = widget.chart()
    assert chart.get_attribute("aria-label").startswith("Error by batch.")
    assert chart.get_attribute("aria-valuetext") == "batch: 4"
    assert (chart.get_attribute("aria-valuenow"), chart.get_attribute("aria-valuemax")) == (
        "1",
        "5",
    )
    live = widget.page.locator("[aria-live=polite]")
    widget.page.wait_for_function("document.querySelector('[aria-live]').textContent")
    low, high = ERRORS[0, 0, 0, 1] - 1, ERRORS[0, 0, 0, 1] + 1
    said = live.text_content()
    assert said.startswith(f"BN {ERRORS[0, 0, 0, 1]:.3f} ({low:.3f} to {high:.3f}), LN ")


def test_it_says_nothing_before_it_is_used(touch):
    widget = touch(errors())
    widget.set("selected", [1, 1])
    widget.page.wait_for_timeout(400)
    assert widget.page.locator("[aria-live=polite]").text_content() == ""


def test_keys_are_not_taken_by_jupyterlab(touch):
    """Its commands are stopped by this attribute on what has the focus, and only there."""
    page = (widget := touch(errors(play="depth"))).page
    page.locator("summary").click()
    assert (
        page.evaluate(
            """[...document.querySelectorAll(".ex :is(button, input, summary, [tabindex])")]
            .filter(element => element.dataset.lmSuppressShortcuts !== "true").length"""
        )
        == 0
    )
    page.evaluate("() => { document.onkeydown = (e) => { window.leaked = e.key; }; }")
    widget.chart().focus()
    widget.press("b", "x", "ArrowLeft")
    assert page.evaluate("window.leaked") is None
    before = widget.x()
    widget.press("Alt+ArrowLeft")  # the browser's: back
    assert page.evaluate("window.leaked") == "ArrowLeft"
    assert widget.x() == before


# Play


def playing(**options):
    steps = tuple(range(12))
    y = np.sin(np.add.outer(np.arange(12), np.linspace(0, 3, 9)))[:, None]
    given = {"parameters": {"step": steps}, "curves": ("a",), "x_label": "x", "y_label": "y"}
    return Explorer(y, np.linspace(0, 3, 9), **given | {"play": "step"} | options)


def test_play_goes_to_the_end_and_stops(touch):
    page = (widget := touch(playing())).page
    page.evaluate(
        "window.seen = []; model.on('change:selected', () => seen.push(model.get('selected')[0]))"
    )
    widget.click("play")
    assert page.get_by_role("button").inner_text() == "pause"
    page.wait_for_function("model.get('selected')[0] === 11")
    widget.page.evaluate(SETTLE)
    assert page.get_by_role("button").inner_text() == "play"
    assert page.evaluate("seen") == list(range(1, 12))
    page.wait_for_timeout(700)
    assert page.evaluate("seen.length") == 11
    widget.click("play")  # from the beginning
    assert page.evaluate("seen[11]") == 0
    widget.click("pause")
    paused = widget.get("selected")
    page.wait_for_timeout(700)
    assert widget.get("selected") == paused
    assert page.get_by_role("button").inner_text() == "play"


def test_the_hand_stops_play(touch):
    widget = touch(playing())
    widget.click("play")
    widget.slider("step").press("Home")
    assert widget.get("selected") == [0]
    widget.page.wait_for_timeout(700)
    assert widget.get("selected") == [0]
    assert widget.page.get_by_role("button").inner_text() == "play"


def test_reduced_motion_goes_step_by_step(browser, tmp_path):
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(write_page(playing(start={"step": 9}), tmp_path).as_uri())
    page.wait_for_function("window.ready")
    for expected in (10, 11, 0):
        page.get_by_role("button", name="next", exact=True).click()
        assert page.evaluate("model.get('selected')[0]") == expected
    page.wait_for_timeout(700)
    assert page.evaluate("model.get('selected')[0]") == 0
    context.close()


def test_nothing_can_be_played_without_a_parameter_of_time(touch):
    assert touch(errors()).page.get_by_role("button").all_inner_texts() == ["pre", "post"]


# Where it is shown


def test_two_views_show_the_same_member_and_each_its_point(touch):
    page = (widget := touch(running())).page
    page.evaluate(
        """async () => {
            const el = document.body.appendChild(document.createElement("div"));
            window.cleanUp = await window.widget.default.render({ model, el });
        }"""
    )
    page.evaluate(SETTLE)
    page.get_by_role("slider", name="momentum").nth(1).press("End")
    page.locator(".ex-stage").nth(1).press("Home")
    assert [e.inner_text() for e in page.locator(".ex-control b").all()] == ["1", "1"]
    assert [e.inner_text() for e in page.locator(".ex-x b").all()] == ["20", "0"]
    first, second = (page.locator(".ex").nth(i).locator(".ex-stage .ex-line").first for i in (0, 1))
    assert first.get_attribute("d") == second.get_attribute("d")
    page.evaluate("cleanUp()")
    widget.set("selected", [1])
    assert page.locator(".ex-control b").all_inner_texts() == ["0.1", "1"]


def test_what_is_folded_is_drawn_when_it_unfolds(touch):
    page = (widget := touch(running())).page
    page.evaluate("document.getElementById('here').hidden = true")
    page.set_viewport_size({"width": 500, "height": 700})
    page.evaluate("document.getElementById('here').hidden = false")
    page.evaluate(SETTLE)
    svg = page.locator(".ex-stage > svg")
    assert float(svg.get_attribute("width")) == page.evaluate(
        "document.querySelector('.ex-stage').clientWidth"
    )
    check_drawn(widget, 0, BATCHES, MEANS[0, 0])


MANY = "LayerNorm over C, H, W|InstanceNorm2d|GroupNorm(1)|d|e|f|without normalization".split("|")

FACES = {
    "one parameter": lambda: running(title="What the layer remembers"),
    "two": lambda: errors(title="Error", play="depth", markers=True),
    "seven curves": lambda: running(y=np.repeat(MEANS, 4, 1)[:, :7], curves=MANY),
    "many buttons": lambda: running(parameters={"arm": [f"{name} norm" for name in "abcd"]}),
    "chinese": lambda: errors(language="zh", play="depth", title="误差"),
}


@pytest.mark.parametrize("width, theme", [(360, "dark"), (1280, "light")])
@pytest.mark.parametrize("face", FACES)
def test_axe_finds_nothing_and_all_fits(touch, face, width, theme):
    widget = touch(FACES[face](), theme, width=width)
    page = widget.page
    page.locator("summary").click()
    page.locator(".ex-stage").hover()
    page.evaluate(SETTLE)
    check_page(widget, width)
    background = page.evaluate("getComputedStyle(document.querySelector('.ex')).backgroundColor")
    assert background == ("rgb(20, 24, 30)" if theme == "dark" else "rgb(255, 255, 255)")


def check_page(widget, width):
    page = widget.page
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelector('.ex').scrollWidth") <= width
    # The labels of either axis stand apart, inside the widget, and can be read.
    frame = page.locator(".ex").bounding_box()
    for anchor in ("middle", "end"):
        texts = page.locator(f".ex text[text-anchor={anchor}]").all()
        boxes = [text.bounding_box() for text in texts if text.text_content()]
        assert len(boxes) >= 2
        side, size = ("x", "width") if anchor == "middle" else ("y", "height")
        boxes.sort(key=lambda box: box[side])
        for one, other in pairwise(boxes):
            assert one[side] + one[size] <= other[side]
        for box in boxes:
            assert frame["x"] <= box["x"]
            assert box["x"] + box["width"] <= frame["x"] + frame["width"]
            assert box["height"] >= 12
    assert widget.visit.console == []
    assert widget.visit.requests == []


UGLY = {
    "one point": lambda: running(y=MEANS[..., :1], x=[7]),
    "one curve, one value": lambda: running(y=MEANS[:1, :1], curves=["a"], parameters={"p": [0.5]}),
    "large": lambda: running(y=(MEANS + 1) * 1e30),
    "small": lambda: running(y=(MEANS + 1) * 1e-30, x=BATCHES * 1e-7),
    "equal": lambda: running(y=np.full(MEANS.shape, 0.1)),
    "zero": lambda: running(y=np.zeros(MEANS.shape)),
    "negative": lambda: running(y=-MEANS * 1e-5, x=-BATCHES),
    "close": lambda: running(y=1e9 + MEANS),
    "many decades": lambda: running(y=10.0 ** (100 * MEANS - 100), y_scale="log"),
    "descending": lambda: running(x=10.0**-BATCHES, x_scale="log"),
    "outside": lambda: running(y_range=(0.5, 1)),
    "mostly gaps": lambda: running(y=np.where(MEANS == MEANS[0, 1, 3], MEANS, np.nan)),
    "most": lambda: running(
        y=np.sin(np.arange(MOST_VALUES)).reshape(50, 2, -1),
        x=range(MOST_VALUES // 100),
        parameters={"p": range(50)},
    ),
    "script": lambda: errors(
        title=HOSTILE, curves=(HOSTILE, "$&", "{value}"), x_label=HOSTILE, y_label=HOSTILE,
        parameters={HOSTILE: (HOSTILE, "b"), "__proto__": (1, 2, 3, 4)}, band=HOSTILE,
    ),
    "right to left": lambda: errors(
        title="تسوية الطبقة", curves=("א", "ب", "c"), x_label="دفعة", y_label="خطأ (%)",
        parameters={"عمق": ("أ", "ב"), "p": (1, 2, 3, 4)},
    ),
    "long": lambda: errors(
        title="Donaudampfschifffahrt" * 9, curves=("Donaudampfschifffahrt" * 5, "b", "c"),
        x_label="x" * 90, y_label="test error of it all, " * 9, band="long " * 40,
        parameters={"a long name of a parameter": ("long " * 20, "b"), "p" * 50: (1, 2, 3, 4)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("face", UGLY)
def test_ugly_inputs(touch, face, width=360):
    made = UGLY[face]()
    widget = touch(made, width=width)
    if face != "most":  # axe would take long
        widget.page.locator("summary").click()
        widget.page.evaluate(SETTLE)
    widget.set("selected", [len(values) - 1 for values in made.parameters.values()])
    check_page(widget, width)
    assert widget.page.evaluate("window.hacked") is None
    assert "NaN" not in widget.page.locator(".ex").inner_html()
    assert "Infinity" not in widget.page.locator(".ex").inner_html()
    if face == "script":
        assert widget.page.locator(".ex-title").inner_text() == HOSTILE
        assert widget.page.locator(".ex img").count() == 0

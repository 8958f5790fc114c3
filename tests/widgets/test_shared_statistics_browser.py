"""SharedStatistics in a browser without network: what it computes, shows, and lets be done."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch import nn

from calculator import check_formulas, run, value_of, written
from cases import number_cells
from helpers import check_accessibility
from new_schemes import BATCH_NORM_3D, GROUP_NORM_TOKEN, NEW_CASES, WEIGHT_STANDARDIZATION
from normbook.core.normalize import backward, normalize
from normbook.core.scheme import (
    BATCH_NORM_1D,
    BATCH_NORM_1D_LENGTH,
    BATCH_NORM_2D,
    BATCH_NORM_PER_STEP,
    GROUP_NORM,
    INSTANCE_NORM_2D,
    LAYER_NORM,
    LAYER_NORM_CHW,
    LAYER_NORM_TOKEN,
    RMS_NORM,
    Scheme,
)
from normbook.data.examples import FEATURE_MAPS, FOUR_TOKENS, RAGGED, RAGGED_LENGTHS, THREE_SCALES
from normbook.page.figures import PALETTE
from normbook.widgets import SharedStatistics
from normbook.widgets.shared_statistics import CONTROLS
from widget_page import write_page

SETTLE = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"


class Touched:
    """A widget on a page, and how to use it as a reader does."""

    def __init__(self, visit):
        self.visit, self.page = visit, visit.page
        self.page.wait_for_function("window.ready")

    def cells(self):
        return self.page.locator("[role=gridcell]")

    def hover(self, i):
        self.cells().nth(i).hover()
        return self.lines()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        self.page.evaluate(SETTLE)

    def click(self, name, role="button"):
        self.page.get_by_role(role, name=name, exact=True).click()
        self.page.evaluate(SETTLE)

    def fill(self, name, value):
        self.page.get_by_label(name, exact=True).fill(str(value))
        self.press("Enter")

    def lines(self):
        """The visible formulas by their left side, such as ``{"μ": ["37/75", "0.493333"]}``."""
        texts = self.page.locator(".ss-f:visible").all_inner_texts()
        return {line.split(" = ")[0]: line.split(" = ")[1:] for line in texts if " = " in line}

    def sentence(self):
        return self.page.locator(".ss-read > p").first.inner_text()

    def warning(self):
        return self.page.locator(".ss-message").first.inner_text()

    def message(self):
        return self.page.get_by_role("status").inner_text()

    def code(self):
        return self.page.locator(".ss-code code").all_inner_texts()

    def summary(self):
        return self.page.locator(".ss-summary > p").inner_text()

    def get(self, trait):
        return self.page.evaluate("name => model.get(name)", trait)

    def shown(self):
        return self.cells().all_inner_texts()

    def lit(self):
        """The cells that lie inside the outline."""
        return self.page.evaluate(
            """() => {
                const outline = document.querySelector(".ss-outline");
                const base = document.querySelector(".ss-overlay").getBoundingClientRect();
                return [...document.querySelectorAll("[role=gridcell]")].flatMap((cell, i) => {
                    const box = cell.getBoundingClientRect();
                    const point = new DOMPoint(box.x + box.width / 2 - base.x,
                        box.y + box.height / 2 - base.y);
                    return outline.isPointInFill(point) ? [i] : [];
                });
            }"""
        )


@pytest.fixture
def touch(visit, tmp_path):
    def show(widget, theme="light", **options):
        path = write_page(widget, tmp_path, theme)
        return Touched(visit(path, color_scheme=theme, **options))

    return show


@pytest.fixture
def images(touch):
    return touch(SharedStatistics(FEATURE_MAPS.x, LAYER_NORM_CHW, controls=CONTROLS))


# What is shown


def test_hover_gives_the_numbers_of_the_group(images):
    lines = images.hover(1)
    assert lines["μ"] == ["37/75", "0.493333"]
    assert lines["σ²"][-1] == "0.356622"
    assert lines["x̂"][-1] == "2.522940"
    check_formulas(lines)
    assert "75 cells" in images.sentence()
    assert images.lit() == list(range(75))
    assert images.summary().startswith("average over c, h, w → one (μ, σ²) per n")
    images.page.mouse.move(0, 0)
    assert images.lit() == []


def test_nothing_is_redrawn_on_a_move(images):
    images.page.evaluate(
        """() => {
            window.changes = 0;
            new MutationObserver((all) => (window.changes += all.length)).observe(
                document.querySelector(".ss-grid"),
                { subtree: true, childList: true, attributes: true, characterData: true });
        }"""
    )
    images.hover(1)
    images.hover(140)
    assert images.page.evaluate("window.changes") == 0


@pytest.mark.parametrize(
    "example, scheme",
    [
        (FEATURE_MAPS, BATCH_NORM_2D),
        (FEATURE_MAPS, GROUP_NORM.with_lengths(g=3)),
        (FEATURE_MAPS, INSTANCE_NORM_2D),
        (FOUR_TOKENS, LAYER_NORM_TOKEN),
        (FOUR_TOKENS, RMS_NORM),
        (replace(FOUR_TOKENS, cells="n d l"), BATCH_NORM_1D_LENGTH),
        (THREE_SCALES, BATCH_NORM_1D),
        (THREE_SCALES, LAYER_NORM),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_lit_cells_and_the_views_are_the_packages(touch, example, scheme):
    x = example.x
    widget = touch(SharedStatistics(x, scheme, controls=CONTROLS))
    groups, cell = scheme.groups(x.shape).ravel(), x.size - 2
    lines = widget.hover(cell)
    assert widget.lit() == np.flatnonzero(groups == groups[cell]).tolist()
    check_formulas(lines)
    output = normalize(x, scheme).output.ravel()
    assert value_of(lines["x̂"][-1]) == pytest.approx(output[cell], abs=1e-6)
    widget.page.locator(".ss-chain button").nth(3).click()
    widget.page.evaluate(SETTLE)
    shown = [float(text.replace("−", "-")) for text in widget.shown()]
    np.testing.assert_allclose(shown, output, atol=0.06)
    widget.click("who shares γ?" if scheme is RMS_NORM else "who shares γ, β?")
    widget.hover(cell)
    params = scheme.parameter_groups(x.shape).ravel()
    assert widget.lit() == np.flatnonzero(params == params[cell]).tolist()


@pytest.mark.parametrize("case", NEW_CASES, ids=lambda case: case.name)
def test_a_layer_of_any_axes_can_be_touched(touch, case):
    """Its cells light up, its numbers are PyTorch's, its lines run, its axes can be ticked."""
    scheme, x, cell = case.scheme, np.round(case.inputs()[0], 2), int(np.prod(case.shape)) - 2
    widget = touch(SharedStatistics(x, scheme, controls=CONTROLS))
    lines = widget.hover(cell)
    groups = number_cells(scheme, scheme.stats, case.lengths).ravel()
    mates = np.flatnonzero(groups == groups[cell])
    assert widget.lit() == mates.tolist()
    check_formulas(lines)
    assert f"One of {len(mates)} cells" in widget.sentence()
    own = x.ravel()[mates]
    if scheme.centered:
        assert value_of(lines["μ"][-1]) == pytest.approx(own.mean(), abs=1e-6)
        assert value_of(lines["σ²"][-1]) == pytest.approx(own.var(), abs=1e-6)
    else:
        assert value_of(lines["mean x²"][-1]) == pytest.approx((own**2).mean(), abs=1e-6)
    expected = case.torch(torch.tensor(x), None, None, 1e-5).numpy()
    assert value_of(lines["x̂"][-1]) == pytest.approx(expected.flat[cell], abs=1e-6)
    pytorch, numpy = widget.code()
    np.testing.assert_allclose(run(pytorch, torch.tensor(x)), expected, atol=1e-9)
    np.testing.assert_allclose(run(numpy, x), expected, atol=1e-9)

    who = "who shares γ, β?" if scheme.centered else "who shares γ?"
    widget.click(who)
    widget.hover(cell)
    if scheme.params:
        params = number_cells(scheme, scheme.params, case.lengths).ravel()
        assert widget.lit() == np.flatnonzero(params == params[cell]).tolist()
    else:
        assert widget.lit() == []
        assert "no γ, β of its own" in widget.summary()
    if scheme.params == "1":
        assert "one γ for all cells" in widget.summary()
        widget.cells().nth(cell).click()
        widget.fill("γ", "3")
        y = value_of(widget.lines()["y"][-1])
        assert y == pytest.approx(3 * expected.flat[cell], abs=1e-5)
        gamma = torch.full((1,), 3.0, dtype=torch.float64)
        np.testing.assert_allclose(
            run(widget.code()[0], torch.tensor(x), gamma=gamma), 3 * expected, atol=1e-9
        )

    letters = widget.get("cells").split()
    boxes = widget.page.locator(".ss-axes input")
    assert boxes.count() == len(letters) == x.ndim
    widget.page.get_by_role("button", name=scheme.name, exact=True).click()
    boxes.first.click()
    widget.page.evaluate(SETTLE)
    kept = widget.get("scheme")["stats"].split()
    assert ("n" in kept or "o" in kept) != (letters[0] in scheme.stats)
    over = tuple(i for i, letter in enumerate(letters) if letter not in kept)
    expected = x - x.mean(over, keepdims=True)
    assert value_of(widget.hover(cell)["μ"][-1]) == pytest.approx(
        x.flat[cell] - expected.flat[cell], abs=1e-6
    )
    widget.page.get_by_role("button", name=scheme.name, exact=True).click()
    widget.page.evaluate(SETTLE)
    assert widget.get("scheme") == json.loads(json.dumps(asdict(scheme)))
    assert widget.visit.console == []


def test_any_axis_can_be_the_one_that_is_split(touch):
    """Its groups may be the inner letter; how many there are can be chosen."""
    shuffled = Scheme("shuffled", "b (k g) e", stats="b g").with_lengths(g=2)
    x = np.arange(24.0).reshape(2, 6, 2)
    widget = touch(SharedStatistics(x, shuffled, cells="b s e", controls=CONTROLS))
    widget.hover(0)
    assert widget.lit() == [0, 1, 4, 5, 8, 9]
    assert widget.sentence().endswith("all of b=0, group 0")
    assert widget.page.locator(".ss-at").inner_text().startswith("b=0, s=0, e=0: x")
    boxes = widget.page.locator(".ss-axes input")
    mixed = boxes.evaluate_all("all => all.map((box) => [box.checked, box.indeterminate])")
    assert mixed == [[False, False], [False, True], [True, False]]
    widget.page.get_by_label("groups", exact=True).select_option("3")
    widget.page.evaluate(SETTLE)
    assert widget.get("scheme")["lengths"] == [["g", 3]]
    widget.hover(0)
    assert widget.lit() == [0, 1, 6, 7]
    assert not widget.page.get_by_label("samples in the batch", exact=True).is_visible()
    boxes.nth(1).click()  # the letter stands for all of the axis again
    widget.page.evaluate(SETTLE)
    assert widget.get("scheme")["cells"] == "b s e"


@pytest.mark.filterwarnings("ignore:(Mean of empty|invalid value)")  # of numpy, about padding
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize(
    "example, scheme, mode",
    [
        (FEATURE_MAPS, BATCH_NORM_2D, "train"),
        (FEATURE_MAPS, BATCH_NORM_2D, "eval"),
        (FEATURE_MAPS, GROUP_NORM.with_lengths(g=3), "train"),
        (FEATURE_MAPS, LAYER_NORM_CHW, "train"),
        (RAGGED, BATCH_NORM_PER_STEP, "train"),
        (RAGGED, BATCH_NORM_PER_STEP, "eval"),
        (RAGGED, RMS_NORM, "train"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_lines_shown_give_the_numbers_shown(touch, example, scheme, affine, mode):
    x, rng, given, state = example.x, np.random.default_rng(0), {}, {}
    if affine:
        shape = scheme.on(x.shape).shape_of(scheme.params)
        state["gamma"] = rng.integers(1, 5, shape).astype(float)
        if scheme.has_beta:
            state["beta"] = rng.integers(1, 5, shape).astype(float)
    if mode == "eval":
        shape = scheme.on(x.shape).shape_of(scheme.running)
        state |= {"running_mean": rng.normal(size=shape), "running_var": 1 + rng.random(shape)}
    lengths = RAGGED_LENGTHS if example is RAGGED else None
    widget = SharedStatistics(x, scheme, lengths=lengths, mode=mode, view="output", **state)
    given = dict(state)
    if lengths:
        given["mask"] = widget.mask
    touched = touch(widget)
    pytorch, numpy = touched.code()
    as_tensors = {key: torch.tensor(np.array(value)) for key, value in given.items()}
    results = [run(pytorch, torch.tensor(x), **as_tensors), run(numpy, x, **given)]
    real = (
        np.ones(x.shape, bool) if not lengths else np.broadcast_to(widget.mask[..., None], x.shape)
    )
    for i in (0, x.size // 2, x.size - 1):
        if real.flat[i]:
            y = value_of(touched.hover(i)["y"][-1])
            for result in results:
                assert result.flat[i] == pytest.approx(y, abs=1e-6)


def test_many_groups_go_round_the_palette_and_keep_their_names(touch):
    widget = touch(SharedStatistics(FOUR_TOKENS.x, LAYER_NORM_TOKEN))
    look = "cell => ['--g', '--p'].map(name => getComputedStyle(cell).getPropertyValue(name))"
    looks = [tuple(cell.evaluate(look)) for cell in widget.cells().all()]
    assert looks[0] == looks[1]
    assert len(set(looks)) == 8  # so many groups; colors are there for seven
    assert len({color for color, _ in looks}) == len(PALETTE) == 7
    assert looks[0][0] == looks[14][0]
    widget.hover(14)
    assert widget.sentence().endswith("all of sample 1, token 3")
    chips = widget.page.locator(".ss-chip").all_inner_texts()
    assert chips[1] == "sample 0, token 1  μ 1  σ² 0"


# What can be done


def test_ticking_axes_names_the_layer(images):
    images.click("n sample", "checkbox")
    images.click("c channel", "checkbox")
    assert images.get("scheme") == json.loads(json.dumps(asdict(BATCH_NORM_2D)))
    assert images.summary().startswith("average over n, h, w → one (μ, σ²) per c")
    assert (
        images.page.get_by_role("button", name="BatchNorm2d").get_attribute("aria-pressed")
        == "true"
    )
    images.click("w column", "checkbox")
    assert "no usual name" in images.page.locator(".ss-axes").inner_text()
    assert images.summary().startswith("average over n, h → one (μ, σ²) per c, w")
    result = run(images.code()[1], FEATURE_MAPS.x)
    assert value_of(images.hover(1)["x̂"][-1]) == pytest.approx(result.flat[1], abs=1e-6)
    for axis in ("n sample", "h row"):
        images.click(axis, "checkbox")
    assert images.summary().startswith("average over nothing")
    for axis in ("n sample", "c channel", "h row", "w column"):
        images.click(axis, "checkbox")
    assert images.summary().startswith("average over n, c, h, w → one (μ, σ²) for all cells")


def test_the_number_of_groups_can_be_chosen(images):
    images.click("GroupNorm")
    assert images.get("scheme")["lengths"] == [["g", 3]]
    images.page.get_by_label("groups", exact=True).select_option("1")
    images.page.evaluate(SETTLE)
    assert images.hover(1)["μ"] == ["37/75", "0.493333"]


def test_the_keyboard_alone_does_it(images):
    page = images.page
    assert page.locator("[role=gridcell][tabindex='0']").count() == 1
    page.locator("[role=gridcell][tabindex='0']").focus()
    images.press("ArrowRight", "Enter")
    assert images.get("selection") == [0, 0, 0, 1]
    assert images.lines()["μ"] == ["37/75", "0.493333"]
    images.press("7", "Enter")
    assert images.lines()["μ"] == ["42/75", "0.56"]
    assert images.lines()["x̂"][-1] == written(
        normalize(with_value(FEATURE_MAPS.x, 1, 7), LAYER_NORM_CHW).output.flat[1]
    )
    images.press("-", "2", ".", "5", "Enter")
    assert images.get("values")["data"][1] == -2.5
    images.press("+", "8", "Enter")
    assert images.get("values")["data"][1] == 8
    images.press("F2", "Escape")
    images.press("5", "x", "Enter", "Escape")
    assert images.message() == ""
    assert images.page.locator(".ss-editor").count() == 0
    assert images.get("values")["data"][1] == 8
    assert page.evaluate("document.activeElement.index") == 1
    page.wait_for_timeout(300)
    assert page.locator("[aria-live]").first.inner_text().startswith("sample 0, channel 0, row 0")
    images.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")
    assert page.evaluate("document.activeElement.index") == 76  # the next sample
    assert page.locator("[role=gridcell][tabindex='0']").count() == 1
    images.press("End", "Home", "ArrowUp")
    assert page.evaluate("document.activeElement.index") == 0
    images.press("Escape")
    assert images.get("selection") is None
    assert images.lit() == []
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"  # where the focus is can still be seen
    images.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") != "gridcell"


def test_what_was_read_out_goes_with_what_it_was_about(touch):
    widget = touch(SharedStatistics(FEATURE_MAPS.x, BATCH_NORM_2D, controls=CONTROLS))
    widget.cells().first.focus()
    live = widget.page.locator("[aria-live]").first
    expect(live).to_contain_text("sample 0, channel 0, row 0")
    widget.click("eval")
    expect(live).to_be_empty()


def with_value(x, i, value):
    x = x.copy()
    x.flat[i] = value
    return x


def test_a_wrong_entry_is_refused_and_nothing_is_lost(images):
    images.cells().nth(3).focus()
    images.press("5", "x", "Enter")
    assert images.message() == "“5x” is not a number. Nothing has changed."
    assert images.page.evaluate("document.activeElement.value") == "5x"
    assert images.get("values")["data"][3] == 1
    images.press("Backspace", "Enter")
    assert images.get("values")["data"][3] == 5
    images.fill("ε", "-1")
    assert "“-1” is not a number of at least 0" in images.message()
    assert images.get("eps") == 1e-5


def test_eps_gamma_and_beta(images):
    images.cells().nth(1).click()
    images.fill("ε", "0.5")
    images.fill("γ", "2")
    images.fill("β", "-1")
    expected = normalize(FEATURE_MAPS.x, LAYER_NORM_CHW, eps=0.5).output.flat[1]
    lines = images.lines()
    check_formulas(lines)
    assert lines["y"][-1].replace("−", "-") == written(2 * expected - 1)
    images.click("reset")
    assert images.get("gamma") is None
    assert images.get("eps") == 1e-5
    images.page.get_by_label("γ").fill("3")
    images.hover(80)  # leaves alone what is being typed
    assert images.page.get_by_label("γ").input_value() == "3"


def test_running_statistics_follow_pytorch(touch):
    widget = touch(SharedStatistics(FEATURE_MAPS.x, BATCH_NORM_2D, controls=CONTROLS))
    layer = nn.BatchNorm2d(3).double()
    for _ in range(3):
        layer(torch.tensor(FEATURE_MAPS.x))
        widget.click("train on this batch")
    np.testing.assert_allclose(widget.get("running_mean")["data"], layer.running_mean, rtol=1e-12)
    np.testing.assert_allclose(widget.get("running_var")["data"], layer.running_var, rtol=1e-12)
    assert widget.get("batches") == [3, 3, 3]
    *formula, shown = widget.message().split(" = ")[1:]
    assert written(value_of(formula[0])) == written(value_of(shown))
    widget.click("eval")
    expected = layer.eval()(torch.tensor(FEATURE_MAPS.x)).detach().numpy().flat[1]
    assert value_of(widget.hover(1)["x̂"][-1]) == pytest.approx(expected, abs=1e-6)


def test_a_refusal_is_shown(touch):
    x = FEATURE_MAPS.x[:, :, :1, :1]
    widget = touch(SharedStatistics(x, BATCH_NORM_2D, batch=1, controls=CONTROLS))
    words = "Expected more than 1 {} when training, got input size {}"
    message = words.format("value per channel", "torch.Size([1, 3, 1, 1])")
    assert widget.warning() == f"Here PyTorch refuses. ValueError: {message}"
    widget.click("train on this batch")
    assert message in widget.message()
    assert widget.get("running_mean") is None
    widget.click("InstanceNorm2d")
    assert words.format("spatial element", "torch.Size([1, 3, 1, 1])") in widget.warning()
    widget.click("GroupNorm")
    assert words.format("value per channel", "[1, 3, 1, 1]") in widget.warning()
    widget.page.get_by_label("samples in the batch", exact=True).select_option("2")
    widget.page.evaluate(SETTLE)
    assert widget.get("batch") == 2
    assert widget.warning() == ""
    widget.hover(0)
    assert widget.sentence().startswith("Alone in its group")
    widget.click("BatchNorm2d")
    widget.fill("ε", "0")
    assert "batch_norm eps must be positive during training, but got 0.0" in widget.warning()
    widget.click("eval")
    assert widget.warning() == ""


def test_two_features_give_plus_or_minus_one(touch):
    widget = touch(SharedStatistics(FOUR_TOKENS.x, LAYER_NORM_TOKEN, view="normalized"))
    assert widget.shown()[:4] == ["1", "−1", "0", "0"]
    widget.hover(2)
    assert "the variance is 0" in widget.sentence()


def test_lengths_can_be_changed_and_a_longer_sequence_lacks_statistics(touch):
    widget = touch(
        SharedStatistics(RAGGED.x, BATCH_NORM_PER_STEP, lengths=RAGGED_LENGTHS, controls=CONTROLS)
    )
    counts = widget.page.locator(".ss-perstep .ss-maps span")
    assert counts.all_inner_texts() == ["5", "5", "4", "3", "2", "1"]
    assert widget.hover(0)["μ"][-2].endswith("/5")
    number, slider = widget.page.get_by_label("length of sample 1", exact=True).all()
    number.fill("3")
    widget.press("Enter")
    assert counts.all_inner_texts() == ["5", "5", "5", "3", "2", "1"]
    slider.focus()
    widget.press("End")
    assert counts.all_inner_texts() == ["5", "5", "5", "4", "3", "2"]
    widget.click("reset")
    widget.click("train on this batch")  # one sample alone has the last step: no variance
    assert widget.get("batches")[-1] == 0
    assert widget.warning() == ""
    widget.click("eval")
    assert widget.warning().startswith("In 4 groups (the first: token 5, feature 0) no training")
    widget.hover(119)
    assert "token 5, feature 3 has no running statistics" in widget.sentence()
    assert widget.lines()["σ²"] == ["1"]
    widget.page.get_by_label("length of sample 4").first.fill("5")
    widget.press("Enter")
    assert widget.warning() == ""  # nobody asks for this step
    number.fill("7")
    widget.press("Enter")
    assert "“7” is not a whole number from 0 to 6" in widget.message()


def test_the_gradient_of_one_output_reaches_its_whole_group(images):
    images.cells().nth(1).click()
    images.click("gradient")
    images.fill("upstream dy", "3")
    dy = np.zeros(FEATURE_MAPS.shape)
    dy.flat[1] = 3
    dx = backward(dy, FEATURE_MAPS.x, LAYER_NORM_CHW).x.ravel()
    for cell in (0, 1, 74, 75):
        lines = images.hover(cell)
        check_formulas({"dx": lines["dx"]})
        assert value_of(lines["dx"][-1]) == pytest.approx(dx[cell], abs=1e-6)
    assert images.shown()[75:] == ["0"] * 75
    images.click("gradient")
    assert images.get("view") == "output"


def test_the_simplest_face(touch):
    face = SharedStatistics(
        THREE_SCALES.x, LAYER_NORM, layers=(LAYER_NORM, BATCH_NORM_1D), controls=("layers",),
        view="both", selection=(1, 2), prompt={"cell": (1, 2), "value": 90},
    )  # fmt: skip
    widget = touch(face)
    assert widget.lit() == [5, 6, 7, 8, 9]
    assert widget.shown()[5].split() == ["10", "−1.414"]
    widget.click("Change 30 to 90: which outputs move?")
    assert widget.message() == "5 of 15 outputs moved."
    widget.click("Back to 30")
    assert widget.shown()[9].split() == ["50", "1.414"]
    assert widget.message() == ""
    widget.click("down the column: BatchNorm1d")
    assert widget.lit() == [2, 7, 12]
    assert [text.split()[1] for text in widget.shown()[2::5]] == ["−0.805", "−0.604", "1.409"]
    widget.click("Change 30 to 90: which outputs move?")
    assert widget.message() == "3 of 15 outputs moved."
    widget.click("along the row: LayerNorm")  # the same change, by the other layer
    assert widget.message() == "5 of 15 outputs moved."
    assert widget.lines()["σ²"][0] == "((−32)² + (−22)² + 48² + (−2)² + 8²)/5"
    check_formulas(widget.lines())


def test_a_task_tells_when_it_is_done(touch):
    done = "Do it. ✓ That’s it."
    goal = {"ask": "Do it.", "stats": "n c"}
    widget = touch(SharedStatistics(FEATURE_MAPS.x, BATCH_NORM_2D, goal=goal))
    task = widget.page.locator(".ss-task")
    assert task.inner_text() == "Do it."
    widget.click("n sample", "checkbox")
    assert task.inner_text() == done
    widget.click("w column", "checkbox")
    assert task.inner_text() == "Do it."

    goal = {"ask": "Do it.", "moved": [2, 7, 12]}
    widget = touch(SharedStatistics(THREE_SCALES.x, LAYER_NORM, goal=goal))
    task = widget.page.locator(".ss-task")
    for layer, text in (
        ("along the row: LayerNorm", "Do it."),
        ("down the column: BatchNorm1d", done),
    ):
        widget.click(layer)
        widget.cells().nth(7).focus()
        widget.press("9", "5", "Enter")
        assert task.inner_text() == text


def test_a_pinned_cell_can_be_let_go(images):
    unpin = images.page.get_by_role("button", name="unpin")
    assert not unpin.is_visible()
    images.cells().nth(1).click()
    assert images.page.locator(".ss-at").inner_text().startswith("sample 0, channel 0, row 0, col")
    unpin.click()
    assert images.get("selection") is None
    assert images.lit() == []
    assert images.sentence().startswith("Point at a cell")
    for expected in ([0, 0, 0, 1], None):  # a second click on the same cell
        images.cells().nth(1).click()
        assert images.get("selection") == expected


def test_it_asks_who_shares_what_the_layer_has(touch):
    widget = touch(SharedStatistics(FOUR_TOKENS.x, RMS_NORM))
    asked = widget.page.get_by_role("group", name="Light the cells that share")
    assert asked.inner_text().split("\n") == ["who shares mean x²?", "who shares γ?"]
    widget.click("LayerNorm per token")
    assert asked.inner_text().split("\n") == ["who shares μ, σ²?", "who shares γ, β?"]


def test_changes_from_python_are_shown(images):
    images.page.evaluate("model.set('eps', 0.5)")
    images.page.evaluate("model.set('selection', [0, 0, 0, 1])")
    images.page.evaluate(SETTLE)
    assert "+ 0.5)" in images.lines()["x̂"][0]


def test_a_change_that_does_not_fit_is_told_and_changes_nothing(images):
    images.hover(1)
    lines, shown = images.lines(), images.shown()
    images.page.evaluate("model.set('eps', 'none')")
    images.page.evaluate(SETTLE)
    assert images.warning() == 'eps is "none", which doesn\'t fit'
    images.hover(80)
    assert images.hover(1) == lines
    assert images.shown() == shown
    images.page.evaluate("model.set('eps', 0.5)")
    images.page.evaluate(SETTLE)
    assert images.warning() == ""
    assert "+ 0.5)" in images.lines()["x̂"][0]
    assert images.visit.console == []


def test_a_finger(browser, tmp_path):
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    page.goto(write_page(SharedStatistics(FEATURE_MAPS.x, LAYER_NORM_CHW), tmp_path).as_uri())
    page.wait_for_function("window.ready")
    page.locator("[role=gridcell]").nth(1).tap()
    assert "37/75" in page.locator(".ss-read").inner_text()
    assert page.evaluate("model.get('selection')") == [0, 0, 0, 1]
    context.close()


def test_keys_are_not_taken_by_jupyterlab(images):
    """Its commands are stopped by this attribute on what has the focus, and only there."""
    assert (
        images.page.evaluate(
            """[...document.querySelectorAll(".ss :is(button, input, select, summary, [tabindex])")]
            .filter(element => element.dataset.lmSuppressShortcuts !== "true").length"""
        )
        == 0
    )
    images.page.evaluate("() => { document.onkeydown = (e) => { window.leaked = e.key; }; }")
    images.cells().nth(1).focus()
    images.press("b", "x")
    assert images.page.evaluate("window.leaked") is None


# Where it is shown

VOLUMES = np.round(np.random.default_rng(0).normal(0, 9, (2, 3, 2, 2, 3)), 1)
FACES = {
    "images": lambda: SharedStatistics(FEATURE_MAPS.x, LAYER_NORM_CHW, label="Feature maps"),
    "images normalized": lambda: SharedStatistics(FEATURE_MAPS.x, BATCH_NORM_2D, view="normalized"),
    "ragged": lambda: SharedStatistics(RAGGED.x, BATCH_NORM_PER_STEP, lengths=RAGGED_LENGTHS),
    "positions": lambda: SharedStatistics(FOUR_TOKENS.x, BATCH_NORM_1D_LENGTH),
    "table": lambda: SharedStatistics(THREE_SCALES.x, LAYER_NORM, view="both", selection=(1, 2)),
    "volumes": lambda: SharedStatistics(VOLUMES, BATCH_NORM_3D, selection=(0, 1, 1, 0, 1)),
    "weights": lambda: SharedStatistics(VOLUMES[0], WEIGHT_STANDARDIZATION, view="both"),
    "groups of tokens": lambda: SharedStatistics(
        FOUR_TOKENS.x.repeat(2, 2), GROUP_NORM_TOKEN.with_lengths(g=2), lengths=(4, 2)
    ),
    "letters": lambda: SharedStatistics(VOLUMES[0, 0, 0], Scheme("rows", "o i", stats="o")),
    "a vector": lambda: SharedStatistics(VOLUMES[0, 0, 0, 0], Scheme("all", "n", stats="")),
    "chinese": lambda: SharedStatistics(FEATURE_MAPS.x, language="zh", selection=(0, 0, 0, 1)),
}


@pytest.mark.parametrize("width, theme", [(360, "dark"), (1280, "light")])
@pytest.mark.parametrize("face", FACES)
def test_axe_finds_nothing_and_all_fits(touch, face, width, theme):
    widget = touch(FACES[face](), theme, width=width)
    page = widget.page
    page.locator("details summary").click()
    widget.hover(1)
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [box.bounding_box() for box in widget.cells().all()]
    assert all(0 <= box["x"] and box["x"] + box["width"] <= width for box in boxes)
    too_wide = page.evaluate(
        """[...document.querySelectorAll("[role=gridcell]")]
            .filter(c => c.scrollWidth > c.clientWidth + 1).map(c => c.textContent)"""
    )
    assert too_wide == []
    assert widget.visit.console == []
    assert widget.visit.requests == []


UGLY = {
    "nan": lambda: SharedStatistics(with_value(FEATURE_MAPS.x, 1, np.nan)),
    "infinity": lambda: SharedStatistics(with_value(FEATURE_MAPS.x, 1, -np.inf)),
    "large": lambda: SharedStatistics(FEATURE_MAPS.x * 1e30),
    "small": lambda: SharedStatistics(FEATURE_MAPS.x * 1e-30),
    "equal": lambda: SharedStatistics(np.full((2, 3), 0.1)),
    "one cell": lambda: SharedStatistics([[7]]),
    "most": lambda: SharedStatistics(np.arange(4096).reshape(4, 4, 16, 16)),
    "wide": lambda: SharedStatistics(np.arange(4096).reshape(1, 1, 64, 64)),
    "script": lambda: SharedStatistics(
        THREE_SCALES.x, replace(LAYER_NORM, name="</script><b>"), label="</SCRIPT><!--<script>"
    ),
    "right to left": lambda: SharedStatistics(THREE_SCALES.x, label="تسوية الطبقة"),
    "no length": lambda: SharedStatistics(RAGGED.x, LAYER_NORM_TOKEN, lengths=(0, 2, 4, 3, 6)),
    "beyond 2^53": lambda: SharedStatistics(np.array([[2**53 + 1, 2**60], [3, -(2**62)]])),
}


@pytest.mark.parametrize("face", UGLY)
def test_ugly_inputs(touch, face, width=360):
    made = UGLY[face]()
    widget = touch(made, width=width)
    for view in ("normalized", "squared", "gradient", "raw"):
        widget.page.evaluate("view => model.set('view', view)", view)
        widget.page.evaluate(SETTLE)
    lines = widget.hover(min(1, made.values.size - 1))
    assert widget.page.evaluate("document.documentElement.scrollWidth") <= width
    if face not in ("nan", "infinity", "no length"):
        check_formulas(lines)
    if face == "no length":
        assert "padding" in widget.sentence()
    assert widget.visit.console == []

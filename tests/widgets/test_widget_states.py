"""Widgets whose saved state was damaged: they show what is right or say that it is wrong.

A page holds states as JSON, and may have been made by another version or edited by hand. Valid
states are changed at random, always alike, and given to the host of a built page one by one. Each
must say what is wrong in its place, or be drawn, and go on when it is used: nothing is uncaught and
nothing run, beside a widget that lives. What Python takes for valid is drawn, with its numbers.
"""

import json
import random
import re
from collections import Counter
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import traitlets
from anywidget import AnyWidget as Widget

import normbook.build.sphinxext
from normbook.core.normalize import normalize
from normbook.core.scheme import (
    BATCH_NORM_2D,
    BATCH_NORM_POOLED,
    GROUP_NORM,
    LAYER_NORM,
    LAYER_NORM_CHW,
    RMS_NORM,
)
from normbook.data.examples import RAGGED, RAGGED_LENGTHS, THREE_SCALES
from normbook.widgets import Explorer, SharedStatistics

HOST = Path(normbook.build.sphinxext.__file__).parent / "theme/static/widget_host.js"
PAYLOAD = '</script><!--<script>pwned=1</script><svg onload="pwned=1"><img src=x onerror="pwned=1">'
# JSON has no NaN; Jupyter writes the word.
JUNK = [
    None, True, False, 0, 1, -1, 2, 0.5, 7, -3.5, 1e-320, 1e9, -1e9, 2**31, 2**53, 1e300, "", "nan",
    "Infinity", "1", "n", "c", "n c h w", "n d", "t d n", "(g k)", "c c", "__proto__",
    "constructor", "x" * 100_000, PAYLOAD, "javascript:pwned=1", [], {}, [[]], [0], [None],
    [1, 2, 3], [-1, 0], ["n", "d"], [[["g", 2]]], {"shape": [2], "data": [1, 2]},
    {"shape": [1e9], "data": []},
    {"__proto__": {"length": 3}}, {"a": {"b": [{"c": None}]}},
]  # fmt: skip

# What Python checks of a state; the rest it has written itself.
CHECKED = {
    "values", "scheme", "mask", "selection", "eps", "gamma", "beta", "running_mean", "running_var",
    "batches", "momentum", "batch", "mode", "view", "share", "upstream", "selected",
}  # fmt: skip


def paths(value, path=()):
    """The path of every part of a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], (*path, key))


def damage(state, dice):
    """A copy of a state with one or two of its parts changed, or dropped."""
    state = deepcopy(state)
    for _ in range(dice.choice((1, 1, 1, 2))):
        # A trait first, so that long arrays don't get most of the damage.
        some = state if dice.random() < 0.4 else state.keys() & CHECKED or state
        key = dice.choice(sorted(some))
        *path, last = dice.choice([(key, *path) for path in paths(state[key])])
        owner = state
        for step in path:
            owner = owner[step]
        value, kind = owner[last], dice.randrange(10)
        if kind == 0:
            del owner[last]
        elif kind <= 5 and isinstance(value, int | float) and not isinstance(value, bool):
            owner[last] = dice.choice((-value, value + 1, value * 1000))
        elif kind <= 3 and isinstance(value, list):
            owner[last] = dice.choice((value + value, value[1:], value[::-1], [*value, None]))
        elif kind <= 3 and isinstance(value, str):
            owner[last] = dice.choice((value + value, value[1:], value.upper(), value[::-1]))
        else:
            owner[last] = deepcopy(dice.choice(JUNK))
    return state


def tensors():
    rng = np.random.default_rng(0)
    image = rng.integers(-9, 9, (2, 4, 2, 2)).astype(float)
    yield SharedStatistics(THREE_SCALES.x, LAYER_NORM, selection=(1, 2), view="both")
    yield SharedStatistics(
        image, GROUP_NORM.with_lengths(g=2), selection=(0, 3, 1, 0), gamma=rng.random(4),
        beta=rng.random(4), view="output", share="parameters",
    )  # fmt: skip
    yield SharedStatistics(
        image, BATCH_NORM_2D, selection=(1, 0, 0, 1), mode="eval", running_mean=rng.random(4),
        running_var=rng.random(4), batches=[3] * 4, momentum=0.3, batch=2, view="gradient",
    )  # fmt: skip
    yield SharedStatistics(
        RAGGED.x, BATCH_NORM_POOLED, lengths=RAGGED_LENGTHS, selection=(0, 1, 1), view="normalized",
        prompt={"cell": (0, 0, 0), "value": 9}, label="sentences",
    )  # fmt: skip
    yield SharedStatistics(
        RAGGED.x, RMS_NORM, selection=(1, 0, 0), eps=0.5, goal={"ask": "Which?", "moved": [0, 1]}
    )
    yield SharedStatistics(image, LAYER_NORM_CHW, gamma=rng.random((4, 2, 2)), language="zh")


def explorers():
    rng = np.random.default_rng(0)
    y = rng.random((3, 2, 5))
    yield Explorer(
        y, [1, 2, 4, 8, 16], parameters={"depth": [1, 2, 3]}, curves=["train", "test"],
        x_label="step", y_label="loss", x_scale="log", low=y - 0.1, high=y + 0.1, band="5 seeds",
        play="depth", title="Loss", markers=True,
    )  # fmt: skip
    y = np.where(rng.random((2, 3, 1, 4)) < 0.2, np.nan, 100 * rng.random((2, 3, 1, 4)))
    yield Explorer(
        y, range(4), parameters={"norm": ["batch", "layer"], "rate": [0.1, 0.2, 0.5]},
        curves=["error"], x_label="epoch", y_label="error, %", start={"rate": 0.2},
    )  # fmt: skip


def own(widget):
    """The state of the widget itself as it comes to a page, without that of its box."""
    names = set(type(widget).class_traits(sync=True)) - set(Widget.class_traits(sync=True))
    state = widget.get_state(name for name in names if name[0] != "_")
    return json.loads(json.dumps(state, allow_nan=False))


def read(widget, state):
    """The widget with this state, or None if Python finds it wrong or can't know."""
    whole = own(widget)
    if any(state.get(key) != whole[key] for key in whole.keys() - CHECKED):
        return None
    try:
        widget.set_state({key: state[key] for key in whole.keys() & CHECKED})
    except (traitlets.TraitError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    return widget if strictly(own(widget)) == strictly(state) else None


def strictly(state):
    """As text, where 1 is 1.0, but not true."""
    return json.dumps(json.loads(json.dumps(state), parse_int=float), sort_keys=True)


FEED = """async ({ text, neighbor, code, host }) => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const tag = (kind, text) => Object.assign(document.createElement("script"),
        { type: `application/vnd.jupyter.widget-${kind}+json`, textContent: text });
    const models = Object.fromEntries([["tested", JSON.parse(text)], ["other", neighbor]].map(
        ([id, state]) => [id, { state: { ...state, _model_name: "AnyModel", _esm: 0, _css: 1 } }]));
    window.problems = [];
    document.body.replaceChildren(tag("state", JSON.stringify({ state: models, code })));
    const [box, other] = Object.keys(models).map((id) => {
        const box = Object.assign(document.createElement("div"), { className: "nb-widget" });
        box.append(tag("view", JSON.stringify({ model_id: id })));
        document.body.append(box);
        return box;
    });
    (0, eval)(host);
    const error = (box) => box.querySelector(".nb-widget-error")?.textContent;
    while (![box, other].every((box) => box.matches(".nb-widget-live") || error(box)))
        await new Promise((done) => setTimeout(done));
    await frame(); // sizes are observed, and images that can't be loaded are known
    const texts = (selector) => [...box.querySelectorAll(selector)].map((e) => e.textContent);
    const drawn = {
        error: error(box), neighbor: error(other), height: box.getBoundingClientRect().height,
        chain: texts(".ss-chain button:not([hidden]) span"), legend: texts(".ex li > span"),
    };
    const send = async (element, event) => { element.dispatchEvent(event); await null; };
    const use = async (element) => {
        if (!box.contains(element) || !element.checkVisibility()) return;
        element.focus();
        element.click();
        await null; // as between what a reader does, in which the widget comes up to date
        if (element.matches("select")) element.selectedIndex = 0;
        if (element.matches("input:not([type=checkbox])")) element.value = 3;
        for (const kind of ["input", "change"])
            await send(element, new Event(kind, { bubbles: true }));
        for (const key of ["ArrowRight", "ArrowDown", "End", "5", "Enter", "Escape"])
            await send(box.querySelector(":focus") ?? element,
                new KeyboardEvent("keydown", { bubbles: true, key }));
        await send(element, new PointerEvent("pointermove", { bubbles: true, clientX: 99 }));
    };
    for (const more of box.querySelectorAll("details")) more.open = true;
    const kinds = ["[role=gridcell]", "[role=slider]", "input", "select", "button"];
    if (!drawn.error) for (const kind of kinds)
        for (const element of [...box.querySelectorAll(kind)].filter((_, i) => i < 2 || !(i % 5)))
            await use(element);
    await frame();
    return { ...drawn, problems: problems, ran: window.pwned };
}"""
PAGE = """<!doctype html><meta charset="utf-8"><title>States</title><script>
for (const kind of ["error", "unhandledrejection"])
    addEventListener(kind, ({ message, reason }) => problems.push(`${kind}: ${message ?? reason}`));
</script><body>"""


@pytest.fixture
def feed(visit, tmp_path):
    """Gives the state of a widget to the host, beside a valid one; returns what happened."""
    (tmp_path / "page.html").write_text(PAGE, encoding="utf8")
    page = visit(tmp_path / "page.html").page
    host = HOST.read_text(encoding="utf8")

    def feed(widget, state, neighbor):
        arguments = {
            "text": json.dumps(state), "neighbor": own(neighbor),
            "code": [str(getattr(widget, key)) for key in ("_esm", "_css")], "host": host,
        }  # fmt: skip
        drawn = page.evaluate(FEED, arguments)
        assert drawn["problems"] == [], state
        assert drawn.get("ran") is None, state
        assert drawn.get("neighbor") is None, state
        assert drawn.get("error") or drawn["height"] > 50, state
        return drawn

    return feed


def numbers(text):
    """The numbers in a text, as Python writes them."""
    text = text.replace("−", "-").replace("∞", "inf").replace("NaN", "nan")
    return [float(v) for v in re.findall(r"-?(?:inf|nan|\d+(?:\.\d+)?(?:e[+-]?\d+)?)", text)]


def expected_numbers(widget):
    """What is shown of the pinned cell, step by step, or of the curves at the last point."""
    if isinstance(widget, Explorer):
        at = tuple(widget.selected)
        ends = [widget.y] if widget.low is None else [widget.y, widget.low, widget.high]
        decimals = widget.chart["decimals"]
        return [
            [round(end[at][c][-1], decimals) for end in ends] for c in range(len(widget.curves))
        ]
    x, scheme, cell = widget.shown, widget.scheme, widget.selection
    mask = None if widget.mask is None else widget.mask[: len(x)]
    if cell is None or cell[0] >= len(x) or scheme.groups(x.shape, mask)[cell] < 0:
        return None
    running = None
    if scheme.running and not scheme.optional and widget.mode == "eval":
        shape = scheme.on(x.shape).shape_of(scheme.running)
        given = zip((widget.running_mean, widget.running_var), (np.zeros, np.ones), strict=True)
        running = tuple(new(shape) if value is None else value for value, new in given)
    settings = {"eps": widget.eps, "mask": mask, "running": running}
    try:
        plain, used = normalize(x, scheme, **settings)
    except ValueError:  # the mask leaves a group without a cell
        return None
    output = normalize(x, scheme, widget.gamma, widget.beta, **settings).output
    centered = x[cell] - used.mean.reshape(-1)[scheme.groups(x.shape)[cell]]
    steps = [x[cell], centered, centered**2, plain[cell], output[cell]]
    return [[step] for step in (steps if scheme.centered else [steps[0], *steps[2:]])]


REFUSAL = r"TypeError: [\w.]+ is .*, which doesn.t fit|Error: invalid widget reference"
SMALL = [
    SharedStatistics([[1.0, 2]]),
    Explorer([[[1, 2]]], [0, 1], parameters={"a": [1]}, curves=["b"], x_label="x", y_label="y"),
]


@pytest.mark.parametrize(("make", "neighbor"), [(tensors, SMALL[0]), (explorers, SMALL[1])])
def test_damaged_states_are_drawn_or_refused_in_their_place(feed, make, neighbor):
    dice = random.Random(8)
    outcomes = Counter()
    for k, widget in enumerate(make()):
        for trial in range(25):
            state = damage(own(widget), dice) if trial else own(widget)
            with np.errstate(all="ignore"):
                valid = read(list(make())[k], state)
                expected = valid and expected_numbers(valid)
            drawn = feed(widget, state, neighbor)
            outcomes["valid" if valid else "refused" if drawn.get("error") else "drawn"] += 1
            if valid:
                assert drawn.get("error") is None, state
            elif drawn.get("error"):
                assert re.match(REFUSAL, drawn["error"], re.DOTALL), drawn["error"]
            if expected:
                shown = [numbers(text.split(": ")[-1]) for text in drawn["chain"] + drawn["legend"]]
                np.testing.assert_allclose(shown, expected, 1e-5, 2e-6, err_msg=str(state))
    assert min(outcomes["valid"], outcomes["refused"]) > 3, outcomes

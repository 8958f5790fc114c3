// The controls, by the names that SharedStatistics has for them. Each has an element; `update`
// brings it up to date with the model, and `point` with the current cell.

import { axesOf, lengthsOf, times, tokensOf } from "./arithmetic.js";
import { code } from "./code.js";
import { button, choice, h, labelled, numberField, pills, say } from "./elements.js";
import { VIEWS, same } from "./state.js";
import { exact, python, text } from "./text.js";

const MOST_CHIPS = 12;

function layersControl(state) {
  const { layers } = state.given;
  const options = layers.map((layer, i) => [i, state.nameOf(layer)]);
  const element = pills(state.t("layer"), options, (i) => state.choose(layers[i]));
  const update = () => element.mark(layers.findIndex((layer) => same(layer, state.now.scheme)));
  return { element, update };
}

/** Which axes the statistics are averaged over, and into how many groups one is split. */
function axesControl(state) {
  const { t, words, axes, given } = state;
  const average = () => state.average(axes.filter((_, i) => boxes[i].checked));
  const boxes = axes.map(() => h("input", { type: "checkbox", onchange: average }));
  const labels = axes.map((a, i) =>
    h("label", { className: "ss-field" }, boxes[i], h("b", {}, a), words.axes[a] ?? ""),
  );
  const split = (count) => {
    const { scheme } = state.now;
    state.choose({ ...scheme, lengths: [[state.splitOf(scheme).axis, count]] });
  };
  const counts = choice([], split);
  const groups = labelled(t("number_of_groups"), counts);
  const name = h("b");
  const fieldset = h("fieldset", {}, h("legend", {}, t("average_over")), ...labels);
  return {
    element: h("div", { className: "ss-axes" }, fieldset, groups, name),
    update() {
      const { scheme } = state.now;
      tokensOf(scheme.cells).forEach((token, i) => {
        const kept = axesOf(token).map((a) => scheme.stats.includes(a));
        boxes[i].checked = !kept.includes(true);
        boxes[i].indeterminate = kept.includes(true) && kept.includes(false);
      });
      const { axis, counts: all } = state.splitOf(scheme);
      groups.hidden = !axis;
      counts.replaceChildren(...choice(all).children);
      counts.value = lengthsOf(scheme, state.full)[axis];
      const known = given.layers.some((layer) => same(layer, scheme));
      say(name, known ? "" : `→ ${state.nameOf(scheme)}`);
    },
  };
}

function shareControl(state) {
  const choose = (share) => state.set({ share });
  const element = pills(state.t("share"), [["statistics"], ["parameters"]], choose);
  const update = () => {
    element.mark(state.given.share);
    state.pairs().forEach((pair, k) => say(element.children[k], state.t("who", { pair })));
  };
  return { element, update };
}

/** Training, and the running statistics. */
function modeControl(state) {
  const { t } = state;
  const options = [
    ["train", t("train")],
    ["eval", t("eval")],
  ];
  const modes = pills(t("mode"), options, (mode) => state.set({ mode }));
  const step = button(t("train_step"), () => state.train());
  const running = h("span", { className: "ss-soft" });
  const element = h("div", { className: "ss-row-of" }, modes, step, running);
  const point = () => {
    const { tracks, groups, scheme, running: all } = state.now;
    const i = state.current() ?? 0;
    const g = groups.of[i];
    if (!tracks || g < 0) return say(running, "");
    const [mean, variance] = [text(all.mean[g]), text(all.variance[g])];
    const batches = state.given.batches[g] ?? 0;
    say(running, t("running", { group: state.where(i, scheme.running), mean, variance, batches }));
  };
  const update = () => {
    element.hidden = !state.now.tracks;
    modes.mark(state.given.mode);
  };
  return { element, update, point };
}

function batchControl(state) {
  const numbers = times(state.full[0], (n) => n + 1);
  const batches = choice(numbers, (batch) => state.set({ batch }));
  const element = labelled(state.t("batch"), batches);
  element.hidden = state.axes[0] !== "n";
  return { element, update: () => (batches.value = state.given.batch) };
}

/** From the input to the output; each step can stand in the cells. */
function stepsControl(state) {
  const { t, words } = state;
  const steps = VIEWS.map((view) => {
    const step = button("", () => state.set({ view }));
    step.append(h("small"), h("b"), h("span"));
    return step;
  });
  const label = { className: "ss-chain", role: "group", "aria-label": t("steps") };
  const update = () => {
    const { view: chosen } = state.given;
    const { centered } = state.now;
    VIEWS.forEach((view, k) => {
      const [name, symbol] = steps[k].children;
      const square = view === "squared" && !centered;
      const isChosen = chosen === view || (chosen === "both" && /raw|normalized/.test(view));
      say(name, t(square ? "step_square" : `step_${view}`));
      say(symbol, square ? "x²" : words.symbols[view]);
      steps[k].hidden = view === "centered" && !centered;
      steps[k].setAttribute("aria-pressed", isChosen);
    });
  };
  const point = () => {
    const i = state.current();
    const none = i === null || state.now.groups.of[i] < 0;
    VIEWS.forEach((view, k) => {
      const value = none ? " " : (view === "raw" ? exact : text)(state.value(i, view));
      say(steps[k].lastChild, value);
    });
  };
  return { element: h("div", label, ...steps), update, point };
}

/** What flows back from one output. */
function gradientControl(state) {
  const { t } = state;
  const toggle = button(t("gradient"), () => {
    const { view, selection } = state.given;
    if (view === "gradient") return state.set({ view: "output" });
    const from = selection ?? state.indexOf(state.current() ?? 0);
    state.set({ view: "gradient", selection: from });
  });
  const upstream = numberField(state, (v) => state.set({ upstream: v }));
  const field = labelled(t("upstream"), upstream);
  return {
    element: h("div", { className: "ss-row-of" }, toggle, field),
    update() {
      const on = state.given.view === "gradient";
      toggle.setAttribute("aria-pressed", on);
      field.hidden = !on;
      upstream.show(state.given.upstream);
    },
  };
}

/** The groups, one a button. */
function chipsControl(state, look) {
  const { t } = state;
  const element = h("div", { className: "ss-chips", role: "group", "aria-label": t("groups") });
  const pin = (g) => {
    const [first] = state.now.members[g];
    if (first !== undefined) state.set({ selection: state.indexOf(first) });
  };
  const textOf = (g) => {
    const { now, given } = state;
    const [first] = now.members[g];
    if (first === undefined) return t("no_cells");
    const show = (name, v) => `  ${name} ${text(v, 4)}`;
    if (given.share === "parameters") {
      const beta = now.centered ? show("β", now.beta?.[g] ?? 0) : "";
      return state.where(first, state.paramAxes()) + show("γ", now.gamma?.[g] ?? 1) + beta;
    }
    const { mean, variance } = now.used;
    const square = show(now.centered ? "σ²" : t("mean_square"), variance[g]);
    return state.where(first, now.scheme.stats) + (now.centered ? show("μ", mean[g]) : "") + square;
  };
  const update = () => {
    const { lit, members } = state.now;
    if (!lit.size || lit.size > MOST_CHIPS) {
      const groups = members.filter((all) => all.length).length;
      const told = lit.size ? t("many", { groups }) : t("no_parameters");
      return element.replaceChildren(h("span", { className: "ss-soft" }, told));
    }
    if (element.querySelectorAll("button").length !== lit.size) {
      const chip = (g) => button("", () => pin(g), { className: "ss-chip", style: look(g) });
      element.replaceChildren(...times(lit.size, chip));
    }
    [...element.children].forEach((chip, g) => say(chip, textOf(g)));
  };
  const point = () => {
    const i = state.current();
    const g = i === null ? -1 : state.now.lit.of[i];
    element
      .querySelectorAll("button")
      .forEach((chip, k) => chip.setAttribute("aria-pressed", k === g));
  };
  return { element, update, point };
}

/** The value of the current cell, `edit` asks for another. */
function editControl(state, edit) {
  const { t } = state;
  const cell = () => state.current() ?? 0;
  const add = (amount) => state.change(cell(), state.now.x[cell()] + amount);
  const buttons = [
    button("−", () => add(-1), { ariaLabel: t("less") }),
    button("✎", () => edit(cell()), { ariaLabel: t("edit") }),
    button("+", () => add(1), { ariaLabel: t("more_by_one") }),
  ];
  const label = { className: "ss-field", role: "group", "aria-label": t("edit") };
  return { element: h("div", label, t("edit"), ...buttons) };
}

/** The gamma and beta of the current cell. */
function affineControl(state) {
  const whose = h("span");
  const [gamma, beta] = ["gamma", "beta"].map((name) =>
    numberField(state, (v) => state.setParameter(name, v)),
  );
  const shift = labelled("β", beta);
  const element = h("div", { className: "ss-row-of" }, whose, labelled("γ", gamma), shift);
  const update = () => {
    element.hidden = !state.now.params;
    shift.hidden = !state.now.centered;
  };
  const point = () => {
    const { now } = state;
    if (!now.params) return;
    const i = state.current() ?? 0;
    const p = now.params.of[i];
    say(whose, state.t("parameters_of", { group: state.where(i, state.paramAxes()) }));
    gamma.show(now.gamma?.[p] ?? 1);
    beta.show(now.beta?.[p] ?? 0);
  };
  return { element, update, point };
}

function epsControl(state) {
  const field = numberField(state, (eps) => state.set({ eps }), { min: 0 });
  return { element: labelled("ε", field), update: () => field.show(python(state.given.eps)) };
}

/** A line of each library, to be copied. */
function codeControl(state) {
  const { t, tell } = state;
  const element = h("div");
  const addLine = (name) => {
    const line = h("code");
    const copy = () => {
      getSelection().selectAllChildren(line);
      document.execCommand("copy"); // works where the page isn't a secure context, too
      tell(t("copied"));
    };
    const copyButton = button(t("copy"), copy, { ariaLabel: t("copy_line", { name }) });
    element.append(h("div", { className: "ss-code" }, h("span", {}, name), line, copyButton));
    return line;
  };
  const [torch, numpy] = [addLine("PyTorch"), addLine("numpy")];
  const update = () => {
    const { scheme, shape, eps, mask, gamma, beta, constant } = state.now;
    const options = { eps, masked: !!mask, affine: !!(gamma || beta), constant };
    const lines = code(scheme, shape, options);
    say(torch, lines.torch);
    say(numpy, lines.numpy);
  };
  return { element, update };
}

/** All, in the order in which they stand. `edit` opens a field for a cell, `look` colors a group. */
export function makeControls(state, edit, look) {
  return {
    layers: layersControl(state),
    axes: axesControl(state),
    share: shareControl(state),
    mode: modeControl(state),
    batch: batchControl(state),
    steps: stepsControl(state),
    gradient: gradientControl(state),
    chips: chipsControl(state, look),
    edit: editControl(state, edit),
    affine: affineControl(state),
    eps: epsControl(state),
    code: codeControl(state),
    reset: { element: button(state.t("reset"), () => state.reset()) },
  };
}

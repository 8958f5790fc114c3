// What is told in words and formulas: of the layer, and of the current cell.

import { axesOf } from "./arithmetic.js";
import { button, h, say } from "./elements.js";
import { same } from "./state.js";
import { exact, formulas, gradientLine, text } from "./text.js";

export class Reading {
  summary = h("p");
  sentence = h("p");
  lines = Object.fromEntries(
    ["mean", "variance", "normalized", "output"].map((key) => [key, h("p", { className: "ss-f" })]),
  );
  #cellName = h("span", { className: "ss-soft" });

  /** `letGo` unpins the cell. */
  constructor(state, letGo) {
    this.state = state;
    this.unpin = button(state.t("unpin"), letGo);
    const at = h("div", { className: "ss-at" }, this.#cellName, this.unpin);
    const lines = Object.values(this.lines);
    this.element = h("div", { className: "ss-read" }, at, this.sentence, ...lines);
  }

  /** All that is visible of the current cell, to be read aloud. */
  toString() {
    const shown = [this.sentence, ...Object.values(this.lines)].filter((line) => !line.hidden);
    return shown.map((line) => line.textContent).join(this.state.words.stop);
  }

  // ---- Of the layer

  update() {
    const { t, words, now, given } = this.state;
    const { scheme } = now;
    const [pair, own] = this.state.pairs().map((p) => (p.includes(",") ? `(${p})` : p));
    const averaged = axesOf(scheme.cells).filter((a) => !scheme.stats.includes(a));
    const over = this.#spell(averaged) || t("nothing");
    const per = this.#spell(axesOf(scheme.stats));
    const parts = [t(scheme.stats ? "summary" : "summary_all", { over, per, pair })];
    if (given.controls.includes("share")) parts.push(h("br"), this.#parameters(own));
    const others = given.named.filter((l) => !same(l, scheme) && same(l, scheme, "centered"));
    if (others.length) {
      const names = others.map((layer) => this.state.nameOf(layer)).join(words.comma);
      parts.push(h("br"), h("span", { className: "ss-soft" }, t("same_cells", { names })));
    }
    this.summary.replaceChildren(...parts);
  }

  #parameters(pair) {
    const { t, now } = this.state;
    if (!now.params?.size) return t("no_parameters");
    const axes = this.state.paramAxes();
    const per = this.#spell(axesOf(axes));
    return t(axes === "1" ? "parameters_all" : "parameters", { pair, per, count: now.params.size });
  }

  /** Axes by their letters; with their names, where no boxes spell them out. */
  #spell(letters) {
    const { t, words, axes, given } = this.state;
    const isSpelled = (axis) => given.controls.includes("axes") && axes.includes(axis);
    const spelled = letters.map((axis) =>
      isSpelled(axis) ? axis : t("axis", { axis, name: words.axes[axis] ?? "" }).trim(),
    );
    return spelled.join(", ");
  }

  // ---- Of the current cell

  point() {
    const { state, lines } = this;
    const { t, now, given } = state;
    const { view } = given;
    const gradient = view === "gradient";
    const i = state.current();
    const active = { centered: "mean", squared: "variance", gradient: "output" }[view] ?? view;
    lines.mean.hidden = !now.centered;
    lines.output.hidden = !(
      now.gamma ||
      now.beta ||
      view === "output" ||
      gradient ||
      given.controls.includes("steps")
    );
    const cell = i === null ? "" : state.where(i);
    say(this.#cellName, cell && t("cell_value", { cell, value: exact(now.x[i]) }));
    this.unpin.hidden = state.pinned() === null;
    let told = t("hint");
    let written = this.#symbols();
    if (i !== null && now.groups.of[i] < 0) {
      told = t("masked", { cell });
      written = {};
    } else if (i !== null) {
      told = gradient ? this.#gradientSentence() : this.#groupSentence(i);
      written = this.#formulas(i, gradient);
    }
    say(this.sentence, told);
    for (const [key, line] of Object.entries(lines)) {
      line.classList.toggle("ss-now", key === active);
      say(line, written[key] ?? " ");
    }
  }

  /** The formulas of no cell in particular. */
  #symbols() {
    const { centered } = this.state.now;
    const top = centered ? "(x − μ)" : "x";
    const bottom = centered ? "σ²" : this.state.t("mean_square");
    return {
      mean: "μ = Σ x / m",
      variance: `${bottom} = Σ ${top}² / m`,
      normalized: `x̂ = ${top} / √(${bottom} + ε)`,
      output: centered ? "y = γ · x̂ + β" : "y = γ · x̂",
    };
  }

  #formulas(i, gradient) {
    const { now, given } = this.state;
    const { x, groups, params, gamma, beta } = now;
    const group = groups.of[i];
    const p = params?.of[i];
    const all = {
      ...now,
      x: x[i],
      cells: now.mates[group].map((k) => x[k]),
      mean: now.used.mean[group],
      variance: now.used.variance[group],
    };
    const written = formulas({ ...all, gamma: gamma?.[p], beta: beta?.[p] });
    if (!gradient) return written;
    const from = this.state.pinned() ?? 0;
    if (groups.of[from] !== group || (now.constant && from !== i)) {
      return { ...written, output: "dx = 0" };
    }
    const output = gradientLine({
      ...all,
      same: i === from,
      hat: now.hat[i],
      source: now.hat[from],
      m: now.own.count[group],
      gamma: gamma?.[params.of[from]] ?? 1,
      dy: given.upstream,
      value: now.dx[i],
    });
    return { ...written, output };
  }

  #gradientSentence() {
    const { state } = this;
    const { groups, own, constant } = state.now;
    const from = state.pinned() ?? 0;
    const count = own.count[groups.of[from]] ?? 0;
    const about = { dy: text(state.given.upstream), cell: state.where(from), count };
    return state.t(constant ? "gradient_constant" : "gradient_of", about);
  }

  #groupSentence(i) {
    const { state } = this;
    const { t, now } = state;
    const group = now.groups.of[i];
    const count = now.own.count[group];
    const told = [];
    if (state.given.share === "statistics") {
      let key = now.centered ? "shares" : "shares_square";
      if (state.isUnseen(group)) key = "unseen";
      else if (now.constant) key = "constant";
      else if (count === 1) key = "alone";
      told.push(t(key, { count, group: state.where(i, now.scheme.stats) }));
    } else if (now.params) {
      const pair = state.pairs()[1];
      const sharing = now.members[now.params.of[i]].length;
      const where = state.where(i, state.paramAxes());
      told.push(t("shares_parameters", { count: sharing, pair, group: where }));
    } else told.push(t("no_parameters"));
    if (count > 1 && !now.constant && now.used.variance[group] === 0) told.push(t("zero_variance"));
    return told.join(state.words.stop);
  }
}

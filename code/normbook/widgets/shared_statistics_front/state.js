// What the model holds, what follows from it, and how it is changed. The words are the model's, too.

import {
  axesOf,
  backward,
  groupsOf,
  lengthsOf,
  moments,
  normalize,
  numbering,
  product,
  shapeOf,
  times,
  tokensOf,
  track,
} from "./arithmetic.js";
import { refusal } from "./code.js";
import { agree, wrap } from "./text.js";

/** The steps of the computation, each of which can stand in the cells. */
export const VIEWS = ["raw", "centered", "squared", "normalized", "output"];

// The traits that the reader can change, and reset.
const CHANGEABLE = [
  "values",
  "scheme",
  "mask",
  "selection",
  "eps",
  "gamma",
  "beta",
  "running_mean",
  "running_var",
  "batches",
  "batch",
  "mode",
  "view",
  "share",
  "upstream",
];

const areTexts = (...all) => all.every((v) => typeof v === "string");
const isWithin = (v, from, to = Infinity) => Number.isFinite(v) && v >= from && v <= to;
const isWhole = (v, from, to) => Number.isInteger(v) && isWithin(v, from, to);
const isNumber = (v) => Number.isFinite(v) || /^(NaN|-?Infinity)$/.test(v);
const maybe = (fits) => (v) => v === null || fits(v);

/** Whether it describes a layer for a tensor of these axes. */
function isScheme(scheme, layout, shape) {
  const { cells, stats, params, running, mask, lengths } = scheme;
  const known = axesOf(cells);
  const split = (token, i) => (token.startsWith("(") ? axesOf(layout)[i] : token);
  return (
    areTexts(scheme.name, scheme.torch) &&
    tokensOf(cells).map(split).join(" ") === layout &&
    lengths.every(([a]) => known.includes(a)) &&
    [stats, params, running, mask]
      .map(axesOf)
      .every((all) => all.every((a, i) => known.includes(a) && all.indexOf(a) === i)) &&
    Object.values(lengthsOf(scheme, shape)).every((n) => isWhole(n, 1))
  );
}

/**
 * What the model holds: the one door by which it comes in. Its tensor has this shape, if it had one
 * before. What doesn't fit is refused, with the name of the trait and its value.
 */
function checked(model, shape = model.get("values")?.shape) {
  const given = {};
  const isIndex = (v) =>
    v.length === shape.length && v.every((k, axis) => isWhole(k, 0, shape[axis] - 1));
  const holds = (v, expected, allowed = isNumber) =>
    String(v.shape) === String(expected) &&
    v.data.length === product(expected) &&
    v.data.every(allowed);
  const fitsLayout = (scheme) => isScheme(scheme, given.cells, shape);
  const by = (indices, allowed) =>
    maybe((v) => {
      const axes = indices(given.scheme);
      return axes && holds(v, shapeOf(given.scheme, axes, shape), allowed);
    });
  // In this order: some look at those before them.
  const fits = {
    values: (v) => shape.length > 0 && shape.every((n) => isWhole(n, 1)) && holds(v, shape),
    cells: (v) => areTexts(v) && axesOf(v).length === shape.length,
    scheme: fitsLayout,
    layers: (v) => v.every(fitsLayout),
    named: (v) => v.every(fitsLayout),
    mask: by(
      ({ mask, cells }) => mask || cells,
      (v) => v === 0 || v === 1,
    ),
    gamma: by(({ params }) => params),
    beta: by(({ params }) => params),
    running_mean: by(({ running }) => running),
    running_var: by(
      ({ running }) => running,
      (v) => isNumber(v) && !(v < 0),
    ),
    selection: maybe(isIndex),
    eps: (v) => isWithin(v, 0),
    momentum: (v) => isWithin(v, 0, 1),
    upstream: Number.isFinite,
    batches: (v) => v.every((n) => isWhole(n, 0)),
    batch: (v) => isWhole(v, 1, shape[0]),
    mode: (v) => ["train", "eval"].includes(v),
    view: (v) => [...VIEWS, "gradient", "both"].includes(v),
    share: (v) => ["statistics", "parameters"].includes(v),
    label: areTexts,
    controls: (v) => areTexts(...v),
    prompt: maybe(({ cell, value }) => isIndex(cell) && Number.isFinite(value)),
    goal: maybe(({ ask }) => areTexts(ask)),
    next: maybe(areTexts),
    words: ({ axes, symbols, layers, explorer, ...others }) =>
      [axes, symbols, layers, others].every((v) => areTexts(...Object.values(v))),
    looks: (v) => v.length > 0 && v.every(([color, pattern]) => areTexts(color, pattern)),
  };
  for (const [key, fit] of Object.entries(fits)) {
    given[key] = model.get(key);
    let fine = false;
    try {
      fine = fit(given[key]);
    } catch {} // of another kind altogether
    if (!fine) {
      const shown = String(JSON.stringify(given[key])).slice(0, 99);
      throw new TypeError(`${key} is ${shown}, which doesn't fit`);
    }
  }
  return given;
}

const numbersOf = (tensor) => tensor?.data.map(Number) ?? null;

/** The cells of each number. */
function collect({ of, size }) {
  const all = times(size, () => []);
  of.forEach((g, i) => {
    if (g >= 0) all[g].push(i);
  });
  return all;
}

/** Whether two schemes are one layer, but for its lengths. */
export const same = (one, other, third = "name") =>
  ["cells", "stats", third].every((key) => one[key] === other[key]);

export class State {
  hover = null; // the cell under the pointer
  focus = null; // that with the focus
  edited = null; // the values before the last edit, to tell which outputs it moves
  moved = []; // these outputs

  /** `tell` shows the reader a message. */
  constructor(model, tell) {
    this.model = model;
    this.tell = tell;
    this.take();
    this.initial = Object.fromEntries(CHANGEABLE.map((key) => [key, this.given[key]]));
    this.full = this.given.values.shape;
    this.axes = axesOf(this.given.cells);
    this.words = this.given.words;
  }

  /** A sentence in the reader's language. */
  t = (key, values = {}) =>
    (this.words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name]);

  // ---- From the model

  /** Takes what the model holds now; all stays as it was if something of it doesn't fit. */
  take() {
    this.given = checked(this.model, this.full);
  }

  /** Computes what follows. */
  compute() {
    const { values, view, share, upstream } = this.given;
    const now = (this.now = this.solve(values.data));
    const was = this.edited && this.solve(this.edited).y;
    this.moved = was ? [...was.keys()].filter((i) => !Object.is(now.y[i], was[i])) : [];
    if (was) this.tell(this.t("moved", { count: this.moved.length, total: now.size }));
    if (view === "gradient") {
      const dy = new Float64Array(now.size);
      dy[this.pinned() ?? 0] = upstream;
      now.dx = backward(dy, now.x, now.groups, now.used, now);
    }
    now.mates = collect(now.groups);
    // What is colored and lit: the cells of one mean and variance, or those of one gamma and beta.
    now.lit = now.groups;
    now.members = now.mates;
    if (share === "parameters") {
      const { groups, params } = now;
      const of = groups.of.map((g, i) => (g < 0 || !params ? -1 : params.of[i]));
      now.lit = { of, size: params?.size ?? 0 };
      now.members = collect(now.lit);
    }
  }

  /** All numbers, if the tensor held these values. */
  solve(values) {
    const { given, full } = this;
    const { scheme, eps } = given;
    const { centered } = scheme;
    const shape = [given.batch, ...full.slice(1)];
    const size = product(shape);
    const x = Float64Array.from(values.slice(0, size), Number);
    const perSample = given.mask && product(given.mask.shape) / full[0];
    const mask = given.mask && given.mask.data.slice(0, perSample * shape[0]);
    const groups = groupsOf(scheme, shape, mask);
    const own = moments(x, groups, centered);
    const params = scheme.params ? numbering(scheme, scheme.params, shape) : null;
    const tracks = !!scheme.running && !scheme.optional;
    const constant = tracks && given.mode === "eval"; // the running statistics are used
    const running = {
      mean: numbersOf(given.running_mean) ?? Array(groups.size).fill(0),
      variance: numbersOf(given.running_var) ?? Array(groups.size).fill(1),
    };
    const used = constant ? running : own;
    const [gamma, beta] = [numbersOf(given.gamma), numbersOf(given.beta)];
    const hat = normalize(x, groups, used, { eps });
    const y = normalize(x, groups, used, { eps, gamma, beta, params });
    return {
      scheme,
      centered,
      shape,
      size,
      x,
      eps,
      mask,
      groups,
      own,
      params,
      tracks,
      constant,
      running,
      used,
      gamma,
      beta,
      hat,
      y,
    };
  }

  /** The number of the pinned cell, if it takes part, or null. */
  pinned() {
    const index = this.given.selection;
    return index && index[0] < this.given.batch ? this.numberOf(index) : null;
  }

  /** The number of the cell that is told about, or null. */
  current() {
    return this.hover ?? this.focus ?? this.pinned();
  }

  /** What stands in a cell. */
  value(i, view) {
    const { x, used, groups, hat, y, dx } = this.now;
    const centered = x[i] - used.mean[groups.of[i]];
    const squared = centered ** 2;
    return { raw: x[i], centered, squared, normalized: hat[i], output: y[i], gradient: dx?.[i] }[
      view
    ];
  }

  /** What PyTorch says instead of normalizing, or "". */
  refusal() {
    const { mask, scheme, shape, own, eps } = this.now;
    return mask ? "" : refusal(scheme, shape, own.count[0], eps);
  }

  /** Whether running statistics are used that no training has reached. */
  isUnseen(group) {
    const { batches } = this.given;
    return this.now.constant && batches.some(Boolean) && !batches[group];
  }

  /** What there is to know about this layer on this tensor, or "". */
  warning() {
    const { now, t } = this;
    const error = this.refusal();
    if (error && !now.constant) return t("refuses", { error });
    const lost = now.mates.filter((cells, g) => cells.length && this.isUnseen(g));
    if (!lost.length) return "";
    const group = this.where(lost[0][0], now.scheme.stats);
    return t("unseen_groups", { count: lost.length, group });
  }

  // ---- Names of cells, axes and layers

  indexOf(i) {
    const index = [];
    for (const length of [...this.now.shape].reverse()) {
      index.unshift(i % length);
      i = Math.floor(i / length);
    }
    return index;
  }

  numberOf(index) {
    return index.reduce((i, k, axis) => i * this.now.shape[axis] + k, 0);
  }

  /** Where a cell is along some axes, "" along none. */
  at(i, indices) {
    const { scheme, shape } = this.now;
    const places = axesOf(indices).map((a) => {
      const axis = this.axes.indexOf(a);
      const k = axis < 0 ? numbering(scheme, a, shape, [i]).of[0] : this.indexOf(i)[axis];
      return this.words.axes[a] ? `${this.words.axes[a]} ${k}` : `${a}=${k}`;
    });
    return places.join(this.words.comma);
  }

  where(i, indices = this.given.cells) {
    return this.at(i, indices) || this.t("all");
  }

  /** The axes of gamma and beta; a split one as a whole. */
  paramAxes() {
    const { params, cells } = this.now.scheme;
    return params.replace(/\(.*?\)/g, (token) => this.axes[tokensOf(cells).indexOf(token)]);
  }

  /** What cells share: the statistics, and the parameters. */
  pairs() {
    return this.now.centered ? ["μ, σ²", "γ, β"] : [this.t("mean_square"), "γ"];
  }

  nameOf({ name, cells }) {
    return this.words.layers[`${name} (${cells})`] ?? this.words.layers[name] ?? name;
  }

  /** The axis that is split: the letter of its groups, and how many there may be. */
  splitOf({ cells, stats }) {
    const tokens = tokensOf(cells);
    const at = tokens.findIndex((token) => token.startsWith("("));
    const parts = axesOf(tokens[at] ?? "");
    const counts = times(this.full[at], (i) => i + 1).filter((k) => this.full[at] % k === 0);
    return { axis: parts.find((a) => stats.includes(a)) ?? parts[0], counts };
  }

  // ---- Changes

  set(changes) {
    for (const [key, value] of Object.entries(changes)) this.model.set(key, value);
    this.model.save_changes();
  }

  reset() {
    this.hover = null;
    this.forget();
    this.set(this.initial);
  }

  /** Forgets the last edit, and what was told about it. */
  forget() {
    this.edited = null;
    this.tell("");
  }

  /** Unpins the cell; no cell is current until one is pointed at. */
  letGo() {
    this.hover = this.focus = null;
    this.set({ selection: null });
  }

  change(i, value) {
    const { shape, data } = this.given.values;
    if (value === this.now.x[i]) return;
    this.edited = data;
    this.set({ values: { shape, data: data.with(i, value) } });
  }

  /** Another layer; what belongs to the last one goes with it. */
  choose(scheme) {
    const { axis, counts } = this.splitOf(scheme);
    const lengths = axis && !scheme.lengths.length ? [[axis, counts[1] ?? 1]] : scheme.lengths;
    const state = { gamma: null, beta: null, running_mean: null, running_var: null };
    this.tell("");
    this.set({ scheme: { ...scheme, lengths }, ...state, batches: [], mode: "train" });
  }

  /** The layer that averages over these axes: one with a name, if there is one. */
  average(over) {
    const { cells, layers, named } = this.given;
    const stats = this.axes.filter((a) => !over.includes(a)).join(" ");
    const nameless = {
      ...this.now.scheme,
      name: this.t("no_name"),
      cells,
      stats,
      params: "",
      running: "",
      centered: true,
      optional: false,
      lengths: [],
      torch: "",
    };
    const fits = (layer) => layer.centered && layer.cells === cells && layer.stats === stats;
    this.choose([...layers, ...named].find(fits) ?? nameless);
  }

  /** Another gamma or beta for the current cell. */
  setParameter(name, value) {
    const { scheme, params, [name]: old } = this.now;
    const data = old ?? Array(params.size).fill(name === "gamma" ? 1 : 0);
    const shape = shapeOf(scheme, scheme.params, this.full);
    this.set({ [name]: { shape, data: data.with(params.of[this.current() ?? 0], value) } });
  }

  /** How many tokens of each sample are real. */
  lengths() {
    const [samples, steps] = this.full;
    const { data } = this.given.mask;
    return times(samples, (n) => data.slice(n * steps, (n + 1) * steps).filter(Boolean).length);
  }

  setLength(sample, length) {
    const steps = this.full[1];
    const { shape, data } = this.given.mask;
    const from = sample * steps;
    const changed = data.map((v, i) => (i >= from && i < from + steps ? +(i < from + length) : v));
    this.tell("");
    this.set({ mask: { shape, data: changed } });
  }

  /** Lets the running statistics see this batch. */
  train() {
    const refused = this.refusal();
    if (refused) return this.tell(refused);
    const { scheme, running, own, groups } = this.now;
    const { momentum, batches } = this.given;
    const next = track(running, own, momentum);
    const g = Math.max(0, groups.of[this.current() ?? 0]);
    const line = agree(next.mean[g], (s, r) => [
      `${s(1 - momentum)} · ${wrap(s(running.mean[g]))} + ${s(momentum)} · ${wrap(s(own.mean[g]))}`,
      r(1 - momentum) * r(running.mean[g]) + r(momentum) * r(own.mean[g]),
    ]);
    const shape = shapeOf(scheme, scheme.running, this.full);
    this.edited = null;
    this.tell(`${this.t("running_mean")} = ${line}`);
    this.set({
      running_mean: { shape, data: next.mean },
      running_var: { shape, data: next.variance },
      batches: Array.from(own.count, (m, k) => (batches[k] ?? 0) + (m > 1)),
    });
  }
}

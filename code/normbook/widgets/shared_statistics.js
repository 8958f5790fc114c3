// The front end of SharedStatistics: a tensor whose cells show who shares a mean and a variance.
// First the arithmetic, pure and exported, so that tests can hold it to PyTorch's numbers;
// then what is written (formulas, code); then what is drawn. A "scheme" is the description that
// normbook.core.scheme.Scheme holds; all words come from Python.

// ---- Arithmetic. Tensors are flat, row-major; a group or parameter is told by its number.

export const axesOf = (pattern) => pattern.match(/[a-z]/g) ?? [];
const tokensOf = (pattern) => pattern.match(/\([a-z ]+\)|[a-z1]/g) ?? [];
const times = (length, make) => Array.from({ length }, (_, i) => make(i));
const product = (numbers) => numbers.reduce((a, b) => a * b, 1);

export function lengthsOf(scheme, shape) {
  const fixed = Object.fromEntries(scheme.lengths), lengths = {};
  tokensOf(scheme.cells).forEach((token, i) => {
    const axes = axesOf(token), known = product(axes.map((a) => fixed[a] ?? 1));
    for (const a of axes) lengths[a] = fixed[a] ?? shape[i] / known;
  });
  return lengths;
}

/** The shape of what `indices` index. */
function shapeOf(scheme, indices, shape) {
  const lengths = lengthsOf(scheme, shape);
  return tokensOf(indices).map((token) => product(axesOf(token).map((a) => lengths[a])));
}

/** The row-major number that the axes `indices` give each of these cells, and how many numbers there are. */
export function numbering(scheme, indices, shape, cells = times(product(shape), (i) => i)) {
  const lengths = lengthsOf(scheme, shape), axes = axesOf(scheme.cells).reverse(), steps = {};
  let size = 1;
  for (const a of axesOf(indices).reverse()) {
    steps[a] = size;
    size *= lengths[a];
  }
  const of = Int32Array.from(cells, (i) => {
    let number = 0;
    for (const a of axes) {
      number += (i % lengths[a]) * (steps[a] ?? 0);
      i = Math.floor(i / lengths[a]);
    }
    return number;
  });
  return { of, size };
}

/** The group of every cell, -1 for a masked one. `mask` is indexed by the scheme's mask axes. */
export function groupsOf(scheme, shape, mask) {
  const groups = numbering(scheme, scheme.stats, shape);
  if (mask) {
    const place = numbering(scheme, scheme.mask || scheme.cells, shape).of;
    groups.of.forEach((_, i) => mask[place[i]] || (groups.of[i] = -1));
  }
  return groups;
}

/** Mean, biased variance and number of cells of every group, in two passes. */
export function moments(x, groups, centered = true) {
  const [mean, variance, count] = [0, 0, 0].map(() => new Float64Array(groups.size));
  const each = (f) => groups.of.forEach((g, i) => g < 0 || f(g, x[i]));
  each((g, v) => { count[g]++; if (centered) mean[g] += v; });
  count.forEach((m, g) => (mean[g] /= m || 1));
  each((g, v) => (variance[g] += (v - mean[g]) ** 2));
  count.forEach((m, g) => (variance[g] /= m || 1));
  return { mean, variance, count };
}

/** gamma * (x - mean) / sqrt(variance + eps) + beta; a masked cell gives 0. */
export function normalize(x, groups, used, eps, gamma, beta, params) {
  return Float64Array.from(groups.of, (g, i) => {
    if (g < 0) return 0;
    const hat = (x[i] - used.mean[g]) / Math.sqrt(used.variance[g] + eps);
    return hat * (gamma ? gamma[params[i]] : 1) + (beta ? beta[params[i]] : 0);
  });
}

/** The gradient of x: one closed formula for every layer. `constant`: running statistics were used. */
export function backward(dy, x, groups, used, eps, gamma, params, centered = true, constant = false) {
  const hat = normalize(x, groups, used, eps);
  const g = dy.map((d, i) => (groups.of[i] < 0 ? 0 : d * (gamma ? gamma[params[i]] : 1)));
  const one = moments(g, groups).mean, two = moments(g.map((v, i) => v * hat[i]), groups).mean;
  return Float64Array.from(groups.of, (k, i) => {
    if (k < 0) return 0;
    const through = constant ? 0 : (centered ? one[k] : 0) + hat[i] * two[k];
    return (g[i] - through) / Math.sqrt(used.variance[k] + eps);
  });
}

/** PyTorch's running statistics after one more batch: the variance that enters is unbiased. */
export function track(running, batch, momentum) {
  const mix = (old, now) => old.map((v, g) =>
    batch.count[g] < 2 ? v : (1 - momentum) * v + momentum * now(g));
  return {
    mean: mix(running.mean, (g) => batch.mean[g]),
    variance: mix(running.variance, (g) => (batch.variance[g] * batch.count[g]) / (batch.count[g] - 1)),
  };
}

// ---- Text. What is shown as a formula evaluates, as shown, to the number shown.

/** Six decimals, fewer where they are exact; six digits for the very small and very large. */
export function text(v, digits = 6) {
  if (!Number.isFinite(v)) return Number.isNaN(v) ? "NaN" : v < 0 ? "−∞" : "∞";
  const size = Math.abs(v), far = size && (size < 1e-4 || size >= 1e9);
  let s = far ? v.toExponential(digits - 1) : v.toFixed(digits);
  const near = Number(v.toPrecision(14)); // exact, but for the last bits
  const short = String(Math.abs(near - v) < 1e-15 * size ? near : v);
  if (short.length < s.length) s = short;
  return s.replace(/^-(?=0(\.0*)?$)/, "").replace(/^-/, "−");
}
export const read = (s) => Number(s.replace("−", "-").replace("∞", "Infinity"));
const exact = (v) => (Number.isFinite(v) ? String(v).replace(/^-/, "−") : text(v));
const wrap = (s) => (s[0] === "−" ? `(${s})` : s);
/** A number as Python writes it. */
export const python = (v) =>
  v && v < 1e-4 ? v.toExponential().replace(/-(\d)$/, "-0$1") : Number.isInteger(v) ? `${v}.0` : String(v);

// `make(d)` gives a formula with d digits and its value as written: digits are added until it agrees.
function agree(value, make) {
  const shown = text(value);
  for (let digits = 6; ; digits++) {
    const write = digits > 15 ? exact : (v) => text(v, digits);
    const [formula, again] = make(write, (v) => read(write(v)));
    if (digits > 15 || text(again) === shown) return `${formula} = ${shown}`;
  }
}

/** The lines for cell x of a group with these cells, as normalized by `used`. */
export function formulas({ x, cells, mean, variance, eps, centered, constant, gamma = 1, beta = 0 }) {
  if (!centered) beta = 0; // there is none
  const m = cells.length, hat = (x - mean) / Math.sqrt(variance + eps), e = python(eps);
  const sum = cells.reduce((a, b) => a + b, 0), lines = {};
  if (constant) {
    lines.mean = `μ = ${text(mean)}`;
    lines.variance = `σ² = ${text(variance)}`;
  } else {
    // Few and short terms are written out.
    const spell = (term) => {
      const all = m > 1 && m < 7 && cells.map(term).join(" + ").replaceAll("+ −", "− ");
      return all && all.length < 50 ? `(${all})/${m} = ` : "";
    };
    const over = (total) => (s, r) => [`${s(total)}/${m}`, r(total) / m];
    lines.mean = centered ? `μ = ${spell(exact)}${agree(mean, over(sum))}` : "";
    lines.variance = (centered ? "σ² = " : "mean x² = ") +
      (spell((v) => `${wrap(exact(v - mean))}²`) || `Σ${centered ? "(x − μ)" : "x"}²/${m} = `) +
      agree(variance, over(variance * m));
  }
  lines.normalized = "x̂ = " + agree(hat, (s, r) => [
    (centered ? `(${exact(x)} − ${wrap(s(mean))})` : exact(x)) + `/√(${s(variance)} + ${e})`,
    (x - r(mean)) / Math.sqrt(r(variance) + eps),
  ]);
  lines.output = "y = " + agree(gamma * hat + beta, (s, r) => [
    `${exact(gamma)} · ${wrap(s(hat))}${centered ? ` + ${wrap(exact(beta))}` : ""}`, gamma * r(hat) + beta,
  ]);
  return lines;
}

/** The line for the gradient of one input, from one output of its group. */
export function gradientLine({ same, hat, source, m, variance, eps, gamma, dy, centered, constant, value }) {
  const scale = gamma * dy;
  return "dx = " + agree(value, (s, r) => {
    const [first, upstream] = [`${s(scale)}/√(${s(variance)} + ${python(eps)})`, r(scale) / Math.sqrt(r(variance) + eps)];
    if (constant) return [`${first} · ${+same}`, upstream * same];
    const mean = centered ? ` − 1/${m}` : "";
    return [`${first} · (${+same}${mean} − ${wrap(s(hat))} · ${wrap(s(source))}/${m})`,
      upstream * (same - (centered ? 1 / m : 0) - (r(hat) * r(source)) / m)];
  });
}

/** How to index what is indexed by `indices`, so that it broadcasts. */
const marks = (tokens, indices) => tokens.map((t) => (axesOf(t).some((a) => indices.includes(a)) ? ":" : "None"));
function placed(name, indices, scheme) {
  const kept = marks(tokensOf(scheme.cells), indices);
  while (kept[0] === "None") kept.shift();
  return kept.includes("None") ? `${name}[${kept.join(", ")}]` : name;
}

/** The lines of PyTorch and numpy that compute what is shown, from x and what else is shown. */
export function code(scheme, shape, { eps = 1e-5, masked = false, affine = false, constant = false } = {}) {
  const lengths = lengthsOf(scheme, shape), axes = axesOf(scheme.cells), split = scheme.cells.includes("(");
  const over = axes.flatMap((a, i) => (axesOf(scheme.stats).includes(a) ? [] : [i]));
  const e = python(eps), dims = over.length === 1 ? over[0] : `(${over.join(", ")})`;
  const affinely = (line, simple) => {
    if (!affine || !scheme.params) return line;
    const scaled = `${simple ? line : `(${line})`} * ${placed("gamma", scheme.params, scheme)}`;
    return scheme.centered ? `${scaled} + ${placed("beta", scheme.params, scheme)}` : scaled;
  };
  const spelled = (np) => {
    const module = np ? "np" : "torch", keep = np ? "keepdims=True" : "keepdim=True";
    const average = (what, x) => np
      ? `${x}.${what}(${dims}, ${keep}${masked ? ", where=m" : ""})`
      : masked ? `torch.masked.${what}(${x}, ${dims}, ${what === "var" ? "unbiased=False, " : ""}${keep}, mask=m)`
      : `${x}.${what}(${dims}, ${what === "var" ? "correction=0, " : ""}${keep})`;
    const parts = `reshape(${axes.map((a) => lengths[a]).join(", ")})`;
    const x = split ? "s" : "x", first = split ? `(s := x.${parts})` : "x";
    let [top, bottom] = !scheme.centered ? [first, average("mean", `(${x}**2)`)]
      : [`(${first} - ${average("mean", x)})`, average("var", x)];
    if (!over.length) [top, bottom] = scheme.centered ? [`(${first} - ${x})`, `0 * ${x}`] : [first, `${x}**2`];
    if (constant) [top, bottom] = [`(x - ${placed("running_mean", scheme.running, scheme)})`,
      placed("running_var", scheme.running, scheme)];
    let line = `${top} / ${module}.sqrt(${bottom} + ${e})`;
    if (masked) {
      const index = marks(axes, scheme.mask || scheme.cells);
      const mask = index.includes("None") ? `mask[${index.join(", ")}]` : split ? `mask.${parts}` : "mask";
      line = `${module}.where(m := ${mask}, ${line}, 0)`;
    }
    return affinely(split && !constant ? `(${line}).reshape(x.shape)` : line, masked || (split && !constant));
  };
  const all = { ...lengths, eps: eps === scheme.torch_eps ? "" : `, eps=${e}` };
  for (const t of tokensOf(scheme.cells)) all[axesOf(t).join("")] = product(axesOf(t).map((a) => lengths[a]));
  const named = scheme.torch && !masked && !constant;
  return {
    torch: named ? affinely(scheme.torch.replace(/\{(\w+)\}/g, (_, k) => all[k]), true) : spelled(false),
    numpy: spelled(true),
  };
}

/** What PyTorch says instead of normalizing by groups of `count` cells, or "". */
export function refusal({ torch, running, optional }, shape, count, eps) {
  const [n, t, d] = shape, groups = torch.startsWith("nn.GroupNorm");
  if (!torch || (!running && !groups)) return "";
  if (count * (groups ? n : 1) > 1) { // group norm looks at all samples together
    return groups || optional || eps ? "" : "ValueError: batch_norm eps must be positive during training, but got 0.0";
  }
  const size = torch.includes("flatten(1)") ? [n, t * d] : torch.includes("flatten(0") ? [n * t, d] : shape;
  return `ValueError: Expected more than 1 ${optional ? "spatial element" : "value per channel"} when training, ` +
    `got input size ${groups ? "" : "torch.Size("}[${size.join(", ")}]${groups ? "" : ")"}`;
}

// ---- The state. One that was damaged is refused as a whole, with the first trait that doesn't fit.

function check(get) {
  const strings = (...all) => all.every((v) => typeof v === "string"), maybe = (fits) => (v) => v === null || fits(v);
  const within = (v, from, to = Infinity) => Number.isFinite(v) && v >= from && v <= to;
  const whole = (v, from, to) => Number.isInteger(v) && within(v, from, to);
  const oneOf = (...all) => (v) => all.includes(v);
  const number = (v) => Number.isFinite(v) || /^(NaN|-?Infinity)$/.test(v);
  const full = get("values")?.shape, layout = get("cells"), scheme = get("scheme"), axes = axesOf(`${layout}`);
  const index = (v) => v.length === axes.length && v.every((k, axis) => whole(k, 0, full[axis] - 1));
  const holds = ({ data, shape }, expected, allowed = number) => String(shape) === String(expected) &&
    data.length === product(expected) && data.every(allowed);
  const isScheme = (s) => {
    const known = axesOf(s.cells), indices = [s.stats, s.params, s.running, s.mask].map(axesOf);
    const unsplit = tokensOf(s.cells).map((token, i) => (token[1] ? axes[i] : token)).join(" ");
    return strings(s.name, s.torch) && unsplit === layout && s.lengths.every(([a]) => known.includes(a)) &&
      indices.every((all) => all.every((a, i) => known.includes(a) && all.indexOf(a) === i)) &&
      Object.values(lengthsOf(s, full)).every((n) => whole(n, 1));
  };
  const by = (indices, allowed) => maybe((v) => indices() && holds(v, shapeOf(scheme, indices(), full), allowed));
  const fits = {
    cells: strings,
    values: (v) => full.length === axes.length && full.every((n) => whole(n, 1)) && holds(v, full),
    scheme: isScheme,
    layers: (v) => v.every(isScheme),
    named: (v) => v.every(isScheme),
    mask: by(() => scheme.mask || scheme.cells, (v) => v === 0 || v === 1),
    gamma: by(() => scheme.params),
    beta: by(() => scheme.params),
    running_mean: by(() => scheme.running),
    running_var: by(() => scheme.running, (v) => number(v) && !(v < 0)),
    selection: maybe(index),
    eps: (v) => within(v, 0),
    momentum: (v) => within(v, 0, 1),
    upstream: Number.isFinite,
    batches: (v) => v.every((n) => whole(n, 0)),
    batch: (v) => whole(v, 1, full[0]),
    mode: oneOf("train", "eval"),
    view: oneOf(...VIEWS, "gradient", "both"),
    share: oneOf("statistics", "parameters"),
    label: strings,
    controls: (v) => strings(...v),
    prompt: maybe(({ cell, value }) => index(cell) && Number.isFinite(value)),
    goal: maybe(({ ask }) => strings(ask)),
    words: ({ axes, symbols, layers, explorer, ...others }) =>
      [axes, symbols, layers, others].every((v) => strings(...Object.values(v))),
    looks: (v) => v.length > 0 && v.every(([color, pattern]) => strings(color, pattern)),
  };
  for (const key in fits) {
    const value = get(key);
    let fine;
    try { fine = fits[key](value); } catch {} // of another kind altogether
    if (!fine) throw new TypeError(`${key} is ${`${JSON.stringify(value)}`.slice(0, 99)}, which doesn't fit`);
  }
}

// ---- The drawing

const VIEWS = ["raw", "centered", "squared", "normalized", "output"];
const MAX_WIDTH = 38, SMALLEST = 8; // px: of a cell, and of a font that can be read

const h = (tag, props = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "role") element[key] = value;
    else element.setAttribute(key, value);
  }
  // JupyterLab takes single keys for commands, wherever they go, unless the focus itself says no.
  if (props.tabIndex || /^(button|input|select|summary)$/.test(tag)) element.dataset.lmSuppressShortcuts = "true";
  element.append(...children);
  return element;
};
// Writing the same text again would cost a layout.
const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };

async function render({ model, el, host, signal }) {
  const get = (key) => model.get(key);
  check(get);
  const words = get("words");
  const t = (key, values = {}) => (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const set = (changes) => {
    for (const [key, value] of Object.entries(changes)) model.set(key, value);
    model.save_changes();
  };
  const list = (key) => get(key)?.data.map(Number) ?? null;
  const initial = Object.fromEntries(("values scheme mask selection eps gamma beta running_mean running_var batches batch " +
    "mode view share upstream").split(" ").map((key) => [key, get(key)]));
  const wanted = get("controls");
  const full = get("values").shape, layout = get("cells"), layers = get("layers"), axes = axesOf(layout);
  // The last two axes are the rows and columns of a map; the one before them tells the maps of a
  // block, all others the blocks. Tokens stand side by side, with their features below them.
  const drawn = [...axes];
  if (axes.length === 3) drawn.splice(axes[1] === "t" ? 3 : 1, 0, "");
  const [COLUMN, ROW = "", MAP = "", ...rest] = drawn.reverse(), BLOCK = `${rest.reverse()}`;
  // `edited`: the values before the last edit, to tell which outputs it moves.
  let S, hover = null, focus = null, edited = null, moved = [], cells = [], places, members, outlines, boxes, fitted, built, entry; // the tab stop

  // ---- What follows from the model

  function solve(values) {
    const scheme = get("scheme"), shape = [get("batch"), ...full.slice(1)], size = product(shape);
    const x = Float64Array.from(values.slice(0, size), Number), eps = get("eps");
    const mask = list("mask")?.slice(0, (product(get("mask").shape) / full[0]) * shape[0]);
    const groups = groupsOf(scheme, shape, mask), own = moments(x, groups, scheme.centered);
    const params = scheme.params ? numbering(scheme, scheme.params, shape) : null;
    const tracks = scheme.running && !scheme.optional, constant = !!tracks && get("mode") === "eval";
    const running = { mean: list("running_mean") ?? Array(groups.size).fill(0),
      variance: list("running_var") ?? Array(groups.size).fill(1) };
    const used = constant ? running : own, [gamma, beta] = [list("gamma"), list("beta")];
    const hat = normalize(x, groups, used, eps);
    const y = normalize(x, groups, used, eps, gamma, beta, params?.of);
    return { scheme, shape, size, x, eps, mask, groups, own, params, tracks, constant, running, used, gamma, beta, hat, y };
  }

  function compute() {
    S = solve(get("values").data);
    const { x, groups, params, used, eps, gamma, y } = S, was = edited && solve(edited).y;
    moved = was ? [...was.keys()].filter((k) => !Object.is(y[k], was[k])) : [];
    if (was) tell(t("moved", { count: moved.length, total: S.size }));
    if (get("view") === "gradient") {
      const dy = new Float64Array(S.size);
      dy[pinned() ?? 0] = get("upstream");
      S.dx = backward(dy, x, groups, used, eps, gamma, params?.of, S.scheme.centered, S.constant);
    }
    // What is colored and lit: the cells of one mean and variance, or those of one gamma and beta.
    const sharing = get("share") === "parameters";
    S.lit = groups;
    if (sharing) S.lit = { of: groups.of.map((g, i) => (g < 0 || !params ? -1 : params.of[i])), size: params?.size ?? 0 };
    const collect = ({ of, size }) => {
      const all = times(size, () => []);
      of.forEach((g, i) => g < 0 || all[g].push(i));
      return all;
    };
    S.mates = collect(groups);
    members = sharing ? collect(S.lit) : S.mates;
    outlines = new Map();
  }

  const indexOf = (i) => {
    const index = [];
    for (const length of [...S.shape].reverse()) {
      index.unshift(i % length);
      i = Math.floor(i / length);
    }
    return index;
  };
  const flat = (index) => index.reduce((i, k, axis) => i * S.shape[axis] + k, 0);
  const pinned = () => {
    const index = get("selection");
    return index && index[0] < get("batch") ? flat(index) : null;
  };
  const current = () => hover ?? focus ?? pinned();
  const at = (i, indices) => axesOf(indices).map((a) => { // as `where`, but "" for no axis
    const axis = axes.indexOf(a), k = axis < 0 ? numbering(S.scheme, a, S.shape, [i]).of : indexOf(i)[axis];
    return words.axes[a] ? `${words.axes[a]} ${k}` : `${a}=${k}`;
  }).join(words.comma);
  const where = (i, indices = layout) => at(i, indices) || t("all");
  const paramAxes = () => S.scheme.params.replace(/\(.*?\)/g, (token) => axes[tokensOf(S.scheme.cells).indexOf(token)]);
  const value = (i, view) => {
    const centered = S.x[i] - S.used.mean[S.groups.of[i]];
    return { raw: S.x[i], centered, squared: centered ** 2, normalized: S.hat[i], output: S.y[i], gradient: S.dx?.[i] }[view];
  };
  const brief = (v, decimals) => {
    if (!Number.isFinite(v)) return text(v);
    const size = Math.abs(v);
    if (size >= 1e5 || (size && size < 10 ** -decimals / 2)) {
      return v.toExponential(0).replace("e+", "e").replace(/^-/, "−");
    }
    return text(Number.isInteger(v) ? v : Number(v.toFixed(decimals)), decimals);
  };

  // ---- The parts, made once

  const button = (label, onclick, props = {}) => h("button", { type: "button", textContent: label, onclick, ...props });
  const pills = (label, options, choose) => { // options: [value, label]; marks the chosen one
    const buttons = options.map(([v, text]) => button(text, () => choose(v)));
    const element = h("div", { className: "ss-pills", role: "group", "aria-label": label }, ...buttons);
    element.mark = (v) => options.forEach(([o], i) => buttons[i].setAttribute("aria-pressed", o === v));
    return element;
  };
  const labelled = (label, field) => {
    field.ariaLabel = label;
    return h("label", { className: "ss-field" }, label, field);
  };
  // A field for a number. A wrong entry is refused with a message, and stays to be corrected.
  const number = (apply, { min = -Infinity, max = Infinity, whole = false } = {}, props = {}) => {
    const input = h("input", { type: "text", inputMode: "decimal", autocomplete: "off", size: 5, ...props });
    input.commit = () => {
      const typed = input.value.trim(), v = typed ? Number(typed.replace("−", "-")) : NaN;
      const fits = Number.isFinite(v) && v >= min && v <= max && (!whole || Number.isInteger(v));
      input.refuse(!fits);
      if (fits) apply(v);
      else tell(t(whole ? "refused_whole" : min === 0 ? "refused_negative" : "refused", { typed, min, max }));
      return fits;
    };
    input.addEventListener("change", () => input.commit());
    input.refuse = (refused) => input.setAttribute("aria-invalid", (input.refused = refused));
    input.show = (v) => { // not while somebody types
      if (input.matches(":focus")) return;
      input.value = v;
      input.refuse(false);
    };
    return input;
  };

  const message = h("p", { className: "ss-message", role: "status" });
  const tell = (text) => say(message, text);
  const warning = h("p", { className: "ss-message" }), legend = h("p", { className: "ss-legend ss-soft" }, t("both"));
  const live = h("p", { className: "ss-hidden", "aria-live": "polite" });
  const sentence = h("p"), summary = h("p");
  const lines = {};
  for (const key of ["mean", "variance", "normalized", "output"]) lines[key] = h("p", { className: "ss-f" });
  const overlay = h("div", { innerHTML: '<svg class="ss-overlay" aria-hidden="true">' +
    ["fade", "outline", "moved", "held", "me"].map((name) => `<path class="ss-${name}"/>`).join("") + "</svg>" }).firstChild;
  const [fade, outline, flash, held, me] = overlay.children;
  const grid = h("div", { className: "ss-grid" }), stage = h("div", { className: "ss-stage" }, grid, overlay);
  const root = h("div", { className: "ss", lang: words.language, role: "group", "aria-label": get("label") || t("widget"),
    "data-lm-suppress-shortcuts": "true" });
  const looks = get("looks").map(([color, pattern], g) => {
    const tile = `<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8">` +
      `<path d="${pattern}" stroke="${color}" stroke-opacity=".4"/></svg>`;
    root.style.setProperty(`--p${g}`, `url("data:image/svg+xml,${encodeURIComponent(tile)}")`);
    return `--g:${color};--p:var(--p${g})`;
  });
  const look = (g) => looks[g % looks.length] ?? "";

  // ---- Controls: each an element, and how to bring it up to date

  const nameOf = (scheme) => words.layers[`${scheme.name} (${scheme.cells})`] ?? words.layers[scheme.name] ?? scheme.name;
  const same = (a, b, third = "name") => ["cells", "stats", third].every((key) => a[key] === b[key]);
  // The axis that is split: the letter of its groups, and how many there may be.
  const splitOf = ({ cells, stats }) => {
    const tokens = tokensOf(cells), at = tokens.findIndex((token) => token[1]), parts = axesOf(tokens[at] ?? "");
    return [parts.find((a) => stats.includes(a)) ?? parts[0], times(full[at], (i) => i + 1).filter((k) => !(full[at] % k))];
  };
  function choose(scheme) {
    const [g, counts] = splitOf(scheme);
    if (g && !scheme.lengths[0]) scheme = { ...scheme, lengths: [[g, counts[1] ?? 1]] };
    tell("");
    set({ scheme, gamma: null, beta: null, running_mean: null, running_var: null, batches: [], mode: "train" });
  }
  function average(over) { // over these axes: a layer with a name if there is one
    const kept = axes.filter((a) => !over.includes(a)).join(" ");
    choose([...layers, ...get("named")].find((l) => l.centered && l.cells === layout && l.stats === kept) ?? {
      ...S.scheme, name: t("no_name"), cells: layout, stats: kept, params: "", running: "", centered: true, optional: false,
      lengths: [], torch: "",
    });
  }
  const parameter = (name) => number((v) => { // of the current cell
    const data = list(name) ?? Array(S.params.size).fill(name === "gamma" ? 1 : 0);
    data[S.params.of[current() ?? 0]] = v;
    set({ [name]: { shape: shapeOf(S.scheme, S.scheme.params, full), data } });
  });
  const gamma = parameter("gamma"), beta = parameter("beta"), whose = h("span");
  const copyable = (name) => {
    const line = h("code");
    const copy = button(t("copy"), () => { // so it works where the page isn't a secure context, too
      getSelection().selectAllChildren(line);
      document.execCommand("copy");
      tell(t("copied"));
    }, { ariaLabel: t("copy_line", { name }) });
    return { element: h("div", { className: "ss-code" }, h("span", {}, name), line, copy), line };
  };
  const pytorch = copyable("PyTorch"), numpy = copyable("numpy");
  const chain = VIEWS.map((view) => {
    const element = button("", () => set({ view }));
    element.append(h("small"), h("b"), h("span"));
    return element;
  });
  const chips = h("div", { className: "ss-chips", role: "group", "aria-label": t("groups") });
  const boxesOf = axes.map((a) => h("input", { type: "checkbox", onchange: () =>
    average(axes.filter((_, i) => boxesOf[i].checked)) }));
  const choice = (values, apply) => h("select", { onchange: (event) => apply(Number(event.target.value)) },
    ...values.map((value) => h("option", { value, textContent: value })));
  const named = h("b"), counts = choice([], (n) => choose({ ...S.scheme, lengths: [[splitOf(S.scheme)[0], n]] }));
  const groupField = labelled(t("number_of_groups"), counts);
  const running = h("span", { className: "ss-soft" });
  const modes = pills(t("mode"), [["train", t("train")], ["eval", t("eval")]], (mode) => set({ mode }));
  const epsField = number((eps) => set({ eps }), { min: 0 });
  const batches = choice(times(full[0], (n) => n + 1), (batch) => set({ batch }));
  const upstream = number((v) => set({ upstream: v }));
  const gradientButton = button(t("gradient"), () => {
    if (get("view") === "gradient") set({ view: "output" });
    else set({ view: "gradient", selection: get("selection") ?? indexOf(current() ?? 0) });
  });
  const layerPills = pills(t("layer"), layers.map((l, i) => [i, nameOf(l)]), (i) => choose(layers[i]));
  const pairs = () => (S.scheme.centered ? ["μ, σ²", "γ, β"] : [t("mean_square"), "γ"]);
  const sharePills = pills(t("share"), [["statistics"], ["parameters"]], (share) => set({ share }));
  const editing = ["−", "✎", "+"].map((symbol) => button(symbol, () => {
    const i = current() ?? 0;
    if (symbol === "✎") edit(i);
    else change(i, S.x[i] + (symbol === "+" ? 1 : -1));
  }, { ariaLabel: t({ "−": "less", "✎": "edit", "+": "more_by_one" }[symbol]) }));
  const cellName = h("span", { className: "ss-soft" }), unpin = button(t("unpin"), () => letGo());

  const CONTROLS = { // above the tensor
    layers: { element: layerPills, update: () => layerPills.mark(layers.findIndex((l) => same(l, S.scheme))) },
    axes: {
      element: h("div", { className: "ss-axes" },
        h("fieldset", {}, h("legend", {}, t("average_over")), ...axes.map((a, i) =>
          h("label", { className: "ss-field" }, boxesOf[i], h("b", {}, a), words.axes[a] ?? ""))), groupField, named),
      update() {
        tokensOf(S.scheme.cells).forEach((token, i) => {
          const kept = axesOf(token).map((a) => S.scheme.stats.includes(a)), some = kept.includes(true);
          boxesOf[i].checked = !some;
          boxesOf[i].indeterminate = some && kept.includes(false);
        });
        const [g, all] = splitOf(S.scheme);
        groupField.hidden = !g;
        counts.replaceChildren(...choice(all).children);
        counts.value = lengthsOf(S.scheme, full)[g];
        say(named, layers.some((l) => same(l, S.scheme)) ? "" : `→ ${nameOf(S.scheme)}`);
      },
    },
    share: {
      element: sharePills,
      update() {
        sharePills.mark(get("share"));
        pairs().forEach((pair, k) => say(sharePills.children[k], t("who", { pair })));
      },
    },
    mode: {
      element: h("div", { className: "ss-row-of" }, modes, button(t("train_step"), train), running),
      update() {
        CONTROLS.mode.element.hidden = !S.tracks;
        modes.mark(get("mode"));
        const g = S.groups.of[current() ?? 0];
        say(running, !S.tracks || g < 0 ? "" : t("running", {
          group: where(current() ?? 0, S.scheme.running),
          mean: text(S.running.mean[g]), variance: text(S.running.variance[g]), batches: get("batches")[g] ?? 0,
        }));
      },
    },
    batch: { element: labelled(t("batch"), batches), update: () => (batches.value = get("batch")) },
    // below it
    steps: {
      element: h("div", { className: "ss-chain", role: "group", "aria-label": t("steps") }, ...chain),
      update() {
        const i = current(), now = get("view"), masked = i === null || S.groups.of[i] < 0;
        VIEWS.forEach((view, k) => {
          const [step, symbol, at] = chain[k].children, square = view === "squared" && !S.scheme.centered;
          say(step, t(square ? "step_square" : `step_${view}`));
          say(symbol, square ? "x²" : words.symbols[view]);
          say(at, masked ? " " : view === "raw" ? exact(S.x[i]) : text(value(i, view)));
          chain[k].hidden = view === "centered" && !S.scheme.centered;
          chain[k].setAttribute("aria-pressed", now === view || (now === "both" && /raw|norm/.test(view)));
        });
      },
    },
    gradient: {
      element: h("div", { className: "ss-row-of" }, gradientButton, labelled(t("upstream"), upstream)),
      update() {
        const on = get("view") === "gradient";
        gradientButton.setAttribute("aria-pressed", on);
        upstream.parentElement.hidden = !on;
        upstream.show(get("upstream"));
      },
    },
    chips: { element: chips },
    edit: {
      element: h("div", { className: "ss-field", role: "group", "aria-label": t("edit") }, t("edit"), ...editing),
    },
    affine: {
      element: h("div", { className: "ss-row-of" }, whose, labelled("γ", gamma), labelled("β", beta)),
      update() {
        CONTROLS.affine.element.hidden = !S.params;
        beta.parentElement.hidden = !S.scheme.centered;
        if (!S.params) return;
        const i = current() ?? 0, p = S.params.of[i];
        say(whose, t("parameters_of", { group: where(i, paramAxes()) }));
        gamma.show(S.gamma?.[p] ?? 1);
        beta.show(S.beta?.[p] ?? 0);
      },
    },
    eps: { element: labelled("ε", epsField), update: () => epsField.show(python(get("eps"))) },
    code: {
      element: h("div", {}, pytorch.element, numpy.element),
      update() {
        const both = code(S.scheme, S.shape, { ...S, masked: !!S.mask, affine: !!(S.gamma || S.beta) });
        say(pytorch.line, both.torch);
        say(numpy.line, both.numpy);
      },
    },
    reset: { element: button(t("reset"), () => { edited = hover = null; tell(""); set(initial); }) },
  };
  CONTROLS.batch.element.hidden = axes[0] !== "n";
  const unseen = (g) => S.constant && get("batches").some(Boolean) && !get("batches")[g];
  const refused = () => (S.mask ? "" : refusal(S.scheme, S.shape, S.own.count[0], S.eps));

  function train() {
    const seen = get("batches"), p = get("momentum"), now = track(S.running, S.own, p), shape = shapeOf(S.scheme, S.scheme.running, full);
    const g = Math.max(0, S.groups.of[current() ?? 0]), [old, mean] = [S.running.mean[g], S.own.mean[g]];
    if (refused()) return tell(refused());
    edited = null;
    tell(`${t("running_mean")} = ` + agree(now.mean[g], (s, r) => [
      `${s(1 - p)} · ${wrap(s(old))} + ${s(p)} · ${wrap(s(mean))}`, r(1 - p) * r(old) + r(p) * r(mean)]));
    set({ running_mean: { shape, data: now.mean }, running_var: { shape, data: now.variance },
      batches: Array.from(S.own.count, (m, k) => (seen[k] ?? 0) + (m > 1)) });
  }

  // ---- The tensor as cells, built anew only when its shape changes

  const length = (indices) => product(axesOf(indices).map((a) => S.shape[axes.indexOf(a)]));
  const columnName = words.axes[COLUMN] ?? COLUMN;
  const ragged = get("mask") && !COLUMN && get("scheme").mask === `${axes[0]} t`;
  const lengthOf = (n) => list("mask").slice(n * full[1], (n + 1) * full[1]).reduce((a, b) => a + b, 0);
  const lengthFields = [];

  function build() {
    const [B, M, R, C] = [BLOCK, MAP, ROW, COLUMN].map(length);
    cells = [];
    hover = focus = null; // it may be gone
    places = []; // by row and column of all
    lengthFields.length = 0;
    grid.replaceChildren(...times(B, (b) => {
      const name = at(b * M * R * C, BLOCK) || get("label") || t("widget");
      const maps = times(M, (m) => {
        const heading = at((b * M + m) * R * C, MAP);
        const map = h("div", { className: "ss-map", role: "rowgroup" }, ...times(R, (r) =>
          h("div", { className: "ss-row", role: "row" },
            ...(MAP ? [] : [h("span", { className: "ss-rowhead", "aria-hidden": "true" }, at((b * R + r) * C, ROW))]),
            ...times(C, (c) => {
              const cell = h("div", { tabIndex: -1, role: "gridcell" }), x = m * C + c, y = b * R + r;
              (places[y] ??= [])[x] = cell;
              return Object.assign(cell, { x, y, index: cells.push(cell) - 1 });
            }))));
        if (MAP) map.setAttribute("aria-label", heading);
        map.prepend(h("div", { className: MAP ? "ss-head" : "ss-heads", "aria-hidden": "true" }, ...(MAP ? [heading]
          : times(C + 1, (i) => h("span", {}, i ? i - 1 : columnName)))));
        return map;
      });
      const block = h("div", { className: "ss-block" }, h("div", { className: "ss-side", hidden: !BLOCK }, ragged ? t("length", { sample: name }) : name),
        h("div", { className: "ss-maps", role: "grid", "aria-label": name }, ...maps));
      if (ragged) {
        const fields = [number((v) => setLength(b, v), { min: 0, max: full[1], whole: true }, { size: 2 }),
          h("input", { type: "range", min: 0, max: full[1], step: 1, oninput: (event) => setLength(b, Number(event.target.value)) })];
        fields.forEach((field) => field.setAttribute("aria-label", t("length", { sample: name })));
        block.firstChild.append(fields[0]);
        block.append(fields[1]);
        lengthFields.push(fields);
      }
      return block;
    }));
    if (ragged) {
      grid.append(h("div", { className: "ss-block ss-perstep" }, h("div", { className: "ss-side" }, t("per_step")),
        h("div", { className: "ss-maps" }, ...times(M, () => h("span")))));
    }
    built = String(S.shape);
    fitted = "";
    (entry = cells[0]).tabIndex = 0;
  }

  function setLength(n, to) {
    const data = list("mask"), from = n * full[1], end = from + to;
    tell("");
    set({ mask: { shape: full.slice(0, 2), data: data.fill(1, from, end).fill(0, end, from + full[1]) } });
  }

  // The largest cells that hold the text, with as many maps in a row as fit.
  function fit(now) {
    const room = stage.clientWidth - 2, both = get("view") === "both";
    const key = `${[room, now, both]}`;
    if (!room || fitted === key) return;
    fitted = key;
    const [M, C] = [length(MAP), length(COLUMN)], across = M * C;
    const narrow = room < 480, gap = MAP && COLUMN ? 12 : 4;
    const head = MAP ? 0 : (22 / 3) * Math.max(9, at(cells.length - 1, ROW).length, columnName.length);
    const side = head + (BLOCK && !narrow ? 96 : 0);
    const largest = across <= 6 ? 72 : across <= 10 ? 48 : MAX_WIDTH;
    const attempt = (chars, k) => {
      const width = Math.min(largest, Math.floor((room - side - gap * (k - 1)) / (k * C)));
      return { width, k, font: Math.min(across <= 6 ? 15 : 13.5, (width - 4) / (0.6 * chars)) };
    };
    let best = attempt(Math.max(now, 5), M);
    for (let k = M; best.font < SMALLEST && k; k--) best = attempt(now, Math.ceil(M / Math.ceil(M / k)));
    const hidden = best.font < SMALLEST;
    const width = Math.max(3, best.width), height = hidden ? Math.min(width, 24) : both ? 44 : Math.max(22, Math.min(28, width));
    for (const [name, v] of Object.entries({ w: width, h: height, font: best.font, gap, head })) root.style.setProperty(`--${name}`, `${v}px`);
    root.style.setProperty("--k", best.k);
    const fits = { narrow, wrapped: best.k < M, tiny: hidden, two: both };
    for (const [name, on] of Object.entries(fits)) root.classList.toggle(`ss-${name}`, on);
    const corner = overlay.getBoundingClientRect(), perMap = length(ROW) * C;
    boxes = { width, height, perMap, C, at: [] };
    for (let i = 0; i < cells.length; i += perMap) {
      const first = cells[i].getBoundingClientRect();
      boxes.at.push([first.left - corner.left, first.top - corner.top]);
    }
    outlines.clear();
  }

  // Cells as the fewest rectangles: runs along a row, grown down while the next row has the same.
  function draw(indices, grow = 0) {
    const { width, height, perMap, C, at } = boxes, open = new Map(), rectangles = [];
    for (let k = 0; k < indices.length; k++) {
      const i = indices[k], map = Math.floor(i / perMap), row = Math.floor((i % perMap) / C), from = i % C;
      let to = from;
      while (to + 1 < C && indices[k + 1] === indices[k] + 1) { k++; to++; }
      const key = `${map},${from},${to}`, above = open.get(key);
      if (above && above.bottom === row) above.bottom++;
      else {
        const rectangle = { map, from, to, top: row, bottom: row + 1 };
        open.set(key, rectangle);
        rectangles.push(rectangle);
      }
    }
    return rectangles.map(({ map, from, to, top, bottom }) => {
      const r = Math.min(5, width / 4), across = (to - from + 1) * width + 2 * grow - 2 * r;
      const down = (bottom - top) * height + 2 * grow - 2 * r, q = (x, y) => `a${r} ${r} 0 0 1 ${x} ${y}`;
      return `M${at[map][0] + from * width - grow + r} ${at[map][1] + top * height - grow}h${across}${q(r, r)}` +
        `v${down}${q(-r, r)}h${-across}${q(-r, -r)}v${-down}${q(r, -r)}z`;
    }).join("");
  }

  // ---- Bringing everything up to date: after a change of the model, and after a mere move

  function texts(view) {
    const wide = full.length < 3 && full.at(-1) < 7, raw = view === "raw";
    for (let decimals = wide ? 3 + raw : 2; ; decimals--) {
      const all = cells.map((_, i) => (S.groups.of[i] < 0 ? "" : brief(value(i, view), decimals)));
      if (decimals === 1 || !raw || all.every((s) => s.length < (wide ? 8 : 6))) return all;
    }
  }

  function refresh() {
    if (signal?.aborted) return;
    say(live, ""); // it was about what was
    compute();
    if (built !== String(S.shape)) build();
    const view = get("view"), all = texts(view === "both" ? "raw" : view), below = view === "both" && texts("normalized");
    const most = (list) => Math.max(1, ...list.map((s) => s.length));
    cells.forEach((cell, i) => {
      cell.className = S.groups.of[i] < 0 ? "ss-c ss-masked" : "ss-c";
      if (cell.look !== S.lit.of[i]) cell.style = look(cell.look = S.lit.of[i]);
      const shown = below ? `${all[i]}\n${below[i]}` : all[i];
      if (cell.textContent !== shown) {
        if (below) cell.replaceChildren(all[i], h("small", {}, `\n${below[i]}`));
        else cell.textContent = shown;
      }
    });
    fit(Math.max(most(all), below ? most(below) : 0));
    lengthFields.forEach((fields, n) => fields.forEach((field) => (field.show ?? ((v) => (field.value = v)))(lengthOf(n))));
    if (ragged) {
      const all = lengthFields.map((_, n) => lengthOf(n));
      [...grid.lastChild.lastChild.children].forEach((span, step) => say(span, String(all.filter((l) => l > step).length)));
    }
    const { scheme } = S, [pair, own] = pairs().map((p) => (p.includes(",") ? `(${p})` : p));
    const others = get("named").filter((l) => !same(l, scheme) && same(l, scheme, "centered"));
    // Where no boxes spell the axes out, the summary does.
    const spelled = (axis) => (wanted.includes("axes") && axes.includes(axis) ? axis
      : t("axis", { axis, name: words.axes[axis] ?? "" }).trim());
    const per = (indices) => axesOf(indices).map(spelled).join(", ");
    const over = per(axesOf(scheme.cells).filter((a) => !scheme.stats.includes(a)).join(" ")) || t("nothing");
    const parts = [t(scheme.stats ? "summary" : "summary_all", { over, per: per(scheme.stats), pair })];
    if (wanted.includes("share")) {
      const count = S.params?.size;
      parts.push(h("br"), count ? t(paramAxes() === "1" ? "parameters_all" : "parameters", { pair: own, per: per(paramAxes()), count }) : t("no_parameters"));
    }
    const names = others.map(nameOf).join(words.comma);
    if (names) parts.push(h("br"), h("span", { className: "ss-soft" }, t("same_cells", { names })));
    summary.replaceChildren(...parts);
    const lost = S.mates.filter((all, g) => all.length && unseen(g));
    say(warning, refused() && !S.constant ? t("refuses", { error: refused() })
      : lost[0] ? t("unseen_groups", { count: lost.length, group: where(lost[0][0], scheme.stats) }) : "");
    legend.hidden = view !== "both";
    drawChips();
    for (const control of Object.values(CONTROLS)) control.update?.();
    const question = get("prompt"), goal = get("goal");
    if (goal) say(task, goal.ask + (goal.stats === scheme.stats || String(goal.moved) === String(moved) ? t("done") : ""));
    if (question) {
      const at = flat(question.cell), from = initial.values.data[at], done = S.x[at] !== from;
      promptButton.hidden = at >= S.size;
      say(promptButton, done ? t("prompt_undo", { from, to: S.x[at] }) : t("prompt_do", { from, to: question.value }));
      promptButton.onclick = () => {
        change(at, done ? from : question.value);
        if (done) { edited = null; tell(""); }
        set({ selection: question.cell });
      };
    }
    point();
  }

  function drawChips() {
    const { size } = S.lit;
    if (!size || size > 12) {
      return chips.replaceChildren(h("span", { className: "ss-soft" }, size ? t("many", { groups: members.filter((all) => all.length).length }) : t("no_parameters")));
    }
    if (chips.querySelectorAll("button").length !== size) {
      chips.replaceChildren(...members.map((_, g) => button("", () => {
        if (members[g].length) set({ selection: indexOf(members[g][0]) });
      }, { className: "ss-chip", style: look(g) })));
    }
    const parameters = get("share") === "parameters", indices = parameters ? paramAxes() : S.scheme.stats;
    const { centered } = S.scheme, { mean, variance } = S.used;
    [...chips.children].forEach((chip, g) => {
      const first = members[g][0], show = (name, v) => `  ${name} ${text(v, 4)}`;
      say(chip, first === undefined ? t("no_cells") : where(first, indices) + (parameters
        ? show("γ", S.gamma?.[g] ?? 1) + (centered ? show("β", S.beta?.[g] ?? 0) : "")
        : (centered ? show("μ", mean[g]) : "") + show(centered ? "σ²" : t("mean_square"), variance[g])));
    });
  }

  // The current cell and its group: on every move, so only the overlay and some text change.
  function point() {
    const i = current(), g = i === null ? -1 : S.lit.of[i], own = i === null ? -1 : S.groups.of[i];
    const d = (path, shape) => { if (path.d !== shape) path.setAttribute("d", (path.d = shape)); };
    if (boxes) {
      if (g >= 0 && !outlines.has(g)) outlines.set(g, draw(members[g]));
      const lit = g >= 0 ? outlines.get(g) : "";
      if (!outlines.has("all")) outlines.set("all", draw(cells.map((_, k) => k)));
      d(fade, i === null ? "" : outlines.get("all") + lit);
      d(outline, lit);
      d(me, i === null ? "" : draw([i], 1));
      d(held, pinned() === null ? "" : draw([pinned()], 1));
      d(flash, draw(moved));
      outline.style = look(g);
    }
    chips.querySelectorAll("button").forEach((chip, k) => chip.setAttribute("aria-pressed", k === g));
    for (const control of [CONTROLS.mode, CONTROLS.steps, CONTROLS.affine]) control.update();
    const view = get("view"), gradient = view === "gradient";
    const active = { centered: "mean", squared: "variance", gradient: "output" }[view] ?? view;
    lines.mean.hidden = !S.scheme.centered;
    lines.output.hidden = !(S.gamma || S.beta || view === "output" || gradient || wanted.includes("steps"));
    const [told, written] = i === null ? [t("hint"), symbolic()]
      : own < 0 ? [t("masked", { cell: where(i) }), {}] : tellOf(i, own, gradient);
    say(cellName, i === null ? "" : t("cell_value", { cell: where(i), value: exact(S.x[i]) }));
    unpin.hidden = pinned() === null;
    say(sentence, told);
    for (const [key, line] of Object.entries(lines)) {
      line.classList.toggle("ss-now", key === active);
      say(line, written[key] ?? " ");
    }
  }

  function symbolic() {
    const [top, bottom] = S.scheme.centered ? ["(x − μ)", "σ²"] : ["x", t("mean_square")];
    return {
      mean: "μ = Σ x / m", variance: `${bottom} = Σ ${top}² / m`, normalized: `x̂ = ${top} / √(${bottom} + ε)`,
      output: S.scheme.centered ? "y = γ · x̂ + β" : "y = γ · x̂",
    };
  }

  // The sentence and the lines for a cell of the group `own`.
  function tellOf(i, own, gradient) {
    const { centered, stats } = S.scheme, { constant, eps } = S, count = S.own.count[own], group = where(i, stats);
    const mean = S.used.mean[own], variance = S.used.variance[own], p = S.params?.of[i];
    const given = { x: S.x[i], cells: S.mates[own].map((k) => S.x[k]), mean, variance, eps, centered, constant };
    const written = formulas({ ...given, gamma: S.gamma?.[p], beta: S.beta?.[p] });
    if (gradient) {
      const from = pinned() ?? 0, source = S.groups.of[from], dy = get("upstream");
      written.output = source !== own || (constant && from !== i) ? "dx = 0" : gradientLine({
        ...given, same: i === from, hat: S.hat[i], source: S.hat[from], m: count, gamma: S.gamma?.[S.params.of[from]] ?? 1, dy, value: S.dx[i],
      });
      const about = { dy: text(dy), cell: where(from), count: S.own.count[source] ?? 0 };
      return [t(constant ? "gradient_constant" : "gradient_of", about), written];
    }
    const told = [];
    if (get("share") === "parameters") {
      told.push(S.params ? t("shares_parameters", { count: members[p].length, pair: pairs()[1], group: where(i, paramAxes()) }) : t("no_parameters"));
    } else {
      told.push(t(unseen(own) ? "unseen" : constant ? "constant" : count === 1 ? "alone" : centered ? "shares" : "shares_square",
        { count, group }));
    }
    if (count > 1 && !constant && variance === 0) told.push(t("zero_variance"));
    return [told.join(words.stop), written];
  }

  // ---- By hand

  function change(i, v) {
    const { shape, data } = get("values"), changed = [...data];
    if (v === S.x[i]) return;
    changed[i] = v;
    edited = data;
    set({ values: { shape, data: changed } });
    flash.classList.remove("ss-flashing");
    void flash.getBoundingClientRect(); // so that the animation starts again
    flash.classList.add("ss-flashing");
    refresh();
  }

  let editor;
  function edit(i, typed) {
    if (S.groups.of[i] < 0) return tell(t("masked", { cell: where(i) }));
    editor?.remove();
    const old = exact(S.x[i]), field = editor = number((v) => change(i, v), {}, {
      className: "ss-editor", value: typed ?? old, ariaLabel: t("new_value", { cell: where(i) }),
    });
    field.addEventListener("keydown", ({ key }) => {
      if (key === "Escape") {
        field.value = old;
        field.refuse(false);
        tell("");
      }
      if (key === "Escape" || (key === "Enter" && field.commit())) cells[i].focus();
    });
    field.addEventListener("blur", () => field.refused || field.remove());
    const [x, y] = [cells[i].offsetLeft, cells[i].offsetTop];
    field.style.translate = `${Math.max(0, Math.min(x, stage.clientWidth - 80))}px ${y}px`;
    stage.append(field);
    field.focus();
    if (!typed) field.select();
  }

  const step = (dx, dy) => (i) => {
    const { x, y } = cells[i];
    (places[y + dy]?.[x + dx] ?? cells[i]).focus();
  };
  const letGo = () => {
    hover = focus = null;
    set({ selection: null });
    point();
  };
  const pin = (i) => (pinned() === i ? letGo() : set({ selection: indexOf(i) }));
  const KEYS = {
    ArrowLeft: step(-1, 0), ArrowRight: step(1, 0), ArrowUp: step(0, -1), ArrowDown: step(0, 1),
    Home: () => cells[0].focus(), End: () => cells.at(-1).focus(), Enter: pin, " ": pin, F2: (i) => edit(i), Backspace: (i) => edit(i),
    Escape: letGo,
  };
  const follow = (event) => {
    const touched = event.pointerType === "touch" ? document.elementFromPoint(event.clientX, event.clientY) : event.target;
    const i = touched?.index;
    if (i !== undefined && i !== hover) { hover = i; point(); } // in a gap, the last one stays
  };
  let speaking;
  const onCell = (handler) => (event) => event.target.index === undefined || handler(event.target.index, event);
  Object.entries({
    pointermove: follow, pointerdown: follow,
    pointerleave() { hover = null; point(); },
    click: onCell((i) => {
      cells[i].focus({ preventScroll: true }); // JupyterLab would keep it
      pin(i);
    }),
    dblclick: onCell((i) => edit(i)),
    focusin: onCell((i) => {
      entry.tabIndex = -1;
      (entry = cells[focus = i]).tabIndex = 0;
      point();
      clearTimeout(speaking);
      speaking = setTimeout(() => {
        const said = [sentence, ...Object.values(lines)].filter((line) => !line.hidden).map((line) => line.textContent);
        say(live, [where(i), ...said].join(words.stop));
      }, 150);
    }),
    focusout() { focus = null; point(); },
    keydown: onCell((i, event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (KEYS[event.key]) { hover = null; KEYS[event.key](i); }
      else if (/^[0-9.+−-]$/.test(event.key)) edit(i, event.key);
      else return;
      event.preventDefault();
    }),
  }).forEach(([name, handler]) => stage.addEventListener(name, handler));

  // ---- Together

  const promptButton = button("", null, { className: "ss-prompt" }), task = h("p", { className: "ss-task", role: "status" });
  const more = h("details", { className: "ss-more" }, h("summary", {}, t("more")));
  const front = (names, className = "ss-row-of") =>
    h("div", { className }, ...names.filter((name) => wanted.includes(name)).map((name) => CONTROLS[name].element));
  for (const [name, { element }] of Object.entries(CONTROLS)) wanted.includes(name) || more.append(element);
  more.hidden = more.childElementCount < 2;
  if (get("label")) root.append(h("p", { className: "ss-label", dir: "auto" }, get("label")));
  if (get("goal")) root.append(task);
  root.append(front(["layers"]), front(["axes", "batch"]), front(["mode"]),
    h("div", { className: "ss-summary" }, summary, ...front(["share"]).children), stage, warning, legend,
    front(["chips"]), front(["steps"], ""), ...(get("prompt") ? [promptButton] : []), message,
    h("div", { className: "ss-read" }, h("div", { className: "ss-at" }, cellName, unpin), sentence, ...Object.values(lines)),
    front(["code"], ""), front(["gradient", "edit", "affine", "eps", "reset"]), more, live);
  root.addEventListener("keydown", (event) => event.ctrlKey || event.metaKey || event.altKey || event.stopPropagation());
  el.append(root);
  if (get("next")) {
    const child = await host.getModel(get("next"));
    const unfold = button(t("next", { label: child.get("label") }), async () => {
      unfold.remove();
      await (await host.getWidget(get("next"))).render({ el, signal });
    });
    live.before(unfold);
  }

  let waiting = false;
  const later = () => {
    if (!waiting) queueMicrotask(() => { waiting = false; refresh(); });
    waiting = true;
  };
  const watched = Object.keys(initial).map((key) => `change:${key}`);
  watched.forEach((name) => model.on(name, later));
  const observer = new ResizeObserver(() => { fitted = ""; refresh(); });
  refresh();
  observer.observe(stage);
  return () => {
    observer.disconnect();
    watched.forEach((name) => model.off(name, later));
  };
}

export default { render };

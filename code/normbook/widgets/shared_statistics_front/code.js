// The lines of PyTorch and numpy that compute what is shown, and where PyTorch refuses to.

import { axesOf, lengthsOf, product, tokensOf } from "./arithmetic.js";
import { python } from "./text.js";

const TORCH = {
  module: "torch",
  mean: (x, dims, masked) =>
    masked
      ? `torch.masked.mean(${x}, ${dims}, keepdim=True, mask=m)`
      : `${x}.mean(${dims}, keepdim=True)`,
  variance: (x, dims, masked) =>
    masked
      ? `torch.masked.var(${x}, ${dims}, unbiased=False, keepdim=True, mask=m)`
      : `${x}.var(${dims}, correction=0, keepdim=True)`,
};
const where = (masked) => (masked ? ", where=m" : "");
const NUMPY = {
  module: "np",
  mean: (x, dims, masked) => `${x}.mean(${dims}, keepdims=True${where(masked)})`,
  variance: (x, dims, masked) => `${x}.var(${dims}, keepdims=True${where(masked)})`,
};

/** How to index what is indexed by `indices`, so that it broadcasts. */
const marks = (tokens, indices) =>
  tokens.map((token) => (axesOf(token).some((a) => indices.includes(a)) ? ":" : "None"));

function placed(name, indices, scheme) {
  const kept = marks(tokensOf(scheme.cells), indices);
  while (kept[0] === "None") kept.shift();
  return kept.includes("None") ? `${name}[${kept.join(", ")}]` : name;
}

/** A line, `simple` where it needs no parentheses, with gamma and beta if the layer has them. */
function affinely(line, simple, scheme) {
  if (!scheme.params) return line;
  const scaled = `${simple ? line : `(${line})`} * ${placed("gamma", scheme.params, scheme)}`;
  return scheme.centered ? `${scaled} + ${placed("beta", scheme.params, scheme)}` : scaled;
}

/** The line with PyTorch's name for the layer. */
function named(scheme, shape, eps) {
  const lengths = lengthsOf(scheme, shape);
  const values = { ...lengths, eps: eps === scheme.torch_eps ? "" : `, eps=${python(eps)}` };
  for (const token of tokensOf(scheme.cells)) {
    values[axesOf(token).join("")] = product(axesOf(token).map((a) => lengths[a]));
  }
  return scheme.torch.replace(/\{(\w+)\}/g, (_, key) => values[key]);
}

/** The line without the layer's name. */
function spelled({ module, mean, variance }, scheme, shape, { eps, masked, affine, constant }) {
  const { cells, stats, centered } = scheme;
  const lengths = lengthsOf(scheme, shape);
  const split = cells.includes("(") && !constant;
  const axes = split ? axesOf(cells) : tokensOf(cells);
  const over = axes.flatMap((a, i) => (axesOf(stats).includes(a) ? [] : [i]));
  const dims = over.length === 1 ? over[0] : `(${over.join(", ")})`;
  const reshape = `reshape(${axes.map((a) => lengths[a]).join(", ")})`;
  const x = split ? "s" : "x";
  const first = split ? `(s := x.${reshape})` : "x";
  let [top, bottom] = [first, `${x}**2`]; // of a cell alone, and not centered
  if (constant) {
    top = `(x - ${placed("running_mean", scheme.running, scheme)})`;
    bottom = placed("running_var", scheme.running, scheme);
  } else if (centered) {
    top = `(${first} - ${over.length ? mean(x, dims, masked) : x})`;
    bottom = over.length ? variance(x, dims, masked) : `0 * ${x}`;
  } else if (over.length) {
    bottom = mean(`(${x}**2)`, dims, masked);
  }
  let line = `${top} / ${module}.sqrt(${bottom} + ${python(eps)})`;
  if (masked) {
    const index = marks(axes, scheme.mask || cells);
    let mask = split ? `mask.${reshape}` : "mask";
    if (index.includes("None")) mask = `mask[${index.join(", ")}]`;
    line = `${module}.where(m := ${mask}, ${line}, 0)`;
  }
  if (split) line = `(${line}).reshape(x.shape)`;
  return affine ? affinely(line, masked || split, scheme) : line;
}

/** The lines of both libraries, from x and what else is shown. */
export function code(scheme, shape, options = {}) {
  const all = { eps: 1e-5, masked: false, affine: false, constant: false, ...options };
  const numpy = spelled(NUMPY, scheme, shape, all);
  if (!scheme.torch || all.masked || all.constant) {
    return { numpy, torch: spelled(TORCH, scheme, shape, all) };
  }
  const line = named(scheme, shape, all.eps);
  return { numpy, torch: all.affine ? affinely(line, true, scheme) : line };
}

/** What PyTorch says instead of normalizing by groups of `count` cells, or "". */
export function refusal({ torch, running, optional }, shape, count, eps) {
  const [n, t, d] = shape;
  const groups = torch.startsWith("nn.GroupNorm");
  if (!torch || (!running && !groups)) return "";
  if (count * (groups ? n : 1) > 1) {
    // group norm looks at all samples together
    if (groups || optional || eps) return "";
    return "ValueError: batch_norm eps must be positive during training, but got 0.0";
  }
  let size = shape;
  if (torch.includes("flatten(1)")) size = [n, t * d];
  else if (torch.includes("flatten(0")) size = [n * t, d];
  const got = `[${size.join(", ")}]`;
  return (
    `ValueError: Expected more than 1 ${optional ? "spatial element" : "value per channel"} ` +
    `when training, got input size ${groups ? got : `torch.Size(${got})`}`
  );
}

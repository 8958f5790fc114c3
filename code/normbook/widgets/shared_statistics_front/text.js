// How numbers and formulas are written. What is shown as a formula evaluates, as shown, to the
// number shown.

/** Six decimals, fewer where they are exact; six digits for the very small and very large. */
export function text(v, digits = 6) {
  if (!Number.isFinite(v)) return Number.isNaN(v) ? "NaN" : v < 0 ? "−∞" : "∞";
  const size = Math.abs(v);
  const far = size && (size < 1e-4 || size >= 1e9);
  const near = Number(v.toPrecision(14)); // exact, but for the last bits
  const short = String(Math.abs(near - v) < 1e-15 * size ? near : v);
  const long = far ? v.toExponential(digits - 1) : v.toFixed(digits);
  return (short.length < long.length ? short : long)
    .replace(/^-(?=0(\.0*)?$)/, "")
    .replace(/^-/, "−");
}

/** As few decimals as these, or one digit of what they can't show. */
export function brief(v, decimals) {
  const size = Math.abs(v);
  if (Number.isFinite(v) && (size >= 1e5 || (size && size < 10 ** -decimals / 2))) {
    return v.toExponential(0).replace("e+", "e").replace(/^-/, "−");
  }
  return text(Number.isInteger(v) ? v : Number(v.toFixed(decimals)), decimals);
}

/** The number that is written. */
const read = (s) => Number(s.replace("−", "-").replace("∞", "Infinity"));
export const exact = (v) => (Number.isFinite(v) ? String(v).replace(/^-/, "−") : text(v));
export const wrap = (s) => (s.startsWith("−") ? `(${s})` : s);

/** A number as Python writes it. */
export function python(v) {
  if (v && v < 1e-4) return v.toExponential().replace(/-(\d)$/, "-0$1");
  return Number.isInteger(v) ? `${v}.0` : String(v);
}

/**
 * A formula and its value. `make` gives the formula, and its value as written, from what writes a
 * number and what tells a number as written: digits are added until the two agree.
 */
export function agree(value, make) {
  const shown = text(value);
  for (let digits = 6; ; digits++) {
    const write = digits > 15 ? exact : (v) => text(v, digits);
    const [formula, again] = make(write, (v) => read(write(v)));
    if (digits > 15 || text(again) === shown) return `${formula} = ${shown}`;
  }
}

/** Few and short terms, written out; or "". */
function spell(cells, term) {
  if (cells.length < 2 || cells.length > 6) return "";
  const sum = cells.map(term).join(" + ").replaceAll("+ −", "− ");
  return sum.length < 50 ? `(${sum})/${cells.length} = ` : "";
}

function statistics({ cells, mean, variance, centered, constant }) {
  if (constant) return { mean: `μ = ${text(mean)}`, variance: `σ² = ${text(variance)}` };
  const m = cells.length;
  const sum = cells.reduce((a, b) => a + b, 0);
  const over = (total) => (s, r) => [`${s(total)}/${m}`, r(total) / m];
  const squares =
    spell(cells, (v) => `${wrap(exact(v - mean))}²`) || `Σ${centered ? "(x − μ)" : "x"}²/${m} = `;
  return {
    mean: centered ? `μ = ${spell(cells, exact)}${agree(mean, over(sum))}` : "",
    variance: `${centered ? "σ²" : "mean x²"} = ${squares}${agree(variance, over(variance * m))}`,
  };
}

/** The lines for cell x of a group with these cells, as normalized by `used`. */
export function formulas({ gamma = 1, beta = 0, ...given }) {
  const { x, mean, variance, eps, centered } = given;
  const hat = (x - mean) / Math.sqrt(variance + eps);
  const shift = centered ? beta : 0;
  const normalized = agree(hat, (s, r) => [
    `${centered ? `(${exact(x)} − ${wrap(s(mean))})` : exact(x)}/√(${s(variance)} + ${python(eps)})`,
    (x - r(mean)) / Math.sqrt(r(variance) + eps),
  ]);
  const output = agree(gamma * hat + shift, (s, r) => [
    `${exact(gamma)} · ${wrap(s(hat))}${centered ? ` + ${wrap(exact(shift))}` : ""}`,
    gamma * r(hat) + shift,
  ]);
  return { ...statistics(given), normalized: `x̂ = ${normalized}`, output: `y = ${output}` };
}

/** The line for the gradient of one input, from one output of its group. */
export function gradientLine({
  same,
  hat,
  source,
  m,
  variance,
  eps,
  gamma,
  dy,
  centered,
  constant,
  value,
}) {
  const scale = gamma * dy;
  const line = agree(value, (s, r) => {
    const first = `${s(scale)}/√(${s(variance)} + ${python(eps)})`;
    const upstream = r(scale) / Math.sqrt(r(variance) + eps);
    if (constant) return [`${first} · ${+same}`, upstream * same];
    const mean = centered ? ` − 1/${m}` : "";
    return [
      `${first} · (${+same}${mean} − ${wrap(s(hat))} · ${wrap(s(source))}/${m})`,
      upstream * (same - (centered ? 1 / m : 0) - (r(hat) * r(source)) / m),
    ];
  });
  return `dx = ${line}`;
}

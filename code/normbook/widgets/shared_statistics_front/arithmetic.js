// The arithmetic of normalization, pure: tests hold it to PyTorch's numbers. Tensors are flat,
// row-major; a group or parameter is told by its number. A "scheme" is the description that
// normbook.core.scheme.Scheme holds.

export const axesOf = (pattern) => pattern.match(/[a-z]/g) ?? [];
export const tokensOf = (pattern) => pattern.match(/\([a-z ]+\)|[a-z1]/g) ?? [];
export const times = (length, make) => Array.from({ length }, (_, i) => make(i));
export const product = (numbers) => numbers.reduce((a, b) => a * b, 1);

/** The length of every axis, of the parts of a split one, too. */
export function lengthsOf(scheme, shape) {
  const fixed = Object.fromEntries(scheme.lengths);
  const lengths = {};
  tokensOf(scheme.cells).forEach((token, i) => {
    const axes = axesOf(token);
    const known = product(axes.map((a) => fixed[a] ?? 1));
    for (const a of axes) lengths[a] = fixed[a] ?? shape[i] / known;
  });
  return lengths;
}

/** The shape of what `indices` index. */
export function shapeOf(scheme, indices, shape) {
  const lengths = lengthsOf(scheme, shape);
  return tokensOf(indices).map((token) => product(axesOf(token).map((a) => lengths[a])));
}

/** The row-major number that the axes `indices` give each of these cells, and how many there are. */
export function numbering(scheme, indices, shape, cells = times(product(shape), (i) => i)) {
  const lengths = lengthsOf(scheme, shape);
  const axes = axesOf(scheme.cells).reverse();
  const steps = {};
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
    groups.of.forEach((_, i) => {
      if (!mask[place[i]]) groups.of[i] = -1;
    });
  }
  return groups;
}

/** Mean, biased variance and number of cells of every group, in two passes. */
export function moments(x, groups, centered = true) {
  const mean = new Float64Array(groups.size);
  const variance = new Float64Array(groups.size);
  const count = new Float64Array(groups.size);
  const each = (add) =>
    groups.of.forEach((g, i) => {
      if (g >= 0) add(g, x[i]);
    });
  each((g, v) => {
    count[g]++;
    if (centered) mean[g] += v;
  });
  count.forEach((m, g) => (mean[g] /= m || 1));
  each((g, v) => (variance[g] += (v - mean[g]) ** 2));
  count.forEach((m, g) => (variance[g] /= m || 1));
  return { mean, variance, count };
}

/** gamma * (x - mean) / sqrt(variance + eps) + beta; a masked cell gives 0. */
export function normalize(x, groups, used, { eps, gamma, beta, params }) {
  return Float64Array.from(groups.of, (g, i) => {
    if (g < 0) return 0;
    const hat = (x[i] - used.mean[g]) / Math.sqrt(used.variance[g] + eps);
    return hat * (gamma ? gamma[params.of[i]] : 1) + (beta ? beta[params.of[i]] : 0);
  });
}

/** The gradient of x: one closed formula for every layer. `constant`: running statistics were used. */
export function backward(dy, x, groups, used, { eps, gamma, params, centered, constant }) {
  const hat = normalize(x, groups, used, { eps });
  const scaled = dy.map((d, i) => (groups.of[i] < 0 ? 0 : d * (gamma ? gamma[params.of[i]] : 1)));
  const average = (v) => moments(v, groups).mean;
  const all = average(scaled);
  const along = average(scaled.map((v, i) => v * hat[i]));
  return Float64Array.from(groups.of, (g, i) => {
    if (g < 0) return 0;
    const through = constant ? 0 : (centered ? all[g] : 0) + hat[i] * along[g];
    return (scaled[i] - through) / Math.sqrt(used.variance[g] + eps);
  });
}

/** PyTorch's running statistics after one more batch: the variance that enters is unbiased. */
export function track(running, { mean, variance, count }, momentum) {
  const mix = (old, now) =>
    old.map((v, g) => (count[g] < 2 ? v : (1 - momentum) * v + momentum * now(g)));
  return {
    mean: mix(running.mean, (g) => mean[g]),
    variance: mix(running.variance, (g) => (variance[g] * count[g]) / (count[g] - 1)),
  };
}

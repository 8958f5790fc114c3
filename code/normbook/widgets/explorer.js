// The front end of Explorer: curves of which sliders and buttons pick a member of their family.
// Python has computed everything, the ticks too; here it is drawn. The chart itself is a slider
// along x: its point is the one whose values stand in the legend.

const make = (space) => (tag, attributes = {}, ...children) => {
  const element = document.createElementNS(`http://www.w3.org/${space}`, tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value);
  }
  // JupyterLab takes single keys for commands, wherever they go, unless the focus itself says no.
  if ("tabindex" in attributes || /^(button|input|summary)$/.test(tag)) element.dataset.lmSuppressShortcuts = true;
  element.append(...children);
  return element;
};
const h = make("1999/xhtml"), s = make("2000/svg");
const set = (element, attributes) => {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
};

const TOP = 8, BOTTOM = 24, RIGHT = 12, EDGE = 6; // px around the area inside the axes; of it, that may be drawn on
const DIGIT = 7; // px: the width of one in the labels of ticks

function render({ model, el }) {
  const words = model.get("words");
  const { title, curves, strokes, parameters, x, y, low, high, decimals, x_axis, y_axis, band, markers } = model.get("chart");
  const last = x.length - 1;
  const fill = (key, values) => words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  let point = last, width, height, X, Y, timer;

  // ---- What there is to show

  const text = (v, places) => (v === null ? "–" : places == null ? `${v}` : v.toFixed(places)).replace(/^-/, "−");
  const at = (curve, i) => (model.get("selected").reduce((k, index, p) => k * parameters[p].values.length + index, 0) *
    curves.length + curve) * x.length + i;
  const valueOf = (curve, i) => {
    const k = at(curve, i), value = text(y[k], decimals);
    return low && low[k] !== null && high[k] !== null
      ? fill("spread", { value, low: text(low[k], decimals), high: text(high[k], decimals) }) : value;
  };
  const place = ({ ends, log }, from, to) => {
    const f = log ? Math.log : Number, [a, b] = ends.map(f);
    return (v) => +(from + ((f(v) - a) / (b - a)) * (to - from)).toFixed(1);
  };

  // ---- The parts, made once

  const lines = strokes.map(([stroke, dash]) => {
    const area = s("path", { fill: stroke, stroke, opacity: 0.2 });
    const line = s("path", { stroke, "stroke-width": 2, "stroke-dasharray": dash });
    const dots = s("path", { stroke, "stroke-width": 6, "stroke-linecap": "round" });
    const now = s("path", { stroke, "stroke-width": 10, "stroke-linecap": "round" });
    return { area, line, dots, now };
  });
  const grid = s("g"), cursor = s("path", { class: "ex-cursor" });
  const inside = s("svg", { x: 0, y: TOP - EDGE }, cursor, ...["area", "line", "dots", "now"].flatMap((k) => lines.map((l) => l[k])));
  const svg = s("svg", { class: "ex-svg", "aria-hidden": true }, grid, inside);
  const stage = h("div", { class: "ex-stage", tabindex: 0, role: "slider", "aria-label": `${title || y_axis.label}. ${words.along}`,
    "aria-valuemin": 0, "aria-valuemax": last, pointermove: follow, pointerdown: follow, keydown: step }, svg);
  const where = h("b"), values = curves.map(() => h("b"));
  const swatch = (stroke, dash) => s("svg", { width: 28, height: 12, "aria-hidden": true },
    s("path", { d: "M1 6h26", stroke, "stroke-width": 2, "stroke-dasharray": dash }));
  const legend = h("ul", { class: "ex-legend" }, ...curves.map((name, i) =>
    h("li", {}, swatch(...strokes[i]), h("span", { dir: "auto" }, name), values[i])));
  const live = h("p", { class: "ex-hidden", "aria-live": "polite" });

  const controls = parameters.map(({ name, values, slider, play }, p) => {
    const now = () => model.get("selected")[p], end = values.length - 1;
    const pick = (i) => {
      model.set("selected", model.get("selected").map((old, q) => (q === p ? i : old)));
      model.save_changes();
    };
    const choose = (i) => { pause(); pick(i); };
    const out = h("b", { style: `min-width: ${Math.max(...values.map((v) => v.length))}ch` }), input = h("input", { type: "range", min: 0, max: end, "aria-label": name, input: () => choose(+input.value) });
    const buttons = slider ? [] : values.map((value, i) => h("button", { type: "button", click: () => choose(i) }, value));
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const button = play && h("button", { type: "button", click() {
      if (timer) return pause();
      const next = () => pick(now() < end ? now() + 1 : 0);
      next();
      if (still.matches || now() === end) return;
      timer = setInterval(() => { next(); if (now() === end) pause(); }, Math.max(60, Math.min(600, 5000 / end)));
      update();
    } });
    return {
      element: h("div", { class: "ex-control", role: "group", "aria-label": name },
        h("span", { dir: "auto" }, name), ...(slider ? [out, input] : buttons), ...(play ? [button] : [])),
      update() {
        input.value = now();
        input.setAttribute("aria-valuetext", out.textContent = values[now()]);
        buttons.forEach((b, i) => b.setAttribute("aria-pressed", i === now()));
        if (play) button.textContent = words[timer ? "pause" : still.matches ? "next_one" : "play"];
      },
    };
  });
  const table = h("table"), details = h("details", { toggle: update }, h("summary", {}, words.table),
    h("div", { class: "ex-scroll", role: "region", tabindex: 0, "aria-label": words.table }, table));

  const root = h("div", { class: "ex", lang: words.language, role: "group", "aria-label": title || words.widget, "data-lm-suppress-shortcuts": true,
    keydown: (event) => event.ctrlKey || event.metaKey || event.altKey || event.stopPropagation() },
    h("p", { class: "ex-title", dir: "auto" }, title), ...controls.map((c) => c.element),
    h("p", { class: "ex-soft", dir: "auto" }, y_axis.label), stage, h("p", { class: "ex-soft ex-x", dir: "auto" }, x_axis.label),
    h("p", {}, h("span", { dir: "auto" }, x_axis.label), ": ", where), legend,
    ...(band ? [h("p", { class: "ex-soft", dir: "auto" }, fill("band", { band }))] : []), details, live);
  el.append(root);

  // ---- What changes

  function pause() {
    clearInterval(timer);
    timer = 0;
    update();
  }

  function go(i) {
    point = Math.max(0, Math.min(last, i));
    update();
  }

  function follow(event) {
    const px = event.clientX - svg.getBoundingClientRect().x, far = x.map((v) => Math.abs(X(v) - px));
    go(far.indexOf(Math.min(...far)));
  }

  function step(event) {
    const to = { ArrowLeft: point - 1, ArrowDown: point - 1, ArrowRight: point + 1, ArrowUp: point + 1, Home: 0, End: last }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(to);
  }

  // The scales and the grid: when the widget gets another width.
  function layout() {
    width = stage.clientWidth;
    if (!width) return; // in something that is folded
    height = Math.round(Math.max(180, Math.min(300, width / 2)));
    const left = DIGIT * Math.max(...y_axis.ticks.map(([, label]) => label.length)) + 10, right = width - RIGHT, bottom = height - BOTTOM;
    X = place(x_axis, left, right);
    Y = place(y_axis, bottom, TOP);
    set(svg, { width, height });
    const box = [left - EDGE, TOP - EDGE, right - left + 2 * EDGE, bottom - TOP + 2 * EDGE];
    set(inside, { x: box[0], y: box[1], width: box[2], height: box[3], viewBox: box.join(" ") });
    // As many labels as there is room for.
    const need = x_axis.ticks.length * (DIGIT * Math.max(...x_axis.ticks.map(([, label]) => label.length)) + 12);
    const every = Math.ceil(need / (right - left));
    grid.replaceChildren(s("path", { d: [...x_axis.ticks.map(([v]) => `M${X(v)} ${TOP}V${bottom}`),
      ...y_axis.ticks.map(([v]) => `M${left} ${Y(v)}H${right}`), `M${left} ${TOP}H${right}V${bottom}H${left}Z`].join("") }),
      ...x_axis.ticks.map(([v, label], i) => s("text", { x: X(v), y: bottom + 17, "text-anchor": "middle" }, i % every ? "" : label)),
      ...y_axis.ticks.map(([v, label]) => s("text", { x: left - 6, y: Y(v) + 4, "text-anchor": "end" }, label)));
    update();
  }

  let speaking;
  function update() {
    controls.forEach((c) => c.update());
    where.textContent = text(x[point]);
    curves.forEach((_, c) => (values[c].textContent = valueOf(c, point)));
    set(stage, { "aria-valuenow": point, "aria-valuetext": `${x_axis.label}: ${where.textContent}` });
    clearTimeout(speaking);
    if (root.contains(document.activeElement) && !timer) speaking = setTimeout(() => {
      live.textContent = curves.map((name, c) => `${name} ${values[c].textContent}`).join(words.comma);
    }, 300);
    if (details.open) table.replaceChildren(
      h("caption", { dir: "auto" }, parameters.map(({ name, values }, p) => `${name}: ${values[model.get("selected")[p]]}`).join(words.comma)),
      h("thead", {}, h("tr", {}, ...[x_axis.label, ...curves].map((name) => h("th", { scope: "col", dir: "auto" }, name)))),
      h("tbody", {}, ...x.map((v, i) => h("tr", {}, h("th", { scope: "row" }, text(v)), ...curves.map((_, c) => h("td", {}, valueOf(c, i)))))));
    if (!width) return;
    cursor.setAttribute("d", `M${X(x[point])} ${TOP}V${height - BOTTOM}`);
    lines.forEach(({ area, line, dots, now }, c) => {
      let path = "", dot = "", there = "", back = "", filled = "";
      const has = (i) => i >= 0 && i <= last && y[at(c, i)] !== null;
      x.forEach((v, i) => {
        const k = at(c, i), px = X(v);
        if (has(i)) {
          path += `${has(i - 1) ? "L" : "M"}${px} ${Y(y[k])}`;
          if (markers || !(has(i - 1) || has(i + 1))) dot += `M${px} ${Y(y[k])}h0`;
        }
        const banded = low && low[k] !== null && high[k] !== null;
        if (banded) {
          there += `${there ? "L" : "M"}${px} ${Y(high[k])}`;
          back = `L${px} ${Y(low[k])}${back}`;
        }
        if (there && (!banded || i === last)) {
          filled += `${there}${back}Z`;
          there = back = "";
        }
      });
      set(area, { d: filled });
      set(line, { d: path });
      set(dots, { d: dot });
      set(now, { d: has(point) ? `M${X(x[point])} ${Y(y[at(c, point)])}h0` : "" });
    });
  }

  update();
  const observer = new ResizeObserver(() => stage.clientWidth !== width && layout());
  observer.observe(stage);
  model.on("change:selected", update);
  return () => {
    observer.disconnect();
    pause();
    model.off("change:selected", update);
  };
}

export default { render };

// The front end of Explorer: curves of which sliders and buttons pick a member of their family.
// Python has computed everything, the ticks too; here it is drawn. The chart is itself a slider,
// along x: the values at its point stand in the legend.

const set = (element, attributes) => {
  for (const [key, value] of Object.entries(attributes)) {
    if (value.call) element.addEventListener(key, value);
    else element.setAttribute(key, value);
  }
};
const h = (tag, attributes, ...children) => {
  const space = /^(svg|g|path|text)$/.test(tag) ? "2000/svg" : "1999/xhtml";
  const element = document.createElementNS(`http://www.w3.org/${space}`, tag);
  set(element, attributes);
  // JupyterLab takes single keys for commands, wherever they go, unless the focus itself says no.
  if (attributes.role || /^(button|input|summary)$/.test(tag)) {
    element.dataset.lmSuppressShortcuts = true;
  }
  element.append(...children);
  return element;
};
const plain = (event) => !(event.ctrlKey || event.metaKey || event.altKey);

// A state that was damaged is refused as a whole, with the first part that doesn't fit.
function check(model) {
  const list = (v, fits) => Array.isArray(v) && v.length > 0 && v.every(fits);
  const text = (v) => typeof v === "string";
  const chart = model.get("chart") ?? {};
  const { parameters, curves, x } = chart;
  const values = (v) =>
    v.length === parameters.reduce((n, p) => n * p.values.length, curves.length * x.length) &&
    list(v, (n) => n === null || Number.isFinite(n));
  const end = (v) => (v === null || values(v)) && !chart.low === !chart.high;
  const axis = ({ label, ends: [a, b], log, ticks }) =>
    text(label) &&
    (log ? 0 : -Infinity) < a &&
    a < b &&
    b < Infinity &&
    list(ticks, ([v, name]) => Number.isFinite(v) && text(name));
  const fits = {
    title: text,
    band: text,
    x_axis: axis,
    y_axis: axis,
    curves: (v) => list(v, text),
    strokes: (v) =>
      v.length === curves.length && list(v, ([color, dash]) => text(color) && text(dash)),
    parameters: (v) => list(v, (p) => text(p.name) && list(p.values, text)),
    x: (v) => list(v, Number.isFinite),
    y: values,
    low: end,
    high: end,
    decimals: (v) => v === null || (Number.isInteger(v) && v >= 0 && v <= 99),
    selected: (v) =>
      v.length === parameters.length &&
      v.every((i, p) => i in parameters[p].values && Number.isInteger(i)),
    words: (v) => list(Object.values(v), text),
  };
  for (const key in fits) {
    const value = /selected|words/.test(key) ? model.get(key) : chart[key];
    let fine;
    try {
      fine = fits[key](value);
    } catch {} // of another kind altogether
    if (!fine) {
      const part = String(JSON.stringify(value)).slice(0, 99);
      throw new TypeError(`${key} is ${part}, which doesn't fit`);
    }
  }
}

// In px: around the axes, but for the left; how far the curves' ends stick out; a digit's width.
const TOP = 8;
const BOTTOM = 24;
const RIGHT = 12;
const EDGE = 6;
const DIGIT = 7;

function render({ model, el }) {
  check(model);
  const words = model.get("words");
  const {
    title,
    curves,
    strokes,
    parameters,
    x,
    y,
    low,
    high,
    decimals,
    x_axis,
    y_axis,
    band,
    markers,
  } = model.get("chart");
  const selected = () => model.get("selected");
  const last = x.length - 1;
  const auto = (content, tag = "span", name = "") => h(tag, { dir: "auto", class: name }, content);
  let point = last;
  let width;
  let bottom;
  let X;
  let Y;
  let timer;
  let speaking;

  // ---- What there is to show

  const text = (v, places) => {
    if (v === null) return "–";
    const size = Math.abs(v);
    const far = v && (size < 1e-4 || size >= 1e6);
    return (places != null ? v.toFixed(places) : far ? v.toExponential() : `${v}`)
      .replace("+", "")
      .replace(/^-/, "−");
  };
  const at = (curve, i) => {
    const family = selected().reduce((k, index, p) => k * parameters[p].values.length + index, 0);
    return (family * curves.length + curve) * x.length + i;
  };
  const banded = (k) => low && low[k] !== null && high[k] !== null;
  const valueOf = (curve, i) => {
    const k = at(curve, i);
    const value = text(y[k], decimals);
    if (!banded(k)) return value;
    return `${value} (${text(low[k], decimals)} ${words.to} ${text(high[k], decimals)})`;
  };
  const place = ({ ends, log }, from, to) => {
    const f = log ? Math.log : Number;
    const [a, b] = ends.map(f);
    return (v) => (from + ((f(v) - a) / (b - a)) * (to - from)).toFixed(1);
  };

  // ---- The parts, made once

  const layers = ["area", "line", "dots", "now"].map((name) =>
    strokes.map(([stroke, dash]) =>
      h("path", {
        class: `ex-${name}`,
        stroke,
        fill: name === "area" ? stroke : "none",
        "stroke-dasharray": name === "line" ? dash : "none",
      }),
    ),
  );
  const grid = h("g", {});
  const cursor = h("path", { class: "ex-cursor" });
  const inside = h("svg", {}, cursor, ...layers.flat());
  const svg = h("svg", { "aria-hidden": true }, grid, inside);
  const stage = h(
    "div",
    {
      class: "ex-stage",
      tabindex: 0,
      role: "slider",
      "aria-label": `${title || y_axis.label}. ${words.along}`,
      "aria-valuemax": last,
      pointermove: follow,
      pointerdown: follow,
      keydown: step,
      click: () => stage.focus({ preventScroll: true }), // JupyterLab would keep it
    },
    svg,
  );
  const where = h("b", {});
  const shown = curves.map(() => h("span", {}));
  const entries = curves.map((name, c) => {
    const [stroke, dash] = strokes[c];
    const line = { d: "M1 11h26", class: "ex-line", stroke, "stroke-dasharray": dash };
    const sample = h("svg", { width: 28, height: 22, "aria-hidden": true }, h("path", line));
    return h("li", {}, sample, h("span", {}, auto(name), ": ", shown[c]));
  });
  const legend = h("ul", {}, ...entries);
  const live = h("p", { class: "ex-hidden", "aria-live": "polite" });
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  const controls = parameters.map(({ name, values, slider, play: plays }, p) => {
    const now = () => selected()[p];
    const end = values.length - 1;
    const pick = (i) => {
      model.set("selected", selected().with(p, i));
      model.save_changes();
    };
    const choose = (i) => {
      pause();
      pick(i);
    };
    const next = () => pick(now() < end ? now() + 1 : 0);
    const button = (click, label) => h("button", { click }, label);
    const value = h("b", { style: `min-width:${Math.max(...values.map((v) => v.length))}ch` });
    const input = h("input", {
      type: "range",
      max: end,
      "aria-label": name,
      input: () => choose(+input.value),
    });
    const buttons = slider ? [] : values.map((v, i) => button(() => choose(i), v));
    const play = () => {
      next();
      if (now() === end) pause();
    };
    const player = button(() => {
      if (timer) return pause();
      next();
      if (!still.matches && now() < end) {
        timer = setInterval(play, Math.max(60, Math.min(600, 5000 / end)));
      }
      update();
    });
    player.hidden = !plays;
    return {
      element: h(
        "div",
        { class: "ex-control", role: "group", "aria-label": name },
        auto(name),
        ...(slider ? [value, input] : buttons),
        player,
      ),
      update() {
        input.value = now();
        value.textContent = values[now()];
        set(input, { "aria-valuetext": values[now()] });
        buttons.forEach((b, i) => set(b, { "aria-pressed": i === now() }));
        player.textContent = words[still.matches ? "next_one" : timer ? "pause" : "play"];
      },
    };
  });
  const table = h("table", {});
  const details = h(
    "details",
    { toggle: update },
    h("summary", {}, words.table),
    h("div", { class: "ex-scroll", role: "region", tabindex: 0, "aria-label": words.table }, table),
  );

  const root = h(
    "div",
    {
      class: "ex",
      lang: words.language,
      role: "group",
      "aria-label": title || words.widget,
      keydown: (event) => {
        if (plain(event)) event.stopPropagation();
      },
    },
    auto(title, "p", "ex-title"),
    ...controls.map((c) => c.element),
    auto(y_axis.label, "p", "ex-soft"),
    stage,
    h("p", { class: "ex-soft ex-x" }, auto(x_axis.label), ": ", where),
    legend,
    auto(band && words.shaded + band, "p", "ex-soft"),
    details,
    live,
  );
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
    const px = event.clientX - svg.getBoundingClientRect().x;
    const far = x.map((v) => Math.abs(X(v) - px));
    go(far.indexOf(Math.min(...far)));
  }

  function step(event) {
    const to = {
      ArrowLeft: point - 1,
      ArrowDown: point - 1,
      ArrowRight: point + 1,
      ArrowUp: point + 1,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined || !plain(event)) return;
    event.preventDefault();
    go(to);
  }

  // When the widget gets another width: the scales and the grid.
  function layout() {
    if (stage.clientWidth === width || !stage.clientWidth) return; // 0 in something that is folded
    width = stage.clientWidth;
    bottom = Math.max(180, Math.min(300, width / 2)) - BOTTOM;
    const room = ({ ticks }) => DIGIT * Math.max(...ticks.map(([, label]) => label.length)) + 10;
    const left = room(y_axis);
    const right = width - RIGHT;
    const box = [left - EDGE, TOP - EDGE, right - left + 2 * EDGE, bottom - TOP + 2 * EDGE];
    X = place(x_axis, left, right);
    Y = place(y_axis, bottom, TOP);
    set(svg, { width, height: bottom + BOTTOM });
    set(inside, { x: box[0], y: box[1], width: box[2], height: box[3], viewBox: box.join(" ") });
    // As many labels as have room.
    const every = Math.ceil((x_axis.ticks.length * room(x_axis)) / (right - left));
    const label = (spot, anchor, tick) => h("text", { ...spot, "text-anchor": anchor }, tick);
    grid.replaceChildren(
      h("path", {
        d: [
          `M${left} ${TOP}H${right}V${bottom}H${left}Z`,
          ...x_axis.ticks.map(([v]) => `M${X(v)} ${TOP}V${bottom}`),
          ...y_axis.ticks.map(([v]) => `M${left} ${Y(v)}H${right}`),
        ].join(""),
      }),
      ...x_axis.ticks.map(([v, tick], i) =>
        label({ x: X(v), y: bottom + 17 }, "middle", i % every ? "" : tick),
      ),
      ...y_axis.ticks.map(([v, tick]) => label({ x: left - 6, y: +Y(v) + 4 }, "end", tick)),
    );
    update();
  }

  function update() {
    controls.forEach((c) => c.update());
    where.textContent = text(x[point]);
    set(stage, { "aria-valuenow": point, "aria-valuetext": where.parentElement.textContent });
    curves.forEach((_, c) => (shown[c].textContent = valueOf(c, point)));
    clearTimeout(speaking);
    if (!timer && root.contains(document.activeElement)) speaking = setTimeout(speak, 300);
    if (details.open) tabulate();
    if (width) draw();
  }

  function speak() {
    const said = curves.map((name, c) => `${name} ${shown[c].textContent}`);
    live.textContent = said.join(words.comma);
  }

  function tabulate() {
    const family = parameters.map(({ name, values }, p) => `${name}: ${values[selected()[p]]}`);
    const head = [x_axis.label, ...curves].map((name) => auto(name, "th"));
    const rows = x.map((v, i) => [
      auto(text(v), "th"),
      ...curves.map((_, c) => auto(valueOf(c, i), "td")),
    ]);
    table.replaceChildren(
      auto(family.join(words.comma), "caption"),
      ...[head, ...rows].map((row) => h("tr", {}, ...row)),
    );
  }

  function draw() {
    set(cursor, { d: `M${X(x[point])} ${TOP}V${bottom}` });
    curves.forEach((_, c) => {
      let area = "";
      let line = "";
      let dots = "";
      let there = "";
      let back = "";
      const has = (i) => y[at(c, i)] != null && i >= 0 && i <= last;
      const dot = (i) => (has(i) ? `M${X(x[i])} ${Y(y[at(c, i)])}h0` : "");
      x.forEach((v, i) => {
        const k = at(c, i);
        if (has(i)) line += `${has(i - 1) ? "L" : "M"}${X(v)} ${Y(y[k])}`;
        if (markers || !(has(i - 1) || has(i + 1))) dots += dot(i); // a point alone would be no line
        if (banded(k)) {
          there += `${there ? "L" : "M"}${X(v)} ${Y(high[k])}`;
          back = `L${X(v)} ${Y(low[k])}${back}`;
        }
        if (there && (i === last || !banded(k))) {
          area += `${there}${back}Z`;
          there = back = "";
        }
      });
      [area, line, dots, dot(point)].forEach((d, i) => set(layers[i][c], { d }));
    });
  }

  layout(); // at once where it can be measured: whoever renders it hears of what fails
  if (!width) update();
  const observer = new ResizeObserver(layout);
  observer.observe(stage);
  model.on("change:selected", update);
  return () => {
    observer.disconnect();
    pause();
    model.off("change:selected", update);
  };
}

export default { render };

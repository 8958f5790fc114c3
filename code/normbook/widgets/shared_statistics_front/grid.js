// The tensor as cells, and what is drawn over them: the outline of a group, the current cell.

import { axesOf, product, times } from "./arithmetic.js";
import { h, numberField, say } from "./elements.js";
import { brief } from "./text.js";

const MAX_WIDTH = 38; // px, of a cell among many
const SMALLEST = 8; // px, of a font that can be read

/**
 * How the axes are laid out. The last two are the rows and columns of a map; the one before them
 * tells the maps of a block, all others the blocks. Tokens stand side by side, with their features
 * below them.
 */
function layoutOf(axes) {
  const drawn = [...axes];
  if (axes.length === 3) drawn.splice(axes[1] === "t" ? 3 : 1, 0, "");
  const [column, row = "", map = "", ...blocks] = drawn.reverse();
  return { column, row, map, block: blocks.reverse().join(" ") };
}

/** Cells as the fewest rectangles: runs along a row, grown down while the next row has the same. */
function rectanglesOf(indices, { perMap, perRow }) {
  const open = new Map();
  const rectangles = [];
  for (let k = 0; k < indices.length; k++) {
    const i = indices[k];
    const map = Math.floor(i / perMap);
    const row = Math.floor((i % perMap) / perRow);
    const from = i % perRow;
    let to = from;
    while (to + 1 < perRow && indices[k + 1] === indices[k] + 1) {
      k++;
      to++;
    }
    const key = `${map},${from},${to}`;
    const above = open.get(key);
    if (above?.bottom === row) above.bottom++;
    else {
      const rectangle = { map, from, to, top: row, bottom: row + 1 };
      open.set(key, rectangle);
      rectangles.push(rectangle);
    }
  }
  return rectangles;
}

/** The path of a rectangle with round corners. */
function roundPath(x, y, width, height, r) {
  const corner = (dx, dy) => `a${r} ${r} 0 0 1 ${dx} ${dy}`;
  const [across, down] = [width - 2 * r, height - 2 * r];
  return (
    `M${x + r} ${y}h${across}${corner(r, r)}v${down}${corner(-r, r)}` +
    `h${-across}${corner(-r, -r)}v${-down}${corner(r, -r)}z`
  );
}

export class Grid {
  cells = [];

  /** `root` gets what the style sheet must know of the sizes. */
  constructor(state, root) {
    this.state = state;
    this.root = root;
    this.layout = layoutOf(state.axes);
    this.columnName = state.words.axes[this.layout.column] ?? this.layout.column;
    this.looks = state.given.looks.map(([color, pattern], g) => {
      const tile =
        `<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8">` +
        `<path d="${pattern}" stroke="${color}" stroke-opacity=".4"/></svg>`;
      const url = `url("data:image/svg+xml,${encodeURIComponent(tile)}")`;
      root.style.setProperty(`--p${g}`, url);
      return `--g:${color};--p:var(--p${g})`;
    });
    const names = ["fade", "outline", "moved", "held", "me"];
    const paths = names.map((name) => `<path class="ss-${name}"/>`).join("");
    const innerHTML = `<svg class="ss-overlay" aria-hidden="true">${paths}</svg>`;
    this.overlay = h("div", { innerHTML }).firstChild;
    this.paths = Object.fromEntries(names.map((name, k) => [name, this.overlay.children[k]]));
    this.blocks = h("div", { className: "ss-grid" });
    this.element = h("div", { className: "ss-stage" }, this.blocks, this.overlay);
  }

  /** The colors of a group; none for a cell of no group. */
  look(g) {
    return this.looks[g % this.looks.length] ?? "";
  }

  // ---- The cells, built anew only when their number changes

  /** How many cells there are along these axes. */
  #count(indices) {
    const { axes, now } = this.state;
    return product(axesOf(indices).map((a) => now.shape[axes.indexOf(a)]));
  }

  /** Whether there are sequences of tokens whose lengths can be changed. */
  #isRagged() {
    const { given, axes } = this.state;
    return given.mask && !this.layout.column && given.scheme.mask === `${axes[0]} t`;
  }

  #build() {
    const { state, layout } = this;
    const blocks = this.#count(layout.block);
    const maps = this.#count(layout.map);
    this.cells = [];
    this.places = []; // the cells by row and column of all
    this.lengthFields = [];
    state.hover = state.focus = null; // it may be gone
    this.blocks.replaceChildren(...times(blocks, (b) => this.#block(b, maps)));
    if (this.ragged) {
      this.perStep = times(maps, () => h("span"));
      const side = h("div", { className: "ss-side" }, state.t("per_step"));
      const counts = h("div", { className: "ss-maps" }, ...this.perStep);
      this.blocks.append(h("div", { className: "ss-block ss-perstep" }, side, counts));
    }
    this.fitted = "";
    this.entry = this.cells[0];
    this.entry.tabIndex = 0;
  }

  #block(b, count) {
    const { state, layout } = this;
    const first = b * count * this.#count(layout.row) * this.#count(layout.column);
    const name = state.at(first, layout.block) || state.given.label || state.t("widget");
    const maps = times(count, (m) => this.#map(b, m, count));
    const title = this.ragged ? state.t("length", { sample: name }) : name;
    const side = h("div", { className: "ss-side", hidden: !layout.block }, title);
    const grid = h("div", { className: "ss-maps", role: "grid", "aria-label": name }, ...maps);
    const block = h("div", { className: "ss-block" }, side, grid);
    if (this.ragged) {
      const limits = { min: 0, max: state.full[1], whole: true };
      const field = numberField(state, (v) => state.setLength(b, v), limits, { size: 2 });
      const oninput = () => state.setLength(b, Number(slider.value));
      const slider = h("input", { type: "range", min: 0, max: limits.max, step: 1, oninput });
      for (const input of [field, slider]) input.ariaLabel = title;
      side.append(field);
      block.append(slider);
      this.lengthFields.push({ field, slider });
    }
    return block;
  }

  #map(b, m, maps) {
    const { state, layout } = this;
    const rows = this.#count(layout.row);
    const columns = this.#count(layout.column);
    const head = (className, ...content) =>
      h("div", { className, "aria-hidden": "true" }, ...content);
    const lines = times(rows, (r) => {
      const y = b * rows + r;
      const row = h("div", { className: "ss-row", role: "row" });
      if (!layout.map) {
        const rowName = state.at(y * columns, layout.row);
        row.append(h("span", { className: "ss-rowhead", "aria-hidden": "true" }, rowName));
      }
      this.places[y] ??= [];
      for (let c = 0; c < columns; c++) {
        const cell = h("div", { tabIndex: -1, role: "gridcell" });
        Object.assign(cell, { x: m * columns + c, y, index: this.cells.push(cell) - 1 });
        this.places[y][cell.x] = cell;
        row.append(cell);
      }
      return row;
    });
    const map = h("div", { className: "ss-map", role: "rowgroup" });
    if (layout.map) {
      const name = state.at((b * maps + m) * rows * columns, layout.map);
      map.ariaLabel = name;
      map.append(head("ss-head", name), ...lines);
    } else {
      const names = times(columns + 1, (i) => h("span", {}, i ? i - 1 : this.columnName));
      map.append(head("ss-heads", ...names), ...lines);
    }
    return map;
  }

  // ---- What stands in them

  /** Brings the cells up to date. */
  update() {
    const { state } = this;
    const { now, given } = state;
    this.ragged = this.#isRagged();
    const built = `${now.shape} ${this.ragged}`;
    if (this.built !== built) this.#build();
    this.built = built;
    this.outlines = new Map(); // by group, once drawn
    const both = given.view === "both";
    const texts = this.#texts(both ? "raw" : given.view);
    const below = both ? this.#texts("normalized") : [];
    this.cells.forEach((cell, i) => {
      const group = now.lit.of[i];
      cell.className = now.groups.of[i] < 0 ? "ss-c ss-masked" : "ss-c";
      if (cell.look !== group) cell.style = this.look((cell.look = group));
      const shown = both ? `${texts[i]}\n${below[i]}` : texts[i];
      if (cell.textContent === shown) return;
      cell.replaceChildren(texts[i]);
      if (both) cell.append(h("small", {}, `\n${below[i]}`));
    });
    this.#fit(Math.max(1, ...[...texts, ...below].map((s) => s.length)), both);
    if (this.ragged) this.#showLengths();
    this.#flash();
  }

  /** The texts of all cells, with as many decimals as have room. */
  #texts(view) {
    const { state } = this;
    const wide = state.full.length < 3 && state.full.at(-1) < 7;
    const raw = view === "raw";
    for (let decimals = wide ? 3 + raw : 2; ; decimals--) {
      const texts = this.cells.map((_, i) =>
        state.now.groups.of[i] < 0 ? "" : brief(state.value(i, view), decimals),
      );
      const fits = () => texts.every((s) => s.length < (wide ? 8 : 6));
      if (decimals === 1 || !raw || fits()) return texts;
    }
  }

  #showLengths() {
    const lengths = this.state.lengths();
    this.lengthFields.forEach(({ field, slider }, n) => {
      field.show(lengths[n]);
      slider.value = lengths[n];
    });
    this.perStep.forEach((span, step) =>
      say(span, String(lengths.filter((length) => length > step).length)),
    );
  }

  /** Makes the cells as large as they can be, with as many maps in a row as fit. */
  #fit(chars, both) {
    const { layout, root } = this;
    const room = this.element.clientWidth - 2;
    const key = `${[room, chars, both]}`;
    if (room <= 0 || this.fitted === key) return;
    this.fitted = key;
    const maps = this.#count(layout.map);
    const perRow = this.#count(layout.column);
    const narrow = room < 480;
    const gap = layout.map && layout.column ? 12 : 4;
    const rowName = this.state.at(this.cells.length - 1, layout.row);
    const head = layout.map ? 0 : (22 / 3) * Math.max(9, rowName.length, this.columnName.length);
    const side = head + (layout.block && !narrow ? 96 : 0);
    const across = maps * perRow;
    const largest = across <= 6 ? 72 : across <= 10 ? 48 : MAX_WIDTH;
    const attempt = (most, k) => {
      const width = Math.min(largest, Math.floor((room - side - gap * (k - 1)) / (k * perRow)));
      return { width, k, font: Math.min(across <= 6 ? 15 : 13.5, (width - 4) / (0.6 * most)) };
    };
    let best = attempt(Math.max(chars, 5), maps);
    for (let k = maps; best.font < SMALLEST && k; k--) {
      best = attempt(chars, Math.ceil(maps / Math.ceil(maps / k)));
    }
    const tiny = best.font < SMALLEST; // too small for text
    const width = Math.max(3, best.width);
    const usual = both ? 44 : Math.max(22, Math.min(28, width));
    const height = tiny ? Math.min(width, 24) : usual;
    for (const [name, v] of Object.entries({ w: width, h: height, font: best.font, gap, head })) {
      root.style.setProperty(`--${name}`, `${v}px`);
    }
    root.style.setProperty("--k", best.k);
    const fits = { narrow, wrapped: best.k < maps, tiny, two: both };
    for (const [name, on] of Object.entries(fits)) root.classList.toggle(`ss-${name}`, on);
    this.#measure(width, height, perRow);
  }

  #measure(width, height, perRow) {
    const corner = this.overlay.getBoundingClientRect();
    const perMap = this.#count(this.layout.row) * perRow;
    this.boxes = { width, height, perMap, perRow, at: [] };
    for (let i = 0; i < this.cells.length; i += perMap) {
      const first = this.cells[i].getBoundingClientRect();
      this.boxes.at.push([first.left - corner.left, first.top - corner.top]);
    }
    this.outlines.clear();
  }

  /** Fits the cells to another width of the page. */
  resize() {
    this.fitted = "";
  }

  // ---- What is drawn over them

  /** The path around these cells, or one that is larger on every side. */
  #draw(indices, grow = 0) {
    const { width, height, at } = this.boxes;
    const r = Math.min(5, width / 4);
    const paths = rectanglesOf(indices, this.boxes).map(({ map, from, to, top, bottom }) => {
      const [left, above] = at[map];
      return roundPath(
        left + from * width - grow,
        above + top * height - grow,
        (to - from + 1) * width + 2 * grow,
        (bottom - top) * height + 2 * grow,
        r,
      );
    });
    return paths.join("");
  }

  /** The path around a group, or around "all" cells: kept, since the pointer comes back. */
  #outline(key) {
    if (!this.outlines.has(key)) {
      const group = key === "all" ? [...this.cells.keys()] : this.state.now.members[key];
      this.outlines.set(key, this.#draw(group));
    }
    return this.outlines.get(key);
  }

  /** Lights the current cell and its group. */
  point() {
    if (!this.boxes) return; // nothing is laid out yet
    const { state } = this;
    const { lit } = state.now;
    const { fade, outline, moved, held, me } = this.paths;
    const current = state.current();
    const pinned = state.pinned();
    const g = current === null ? -1 : lit.of[current];
    const group = g < 0 ? "" : this.#outline(g);
    const draw = (path, shape) => {
      if (path.shape !== shape) path.setAttribute("d", (path.shape = shape));
    };
    draw(fade, current === null ? "" : this.#outline("all") + group);
    draw(outline, group);
    draw(me, current === null ? "" : this.#draw([current], 1));
    draw(held, pinned === null ? "" : this.#draw([pinned], 1));
    draw(moved, this.#draw(state.moved));
    outline.style = this.look(g);
  }

  /** Lets the cells flash that an edit has just moved. */
  #flash() {
    const { edited } = this.state;
    const { moved } = this.paths;
    if (edited && edited !== this.edited) {
      moved.classList.remove("ss-flashing");
      void moved.getBoundingClientRect(); // so that the animation starts again
      moved.classList.add("ss-flashing");
    }
    this.edited = edited;
  }

  // ---- The focus

  /** Makes a cell the one that the tab key comes to. */
  enter(i) {
    this.entry.tabIndex = -1;
    this.entry = this.cells[i];
    this.entry.tabIndex = 0;
  }

  /** Moves the focus from a cell to one beside it, if there is one. */
  step(i, dx, dy) {
    const { x, y } = this.cells[i];
    (this.places[y + dy]?.[x + dx] ?? this.cells[i]).focus();
  }
}

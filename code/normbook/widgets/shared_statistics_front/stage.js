// The front end of SharedStatistics: a tensor whose cells show who shares a mean and a variance.
// Here its parts come together, and the reader's hand is followed. All words come from Python.

import { makeControls } from "./controls.js";
import { button, h, numberField, say } from "./elements.js";
import { Grid } from "./grid.js";
import { Reading } from "./reading.js";
import { State } from "./state.js";
import { exact } from "./text.js";

const PAUSE = 150; // ms on a cell before it is read aloud
const EDITOR_WIDTH = 80; // px

const hasModifier = ({ ctrlKey, metaKey, altKey }) => ctrlKey || metaKey || altKey;

/** A button that asks to change one cell, and then to change it back. */
function makePrompt(state) {
  const { t, initial } = state;
  const { cell, value } = state.given.prompt;
  const i = cell.reduce((n, k, axis) => n * state.full[axis] + k, 0);
  const from = initial.values.data[i];
  const isDone = () => state.now.x[i] !== from;
  const answer = () => {
    if (isDone()) {
      state.change(i, from);
      state.forget();
    } else state.change(i, value);
    state.set({ selection: cell });
  };
  const element = button("", answer, { className: "ss-prompt" });
  const update = () => {
    element.hidden = i >= state.now.size;
    const change = isDone() ? ["prompt_undo", state.now.x[i]] : ["prompt_do", value];
    say(element, t(change[0], { from, to: change[1] }));
  };
  return { element, update };
}

/** The task, and whether it is done. */
function makeTask(state) {
  const { ask, stats, moved } = state.given.goal;
  const element = h("p", { className: "ss-task", role: "status" });
  const update = () => {
    const isDone = stats === state.now.scheme.stats || String(moved) === String(state.moved);
    say(element, ask + (isDone ? state.t("done") : ""));
  };
  return { element, update };
}

/** Opens a field over a cell for another value, which begins with what was `typed`. */
function edit(state, grid, i, typed) {
  const { t, tell, now } = state;
  if (now.groups.of[i] < 0) return tell(t("masked", { cell: state.where(i) }));
  grid.element.querySelector(".ss-editor")?.remove();
  const old = exact(now.x[i]);
  const ariaLabel = t("new_value", { cell: state.where(i) });
  const look = { className: "ss-editor", value: typed ?? old, ariaLabel };
  const field = numberField(state, (v) => state.change(i, v), {}, look);
  field.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") {
      field.value = old;
      field.refuse(false);
      tell("");
    }
    if (key === "Escape" || (key === "Enter" && field.commit())) grid.cells[i].focus();
  });
  field.addEventListener("blur", () => {
    if (!field.refused) field.remove();
  });
  const { offsetLeft, offsetTop } = grid.cells[i];
  const left = Math.max(0, Math.min(offsetLeft, grid.element.clientWidth - EDITOR_WIDTH));
  field.style.translate = `${left}px ${offsetTop}px`;
  grid.element.append(field);
  field.focus();
  if (!typed) field.select();
}

/** Follows the pointer, the focus and the keys on the cells. */
function listen(state, grid, { point, letGo, speak }) {
  const pin = (i) => (state.pinned() === i ? letGo() : state.set({ selection: state.indexOf(i) }));
  const keys = {
    ArrowLeft: (i) => grid.step(i, -1, 0),
    ArrowRight: (i) => grid.step(i, 1, 0),
    ArrowUp: (i) => grid.step(i, 0, -1),
    ArrowDown: (i) => grid.step(i, 0, 1),
    Home: () => grid.cells[0].focus(),
    End: () => grid.cells.at(-1).focus(),
    Enter: pin,
    " ": pin,
    F2: (i) => edit(state, grid, i),
    Backspace: (i) => edit(state, grid, i),
    Escape: letGo,
  };
  const follow = ({ pointerType, clientX, clientY, target }) => {
    // The target of a touch is where the finger came down.
    const isTouch = pointerType === "touch";
    const index = (isTouch ? document.elementFromPoint(clientX, clientY) : target)?.index;
    if (index === undefined || index === state.hover) return; // in a gap, the last one stays
    state.hover = index;
    point();
  };
  const onCell = (handle) => (event) => {
    if (event.target.index !== undefined) handle(event.target.index, event);
  };
  const handlers = {
    pointermove: follow,
    pointerdown: follow,
    pointerleave() {
      state.hover = null;
      point();
    },
    click: onCell((i) => {
      grid.cells[i].focus({ preventScroll: true }); // JupyterLab would keep it
      pin(i);
    }),
    dblclick: onCell((i) => edit(state, grid, i)),
    focusin: onCell((i) => {
      state.focus = i;
      grid.enter(i);
      point();
      speak(i);
    }),
    focusout() {
      state.focus = null;
      point();
    },
    keydown: onCell((i, event) => {
      const { key } = event;
      if (hasModifier(event)) return;
      if (keys[key]) {
        state.hover = null;
        keys[key](i);
      } else if (/^[0-9.+−-]$/.test(key)) edit(state, grid, i, key);
      else return;
      event.preventDefault();
    }),
  };
  for (const [name, handle] of Object.entries(handlers))
    grid.element.addEventListener(name, handle);
}

async function render({ model, el, host, signal }) {
  const message = h("p", { className: "ss-message", role: "status" });
  const state = new State(model, (text) => say(message, text));
  const { t, given } = state;
  const label = given.label || t("widget");
  const root = h("div", {
    className: "ss",
    lang: state.words.language,
    role: "group",
    "aria-label": label,
    "data-lm-suppress-shortcuts": "true",
  });
  const letGo = () => {
    state.letGo();
    point();
  };
  const grid = new Grid(state, root);
  const reading = new Reading(state, letGo);
  const controls = makeControls(
    state,
    (i) => edit(state, grid, i),
    (g) => grid.look(g),
  );
  const task = given.goal && makeTask(state);
  const prompt = given.prompt && makePrompt(state);
  const warning = h("p", { className: "ss-message" });
  const legend = h("p", { className: "ss-legend ss-soft" }, t("both"));
  const live = h("p", { className: "ss-hidden", "aria-live": "polite" });
  const parts = [reading, ...Object.values(controls), task, prompt].filter(Boolean);

  let speaking;
  const speak = (i) => {
    clearTimeout(speaking);
    speaking = setTimeout(() => say(live, `${state.where(i)}${state.words.stop}${reading}`), PAUSE);
  };

  // On every move, so only what lies over the cells and some text change.
  const point = () => {
    grid.point();
    for (const part of parts) part.point?.();
  };
  const refresh = () => {
    if (signal?.aborted) return;
    say(live, ""); // it was about what was
    state.compute();
    grid.update();
    for (const part of parts) part.update?.();
    say(warning, state.warning());
    legend.hidden = state.given.view !== "both";
    point();
  };

  const front = (names, className = "ss-row-of") => {
    const chosen = names.filter((name) => given.controls.includes(name));
    return h("div", { className }, ...chosen.map((name) => controls[name].element));
  };
  const others = Object.keys(controls).filter((name) => !given.controls.includes(name));
  const more = h(
    "details",
    { className: "ss-more", hidden: !others.length },
    h("summary", {}, t("more")),
  );
  more.append(...others.map((name) => controls[name].element));
  if (given.label) root.append(h("p", { className: "ss-label", dir: "auto" }, given.label));
  if (task) root.append(task.element);
  root.append(
    front(["layers"]),
    front(["axes", "batch"]),
    front(["mode"]),
    h("div", { className: "ss-summary" }, reading.summary, ...front(["share"]).children),
    grid.element,
    warning,
    legend,
    front(["chips"]),
    front(["steps"], ""),
    ...(prompt ? [prompt.element] : []),
    message,
    reading.element,
    front(["code"], ""),
    front(["gradient", "edit", "affine", "eps", "reset"]),
    more,
    live,
  );
  root.addEventListener("keydown", (event) => {
    if (!hasModifier(event)) event.stopPropagation();
  });
  listen(state, grid, { point, letGo, speak });
  el.append(root);
  if (given.next) {
    const child = await host.getModel(given.next);
    const unfold = button(t("next", { label: child.get("label") }), async () => {
      unfold.remove();
      await (await host.getWidget(given.next)).render({ el, signal });
    });
    live.before(unfold);
  }

  let isWaiting = false;
  const later = () => {
    if (isWaiting) return; // several traits may change at once
    isWaiting = true;
    queueMicrotask(() => {
      isWaiting = false;
      try {
        state.take();
      } catch (error) {
        say(warning, error.message);
        return;
      }
      refresh();
    });
  };
  const watched = Object.keys(given).map((key) => `change:${key}`);
  for (const name of watched) model.on(name, later);
  const observer = new ResizeObserver(() => {
    grid.resize();
    refresh();
  });
  refresh();
  observer.observe(grid.element);
  return () => {
    observer.disconnect();
    for (const name of watched) model.off(name, later);
  };
}

export default { render };

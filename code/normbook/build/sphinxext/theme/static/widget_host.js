// Runs anywidgets (https://anywidget.dev/en/afm/) in a built page, as JupyterLab would, alone, in
// boxes and linked, from what widgets.py writes there: a script tag with the state and code of all
// models, and one for each view.
(() => {
  "use strict";

  const models = new Map(); // by id
  const sources = []; // what a model's _esm and _css are indices of
  const modules = []; // imported from them, once for all models with the same code
  const BOXES = { BoxModel: "row", HBoxModel: "row", VBoxModel: "column" }; // of ipywidgets

  // As in JupyterLab, where no event tells of a new value that equals the old one.
  function isEqual(a, b) {
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) return true;
    const kind = a?.constructor;
    if (kind !== b?.constructor) return false;
    if (ArrayBuffer.isView(a)) {
      [a, b] = [a, b].map((view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
      return a.length === b.length && a.every((byte, i) => byte === b[i]);
    }
    if (kind !== Array && kind !== Object) return false;
    const keys = Object.keys(a);
    return (
      keys.length === Object.keys(b).length &&
      keys.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]))
    );
  }

  class Model {
    #listeners = [];
    #ready;

    constructor({ state, buffers = [] }) {
      this.state = state;
      for (const { path, data } of buffers) {
        const owner = path.slice(0, -1).reduce((value, key) => value[key], state);
        const array = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
        owner[path.at(-1)] = new DataView(array.buffer);
      }
    }

    set(key, value) {
      const old = this.state[key];
      this.state[key] = value;
      if (isEqual(old, value)) return;
      for (const event of [`change:${key}`, "change"])
        for (const listener of this.#listeners) if (listener.event === event) listener.callback();
    }

    on(event, callback, scope) {
      this.#listeners = [...this.#listeners, { event, callback, scope }];
    }

    off(event, callback, scope) {
      this.#listeners = this.#listeners.filter(
        (listener) =>
          listener.scope !== scope ||
          (event && listener.event !== event) ||
          (callback && listener.callback !== callback),
      );
    }

    // Initialized once, however many views it has.
    get ready() {
      return (this.#ready ??= initialize(this));
    }
  }

  function find(reference, prefix = "") {
    if (typeof reference !== "string" || !reference.startsWith(prefix))
      throw new Error(`invalid widget reference ${JSON.stringify(reference)}`);
    const id = reference.slice(prefix.length);
    if (!models.has(id)) throw new Error(`no state of widget ${id}`);
    return models.get(id);
  }

  const onAbort = (signal, callback) =>
    signal.aborted ? callback() : signal.addEventListener("abort", callback, { once: true });

  // What the code of a widget sees of a model. Its listeners go when the signal aborts.
  function proxy(model, signal) {
    const scope = {};
    onAbort(signal, () => model.off(null, null, scope));
    return {
      get: (key) => model.state[key],
      set: (key, value) => model.set(key, value),
      on: (event, callback) => signal.aborted || model.on(event, callback, scope),
      off: (event, callback) => model.off(event, callback, scope),
      // There is no kernel to tell.
      save_changes() {},
      send() {},
    };
  }

  const experimental = { invoke: () => Promise.reject(new Error("no kernel")) };

  const createHost = (signal) => ({
    async getModel(reference) {
      return proxy(find(reference, "anywidget:"), signal);
    },
    async getWidget(reference) {
      const model = find(reference, "anywidget:");
      const { exports } = await new Promise((resolve, reject) => {
        model.ready.then(resolve, reject);
        setTimeout(() => reject(new Error(`${reference} takes too long to initialize`)), 10000);
      });
      return { exports, render: (view) => render(model, view.el, view.signal ?? signal) };
    },
  });

  // Code that comes as a blob may be imported in a page from file://, too.
  function importCode(index) {
    const url = URL.createObjectURL(new Blob([sources[index]], { type: "text/javascript" }));
    return import(url).finally(() => URL.revokeObjectURL(url));
  }

  const childrenOf = (box) => box.state.children.map((child) => find(child, "IPY_MODEL_"));

  async function initialize(model) {
    const { _model_name, _esm, _css } = model.state;
    if (BOXES[_model_name]) return Promise.all(childrenOf(model).map((child) => child.ready));
    if (_model_name !== "AnyModel") throw new Error(`${_model_name} needs a kernel`);
    if (sources[_css] && !document.getElementById(`nb-widget-css-${_css}`)) {
      const style = { id: `nb-widget-css-${_css}`, textContent: sources[_css] };
      document.head.append(Object.assign(document.createElement("style"), style));
    }
    const module = await (modules[_esm] ??= importCode(_esm));
    let widget = module.render ? module : module.default;
    if (typeof widget === "function") widget = await widget();
    const controller = new AbortController(); // a model lives as long as its page
    const { signal } = controller;
    try {
      const hooks = { model: proxy(model, signal), signal, experimental };
      const exports = await widget.initialize?.(hooks);
      return { widget, exports: typeof exports === "function" ? undefined : exports };
    } catch (error) {
      controller.abort(error);
      throw error;
    }
  }

  async function render(model, el, signal) {
    const { _model_name } = model.state;
    const direction = BOXES[_model_name];
    if (direction) return renderBox(model, el, signal, direction);
    const { widget } = await model.ready;
    const host = createHost(signal);
    const hooks = { model: proxy(model, signal), el, signal, host, experimental };
    const cleanUp = await widget.render?.(hooks);
    if (typeof cleanUp === "function") onAbort(signal, cleanUp);
  }

  async function renderBox(box, el, signal, direction) {
    // What has no room beside its neighbor goes below it.
    Object.assign(el.style, { display: "flex", flexFlow: `${direction} wrap`, gap: "1em" });
    for (const child of childrenOf(box)) {
      const view = el.appendChild(document.createElement("div"));
      Object.assign(view.style, direction === "row" && { flex: "1 1 18em", minWidth: 0 });
      applyLayout(child.state, view);
      await render(child, view, signal);
    }
  }

  // ipywidgets.jslink and jsdlink
  function link([source, sourceKey], [target, targetKey]) {
    const [from, to] = [source, target].map((reference) => find(reference, "IPY_MODEL_"));
    const copy = () => to.set(targetKey, from.state[sourceKey]);
    from.on(`change:${sourceKey}`, copy);
    copy();
  }

  function applyLayout({ _dom_classes = [], layout }, el) {
    el.classList.add(..._dom_classes);
    if (!layout) return;
    for (const [key, value] of Object.entries(find(layout, "IPY_MODEL_").state))
      if (value && key[0] !== "_") el.style.setProperty(key.replaceAll("_", "-"), value);
  }

  // The static picture stays until the widget has rendered, and for good if it can't.
  async function show(tag) {
    const el = document.createElement("div");
    const controller = new AbortController();
    try {
      const model = find(JSON.parse(tag.textContent).model_id);
      await model.ready;
      el.className = "nb-widget-view";
      applyLayout(model.state, el);
      tag.before(el); // before it renders, so that it can measure itself
      await render(model, el, controller.signal);
      tag.parentElement.classList.add("nb-widget-live");
    } catch (error) {
      console.error(error);
      controller.abort(error);
      el.remove();
      const message = document.createElement("p");
      Object.assign(message, { className: "nb-widget-error", textContent: error });
      tag.before(message);
    }
  }

  function start() {
    const tags = (kind) =>
      document.querySelectorAll(`script[type="application/vnd.jupyter.widget-${kind}+json"]`);
    for (const tag of tags("state")) {
      const { state, code } = JSON.parse(tag.textContent);
      sources.push(...code);
      for (const [id, model] of Object.entries(state)) models.set(id, new Model(model));
    }
    tags("view").forEach(show);
    for (const model of models.values()) {
      const { _model_name, source, target } = model.state;
      if (_model_name === "AnyModel") void model.ready; // without a view, too
      if (/^(Directional)?LinkModel$/.test(_model_name)) link(source, target);
      if (_model_name === "LinkModel") link(target, source);
    }
  }

  // As soon as the page is parsed; deferred scripts of the theme may take long.
  if (document.readyState === "loading")
    document.addEventListener("readystatechange", start, { once: true });
  else start();
})();

// Elements of the page, and the kinds of controls that are made of them.

/** An element with these properties, listeners (`onclick`) and attributes. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "role") element[key] = value;
    else element.setAttribute(key, value);
  }
  // JupyterLab takes single keys for commands, wherever they go, unless the focus itself says no.
  if (props.tabIndex || /^(button|input|select|summary)$/.test(tag)) {
    element.dataset.lmSuppressShortcuts = "true";
  }
  element.append(...children);
  return element;
}

/** Writes the text, unless it is there: to write it again would cost a layout. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const button = (label, onclick, props = {}) =>
  h("button", { type: "button", textContent: label, onclick, ...props });

/** Buttons of which `mark` presses one; an option is a value and its label. */
export function pills(label, options, choose) {
  const buttons = options.map(([value, text]) => button(text, () => choose(value)));
  const element = h(
    "div",
    { className: "ss-pills", role: "group", "aria-label": label },
    ...buttons,
  );
  element.mark = (value) =>
    options.forEach(([v], i) => buttons[i].setAttribute("aria-pressed", v === value));
  return element;
}

/** A list of numbers to choose from. */
export function choice(values, choose) {
  const options = values.map((value) => h("option", { value, textContent: value }));
  return h("select", { onchange: ({ target }) => choose(Number(target.value)) }, ...options);
}

export function labelled(label, field) {
  field.ariaLabel = label;
  return h("label", { className: "ss-field" }, label, field);
}

/** A field for a number. A wrong entry is refused with a message, and stays to be corrected. */
export function numberField({ t, tell }, apply, limits = {}, props = {}) {
  const { min = -Infinity, max = Infinity, whole = false } = limits;
  const input = h("input", {
    type: "text",
    inputMode: "decimal",
    autocomplete: "off",
    size: 5,
    ...props,
  });
  input.commit = () => {
    const typed = input.value.trim();
    const v = typed ? Number(typed.replace("−", "-")) : NaN;
    const fits = Number.isFinite(v) && v >= min && v <= max && (!whole || Number.isInteger(v));
    const problem = whole ? "refused_whole" : min === 0 ? "refused_negative" : "refused";
    input.refuse(!fits);
    if (fits) apply(v);
    else tell(t(problem, { typed, min, max }));
    return fits;
  };
  input.addEventListener("change", () => input.commit());
  input.refuse = (refused) => input.setAttribute("aria-invalid", (input.refused = refused));
  input.show = (v) => {
    if (input.matches(":focus")) return; // not while somebody types
    input.value = v;
    input.refuse(false);
  };
  return input;
}

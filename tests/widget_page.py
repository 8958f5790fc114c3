"""A page with one widget, made from the class itself, with a model that remembers what is set."""

import json
from pathlib import Path

PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>One widget</title>
<style>
html[data-theme="light"] {{
  --nb-text: #222832; --nb-muted: #48566b; --nb-surface: #f3f4f5;
  --nb-line: #d1d5da; --nb-background: #fff; --nb-accent: #0072b2;
}}
html[data-theme="dark"] {{
  --nb-text: #ced6dd; --nb-muted: #9ca4af; --nb-surface: #29313d;
  --nb-line: #48566b; --nb-background: #14181e; --nb-accent: #56b4e9;
  color-scheme: dark;
}}
body {{ background: var(--nb-background); font-family: system-ui; margin: 0 16px }}
{css}
</style>
<main><h1>One widget</h1><div id="here"></div></main>
<script type="application/json" id="data">{data}</script>
<script type="module">
const {{ state, esm }} = JSON.parse(document.getElementById("data").textContent);
let listeners = [];
window.model = {{
  saved: 0,
  get: (key) => state[key],
  set(key, value) {{
    if (JSON.stringify(state[key]) === JSON.stringify(value)) return;
    state[key] = value;
    listeners.filter(([name]) => name === `change:${{key}}`).forEach(([, f]) => f());
  }},
  on: (name, f) => listeners.push([name, f]),
  off: (name, f) => (listeners = listeners.filter(([n, g]) => n !== name || g !== f)),
  save_changes: () => window.model.saved++,
}};
window.widget = await import(URL.createObjectURL(new Blob([esm], {{ type: "text/javascript" }})));
const signal = new AbortController().signal;
await window.widget.default.render({{ model, el: document.getElementById("here"), signal }});
window.ready = true;
</script></html>"""


def write_page(widget, folder, theme="light") -> Path:
    """Write the page into the folder; the widget's numbers must survive JSON as it is defined."""
    state = widget.get_state()
    css, esm = (str(state.pop(key)) for key in ("_css", "_esm"))
    data = json.dumps({"state": state, "esm": esm}, allow_nan=False).replace("<", "\\u003c")
    path = Path(folder) / f"{theme}.html"
    path.write_text(PAGE.format(theme=theme, css=css, data=data), encoding="utf8")
    return path

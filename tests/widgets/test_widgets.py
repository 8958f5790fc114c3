"""The host that runs widgets in a built page, on small books with widgets of their own."""

import json
import os
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Error

from helpers import (
    build_book,
    check_page,
    copy_configuration,
    wait_for_widgets,
    write_notebook,
)
from normbook.build.sphinxext.minify import minify

# The package of the widgets: a module with its front-end code beside it.
PACKAGE = {
    "tiny.py": '''
import base64
from pathlib import Path

import anywidget
import traitlets

HERE = Path(__file__).parent
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Probe(anywidget.AnyWidget):
    """A button that counts, and hands what the host gave it to the test."""

    _esm = HERE / "probe.js"
    _css = HERE / "probe.css"
    name = traitlets.Unicode().tag(sync=True)
    value = traitlets.Any(0).tag(sync=True)
    data = traitlets.Any().tag(sync=True)
    child = anywidget.WidgetTrait().tag(sync=True)


class WithHTML(Probe):
    def _repr_html_(self):
        return f"<p class='picture'>a picture of {self.name}</p>"


class WithSVG(Probe):
    def _repr_svg_(self):
        return '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>'


class WithPNG(Probe):
    def _repr_png_(self):
        return base64.b64decode(PIXEL)


class Failing(WithHTML):
    _esm = HERE / "failing.js"


class BadSyntax(WithHTML):
    _esm = "export default { render( }"


class Stuck(anywidget.AnyWidget):
    _esm = "export default { initialize: () => new Promise(() => {}) };"


class Factory(anywidget.AnyWidget):
    _esm = """export default async () => {
        const text = await Promise.resolve("from a factory");
        return { render({ el }) { el.textContent = text; } };
    };"""


class RenderAlone(anywidget.AnyWidget):
    _esm = "export function render({ el }) { el.textContent = 'rendered alone'; }"
''',
    "probe.js": """export default {
  initialize({ model, signal, experimental }) {
    (window.initialized ??= []).push(model.get("name"));
    return { double: () => 2 * model.get("value") };
  },
  render({ model, el, signal, host, experimental }) {
    const button = document.createElement("button");
    const draw = () => {
      button.textContent = `${model.get("name")}: ${model.get("value")}`;
    };
    button.onclick = () => {
      model.set("value", model.get("value") + 1);
      model.save_changes();
    };
    model.on("change:value", draw);
    draw();
    el.append(button);
    (window.probes ??= {})[model.get("name")] = { model, el, signal, host, experimental };
    return () => button.remove();
  },
};
""",
    "probe.css": ".nb-widget-view button { letter-spacing: 3px; }",
    "failing.js": """export default {
  initialize({ model, signal }) {
    window.initializing = { model, signal };
    if (model.get("name") === "initialize") throw new Error("no initialize");
  },
  render({ model, el, signal }) {
    el.textContent = "half of it";
    window.rendering = { signal };
    model.on("change:value", () => (window.heard = true));
    throw new Error("no render");
  },
};
""",
}

UNSAFE = "</script></SCRIPT><!-- <script> & \\u003c \\\\ '\" \N{BELL} 統計 \\ud800"

PAGES = {
    "views": [
        "from tiny import *\nimport ipywidgets\na = WithHTML(name='a', value=3)\na",
        "a",
        "b = WithSVG(name='b', value=5, layout=ipywidgets.Layout(max_width='120px'))\n"
        "b.add_class('framed')\nb",
        "WithPNG(name='c', value=7)",
        "Probe(name='plain', value=9)",
        "Factory()",
        "RenderAlone()",
        "hidden = Probe(name='hidden')",
    ],
    "rules": [
        "from tiny import *\nimport ipywidgets",
        "first = Probe(name='first', value={'a': [1, 2]}, data=b'\\x00\\x01\\xff')\nfirst",
        "second = Probe(name='second', value=1, child=first,\n"
        "               data={'list': [1, b'\\x02', b'']})\nsecond",
        "one_way, both_ways = Probe(name='one_way'), Probe(name='both_ways')\n"
        "links = [ipywidgets.jsdlink((second, 'value'), (one_way, 'value')),\n"
        "         ipywidgets.jslink((second, 'value'), (both_ways, 'value'))]\n"
        "display(one_way, both_ways)",
        "Probe(name='parent', child=Stuck())",
    ],
    "boxes": [
        "from tiny import *\nfrom ipywidgets import HBox, Layout, VBox, jslink\n"
        "left, right = Probe(name='left', value=1), Probe(name='right', value=1)\n"
        "below = Probe(name='below', value=7, layout=Layout(max_width='120px'))\n"
        "link = jslink((left, 'value'), (right, 'value'))\n"
        "HBox([left, VBox([right, below])])",
    ],
    "failing": [
        "from tiny import *\nFailing(name='render')",
        "Failing(name='initialize')",
        "BadSyntax(name='syntax')",
        "WithHTML(name='good', value=1)",
    ],
    "unsafe": [f"from tiny import *\nProbe(name={UNSAFE!r}, value=1)"],
    "without": ["1 + 1"],
}


def write_book(folder, pages):
    copy_configuration(folder)
    for name, text in PACKAGE.items():
        (folder / name).write_text(text, encoding="utf8")
    for name, cells in pages.items():
        write_notebook(folder / "chapters" / f"{name}.ipynb", *cells)
    (folder / "intro.md").write_text("# Introduction")
    toc = ["format: jb-book", "root: intro", "chapters:"]
    toc += [f"  - file: chapters/{name}" for name in pages]
    (folder / "_toc.yml").write_text("\n".join(toc))


def build_with_package(folder, *options):
    """Build the book with its folder on the path of Python, of the build and of the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        return build_book(folder, *options)


@pytest.fixture(scope="module")
def book_folder(tmp_path_factory):
    """The folder of a built book, which lies in a folder with a telling name."""
    folder = tmp_path_factory.mktemp("a book with spaces & ümlauts")
    write_book(folder, PAGES)
    build = build_with_package(folder)
    assert build.returncode == 0, build.stdout[-3000:]
    return folder


@pytest.fixture(scope="module")
def chapters(book_folder):
    return book_folder / "_build/html/chapters"


@pytest.fixture
def open_page(chapters, visit):
    """Opens a page of the book and waits until its widgets live or have failed."""

    def open_page(name, **options):
        opened = visit(chapters / f"{name}.html", **options)
        wait_for_widgets(opened.page)
        return opened

    return open_page


def texts(page, selector):
    return page.locator(selector).all_inner_texts()


# what a reader sees


VIEWS = ["a: 3", "a: 3", "b: 5", "c: 7", "plain: 9", "from a factory", "rendered alone"]


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_widgets_live_in_a_page_from_a_file(color_scheme, open_page):
    visit = open_page("views", color_scheme=color_scheme)
    assert texts(visit.page, ".nb-widget-view") == VIEWS
    assert visit.page.locator(".nb-widget-picture:visible").count() == 0
    check_page(visit, color_scheme)


def test_widgets_live_in_a_page_from_a_server(book_folder, open_page):
    handler = partial(QuietHandler, directory=book_folder / "_build/html")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        visit = open_page("without")
        visit.page.goto(f"http://127.0.0.1:{server.server_port}/chapters/views.html")
        wait_for_widgets(visit.page)
        assert texts(visit.page, ".nb-widget-view") == VIEWS
        assert visit.console == visit.requests == []
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def test_views_of_a_model_share_its_state(open_page):
    page = open_page("views").page
    page.get_by_text("a: 3").first.click()
    assert texts(page, ".nb-widget-view")[:3] == ["a: 4", "a: 4", "b: 5"]


def test_models_are_initialized_once_also_without_a_view(open_page):
    page = open_page("views").page
    page.wait_for_function("initialized.length >= 5")
    assert sorted(page.evaluate("initialized")) == ["a", "b", "c", "hidden", "plain"]


def test_css_is_applied_once(open_page):
    page = open_page("views").page
    css = minify("css", PACKAGE["probe.css"])
    sheets = page.locator("style").evaluate_all("all => all.map(sheet => sheet.textContent)")
    assert sheets.count(css) == 1
    button = page.locator(".nb-widget-view button").first
    assert button.evaluate("button => getComputedStyle(button).letterSpacing") == "3px"


def test_layout_and_classes_of_the_model(open_page):
    view = open_page("views").page.locator(".nb-widget-view.framed")
    assert view.inner_text() == "b: 5"
    assert view.evaluate("view => view.style.cssText") == "max-width: 120px;"


@pytest.mark.parametrize(("width", "side_by_side"), [(1280, True), (360, False)])
def test_boxes_and_links(width, side_by_side, open_page):
    """Two widgets side by side, where there is room, and linked: one moves the other."""
    opened = open_page("boxes", width=width)
    buttons = opened.page.locator(".nb-widget-view > div button")
    assert buttons.all_inner_texts() == ["left: 1", "right: 1", "below: 7"]
    buttons.nth(0).click()
    buttons.nth(1).click()
    assert buttons.all_inner_texts() == ["left: 3", "right: 3", "below: 7"]
    left, right, below = (button.bounding_box() for button in buttons.all())
    assert (left["x"] < right["x"] and left["y"] == right["y"]) == side_by_side
    assert below["y"] > right["y"] and below["x"] == right["x"]
    assert buttons.nth(2).evaluate("e => e.parentElement.style.maxWidth") == "120px"
    check_page(opened, "light")


def test_pictures_are_printed(open_page):
    page = open_page("views").page
    page.emulate_media(media="print")
    assert page.locator(".nb-widget-picture:visible").count() == 4
    # The views of what has no picture.
    assert texts(page, ".nb-widget-view:visible") == VIEWS[4:]


def test_pictures_without_javascript(chapters, browser):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto((chapters / "views.html").as_uri())
        assert texts(page, ".nb-widget-picture p") == ["a picture of a", "a picture of a"]
        sources = [image.get_attribute("src") for image in page.locator(".nb-widget img").all()]
        assert [Path(source).suffix for source in sources] == [".svg", ".png"]
        assert page.locator(".nb-widget-picture:visible").count() == 4


def test_failing_widgets_show_their_picture_and_log(open_page):
    visit = open_page("failing")
    page = visit.page
    boxes = page.locator(".nb-widget").all()
    problems = ["Error: no render", "Error: no initialize", "SyntaxError"]
    for box, name, problem in zip(
        boxes, ["render", "initialize", "syntax"], problems, strict=False
    ):
        assert box.locator(".nb-widget-picture").inner_text() == f"a picture of {name}"
        assert box.locator(".nb-widget-picture").is_visible()
        assert problem in box.locator(".nb-widget-error").inner_text()
        assert box.locator(".nb-widget-view").count() == 0
        assert [problem in line for line in visit.console].count(True) == 1
    assert len(visit.console) == 3
    # The others are not affected.
    page.get_by_text("good: 1").click()
    assert texts(page, ".nb-widget-view") == ["good: 2"]


def test_a_failing_widget_is_aborted(open_page):
    page = open_page("failing").page
    assert page.evaluate("rendering.signal.aborted")
    assert page.evaluate("initializing.signal.aborted")


@pytest.fixture
def page_before_the_host(chapters, tmp_path, visit):
    """A page without the host, of whose views the first has no state."""
    text = (chapters / "views.html").read_text(encoding="utf8")
    text = re.sub(r"<script[^>]*widget_host.js[^>]*>", "<script>", text)
    text = re.sub(r'{"model_id": "\w+"', '{"model_id": "nowhere"', text, count=1)
    (tmp_path / "page.html").write_text(text, encoding="utf8")
    return visit(tmp_path / "page.html").page


def test_the_host_may_come_late(chapters, page_before_the_host):
    page = page_before_the_host
    assert page.locator(".nb-widget-picture:visible").count() == 4
    page.add_script_tag(path=chapters / "../_static/widget_host.js")
    wait_for_widgets(page)
    assert texts(page, ".nb-widget-view") == VIEWS[1:]


def test_a_view_without_state_says_so_in_its_place(chapters, page_before_the_host):
    page = page_before_the_host
    page.add_script_tag(path=chapters / "../_static/widget_host.js")
    wait_for_widgets(page)
    box = page.locator(".nb-widget").first
    assert box.locator(".nb-widget-picture").is_visible()
    assert box.locator(".nb-widget-error").inner_text() == "Error: no state of widget nowhere"


def test_any_text_is_safe_in_the_state(open_page):
    visit = open_page("unsafe")
    assert visit.page.evaluate("Object.keys(probes)") == [UNSAFE]
    check_page(visit, "light")


# the rules of anywidget


@pytest.fixture
def rules(open_page):
    return open_page("rules").page


CHANGES = """[
    [0, -0, false], [1, 2, true], [1, "1", true], [0, null, true], [null, undefined, true],
    [NaN, NaN, false],
    [[1, [2, {a: 3}]], [1, [2, {a: 3}]], false], [[1, [2, {a: 3}]], [1, [2, {a: 4}]], true],
    [[1, 2], [1, 2, 3], true], [[], {}, true],
    [{a: 1, b: 2}, {b: 2, a: 1}, false], [{a: undefined}, {b: undefined}, true],
    [new DataView(Uint8Array.of(1, 2).buffer), new DataView(Uint8Array.of(1, 2).buffer), false],
    [new DataView(Uint8Array.of(1, 2).buffer), new DataView(Uint8Array.of(1, 3).buffer), true],
    [Uint8Array.of(0, 0), Uint16Array.of(0), true],
    [new Date(1), new Date(2), true],
]"""


def test_an_equal_value_is_no_change(rules):
    wrong = rules.evaluate(
        """changes => {
            const { model } = probes.first, wrong = [];
            let heard = [];
            model.on("change:x", () => heard.push("x"));
            model.on("change", () => heard.push("any"));
            model.on("change:y", () => heard.push("y"));
            for (const [old, value, changes] of """
        + CHANGES
        + """) {
                model.set("x", old);
                heard = [];
                model.set("x", value);
                if (heard.join() !== (changes ? "x,any" : "")) wrong.push([old, value, heard]);
                if (model.get("x") !== value && value === value) wrong.push([old, value]);
            }
            return wrong;
        }"""
    )
    assert wrong == []


def test_off(rules):
    heard = rules.evaluate(
        """async () => {
            const { model, host } = probes.first, heard = [];
            const other = await probes.second.host.getModel(probes.second.model.get("child"));
            const note = (name) => () => heard.push(name);
            const [one, two] = [note("one"), note("two")];
            other.on("change:x", note("other"));
            model.on("change:x", one), model.on("change:x", two), model.on("change:y", one);
            model.set("x", 1);
            model.off("change:x", one);
            model.set("x", 2), model.set("y", 2);
            model.off("change:x");
            model.set("x", 3), model.set("y", 3);
            model.off();
            model.set("x", 4), model.set("y", 4);
            return heard.join(" ");
        }"""
    )
    # Never the listeners of another hook.
    assert heard == "other one two other two one other one other"


def test_listeners_hear_the_new_value_and_may_set_others(rules):
    heard = rules.evaluate(
        """() => {
            const { model } = probes.first, heard = [];
            model.on("change:x", () => model.set("y", 2 * model.get("x")));
            model.on("change:y", () => heard.push(model.get("y")));
            model.set("x", 1);
            model.set("x", 2);
            return heard;
        }"""
    )
    assert heard == [2, 4]


def test_binary_values(rules):
    read = """view => view instanceof DataView &&
        [...new Uint8Array(view.buffer, view.byteOffset, view.byteLength)]"""
    assert rules.evaluate(f"({read})(probes.first.model.get('data'))") == [0, 1, 255]
    assert rules.evaluate(f"({read})(probes.second.model.get('data').list[1])") == [2]
    assert rules.evaluate(f"({read})(probes.second.model.get('data').list[2])") == []
    assert rules.evaluate("probes.second.model.get('data').list[0]") == 1


def test_without_a_kernel(rules):
    assert rules.evaluate("probes.first.model.save_changes(), probes.first.model.send({})") is None
    with pytest.raises(Error, match="no kernel"):
        rules.evaluate("probes.first.experimental.invoke('command')")


def test_links(rules):
    def buttons():
        return texts(rules, ".nb-widget-view button")[1:4]

    assert buttons() == ["second: 1", "one_way: 1", "both_ways: 1"]
    rules.get_by_text("second: 1").click()
    assert buttons() == ["second: 2", "one_way: 2", "both_ways: 2"]
    rules.get_by_text("both_ways: 2").click()
    assert buttons() == ["second: 3", "one_way: 3", "both_ways: 3"]
    rules.get_by_text("one_way: 3").click()
    assert buttons() == ["second: 3", "one_way: 4", "both_ways: 3"]


def test_a_widget_shows_another(rules):
    rules.evaluate(
        """async () => {
            const { model, host, el } = probes.second;
            const child = model.get("child");
            (await host.getModel(child)).set("value", 21);
            const { exports, render } = await host.getWidget(child);
            window.leave = new AbortController();
            window.inner = el.appendChild(document.createElement("div"));
            await render({ el: inner, signal: leave.signal });
            window.innerModel = probes.first.model;
            window.doubled = exports.double();
        }"""
    )
    assert rules.evaluate("doubled") == 42
    assert rules.evaluate("initialized.filter(name => name === 'first').length") == 1
    assert rules.evaluate("inner.innerText") == "first: 21"
    rules.get_by_text("first: 21").last.click()
    assert texts(rules, ".nb-widget-view button")[:1] == ["first: 22"]
    assert rules.evaluate("inner.innerText") == "first: 22"

    # It leaves: its clean-up runs, its listeners go, later ones are not heard; other views stay.
    heard = rules.evaluate(
        """() => {
            let heard = 0;
            innerModel.on("change:value", () => heard++);
            leave.abort();
            innerModel.on("change:value", () => heard++);
            innerModel.set("value", 30);
            return heard;
        }"""
    )
    assert heard == 0
    assert rules.evaluate("inner.innerText") == ""
    assert texts(rules, ".nb-widget-view button")[:1] == ["first: 30"]


def test_a_view_that_leaves_before_it_is_rendered_is_cleaned_up(rules):
    left = rules.evaluate(
        """async () => {
            const { model, host } = probes.second, el = document.createElement("div");
            const { render } = await host.getWidget(model.get("child"));
            await render({ el, signal: AbortSignal.abort() });
            return el.innerHTML;
        }"""
    )
    assert left == ""


def test_bad_references_are_rejected(rules):
    child = rules.evaluate("probes.second.model.get('child')")
    for reference, message in (
        ("anywidget:nowhere", "no state of widget nowhere"),
        (child.replace("anywidget:", "IPY_MODEL_"), "invalid widget reference"),
        (None, "invalid widget reference"),
    ):
        for call in ("getModel", "getWidget"):
            with pytest.raises(Error, match=message):
                rules.evaluate(f"reference => probes.first.host.{call}(reference)", reference)


def test_a_widget_that_never_initializes_is_not_waited_for(rules):
    rules.evaluate("() => { setTimeout = (call, time) => { window.time = time; call(); }; }")
    with pytest.raises(Error, match="too long to initialize"):
        rules.evaluate("probes.parent.host.getWidget(probes.parent.model.get('child'))")
    assert rules.evaluate("time") == 10_000


# what the build sees to


def test_the_host_is_only_on_pages_with_widgets(chapters):
    assert "widget_host" not in (chapters / "without.html").read_text(encoding="utf8")
    assert "widget_host" in (chapters / "views.html").read_text(encoding="utf8")


def test_code_is_written_once_however_many_widgets_run_it(chapters):
    page = (chapters / "views.html").read_text(encoding="utf8")
    assert page.count(".textContent=`") == 1
    assert page.count("letter-spacing:3px") == 1


DEAD = [
    "import anywidget\nimport ipywidgets\nfrom tiny import *\n\n"
    "class Nested:\n    class Inner(Probe):\n        _esm = Probe._esm\n\n"
    "Nested.Inner.__module__ = 'tiny'",
    "Nested.Inner()",
    "ipywidgets.HBox([ipywidgets.IntSlider()])",
    "display({'application/vnd.jupyter.widget-view+json': {'model_id': 'nowhere'}}, raw=True)",
]


@pytest.mark.slow
def test_what_would_be_dead_fails_the_build(tmp_path):
    write_book(tmp_path, {"dead": DEAD})
    build = build_with_package(tmp_path)
    assert build.returncode != 0
    log = re.sub(r"\x1b\[[0-9;]*m", "", build.stdout)
    problems = re.findall(r"WARNING: dead in the page: (.*)", log)
    assert sorted(problems) == [
        "IntSliderModel, SliderStyleModel: without a kernel nothing runs them",
        "a view of a widget that has no state in this page",
        "tiny.Inner can't be imported, so its code may be out of date",
    ]


@pytest.mark.slow
def test_edited_code_is_in_the_page_without_running_the_notebook(tmp_path):
    write_book(tmp_path, {"first": ["from tiny import *\nProbe(name='a')"], "second": ["2"]})
    assert build_with_package(tmp_path).returncode == 0
    edits = {"probe.js": ("${", "now ${"), "probe.css": ("3px", "4px")}
    for name, edit in edits.items():
        (tmp_path / name).write_text(PACKAGE[name].replace(*edit), encoding="utf8")
    log = build_with_package(tmp_path).stdout
    page = (tmp_path / "_build/html/chapters/first.html").read_text(encoding="utf8")
    for name in edits:
        text = (tmp_path / name).read_text(encoding="utf8")
        assert json.dumps(minify(name.split(".")[1], text)) in page
    assert "executing" not in log
    assert "second.ipynb" not in log


@pytest.mark.slow
def test_the_picture_is_in_the_pdf(book_folder):
    build_with_package(book_folder, "--builder", "latex")
    (file,) = (book_folder / "_build/latex").glob("*.tex")
    text = file.read_text(encoding="utf8")
    assert "includegraphics" in text
    assert "tiny.Probe object" in text  # has no picture
    assert "tiny.WithPNG object" not in text

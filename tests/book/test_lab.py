"""SharedStatistics in a real JupyterLab: with a kernel, and among Lab's own keys and colors."""

import os
import re
import socket
import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from helpers import PATIENCE, check_accessibility, open_page, write_notebook

pytestmark = pytest.mark.slow

FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
}
# Lab would ask whether it may fetch news.
NO_NEWS = '{"fetchNews": "false", "checkForUpdates": false}'

CELLS = [
    """from ipywidgets import Output

from normbook.data.examples import FEATURE_MAPS
from normbook.core.scheme import LAYER_NORM_CHW
from normbook.widgets import SharedStatistics

heard = Output()


@heard.capture()
def hear(change):
    print(change.name, "is", change.new.flat[1] if change.name == "values" else change.new)


widget = SharedStatistics(FEATURE_MAPS.x)
widget.observe(hear, ["scheme", "selection", "values"])
widget""",
    "heard",
    """widget.scheme = LAYER_NORM_CHW
widget.view, widget.eps, widget.selection = "normalized", 0.5, (1, 2, 4, 4)""",
]
HEADING, WIDGET, HEARD, ASSIGNMENT = range(4)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The URL of JupyterLab on a free port, with settings of its own, and one notebook."""
    folder = tmp_path_factory.mktemp("lab")
    write_notebook(folder / "chapters" / "touch.ipynb", *CELLS)
    news = folder / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    news.parent.mkdir(parents=True)
    news.write_text(NO_NEWS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--notebook-dir={folder}",
        "--LabApp.extension_manager=readonly", "--LabApp.expose_app_in_browser=True",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with open(folder / "lab.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            env=os.environ | {name: str(folder / part) for name, part in FOLDERS.items()},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_server(url, process, folder / "lab.log")
        yield url
    finally:
        process.terminate()  # it ends its kernels
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for_server(url, process, log):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            urlopen(f"{url}/api").close()
            return
        except URLError:
            time.sleep(0.1)
    pytest.fail(f"JupyterLab doesn't start:\n{log.read_text()[-5000:]}", pytrace=False)


class Notebook:
    """The notebook in Lab with its first cells run, and how to use it as a reader does."""

    def __init__(self, visit):
        self.visit, self.page = visit, visit.page
        self.page.set_default_timeout(1000 * PATIENCE)
        self.page.wait_for_function(
            "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status"
            " === 'idle'"
        )
        self.lab_cell(HEADING).click()
        for _ in (HEADING, WIDGET, HEARD):
            self.press("Shift+Enter")  # runs the cell and goes to the next one
        self.widget = self.lab_cell(WIDGET).locator(".ss")
        self.widget.wait_for()

    def lab_cell(self, i):
        return self.page.locator(".jp-Notebook .jp-Cell").nth(i)

    def cell(self, i):
        return self.widget.get_by_role("gridcell").nth(i)

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def wait_until_heard(self, line):
        self.lab_cell(HEARD).locator(".jp-OutputArea pre", has_text=line).wait_for()

    def state(self):
        """What Lab's keys would change: the cells, which of them is active, and the mode."""
        return self.page.evaluate(
            """() => {
                const { widgets, activeCellIndex, mode } = jupyterapp.shell.currentWidget.content;
                const cells = widgets.map(({ model }) => [model.id, model.type]);
                return [cells, activeCellIndex, mode];
            }"""
        )


@pytest.fixture(scope="module")
def notebook(lab, browser):
    visit = open_page(browser, f"{lab}/lab/tree/chapters/touch.ipynb")
    yield Notebook(visit)
    visit.page.context.close()


def test_a_choice_of_layer_arrives_in_python(notebook):
    notebook.widget.get_by_role("button", name="LayerNorm over C, H, W").click()
    notebook.wait_until_heard("scheme is Scheme(name='LayerNorm over C, H, W'")
    notebook.cell(3).hover()
    notebook.widget.get_by_text("μ = 37/75 = 0.493333", exact=True).wait_for()


def test_a_click_arrives_in_python(notebook):
    notebook.cell(3).click()
    notebook.wait_until_heard("selection is (0, 0, 0, 3)")


def test_the_keyboard_arrives_in_python(notebook):
    notebook.cell(0).focus()
    notebook.press("ArrowRight", "ArrowDown", "Enter")
    notebook.wait_until_heard("selection is (0, 0, 1, 1)")
    notebook.cell(1).focus()
    notebook.press("7", "Enter")
    notebook.wait_until_heard("values is 7.0")


# Lab's commands for cells: insert, move, cut, paste, undo, delete, restart the kernel, change type.
KEYS = "a b x v z j k d d 0 0 m r 1 y ArrowDown ArrowUp Enter Escape Space Shift+M".split()


@pytest.mark.parametrize("focus", ["[role=gridcell]", "button", "input", "summary"])
def test_keys_stay_in_the_widget(notebook, focus):
    notebook.cell(1).click()  # which makes Lab's cell the active one
    notebook.widget.locator(focus).first.focus()
    before = notebook.state()
    assert before[1] == WIDGET
    notebook.press(*KEYS)
    assert notebook.page.evaluate("document.activeElement.closest('.ss') !== null")
    assert notebook.state() == before
    assert notebook.page.locator(".jp-Dialog").count() == 0


def test_the_same_keys_are_labs_elsewhere(notebook):
    """Otherwise the test above would prove nothing."""
    notebook.lab_cell(ASSIGNMENT).locator(".jp-InputPrompt").click()
    before = notebook.state()
    notebook.press("b")
    assert len(notebook.state()[0]) == len(before[0]) + 1
    notebook.press("d", "d", "ArrowUp")
    assert notebook.state()[0] == before[0]


def test_what_python_assigns_is_shown(notebook):
    notebook.lab_cell(ASSIGNMENT).locator(".jp-InputPrompt").click()
    notebook.press("Control+Enter")
    notebook.widget.get_by_text("all of sample 1").wait_for()
    notebook.widget.get_by_text(" + 0.5) = ").wait_for()
    step = notebook.widget.get_by_role("button", name="3 normalize")
    assert step.get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_it_follows_labs_theme(notebook, theme):
    page = notebook.page
    page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
    page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
    color = notebook.widget.evaluate("widget => getComputedStyle(widget).backgroundColor")
    assert (min(map(int, re.findall(r"\d+", color))) > 127) == (theme == "JupyterLab Light")
    notebook.cell(1).hover()
    check_accessibility(page, ".ss")  # the contrast among others


def test_nothing_fails_and_no_other_host_is_asked(notebook):
    notebook.widget.wait_for()
    slow = "Plugin @jupyterlab"  # Lab warns of its own parts that take long to activate
    assert [line for line in notebook.visit.console if not line.startswith(slow)] == []
    assert notebook.visit.requests == []

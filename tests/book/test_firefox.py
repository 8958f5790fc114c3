"""The built pages in Firefox, from file://.

Playwright's Firefox is one of its own making. This one is the system's, which speaks WebDriver
BiDi (https://w3c.github.io/webdriver-bidi/) itself: JSON over a web socket.
"""

import json
import os
import shutil
import subprocess
import time

import pytest
from websocket import create_connection

from helpers import LOCAL, PAGES, PATIENCE, WIDGETS_ARE_SETTLED
from tensors import WITH_TENSOR, reading, shown_tensors

pytestmark = pytest.mark.slow

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """A window of Firefox, what its console said, and what it asked of other hosts."""

    def __init__(self, address):
        self.socket = create_connection(address, timeout=2 * PATIENCE, suppress_origin=True)
        self.number = 0
        self.console, self.requests = [], []
        self.send("session.new", capabilities={})
        self.send("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        self.window = self.send("browsingContext.getTree")["contexts"][0]["context"]

    def send(self, method, **params):
        """Send a command; returns its result. The events that come meanwhile are noted."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while (message := json.loads(self.socket.recv())).get("id") != self.number:
            self.note(message)
        if message["type"] == "error":
            raise RuntimeError(f"{method}: {message['error']}: {message['message']}")
        return message["result"]

    def note(self, event):
        params = event["params"]
        if event["method"] == "log.entryAdded" and params["level"] in ("error", "warn"):
            self.console.append(params["text"])
        if event["method"] == "network.beforeRequestSent":
            address = params["request"]["url"]
            if not address.startswith(LOCAL):
                self.requests.append(address)

    def visit(self, path):
        self.console.clear()
        self.requests.clear()
        address = path.as_uri()
        self.send("browsingContext.navigate", context=self.window, url=address, wait="complete")
        self.evaluate("document.fonts.ready.then(() => null)")  # else the next visit cuts one off

    def evaluate(self, expression):
        """What a JavaScript expression, or its promise, gives, as BiDi writes it."""
        target = {"context": self.window}
        result = self.send(
            "script.evaluate", expression=expression, target=target, awaitPromise=True
        )
        if result["type"] == "exception":
            raise RuntimeError(result["exceptionDetails"]["text"])
        return result["result"]

    def wait_until(self, condition):
        self.evaluate(
            f"""new Promise((resolve, reject) => {{
                const end = Date.now() + {1000 * PATIENCE};
                const check = () => {{
                    if ({condition}) resolve();
                    else if (Date.now() > end) reject(new Error("waited in vain"));
                    else setTimeout(check, 50);
                }};
                check();
            }})"""
        )

    def hover(self, element):
        """Move the pointer onto the element that a JavaScript expression gives."""
        self.evaluate(f"{element}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
        origin = {"type": "element", "element": {"sharedId": self.evaluate(element)["sharedId"]}}
        move = {"type": "pointerMove", "x": 0, "y": 0, "origin": origin}
        mouse = {"type": "pointer", "id": "mouse", "actions": [move]}
        self.send("input.performActions", context=self.window, actions=[mouse])


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    if not FIREFOX:
        missing = "Firefox is not installed; on Debian: apt-get install firefox-esr"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    profile = tmp_path_factory.mktemp("profile")
    command = [FIREFOX, "--headless", "--no-remote", "--profile", profile]
    with open(profile / "firefox.log", "wb") as log:
        process = subprocess.Popen(
            [*command, "--remote-debugging-port=0"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        firefox = Firefox(f"ws://{wait_for_address(process, profile)}/session")
        yield firefox
        firefox.socket.close()
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for_address(process, profile):
    """Host and port, which Firefox writes into its profile when it listens."""
    file, end = profile / "WebDriverBiDiServer.json", time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            server = json.loads(file.read_text())
            return f"{server['ws_host']}:{server['ws_port']}"
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.1)
    log = (profile / "firefox.log").read_text(errors="replace")
    pytest.fail(f"Firefox doesn't listen:\n{log[-5000:]}", pytrace=False)


@pytest.mark.parametrize("page", PAGES)
def test_widgets_live(page, book, firefox):
    firefox.visit(book / f"{page}.html")
    firefox.wait_until(WIDGETS_ARE_SETTLED)
    firefox.wait_until('document.fonts.status === "loaded"')  # else the next visit breaks it off
    failed = firefox.evaluate('document.querySelectorAll(".nb-widget-error").length')
    assert failed["value"] == 0
    assert firefox.console == []
    assert firefox.requests == []


@pytest.mark.parametrize("name", WITH_TENSOR)
def test_tensor_is_alive(name, executions, book, firefox):
    cell, line = reading(shown_tensors(executions[name])[0])
    firefox.visit(book / f"chapters/{name}.html")
    firefox.wait_until(WIDGETS_ARE_SETTLED)
    firefox.hover(f'document.querySelectorAll(".ss [role=gridcell]")[{cell}]')
    firefox.wait_until(f'document.querySelector(".ss-read").innerText.includes("{line}")')


def test_an_error_would_be_noticed(tmp_path, firefox):
    """Otherwise the tests above would prove nothing."""
    file = tmp_path / "page.html"
    file.write_text('<!doctype html><img src="https://example.org/i.png"><script>no()</script>')
    firefox.visit(file)
    assert any("no is not defined" in line for line in firefox.console)
    assert firefox.requests == ["https://example.org/i.png"]

"""The whole book under a strict Content-Security-Policy: the one that CONTRIBUTING.md names."""

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from helpers import PAGES, ROOT, open_page, wait_for_widgets
from tensors import WITH_TENSOR, reading, shown_tensors

HEADER = "Content-Security-Policy"
POLICY = re.search(rf"{HEADER}: (.+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8"))[1]

# What each page is to report of itself.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) =>
    violations.push([violatedDirective, blockedURI, sample]));
"""


class Handler(SimpleHTTPRequestHandler):
    def __init__(self, *args, policy, **options):
        self.policy = policy
        super().__init__(*args, **options)

    def end_headers(self):
        self.send_header(HEADER, self.policy)
        super().end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def serve():
    """Serves a folder with the policy: ``serve(folder)`` gives the address."""
    servers = []

    def start(folder, policy=POLICY):
        handler = partial(Handler, directory=folder, policy=policy)
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def visit(browser):
    visits = []

    def open_address(address):
        visits.append(open_page(browser, address, script=WATCH))
        return visits[-1]

    yield open_address
    for visit in visits:
        visit.page.context.close()


def check(visit):
    assert visit.page.evaluate("violations") == []
    assert visit.console == []
    assert visit.requests == []


def test_the_policy_is_strict():
    directives = dict(directive.split(maxsplit=1) for directive in POLICY.split("; "))
    assert directives["default-src"] == "'self'"
    assert directives["script-src"] == "'self' blob:"
    assert "unsafe-eval" not in POLICY
    assert "*" not in POLICY


@pytest.mark.parametrize("page", PAGES)
def test_nothing_on_a_page_is_against_the_policy(page, book, serve, visit):
    visit = visit(f"{serve(book)}/{page}.html")
    page = visit.page
    wait_for_widgets(page)
    if page.locator(".copybtn").count():
        page.locator(".copybtn").first.click(force=True)
    for control in page.locator(".ex-control button, .nb-quiz input, .ss [role=gridcell]").all()[
        :9
    ]:
        if control.is_visible():
            control.click()
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "system"
    page.locator(".theme-switch").click()
    assert page.evaluate(theme) == "light"
    check(visit)


@pytest.mark.parametrize("name", WITH_TENSOR)
def test_a_tensor_is_alive_under_the_policy(name, executions, book, serve, visit):
    cell, line = reading(shown_tensors(executions[name])[0])
    visit = visit(f"{serve(book)}/chapters/{name}.html")
    widget = visit.page.locator(".nb-widget .ss").first
    widget.locator("[role=gridcell]").nth(cell).hover()
    widget.get_by_text(line, exact=True).wait_for()
    check(visit)


def test_search_works_under_the_policy(book, serve, visit):
    visit = visit(f"{serve(book)}/index.html")
    page = visit.page
    page.wait_for_url(f"**/{PAGES[0]}.html")
    page.keyboard.press("/")
    page.locator("input:focus").fill("normalization")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=normalization")
    page.locator("#search-results li a").first.wait_for()
    assert page.locator("input:focus").count() == 1
    page.locator("#search-results li a").first.click()
    page.locator("article .highlighted").first.wait_for()
    page.keyboard.press("Escape")
    assert page.locator("article .highlighted").count() == 0
    check(visit)


def test_a_violation_would_be_noticed(tmp_path, serve, visit):
    """Otherwise the tests above would prove nothing."""
    (tmp_path / "page.html").write_text(
        '<!doctype html><p onclick="no()">no</p><script>no()</script>'
    )
    visit = visit(f"{serve(tmp_path)}/page.html")
    kinds = {kind for kind, *_ in visit.page.evaluate("violations")}
    assert kinds == {"script-src-attr", "script-src-elem"}
    assert visit.console

"""How the heaviest page loads, and how Jupyter Book's default page with the same content does.

The default page has the same notebook with the same outputs, without this book's extension and
style. It loads MathJax, require.js, html-manager and anywidget from CDNs; here this machine is the
CDN. What the book itself has no use for is fetched by npm; where there is no npm, or no network,
the comparison is left out.
"""

import gzip
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import NamedTuple

import nbformat
from playwright.sync_api import sync_playwright

from bench import Row, show
from helpers import PAGES, PATIENCE, ROOT, build_book
from normbook.build.execute import cache_folder, execute_all
from normbook.build.pdf import launch_chromium
from normbook.build.sphinxext.maths import MATHJAX

ROUNDS = 5

CONFIGURATION = """title: Shared Statistics
execute: { execute_notebooks: "off" }
parse: { myst_enable_extensions: [dollarmath] }
"""
CDN = re.compile(r"https://(?:cdnjs\.cloudflare\.com|cdn\.jsdelivr\.net)")
INTEGRITY = re.compile(r' (?:integrity|crossorigin)="[^"]*"')

# What the default loads, in myst-nb's versions: packages on npm, the file of each, and its address.
PACKAGES = {
    "requirejs@2.3.4": ("require.js", "ajax/libs/require.js/2.3.4/require.min.js"),
    "@jupyter-widgets/html-manager@1.0.6": (
        "dist/embed-amd.js",
        "npm/@jupyter-widgets/html-manager@1.0.6/dist/embed-amd.js",
    ),
}

NETWORK = {
    "offline": False,
    "latency": 150,  # ms
    "downloadThroughput": 1.6e6 / 8,  # bytes a second
    "uploadThroughput": 0.75e6 / 8,
}
SLOWDOWN = 4  # of the processor
SLOW = f"1.6 Mbit/s, CPU/{SLOWDOWN}"

# Runs in the page: notes when there is a widget for every place of one, and what jumps.
WATCH = """
const places = () => document.querySelectorAll('script[type$="widget-view+json"]').length;
const drawn = () => document.querySelectorAll(".ss, .ex").length;
const watch = () => {
    if (document.readyState === "loading" || drawn() < places()) requestAnimationFrame(watch);
    else window.drawn = performance.now() / 1000;
};
watch();
window.shift = 0;
new PerformanceObserver(list => list.getEntries().forEach(({ value }) => { shift += value; }))
    .observe({ type: "layout-shift", buffered: true });
"""
MEASURED = """[
    performance.getEntriesByName("first-contentful-paint")[0].startTime / 1000, drawn, shift]"""


class Load(NamedTuple):
    """One visit with nothing cached: times in s, the layout shift score, and kB on the wire."""

    painted: float
    drawn: float
    shift: float
    weight: float


def heaviest_page(folder):
    """The largest page with a widget."""
    paths = [folder / f"{page}.html" for page in PAGES]
    return max(
        (path for path in paths if "widget_host.js" in path.read_text(encoding="utf8")),
        key=lambda path: path.stat().st_size,
    )


def build_default(name, folder):
    """Build the default page of the chapter in ``folder``; returns where it is."""
    source = ROOT / "chapters" / f"{name}.ipynb"
    cached = cache_folder(ROOT / "_build" / ".execution", ROOT / "requirements.txt")
    run = execute_all([source], cached, report=lambda line: None)[source]
    nbformat.write(run.notebook, folder / source.name)
    (folder / "_config.yml").write_text(CONFIGURATION, encoding="utf8")
    (folder / "_toc.yml").write_text(f"format: jb-book\nroot: {name}\n", encoding="utf8")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", folder]
    subprocess.run(command, check=True, capture_output=True)  # links to other pages are broken
    return folder / "_build/html" / f"{name}.html"


def use_this_machine(page, folder):
    """Let the default page find in its folder what it would load from CDNs.

    Raises when npm fails, FileNotFoundError when it is missing.
    """
    text = INTEGRITY.sub("", CDN.sub("/cdn", page.read_text(encoding="utf8")))
    page.write_text(text, encoding="utf8")
    cdn = page.parent / "cdn"
    shutil.copytree(MATHJAX, cdn / "npm/mathjax@3/es5")
    (version,) = set(re.findall(r'"model_module_version": "(~0[^"]*)"', text))
    scripts = {
        f"npm/anywidget@{version}/dist/index.js": files("anywidget") / "nbextension/index.js"
    }
    for package, (member, address) in PACKAGES.items():
        command = ["npm", "pack", "--silent", "--pack-destination", folder, package]
        name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        with tarfile.open(folder / name) as archive:
            archive.extractall(folder / address, filter="data")
        scripts[address] = folder / address / "package" / member
    for address, source in scripts.items():
        script = source.read_text(encoding="utf8")
        (cdn / address).parent.mkdir(parents=True, exist_ok=True)
        (cdn / address).write_text(script, encoding="utf8")


class Handler(SimpleHTTPRequestHandler):
    """Serves everything compressed, from memory, over connections that stay open."""

    protocol_version = "HTTP/1.1"
    compressed = staticmethod(cache(lambda path: gzip.compress(Path(path).read_bytes())))

    def handle(self):
        with suppress(ConnectionError):  # the page was closed meanwhile
            super().handle()

    def do_GET(self):
        path = self.translate_path(self.path)
        try:
            content = self.compressed(path)
        except OSError:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@contextmanager
def serve(folder):
    """The URL at which the files of the folder are."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def visit(browser, address, slow=False):
    with browser.new_context() as context:
        page = context.new_page()
        page.add_init_script(WATCH)
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        weights = []
        session.on(
            "Network.loadingFinished", lambda event: weights.append(event["encodedDataLength"])
        )
        if slow:
            session.send("Network.emulateNetworkConditions", NETWORK)
            session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
        page.goto(address, wait_until="networkidle", timeout=1000 * PATIENCE)
        page.wait_for_function("window.drawn", timeout=1000 * PATIENCE)
        return Load(*page.evaluate(MEASURED), sum(weights) / 1000)


def rows(book):
    """Measure the heaviest page of the built book."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        pages = [heaviest_page(book)]
        try:
            pages.append(build_default(pages[0].stem, Path(folder)))
            use_this_machine(pages[1], Path(folder))
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"(the default page is left out: {error})")
            del pages[1:]
        with serve(book) as own, serve(Path(folder, "_build/html")) as other:
            addresses = [f"{own}/{pages[0].relative_to(book).as_posix()}"]
            addresses += [f"{other}/{page.name}" for page in pages[1:]]
            for slow in (False, True):
                # They take turns, so that a busy machine slows both alike.
                turns = [[visit(browser, each, slow) for each in addresses] for _ in range(ROUNDS)]
                loads = [
                    Load(*map(median, zip(*of_one, strict=True)))
                    for of_one in zip(*turns, strict=True)
                ]
                yield from compare(pages[0].stem, SLOW if slow else "", *loads)
        browser.close()


def compare(name, where, ours, default=None):
    """The rows of the table: all that was measured without limits, and the times within some."""
    whats = {"painted": ("first paint", "s"), "drawn": ("last widget", "s")}
    if not where:
        whats |= {"weight": ("over the wire", "kB"), "shift": ("layout shift", "")}
    for key, (what, unit) in whats.items():
        label = f"page {name}: {what}{where and f', {where}'}"
        peer = (getattr(default, key), "default page") if default else ()
        yield Row(label, getattr(ours, key), unit, *peer)


def main():
    build = build_book(ROOT)
    if build.returncode:
        raise RuntimeError(build.stdout)
    show(rows(ROOT / "_build" / "html"))


if __name__ == "__main__":
    main()

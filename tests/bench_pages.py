"""When the last widget of the heaviest page is drawn, and when by Jupyter Book's default route.

The default runs widgets by html-manager, require.js and anywidget from
CDNs; here this machine is the CDN. What the book itself has no use for is fetched by npm; where
there is no npm, or no network, the comparison is left out.
"""

import gzip
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from statistics import median

from playwright.sync_api import sync_playwright

from bench import Row, show
from helpers import PAGES, PATIENCE, ROOT, build_book
from normbook.sphinxext.minify import minify

ROUNDS = 5

# What the default loads, in myst-nb's versions: packages on npm, and the file of each.
PACKAGES = {
    "requirejs@2.3.4": "package/require.js",
    "@jupyter-widgets/html-manager@1.0.6": "package/dist/embed-amd.js",
}
TAGS = """<script src="/cdn/require.js"></script>
<script data-jupyter-widgets-cdn="/cdn/" src="/cdn/embed-amd.js"></script>"""

NETWORK = {
    "offline": False,
    "latency": 150,  # ms
    "downloadThroughput": 1.6e6 / 8,  # bytes a second
    "uploadThroughput": 0.75e6 / 8,
}
SLOWDOWN = 4  # of the processor

# Runs in the page: notes when there is a widget for every place of one.
WATCH = """
const places = () => document.querySelectorAll('script[type$="widget-view+json"]').length;
const drawn = () => document.querySelectorAll(".ss, .ex").length;
const watch = () => {
    if (document.readyState === "loading" || drawn() < places()) requestAnimationFrame(watch);
    else window.drawn = performance.now();
};
watch();
"""


def heaviest_page(folder):
    """The largest page with a widget."""
    paths = [folder / f"{page}.html" for page in PAGES]
    return max(
        (path for path in paths if "widget_host.js" in path.read_text(encoding="utf8")),
        key=lambda path: path.stat().st_size,
    )


def fetch_packages(folder):
    """The scripts on npm, by name. Raises when npm fails, FileNotFoundError when it is missing."""
    scripts = {}
    for package, member in PACKAGES.items():
        command = ["npm", "pack", "--silent", "--pack-destination", folder, package]
        name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        with tarfile.open(folder / name) as archive:
            scripts[Path(member).name] = archive.extractfile(member).read().decode("utf8")
    return scripts


def write_default(page, folder, scripts):
    """Write beside the page the same by the default route, and what it loads; returns its path."""
    text = page.read_text(encoding="utf8")
    body = re.search(r'widget-state\+json">(.+?)</script>', text).group(1)
    state = json.loads(body)
    code = state.pop("code")  # which the book writes once, the default with every widget
    for model in state["state"].values():
        for key in {"_esm", "_css"} & model["state"].keys():
            model["state"][key] = code[model["state"][key]]
        if model["model_name"] == "AnyModel":
            version = model["model_module_version"]
    text = text.replace(body, json.dumps(state).replace("<", r"\u003c"))
    text, tags = re.subn(r"<script[^>]*widget_host\.js[^>]*></script>", TAGS, text)
    assert tags == 1
    path = page.with_stem("default")
    path.write_text(text, encoding="utf8")
    anywidget = files("anywidget").joinpath("nbextension/index.js").read_text(encoding="utf8")
    scripts = scripts | {
        "require.js": minify(scripts["require.js"], "js"),
        f"anywidget@{version}/dist/index.js": anywidget,
    }
    for name, script in scripts.items():
        (folder / "cdn" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "cdn" / name).write_text(script, encoding="utf8")
    return path


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


def seconds(browser, address, slow=False):
    """From navigation to the last widget, with nothing cached."""
    with browser.new_context() as context:
        page = context.new_page()
        page.add_init_script(WATCH)
        if slow:
            session = context.new_cdp_session(page)
            session.send("Network.enable")
            session.send("Network.emulateNetworkConditions", NETWORK)
            session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
        page.goto(address, wait_until="commit")
        page.wait_for_function("window.drawn", timeout=1000 * PATIENCE)
        return page.evaluate("window.drawn / 1000")


def rows(book):
    """Measure the heaviest page of the built book."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        site = Path(shutil.copytree(book, Path(folder, "site")))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = heaviest_page(site)
        with serve(site) as url:
            address = f"{url}/{page.relative_to(site).as_posix()}"
            times = [seconds(browser, address) for _ in range(ROUNDS)]
            yield Row(f"widgets of {page.stem}, the heaviest page, drawn", median(times), "s")
            try:
                default = write_default(page, site, fetch_packages(Path(folder)))
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"(the default route is left out: {error})")
                return
            default = f"{url}/{default.relative_to(site).as_posix()}"
            # They take turns, so that a busy machine slows both alike.
            pairs = [
                [seconds(browser, each, slow=True) for each in (address, default)]
                for _ in range(ROUNDS)
            ]
        ours, theirs = (median(times) for times in zip(*pairs, strict=True))
        what = f"the same at 1.6 Mbit/s, 150 ms, CPU {SLOWDOWN} times slower"
        yield Row(what, ours, "s", theirs, "default route")


def main():
    build = build_book(ROOT)
    if build.returncode:
        raise RuntimeError(build.stdout)
    show(rows(ROOT / "_build" / "html"))


if __name__ == "__main__":
    main()

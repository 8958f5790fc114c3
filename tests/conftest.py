"""The notebooks executed once, the book built once, and a browser without network."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

# Where several processes run the tests, each computes with one thread; so do the kernels it starts.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from filelock import FileLock
from playwright.sync_api import sync_playwright

from normbook.build.execute import cache_folder, execute_all
from normbook.build.pdf import launch_chromium

pytest.register_assert_rewrite("helpers")  # so that its assertions tell the values

from helpers import NOTEBOOKS, ROOT, build_book, open_page  # noqa: E402

# A test that takes one of these is slow.
SLOW = {"executions", "build", "book", "browser", "book_folder", "small_book"}


def pytest_collection_modifyitems(items):
    for item in items:
        if SLOW & set(item.fixturenames):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory, worker_id):
    """A folder for what is made once for all the processes that run the tests."""
    folder = tmp_path_factory.getbasetemp()
    return folder if worker_id == "master" else folder.parent


@pytest.fixture(scope="session")
def executions(pytestconfig):
    """Every notebook of the book, executed: by stem, e.g. ``executions["index"].values["mu"]``."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def report(line):
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    folder = cache_folder(ROOT / "_build" / ".execution", ROOT / "requirements.txt")
    executions = execute_all(NOTEBOOKS, folder, report=report)
    return {path.stem: execution for path, execution in executions.items()}


@pytest.fixture(scope="session")
def build(executions, shared_folder):
    """The finished process of building the book; the notebooks come from the cache."""
    result = shared_folder / "build.json"
    with FileLock(shared_folder / "build.lock"):
        if not result.exists():
            # Anew: Sphinx doesn't repeat the warnings of pages it has read before.
            build = build_book(ROOT, "--all")
            result.write_text(json.dumps([build.returncode, build.stdout]), encoding="utf8")
    returncode, stdout = json.loads(result.read_text(encoding="utf8"))
    return CompletedProcess("jupyter-book build", returncode, stdout)


@pytest.fixture(scope="session")
def book(build):
    """The folder of the built HTML."""
    if build.returncode:
        pytest.fail(f"the book doesn't build:\n{build.stdout[-5000:]}", pytrace=False)
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Opens a file in a fresh browser: ``visit(path, width=360, color_scheme="dark")``.

    There is no network: requests to other hosts are refused and recorded.
    """
    contexts = []

    def open_file(path, *args, **options):
        visit = open_page(browser, Path(path).as_uri(), *args, **options)
        contexts.append(visit.page.context)
        return visit

    yield open_file
    for context in contexts:
        context.close()

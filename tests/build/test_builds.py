"""Small books built twice, by Sphinx alone, two at once, and after a build that was killed."""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from helpers import build_book, write_notebook, write_small_book
from normbook.build.execute import hold

pytestmark = pytest.mark.slow

PATIENCE = 300  # s, for a slow machine


@pytest.fixture
def small_book(tmp_path):
    return write_small_book(tmp_path)


def start_build(source, **options):
    script = Path(sys.executable).with_name("jupyter-book")
    return subprocess.Popen(
        [script, "build", source, "-W", "-n", "--keep-going"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf8",
        **options,
    )


def built_files(book, folder="_build"):
    html = book / folder / "html"
    files = [path for path in html.rglob("*") if path.is_file()]
    return {path.relative_to(html).as_posix(): path.read_bytes() for path in files}


def kill_when(condition, build):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert build.poll() is None, build.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    build.kill()
    build.communicate()


def test_the_build_after_a_killed_one_gives_the_same_book(small_book):
    html = small_book / "_build" / "html"
    started, go = (small_book / "chapters" / name for name in ("started", "go"))
    write_notebook(
        small_book / "chapters" / "second.ipynb",
        "import time\nfrom pathlib import Path\nPath('started').touch()\n"
        "while not Path('go').exists(): time.sleep(0.01)\nprint('two')",
    )
    kill_when(started.exists, start_build(small_book))  # while a notebook runs
    go.touch()
    build = build_book(small_book)
    assert build.returncode == 0, build.stdout
    whole = built_files(small_book)

    page = html / "chapters" / "first.html"
    page.unlink()
    kill_when(page.exists, start_build(small_book))  # while pages are written
    page.write_text("half a pa")
    assert build_book(small_book, "--all").returncode == 0  # as `make book`
    assert built_files(small_book) == whole


def test_sphinx_alone_builds_the_same_pages(small_book):
    """Jupyter Book only writes the configuration: the book can do without it."""
    write_notebook(small_book / "chapters" / "first.ipynb", DRAW, "SharedStatistics(x)")
    build = build_book(small_book)
    assert build.returncode == 0, build.stdout
    run = partial(subprocess.run, check=True, cwd=small_book, stdout=subprocess.DEVNULL)
    bin = Path(sys.executable).parent
    run([bin / "jupyter-book", "config", "sphinx", "."])
    (small_book / "_build").rename(small_book / "_jupyter_book")
    options = "-W -n --keep-going -b html -d _build/.doctrees . _build/html".split()
    run([bin / "sphinx-build", *options])
    alone = built_files(small_book)
    built = built_files(small_book, "_jupyter_book")
    assert alone.keys() == built.keys()
    differ = {name for name in built if built[name] != alone[name]}
    assert differ <= {".buildinfo"}  # Sphinx's own note of the settings


DRAW = """
import matplotlib.pyplot as plt
import numpy as np
from normbook.core.scheme import LAYER_NORM_CHW
from normbook.widgets import SharedStatistics
x = np.arange(12.0).reshape(1, 3, 2, 2)
plt.plot([1, 2]);
"""


def test_two_books_from_the_same_sources_are_the_same(tmp_path):
    books = [tmp_path / "book", tmp_path / "elsewhere" / "the same book"]
    for book in books:
        book.mkdir(parents=True)
        write_small_book(book)
        write_notebook(
            book / "chapters" / "first.ipynb", DRAW, *2 * ["SharedStatistics(x, LAYER_NORM_CHW)"]
        )
        build = build_book(book)
        assert build.returncode == 0, build.stdout
    first, second = map(built_files, books)
    assert b"SharedStatistics" in first["chapters/first.html"]
    # Sphinx's own note of the settings, where folders have absolute paths.
    assert first.pop(".buildinfo") and second.pop(".buildinfo")
    assert {name for name in first.keys() | second if first.get(name) != second.get(name)} == set()


def test_two_builds_at_once(small_book):
    builds = [start_build(small_book) for _ in range(2)]
    logs = [build.communicate(timeout=2 * PATIENCE)[0] for build in builds]
    assert [build.returncode for build in builds] == [0, 0], logs
    assert sorted("waiting for another build" in log for log in logs) == [False, True]
    assert sorted("executing 2 of 2 notebooks" in log for log in logs) == [False, True]


def test_the_folder_is_held_for_one_process(tmp_path):
    script = (
        "import sys; from normbook.build.execute import hold\n"
        "with hold(sys.argv[1], lambda line: print(line, flush=True)): print('mine')"
    )
    with hold(tmp_path, pytest.fail), hold(tmp_path, pytest.fail):
        other = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert "waiting" in other.stdout.readline()
    assert other.communicate(timeout=PATIENCE)[0] == "mine\n"

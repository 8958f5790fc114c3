"""Small books whose builds are disturbed: killed, two at once, nowhere to write to."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sphinx.errors import ExtensionError

from helpers import build_book, write_notebook, write_small_book
from normbook.build.sphinxext.integrity import MARK, hold

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


def built_files(book):
    html = book / "_build" / "html"
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
    assert (html / MARK).exists()
    go.touch()
    build = build_book(small_book)
    assert build.returncode == 0, build.stdout
    assert "starts over" in build.stdout
    whole = built_files(small_book)
    assert MARK not in whole

    page = html / "chapters" / "first.html"
    page.unlink()
    kill_when(page.exists, start_build(small_book))  # while pages are written
    page.write_text("half a pa")
    assert build_book(small_book).returncode == 0
    assert built_files(small_book) == whole


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
        "import sys; from normbook.build.sphinxext.integrity import hold\n"
        "with hold(sys.argv[1], lambda line: print(line, flush=True)): print('mine')"
    )
    with hold(tmp_path, pytest.fail), hold(tmp_path, pytest.fail):
        other = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert "waiting" in other.stdout.readline()
    assert other.communicate(timeout=PATIENCE)[0] == "mine\n"


def test_nowhere_to_write_to(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ExtensionError, match=r"file.build can't be written to: Not a directory"):
        hold(file / "build", print)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of the size of files")
def test_no_half_page_is_left(small_book):
    """A limit of the size of files does to a large page what a full disk does to any."""
    import resource

    limit = 3_500_000
    first = small_book / "chapters" / "first.ipynb"
    write_notebook(first, "print('<' * 1_000_000)")  # four times as much in HTML
    build = start_build(
        small_book,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    log, _ = build.communicate(timeout=PATIENCE)
    assert build.returncode != 0
    assert "File too large" in log
    assert "first.html could not be written whole" in log
    assert not (small_book / "_build/html/chapters/first.html").exists()

    assert "starts over" in build_book(small_book).stdout
    page = (small_book / "_build/html/chapters/first.html").read_text("utf8")
    assert page.rstrip().endswith("</html>")

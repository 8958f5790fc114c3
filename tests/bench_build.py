"""How long the book takes to build, against Jupyter Book's own serial execution.

Both builds are cold and run right after each other on copies of the book,
so that their ratio means something; the seconds depend on the machine.
"""

import shutil
import tempfile
import time
from pathlib import Path

import nbformat

from bench import Row, show
from helpers import NOTEBOOKS, ROOT, build_book

IGNORED = shutil.ignore_patterns(".*", "_build", "__pycache__")


def timed_build(source, *options):
    """The seconds that building the book in ``source`` takes. Raises when it fails."""
    start = time.perf_counter()
    build = build_book(source, *options)
    seconds = time.perf_counter() - start
    if build.returncode:
        raise RuntimeError(build.stdout)
    return seconds


def copy_book(folder, execution="cache"):
    shutil.copytree(ROOT, folder, ignore=IGNORED)
    config = folder / "_config.yml"
    text = config.read_text("utf8")
    config.write_text(text.replace("execute_notebooks: cache", f"execute_notebooks: {execution}"))
    return folder


def edit_code(path):
    notebook = nbformat.read(path, nbformat.NO_CONVERT)
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    cell.source += "\n# edited"
    nbformat.write(notebook, path)


def rows():
    what = f"build of {len(NOTEBOOKS)} notebooks"
    with tempfile.TemporaryDirectory() as folder:
        ahead = copy_book(Path(folder, "ahead"))
        serial = copy_book(Path(folder, "serial"), "force")
        ahead_seconds = timed_build(ahead)
        yield Row(what, ahead_seconds, "s", timed_build(serial), "serial jupyter-book")
        edit_code(ahead / NOTEBOOKS[-1].relative_to(ROOT))
        yield Row(f"{what}, after an edit of one", timed_build(ahead), "s")


if __name__ == "__main__":
    show(rows())

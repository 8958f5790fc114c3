"""Runs code in a process of its own, after something was broken on purpose.

A server forks the process, which has imported what takes long: so it starts in a fraction of the
time that a Jupyter kernel takes. This module imports nothing that the process could do without.
"""

import contextlib
import io
import linecache
import multiprocessing
import os
import traceback
from dataclasses import dataclass
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

METHODS = multiprocessing.get_all_start_methods()
CONTEXT = multiprocessing.get_context("forkserver" if "forkserver" in METHODS else "spawn")
PRELOAD = ["anywidget", "matplotlib.pyplot", "normbook.layers", "IPython.core.interactiveshell"]
SETUP = "<setup>"


@dataclass(frozen=True)
class Failure:
    """The error that a cell ended with; ``own`` tells that the setup itself raised it."""

    cell: str
    kind: str
    message: str
    own: bool


def run(path: Path, sources: dict[str, str], setup: str, timeout: float) -> Failure | None:
    """Run cells, by their ids, in the folder of the notebook ``path`` up to one that fails.

    ``setup`` runs first, with names of its own.
    """
    CONTEXT.set_forkserver_preload(PRELOAD)
    with CONTEXT.Pool(1) as pool:
        return pool.apply_async(_run, (path.parent, sources, setup)).get(timeout)


def _run(folder, sources, setup):
    os.chdir(folder)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        linecache.cache[SETUP] = len(setup), None, setup.splitlines(True), SETUP  # for show_source
        exec(compile(setup, SETUP, "exec"), {})
        shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
        for cell, source in sources.items():
            result = shell.run_cell(source, store_history=False)
            error = result.error_before_exec or result.error_in_exec
            if error:
                frames = traceback.extract_tb(error.__traceback__)
                own = any(frame.filename == SETUP for frame in frames)
                return Failure(cell, type(error).__name__, str(error), own)
    return None

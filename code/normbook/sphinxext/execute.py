"""Runs notebooks: once each, several at a time, before Sphinx reads them.

``jupyter-book build`` alone runs notebooks one after the other and waits seconds for each kernel
to shut down, and its cache doesn't notice edits of the package that notebooks import. Here
kernels run side by side and are stopped at once, and the cache lies in a folder named after the
package's files and the installed versions. Tests call the same functions and read the values of
variables out of the run.
"""

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbformat.v4 import new_code_cell
from packaging.requirements import InvalidRequirement, Requirement
from sphinx.util import logging

import normbook

logger = logging.getLogger(__name__)

TIMEOUT = 120  # seconds a cell may take
JOBS = min(os.cpu_count() or 2, 4)  # kernels at a time; each holds some hundred MB
PROBE = "from normbook.sphinxext.values import show_values; show_values(globals())"
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Execution:
    """One run of a notebook.

    ``values`` holds the plain values of its variables after the last cell (see ``values.py``).
    ``error`` names the failing cell and gives its traceback, or is None. ``cached`` tells that
    the run took place earlier.
    """

    path: Path
    notebook: nbformat.NotebookNode
    seconds: float
    values: dict = field(default_factory=dict)
    error: str | None = None
    cached: bool = False


def execute_notebook(path, *, setup: str | None = None, timeout: int = TIMEOUT) -> Execution:
    """Run the notebook at ``path`` in a kernel of this Python, in the notebook's folder.

    ``setup`` is Python code to run before the first cell; it is not stored in the notebook. The
    file and the cache are neither read for outputs nor written. ``timeout`` is the number of
    seconds a cell may take.
    """
    return _in_own_thread(_execute(Path(path), setup, timeout))


def execute_all(
    paths: Iterable,
    cache_dir,
    *,
    jobs: int = JOBS,
    timeout: int = TIMEOUT,
    report: Callable[[str], object] = print,
) -> dict[Path, Execution]:
    """Run those of the notebooks that ``cache_dir`` doesn't hold yet, ``jobs`` at a time.

    What succeeds is stored there. ``report`` gets a line for each notebook as it ends. Returns
    the runs by path, in the order of ``paths``.
    """
    paths = [Path(path) for path in paths]
    cache = get_cache(str(cache_dir))
    executions = {path: _from_cache(path, cache) for path in paths}
    todo = [path for path, execution in executions.items() if execution is None]
    if not todo:
        return executions
    report(f"executing {len(todo)} of {len(paths)} notebooks, {min(jobs, len(todo))} at a time")

    async def execute_todo():
        kernels = asyncio.Semaphore(jobs)
        done = 0

        async def one(path):
            nonlocal done
            async with kernels:
                execution = await _execute(path, None, timeout)
            executions[path] = execution
            done += 1
            result = "FAILED" if execution.error else "ok"
            report(f"[{done}/{len(todo)}] {path.name} {result}, {execution.seconds:.1f} s")
            if execution.error is None:
                _to_cache(execution, cache)

        # The longest first, so that none is left to run alone at the end.
        await asyncio.gather(*map(one, sorted(todo, key=_size, reverse=True)))

    _in_own_thread(execute_todo())
    return executions


def _size(path):
    return path.stat().st_size


def cache_key(requirements, package=Path(normbook.__file__).parent) -> str:
    """A name that changes with whatever can change a result besides the notebook itself.

    That is the Python version, the installed versions of the packages that the file
    ``requirements`` names, and every file of the folder ``package`` but the widgets' front ends,
    which run in the browser and are taken from disk when a page is written.
    """
    parts = [sys.version]
    for line in Path(requirements).read_text(encoding="utf8").splitlines():
        try:
            name = Requirement(line.split("#")[0].strip()).name
            parts.append(f"{name}=={version(name)}")
        except (InvalidRequirement, PackageNotFoundError):
            parts.append(line)
    for file in sorted(file for file in Path(package).rglob("*") if file.is_file()):
        if "__pycache__" in file.parts or file.suffix in (".js", ".css"):
            continue
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        parts.append(f"{file.relative_to(package).as_posix()} {content}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def cache_folder(base, requirements) -> Path:
    """The cache for the present state of the package: a folder in ``base``.

    Folders of earlier states are removed.
    """
    folder = Path(base, cache_key(requirements))
    for other in Path(base).glob("[0-9a-f]" * 16):
        if other != folder:
            shutil.rmtree(other)
    return folder


def toc_notebooks(docnames, source) -> list[Path]:
    """Those of the documents ``docnames`` (as in the table of contents) that are notebooks."""
    files = (Path(source, f"{docname.removesuffix('.ipynb')}.ipynb") for docname in docnames)
    return [file for file in files if file.is_file()]


class _InThisPython(AsyncKernelManager):
    """Starts the kernel of the running Python, whatever kernels the user has registered."""

    def _kernel_spec_manager_default(self):
        return KernelSpecManager(kernel_dirs=[])


def _read(path):
    try:
        return nbformat.read(path, nbformat.NO_CONVERT)
    except nbformat.reader.NotJSONError as error:
        raise ValueError(f"{path} is no notebook: {error}") from error


async def _execute(path, setup, timeout):
    notebook = _read(path)
    cell_count = len(notebook.cells)
    place = "before the first cell"

    def note_place(cell, cell_index):
        nonlocal place
        if cell_index < cell_count:
            place = f"in cell {cell_index + 1} ({cell.get('id', 'no id')})"

    client = NotebookClient(
        notebook,
        km=_InThisPython(kernel_name="python3"),
        timeout=timeout,
        force_raise_errors=True,
        coalesce_streams=True,  # several prints in one box, however the kernel sends them
        record_timing=False,  # it would alter the cells' metadata, which the cache goes by
        shutdown_kernel="immediate",
        on_cell_execute=note_place,
        extra_arguments=["--log-level=ERROR"],  # kernels warn that they talk over plain TCP
    )

    async def run_hidden(code):
        cell = new_code_cell(code)
        notebook.cells.append(cell)
        await client.async_execute_cell(cell, cell_count, store_history=False)
        return notebook.cells.pop()

    env = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    start = time.perf_counter()
    error = None
    try:
        async with client.async_setup_kernel(cleanup_kc=True, cwd=str(path.parent), env=env):
            if setup is not None:
                await run_hidden(setup)
            await client.async_execute()
            probe = await run_hidden(PROBE)
    except (CellControlSignal, DeadKernelError) as problem:
        traceback = TERMINAL_CODES.sub("", str(problem)).strip()
        error = f"{path.name} failed {place}:\n{traceback}"
    seconds = time.perf_counter() - start
    values = {} if error else json.loads(probe.outputs[0].data["text/plain"])
    return Execution(path, notebook, seconds, values, error)


def _from_cache(path, cache):
    """The stored run of the notebook at ``path``, or None."""
    notebook = _read(path)
    try:
        data = cache.match_cache_notebook(notebook).data
    except KeyError:
        return None
    if "values" not in data:  # stored by myst-nb, which doesn't probe
        return None
    _, notebook = cache.merge_match_into_notebook(notebook)
    return Execution(path, notebook, data["execution_seconds"], data["values"], cached=True)


def _to_cache(execution, cache):
    data = {"execution_seconds": execution.seconds, "values": execution.values}
    bundle = CacheBundleIn(execution.notebook, str(execution.path), data=data)
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def _in_own_thread(coroutine):
    """Run ``coroutine`` to its end, also for callers inside an event loop of their own.

    An interrupt cancels it, so that its kernels are stopped.
    """
    loop = asyncio.SelectorEventLoop()  # Windows' default can't watch the kernels' sockets

    def run():
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(coroutine)

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(run)
        try:
            return future.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
            raise


def execute_ahead(app, config):
    """Run the notebooks of the book before Sphinx reads them, and hand myst-nb the cache."""
    app.executions = {}  # by path, for whoever shows them
    if config.nb_execution_mode != "cache":
        return
    base = Path(app.srcdir, config.nb_execution_cache_path or Path(app.outdir, "../.execution"))
    folder = cache_folder(base.resolve(), Path(app.srcdir, "requirements.txt"))
    # myst-nb reads the pages anew when this changes.
    config.nb_execution_cache_path = str(folder)
    site_map = getattr(config, "external_site_map", None)
    if site_map is None:  # a single page is built; myst-nb runs it
        return
    app.executions = execute_all(
        toc_notebooks(site_map, app.srcdir),
        folder,
        timeout=config.nb_execution_timeout,
        report=logger.info,
    )
    for execution in app.executions.values():
        if execution.error:
            # Not in the cache, so myst-nb runs it again and shows the failure in the page.
            logger.warning(execution.error, type="normbook", subtype="execute")


def setup(app):
    # After sphinx-external-toc has read the table of contents, at 900.
    app.connect("config-inited", execute_ahead, priority=950)

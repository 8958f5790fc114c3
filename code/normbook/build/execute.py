"""Runs notebooks: once each, several at a time, for the book and for its tests.

``jupyter-book build`` alone runs notebooks one after the other and waits seconds for each kernel
to shut down, and its cache doesn't notice edits of the package that notebooks import. Here
kernels run side by side and are stopped at once, and the cache lies in a folder named after the
package's files and the installed versions. Tests read the values of variables out of the run.
"""

import asyncio
import atexit
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nbformat
from filelock import FileLock, Timeout
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbformat.v4 import new_code_cell, new_output
from packaging.requirements import InvalidRequirement, Requirement

import normbook

TIMEOUT = 120  # seconds a cell may take
JOBS = min(os.cpu_count() or 2, 4)  # kernels at a time; each holds some hundred MB
THREADS = (os.cpu_count() or 2) // JOBS  # of a kernel; more would only wait for each other
PROBE = "from normbook.build.notebook_values import show_values; show_values(globals())"
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Execution:
    """One run of a notebook.

    ``values`` holds the plain values of its variables after the last cell (`notebook_values`).
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
    return _run(_execute(Path(path), setup, timeout))


def execute_all(
    paths: Iterable,
    cache_dir,
    *,
    jobs: int = JOBS,
    timeout: int = TIMEOUT,
    report: Callable[[str], object] = print,
) -> dict[Path, Execution]:
    """Run those of the notebooks that ``cache_dir`` doesn't hold yet, ``jobs`` at a time.

    All runs are stored there, but one that failed takes place anew the next time. ``report`` gets
    a line for each notebook as it ends. Returns the runs by path, in the order of ``paths``.
    Others who use the folder that ``cache_dir`` lies in wait meanwhile.
    """
    paths, kernels = [Path(path) for path in paths], asyncio.Semaphore(jobs)
    with hold(Path(cache_dir).parent, report):
        cache = get_cache(str(cache_dir))
        executions = {path: _from_cache(path, cache) for path in paths}
        todo = [path for path, execution in executions.items() if execution is None]
        # The longest first, so that none is left to run alone at the end.
        todo.sort(key=lambda path: path.stat().st_size, reverse=True)
        if todo:
            report(f"executing {len(todo)} of {len(paths)} notebooks, {jobs} at a time at most")

        async def execute_one(path):
            async with kernels:
                execution = executions[path] = await _execute(path, None, timeout)
            done = sum(executions[path] is not None for path in todo)
            result = "FAILED" if execution.error else "ok"
            report(f"[{done}/{len(todo)}] {path.name} {result}, {execution.seconds:.1f} s")
            _to_cache(execution, cache)

        async def execute_todo():
            await asyncio.gather(*map(execute_one, todo))

        _run(execute_todo())
    return executions


def hold(folder, report: Callable[[str], object]):
    """Have ``folder`` for this process alone; ``report`` gets a line if there is a wait for it.

    The result is a context manager, at whose end the folder is free for others again. Without,
    that is when the process ends, however it does. A process that has the folder may ask again.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    lock = FileLock(Path(folder, ".lock"), is_singleton=True)
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        report(f"waiting for another build to end: it holds {lock.lock_file}")
        return lock.acquire()


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
        if "__pycache__" not in file.parts and file.suffix not in (".js", ".css"):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            parts.append(f"{file.relative_to(package).as_posix()} {content}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def cache_folder(base, requirements) -> Path:
    """The cache for the present state of the package: a folder in ``base``.

    Folders of earlier states are removed, after the end of a build that uses them.
    """
    folder = Path(base, cache_key(requirements))
    with hold(base, print):
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

    async def cleanup_resources(self, restart=False):
        # A kernel that died by itself may have left processes behind.
        if self.has_kernel and hasattr(signal, "SIGKILL"):
            await self.provisioner.send_signal(signal.SIGKILL)
        await super().cleanup_resources(restart)


def _read(path):
    try:
        return nbformat.read(path, nbformat.NO_CONVERT)
    except nbformat.reader.NotJSONError as error:
        raise ValueError(f"{path} is no notebook: {error}") from error


async def _execute(path, setup, timeout):
    notebook = _read(path)
    cell_count = len(notebook.cells)
    place = "before the first cell"
    running = next((cell for cell in notebook.cells if cell.cell_type == "code"), None)

    def note_place(cell, cell_index):
        nonlocal place, running
        if cell_index < cell_count:
            place = f"in cell {cell_index + 1} ({cell.get('id', 'no id')})"
            running = cell

    client = NotebookClient(
        notebook,
        km=_InThisPython(kernel_name="python3"),
        timeout=timeout,
        force_raise_errors=True,
        record_timing=False,  # it would alter the cells' metadata, which the cache goes by
        coalesce_streams=True,
        shutdown_kernel="immediate",
        on_cell_execute=note_place,
        extra_arguments=["--log-level=ERROR"],  # kernels warn that they talk over plain TCP
    )

    async def run_hidden(code):
        notebook.cells.append(new_code_cell(code))
        await client.async_execute_cell(notebook.cells[-1], cell_count, store_history=False)
        return notebook.cells.pop().outputs

    env = {
        "OMP_NUM_THREADS": str(THREADS),
        **os.environ,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    start = time.perf_counter()
    error, values = None, {}
    try:
        async with client.async_setup_kernel(cleanup_kc=True, cwd=str(path.parent), env=env):
            if setup is not None:
                await run_hidden(setup)
            await client.async_execute()
            # Threads of the notebook may print something besides.
            shown = [o for o in await run_hidden(PROBE) if o.output_type == "display_data"]
            values = json.loads(shown[0].data["text/plain"])
    # A kernel that doesn't start is a RuntimeError.
    except (CellControlSignal, DeadKernelError, RuntimeError) as problem:
        error = f"{path.name} failed {place}:\n{TERMINAL_CODES.sub('', str(problem)).strip()}"
        del notebook.cells[cell_count:]  # what ran hidden
        # On its page, an error stands even if the kernel could not tell it.
        if running and not any(output.output_type == "error" for output in running.outputs):
            evalue = error.splitlines()[0]
            running.outputs.append(new_output("error", ename="", evalue=evalue, traceback=[error]))
    atexit.unregister(client._cleanup_kernel)  # nbclient forgets to if no kernel started
    notebook = _number_widgets(notebook, client.widget_state)
    return Execution(path, notebook, time.perf_counter() - start, values, error)


def _number_widgets(notebook, models):
    """The same with ids of widgets that don't change from run to run: they are numbered."""
    numbers = {model_id: f"{number:032x}" for number, model_id in enumerate(models, 1)}
    text = nbformat.writes(notebook, nbformat.NO_CONVERT)
    text = re.sub(r"[0-9a-f]{32}", lambda found: numbers.get(found[0], found[0]), text)
    return nbformat.reads(text, nbformat.NO_CONVERT)


def _from_cache(path, cache):
    """The stored run of the notebook at ``path``, or None if there is none that succeeded."""
    notebook = _read(path)
    try:
        data = cache.match_cache_notebook(notebook).data
        if "values" not in data or data["error"]:  # myst-nb stores no values
            return None
        _, notebook = cache.merge_match_into_notebook(notebook)
    # No such run, or one whose files are damaged: its build was killed.
    except (KeyError, OSError, nbformat.reader.NotJSONError):
        return None
    return Execution(path, notebook, data["execution_seconds"], data["values"], cached=True)


def _to_cache(execution, cache):
    data = {
        "execution_seconds": execution.seconds,
        "values": execution.values,
        "error": execution.error,
    }
    bundle = CacheBundleIn(execution.notebook, str(execution.path), data=data)
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def _run(coroutine):
    """Run ``coroutine`` to its end, also for callers inside an event loop, as Playwright's are."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()

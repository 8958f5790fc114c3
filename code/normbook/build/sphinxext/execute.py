"""Runs notebooks: once each, several at a time, before Sphinx reads them.

``jupyter-book build`` alone runs notebooks one after the other and waits seconds for each kernel
to shut down, and its cache doesn't notice edits of the package that notebooks import. Here
kernels run side by side and are stopped at once, and the cache lies in a folder named after the
package's files and the installed versions. Tests call the same functions and read the values of
variables out of the run.
"""

import asyncio
import atexit
import contextlib
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
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbformat.v4 import new_code_cell, new_output
from packaging.requirements import InvalidRequirement, Requirement
from sphinx.util import logging

import normbook
from normbook.build.sphinxext.integrity import execution_folder, hold

logger = logging.getLogger(__name__)

TIMEOUT = 120  # seconds a cell may take
OUTPUT_LIMIT = 10**7  # characters that a notebook may output, widgets and pictures included
JOBS = min(os.cpu_count() or 2, 4)  # kernels at a time; each holds some hundred MB
THREADS = (os.cpu_count() or 2) // JOBS  # of a kernel; more would only wait for each other
PROBE = "from normbook.build.sphinxext.notebook_values import show_values; show_values(globals())"
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")
OVERWRITTEN = re.compile(r"^.*\r(?!\n)", re.MULTILINE)  # by a progress bar, for example


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

    All runs are stored there, but one that failed takes place anew the next time. ``report`` gets
    a line for each notebook as it ends. Returns the runs by path, in the order of ``paths``.
    Others who use the folder that ``cache_dir`` lies in wait meanwhile.
    """
    with hold(Path(cache_dir).parent, report):
        return _execute_all([Path(path) for path in paths], Path(cache_dir), jobs, timeout, report)


def _execute_all(paths, cache_dir, jobs, timeout, report):
    with _changing(cache_dir):
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
            with _changing(cache_dir):
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


class _Client(NotebookClient):
    """Stops a notebook that outputs too much."""

    output_size = 0

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] != "status":
            self.output_size += len(repr(msg["content"]))
            self.output_size += sum(len(buffer) for buffer in msg["buffers"])
        if self.output_size <= OUTPUT_LIMIT:
            return super().process_message(msg, cell, cell_index)
        self.task_poll_for_reply.cancel()
        return None


def _read(path):
    try:
        return nbformat.read(path, nbformat.NO_CONVERT)
    except nbformat.reader.NotJSONError as error:
        raise ValueError(f"{path} is no notebook: {error}") from error


async def _execute(path, setup, timeout):
    notebook = _read(path)
    cell_count = len(notebook.cells)
    place = "before the first cell"
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    running = next(iter(code_cells), None)

    def note_place(cell, cell_index):
        nonlocal place, running
        if cell_index < cell_count:
            place = f"in cell {cell_index + 1} ({cell.get('id', 'no id')})"
            running = cell

    client = _Client(
        notebook,
        km=_InThisPython(kernel_name="python3"),
        timeout=timeout,
        force_raise_errors=True,
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

    env = {
        "OMP_NUM_THREADS": str(THREADS),
        **os.environ,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    start = time.perf_counter()
    error = None
    try:
        async with client.async_setup_kernel(cleanup_kc=True, cwd=str(path.parent), env=env):
            if setup is not None:
                await run_hidden(setup)
            await client.async_execute()
            probe = await run_hidden(PROBE)
    # A kernel that doesn't start is a RuntimeError.
    except (CellControlSignal, DeadKernelError, RuntimeError) as problem:
        traceback = TERMINAL_CODES.sub("", str(problem)).strip()
        if client.output_size > OUTPUT_LIMIT:
            traceback = f"The notebook outputs more than {OUTPUT_LIMIT:,} characters."
        error = f"{path.name} failed {place}:\n{traceback}"
        del notebook.cells[cell_count:]  # what ran hidden
        if running:
            _show_error(running, error)
    atexit.unregister(client._cleanup_kernel)  # nbclient forgets to if no kernel started
    seconds = time.perf_counter() - start
    for cell in code_cells:
        cell.outputs = _merge_streams(cell.outputs)
    notebook = _number_widgets(notebook, client.widget_state)
    values = {} if error else _shown_values(probe.outputs)
    return Execution(path, notebook, seconds, values, error)


def _show_error(cell, error):
    """Let the outputs of ``cell`` end with the error, as they do if the kernel could tell it."""
    if not any(output.output_type == "error" for output in cell.outputs):
        name, _, _ = error.partition("\n")
        cell.outputs.append(new_output("error", ename="", evalue=name, traceback=[error]))


def _number_widgets(notebook, models):
    """The same with ids of widgets that don't change from run to run: they are numbered."""
    numbers = {model_id: f"{number:032x}" for number, model_id in enumerate(models, 1)}
    text = nbformat.writes(notebook, nbformat.NO_CONVERT)
    text = re.sub(r"[0-9a-f]{32}", lambda found: numbers.get(found[0], found[0]), text)
    return nbformat.reads(text, nbformat.NO_CONVERT)


def _shown_values(outputs):
    # Threads of the notebook may have printed something besides.
    (shown,) = [output for output in outputs if output.output_type == "display_data"]
    return json.loads(shown.data["text/plain"])


def _merge_streams(outputs):
    """What was printed as one output, however the kernel sent it; what went to stderr as another.

    nbclient could do so, but the time it takes grows with the square of a line's length.
    """
    merged, texts = [], {}
    for output in outputs:
        if output.output_type != "stream":
            merged.append(output)
        elif output.name in texts:
            texts[output.name].append(output.text)
        else:
            merged.append(output)
            texts[output.name] = [output.text]
    for output in merged:
        if output.output_type == "stream":
            output.text = OVERWRITTEN.sub("", "".join(texts[output.name]))
    return merged


def _from_cache(path, cache):
    """The stored run of the notebook at ``path``, or None if there is none that succeeded."""
    notebook = _read(path)
    try:
        data = cache.match_cache_notebook(notebook).data
    except KeyError:
        return None
    if "values" not in data or data["error"]:  # myst-nb stores no values
        return None
    _, notebook = cache.merge_match_into_notebook(notebook)
    return Execution(path, notebook, data["execution_seconds"], data["values"], cached=True)


def _to_cache(execution, cache):
    data = {
        "execution_seconds": execution.seconds,
        "values": execution.values,
        "error": execution.error,
    }
    bundle = CacheBundleIn(execution.notebook, str(execution.path), data=data)
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


@contextlib.contextmanager
def _changing(cache_dir):
    """Do what is to be done to the cache, for which a half-done change would be the end."""
    mark = cache_dir / "changing"
    if mark.exists():
        shutil.rmtree(cache_dir)
    cache_dir.mkdir(parents=True, exist_ok=True)
    mark.touch()
    yield
    mark.unlink()


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
    base = execution_folder(app, config).resolve()
    folder = cache_folder(base, Path(app.srcdir, "requirements.txt"))
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
            logger.warning(execution.error, type="normbook", subtype="execute")


def setup(app):
    # After sphinx-external-toc has read the table of contents, at 900.
    app.connect("config-inited", execute_ahead, priority=950)

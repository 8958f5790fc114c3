"""A built book is whole, or says that it isn't.

Builds in one folder take turns, one that was broken off is started over by the next, and a page
that could be written by half only, since the disk is full, is removed.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import AcquireReturnProxy, FileLock, Timeout
from sphinx.errors import ExtensionError
from sphinx.util import logging

logger = logging.getLogger(__name__)

MARK = ".unfinished"  # lies in the output while it is being written, and after a failure


def hold(folder, report: Callable[[str], object]) -> AcquireReturnProxy:
    """Have ``folder`` for this process alone; ``report`` gets a line if there is a wait for it.

    The result is a context manager, at whose end the folder is free for others again. Without,
    that is when the process ends, however it does. A process that has the folder may ask again.

    Raises
    ------
    ExtensionError
        nothing can be written there.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        lock = FileLock(Path(folder, ".lock"), is_singleton=True)
        try:
            return lock.acquire(timeout=0)
        except Timeout:
            report(f"waiting for another build to end: it holds {lock.lock_file}")
            return lock.acquire()
    except OSError as error:
        raise ExtensionError(f"{folder} can't be written to: {error.strerror}") from error


def execution_folder(app, config) -> Path:
    """Where the runs of the notebooks are kept."""
    return Path(app.srcdir, config.nb_execution_cache_path or Path(app.outdir, "../.execution"))


def begin(app, config):
    # Until the process ends: what is written after `build-finished` is of this build, too.
    app.hold = hold(execution_folder(app, config).resolve(), logger.info)
    mark = Path(app.outdir, MARK)
    if mark.exists():
        logger.info("the last build was broken off or failed, so this one starts over")
        for folder in (app.outdir, app.doctreedir):
            shutil.rmtree(folder)
            folder.mkdir()
    mark.touch()


def end(app, exception):
    if isinstance(exception, OSError):
        logger.error("the book is not whole: %s", exception)
    pages = (Path(app.builder.get_outfilename(name)) for name in app.env.found_docs)
    for page in pages if app.builder.format == "html" else ():
        if page.is_file() and not _is_whole(page):
            page.unlink()
            logger.warning("%s could not be written whole, so it was removed", page)
    if exception is None and not app._warncount:
        Path(app.outdir, MARK).unlink()


def _is_whole(page):
    with page.open("rb") as file:
        file.seek(-min(100, page.stat().st_size), os.SEEK_END)
        return file.read().rstrip().endswith(b"</html>")


def setup(app):
    app.connect("config-inited", begin, priority=0)  # before anything is written
    app.connect("build-finished", end, priority=1000)  # after all that write

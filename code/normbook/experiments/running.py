"""Run what is missing of some experiments, several processes at a time, and record it."""

import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process

from tqdm import tqdm

from normbook.records import Experiment


def run_all(experiments: Sequence[Experiment], jobs: int) -> int:
    """Run the configurations that have no record of the present code; returns how many failed.

    Every result is recorded as it comes. It can be stopped at any time, even killed: the next call
    goes on where this one was.
    """
    todo = [(experiment, config) for experiment in experiments for config in experiment.pending()]
    if not todo:
        return 0
    failed = 0
    context = get_context("spawn")  # torch doesn't survive a fork
    executor = ProcessPoolExecutor(min(jobs, len(todo)), context, initializer=_follow_parent)
    try:
        runs = {executor.submit(_timed, *task): task for task in todo}
        for run in tqdm(as_completed(runs), total=len(runs), unit="run"):
            experiment, config = runs[run]
            if run.exception():
                failed += 1
                tqdm.write(f"{experiment.name} {config} failed: {run.exception()!r}", sys.stderr)
            else:
                experiment.add(config, *run.result())
    finally:
        executor.shutdown(cancel_futures=True)
    return failed


def _timed(experiment, config):
    """The rows of one configuration, and the CPU seconds that it took."""
    start = time.process_time()
    rows = experiment.run(config)
    return rows, time.process_time() - start


def _follow_parent():
    """End this process when its parent does, even if that is killed."""

    def wait():
        parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()

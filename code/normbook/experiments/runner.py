"""Run what is missing of some experiments, several processes at a time, and record it."""

import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process

from tqdm import tqdm

from normbook.experiments.records import Experiment


def run_all(experiments: Sequence[Experiment], jobs: int) -> int:
    """Run the configurations that have no record of the present code; returns how many failed.

    Every result is recorded as it comes. It can be stopped at any time, even killed: the next call
    goes on where this one was.
    """
    todo = [(experiment, config) for experiment in experiments for config in experiment.pending()]
    failed = 0
    for (experiment, config), run in _in_parallel(_timed, todo, jobs):
        if run.exception():
            failed += 1
            tqdm.write(f"{experiment.name} {config} failed: {run.exception()!r}", sys.stderr)
        else:
            experiment.add(config, *run.result())
    return failed


def verify_all(experiments: Sequence[Experiment], jobs: int) -> int:
    """Run a sample again, one configuration of each arm; stamp the records that it agrees with.

    Returns how many experiments were refused: those of which a row differs, or which have no
    records. Each difference is named.
    """
    samples = {experiment: experiment.arms() for experiment in experiments}
    problems = {
        experiment: [] if sample else ["no records"] for experiment, sample in samples.items()
    }
    todo = [(experiment, config) for experiment, sample in samples.items() for config in sample]
    for (experiment, config), run in _in_parallel(Experiment.verify, todo, jobs):
        if run.exception():
            problems[experiment].append(f"{config} failed: {run.exception()!r}")
        else:
            problems[experiment] += run.result()
    for experiment, sample in samples.items():
        for problem in problems[experiment]:
            print(f"{experiment.name}: refused, {problem}", file=sys.stderr)
        if not problems[experiment]:
            experiment.stamp()
            print(f"{experiment.name}: {len(sample)} configurations came out as recorded; stamped")
    return sum(map(bool, problems.values()))


def _in_parallel(function, tasks, jobs):
    """Each task and its finished future, as they end; with a progress bar."""
    if not tasks:
        return
    context = get_context("spawn")  # torch doesn't survive a fork
    executor = ProcessPoolExecutor(min(jobs, len(tasks)), context, initializer=_follow_parent)
    try:
        runs = {executor.submit(function, *task): task for task in tasks}
        for run in tqdm(as_completed(runs), total=len(runs), unit="run"):
            yield runs[run], run
    finally:
        executor.shutdown(cancel_futures=True)


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

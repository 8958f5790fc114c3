"""Run the experiments whose records are missing or out of date.

It can be stopped at any time: the same command goes on where it was.
"""

import argparse
import os
import statistics
import sys
from importlib import import_module

from normbook.experiments import NAMES
from normbook.experiments.records import COMMAND, FOLDER, Experiment
from normbook.experiments.runner import run_all, verify_all


def main() -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="after a change that should alter no number: run a sample of the records again, one "
        "of each arm, and let them count for the present code if nothing differs",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument(
        "--source",
        default="digits",
        help="other data, for those that take them, such as mnist; "
        "their records go to the user's cache, and a table is printed",
    )
    options = parser.parse_args()
    names = options.names or NAMES
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        parser.error(f"there is no experiment {', '.join(unknown)}; expected {', '.join(NAMES)}")
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}; expected at least 1")
    folder = FOLDER
    if options.source != "digits":
        import pooch

        folder = pooch.os_cache("normbook") / "records" / options.source
        names = [name for name in names if options.source in _sources(name)]
        if not names:
            parser.error(f"no experiment that you named takes {options.source}")
    experiments = [
        Experiment(f"normbook.experiments.{name}", folder, options.source) for name in names
    ]
    try:
        if options.verify:
            return min(verify_all(experiments, options.jobs), 1)
        failed = run_all(experiments, options.jobs)
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")
    for experiment in experiments:
        print(f"{experiment.name}: {experiment.seconds():.0f} CPU seconds, {experiment.path}")
        if options.source != "digits" and not failed:
            print(*_table(experiment), sep="\n")
    return min(failed, 1)


def _sources(name):
    return getattr(import_module(f"normbook.experiments.{name}"), "SOURCES", ("digits",))


def _table(experiment):
    """A line for each arm: its errors at the chosen rate, over the seeds."""
    errors = {}
    for row in experiment.records():
        if row["chosen"]:
            errors.setdefault(row["norm"], []).append(row["error"])
    for arm, own in errors.items():
        spread = f"{statistics.mean(own):.2f} ± {statistics.stdev(own):.2f} %"
        yield f"  {arm:20} error {spread}, {len(own)} seeds"


if __name__ == "__main__":
    sys.exit(main())

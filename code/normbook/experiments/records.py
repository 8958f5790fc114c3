"""Results of experiments that take longer than a page may: run by a command, kept as records.

An experiment is a module with ``CONFIGURATIONS``, a list of dicts that JSON can write, and
``run(config)``, which returns rows, dicts as well. Its records are a file of one line for each
configuration. The first line holds a hash of the code that made them (`code_hash`): of ``run`` and
``CONFIGURATIONS``, and of all that these use. Change this code, and the records no longer count,
until they are made anew, or a sample of them comes out as it was recorded.

Rows may have the columns ``first_loss``, the mean loss of the first steps, and ``chosen``, whether
the row counts in the end; ``Experiment.check`` says what for.
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from math import inf
from pathlib import Path

from normbook.experiments.code_hash import code_hash

FOLDER = Path(__file__).parent / "records"
COMMAND = "python -m normbook.experiments"
FIRST_LOSS = 1e-4  # how far off the mean loss of the first steps may be on another CPU


class RecordsError(RuntimeError):
    """There are no complete records of the code as it is; the message has the command to run.

    Examples
    --------
    >>> Experiment("normbook.experiments.warm_up", Path("empty")).records()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    normbook.experiments.records.RecordsError: The experiment warm_up was not run yet. Run: ...
    """


def records(name: str) -> list[dict]:
    """The rows of the experiment `name`, each with the configuration that it belongs to.

    Raises
    ------
    RecordsError
        the experiment was not run, or not with the code as it is.

    Examples
    --------
    >>> rows = records("mlp_layer_norm")
    >>> sorted({row["norm"] for row in rows})
    ['batch', 'layer', 'layer, no γ and β', 'none', 'rms']
    """
    return Experiment(f"normbook.experiments.{name}").records()


@dataclass(frozen=True)
class Experiment:
    """An experiment by the name of its module, and the folder that keeps its records.

    `source` are the data, for those whose module lists it in ``SOURCES``.

    Examples
    --------
    >>> experiment = Experiment("normbook.experiments.mlp_layer_norm")
    >>> experiment.name, experiment.records() == records("mlp_layer_norm")
    ('mlp_layer_norm', True)
    """

    module: str
    folder: Path = FOLDER
    source: str = "digits"

    @property
    def name(self) -> str:
        return self.module.rpartition(".")[2]

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.jsonl"

    @cached_property
    def code(self) -> str:
        """The hash of the code that records depend on."""
        return code_hash(self.module, "run", "CONFIGURATIONS")

    def configurations(self) -> list[dict]:
        """All that are to be run, in order. Imports the experiment, and torch with it."""
        configurations = import_module(self.module).CONFIGURATIONS
        if self.source == "digits":
            return configurations
        return [{**config, "source": self.source} for config in configurations]

    def run(self, config: dict) -> list[dict]:
        """The rows of one configuration, anew."""
        return import_module(self.module).run(dict(config))

    def records(self) -> list[dict]:
        header, entries = self._read()
        mend = f"{COMMAND} {self.name}"
        if header is None:
            problem = "was not run yet"
        elif header["code"] != self.code:
            problem = "was run with other code than is there now"
            mend += f"\nor, if the change should alter no number: {COMMAND} --verify {self.name}"
        elif len(entries) < header["configurations"]:
            problem = f"is not finished: {len(entries)} of {header['configurations']}"
        else:
            return [entry["config"] | row for entry in entries.values() for row in _rows(entry)]
        raise RecordsError(f"The experiment {self.name} {problem}. Run: {mend}")

    def seconds(self) -> float:
        """How long the recorded runs took: CPU seconds of one thread."""
        return sum(entry["seconds"] for entry in self._read()[1].values())

    def pending(self) -> list[dict]:
        """The configurations that have no record of the present code.

        Records of other code are removed.
        """
        configurations = self.configurations()
        header, entries = self._read()
        if header is None or header["code"] != self.code:
            header, entries = self._header(configurations), {}
        pending = [config for config in configurations if _key(config) not in entries]
        if pending:  # a line that was not written to its end goes, too
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(header, entries.values())
        return pending

    def add(self, config: dict, rows: list[dict], seconds: float) -> None:
        """Record the rows of one configuration at once: they survive whatever happens next.

        With the last one, the file is put in the order of the configurations.
        """
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        entry = {"config": config, "seconds": round(seconds, 2), "columns": columns}
        with self.path.open("a", encoding="utf8", newline="\n") as file:
            file.write(_json(entry) + "\n")
        header, entries = self._read()
        configurations = self.configurations()
        if all(_key(config) in entries for config in configurations):
            self._write(header, [entries[_key(config)] for config in configurations])

    def sample(self, seconds: float = 3) -> Iterator[dict]:
        """Some of the configurations, always the same, that together took at most so long.

        At least one, if all took longer: the shortest.
        """
        entries = self._read()[1]
        shortest = min(entries.values(), key=lambda entry: entry["seconds"])
        shuffled = [entries[key] for key in sorted(entries, key=_sha256)]
        for entry in [shortest, *(entry for entry in shuffled if entry != shortest)]:
            if entry == shortest or entry["seconds"] <= seconds:
                seconds -= entry["seconds"]
                yield entry["config"]

    def arms(self) -> list[dict]:
        """A recorded configuration of each arm: of all that differ in nothing but the seed.

        Which of the seeds is up to the present code: after another change, it is another one.
        """
        arms, entries = {}, self._read()[1]
        for config in self.configurations():
            if _key(config) in entries:
                arm = {name: value for name, value in config.items() if name != "seed"}
                arms.setdefault(_key(arm), []).append(config)
        return [
            min(own, key=lambda config: _sha256(self.code + _key(config))) for own in arms.values()
        ]

    def verify(self, config: dict) -> list[str]:
        """Run a configuration again; returns what differs from its record, empty if nothing does.

        On the kind of machine and with the versions that the records were made with, each number
        must come out to its last digit; elsewhere, as `check` demands.
        """
        recorded, again = self._recorded(config), self._again(config)
        differences = _differences(again, recorded, {})
        if differences and self._read()[0]["made with"] != made_with():
            differences = self._far_apart(again, recorded)
        return [f"{config}: {difference}" for difference in differences]

    def stamp(self) -> None:
        """Let the records count for the present code, once `verify` has found no difference.

        Those of configurations that are no longer asked for are left out.
        """
        header, entries = self._read()
        configurations = self.configurations()
        header |= {"code": self.code, "configurations": len(configurations)}
        header["verified with"] = made_with()
        kept = [entries[_key(config)] for config in configurations if _key(config) in entries]
        self._write(header, kept)

    def versions(self) -> dict:
        """What the records were last made or verified with, by name."""
        header = self._read()[0]
        return header.get("verified with", header["made with"])

    def check(self, config: dict) -> list[str]:
        """Run a configuration again; returns what differs from its record by more than it may.

        CPUs of other kinds round differently, and training lets small differences grow: where the
        learning rate is high, until nothing is left of the record. So two things are compared.
        ``first_loss`` in the first row, that of the lowest rate, must agree to 1e-4: any change of
        code or data shows there. And the rows that are ``chosen``, or all if there is no such
        column, must agree in the end. The module's ``TOLERANCE`` tells for their columns how far
        off a number may be; columns that it doesn't name must be equal.
        """
        differences = self._far_apart(self._again(config), self._recorded(config))
        return [f"{config}: {difference}" for difference in differences]

    def _recorded(self, config):
        return _rows(self._read()[1][_key(config)])

    def _again(self, config):
        return json.loads(_json(self.run(config)))

    def _far_apart(self, again, recorded):
        first = {"first_loss": FIRST_LOSS}
        tolerance = {"first_loss": inf, **import_module(self.module).TOLERANCE}
        return [
            *_differences(again[:1], recorded[:1], first, only=first),
            *_differences(_chosen(again), _chosen(recorded), tolerance),
        ]

    def _header(self, configurations):
        return {
            "experiment": self.name,
            "code": self.code,
            "configurations": len(configurations),
            "made with": made_with(),
        }

    def _read(self):
        """The header, or None; and the entries by their configuration."""
        if not self.path.is_file():
            return None, {}
        lines = []
        for line in self.path.read_text(encoding="utf8").splitlines():
            try:
                lines.append(json.loads(line))
            except json.JSONDecodeError:  # the last one, if the run was killed as it wrote
                continue
        if not lines or "code" not in lines[0]:
            return None, {}
        return lines[0], {_key(entry["config"]): entry for entry in lines[1:]}

    def _write(self, header, entries):
        part = self.path.with_suffix(".part")
        text = "".join(_json(line) + "\n" for line in [header, *entries])
        part.write_text(text, encoding="utf8", newline="\n")
        os.replace(part, self.path)


def made_with() -> dict:
    """What can change the last digits of a result beside the code: versions and the processor."""
    import torch  # not for those who only read records

    return {
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": version("numpy"),
        "machine": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }


def _json(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _rows(entry):
    columns = entry["columns"]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _key(config):
    return json.dumps(config, sort_keys=True)


def _sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def _chosen(rows):
    return [row for row in rows if row.get("chosen", True)]


def _differences(new, old, tolerance, only=()):
    """What differs between two lists of rows, in the columns `only`, or in all."""
    if len(new) != len(old):
        return [f"{len(new)} rows, recorded {len(old)}"]
    return [
        f"row {n}: {column} is {a.get(column)}, recorded {b.get(column)}"
        for n, (a, b) in enumerate(zip(new, old, strict=True))
        for column in sorted(only or a.keys() | b.keys())
        if not _agree(a.get(column), b.get(column), tolerance.get(column))
    ]


def _agree(new, old, tolerance):
    if tolerance is None or None in (new, old):
        return new == old
    return abs(new - old) <= tolerance

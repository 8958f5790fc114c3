"""Results of experiments that take longer than a page may: run by a command, kept as records.

An experiment is a module with ``CONFIGURATIONS``, a list of dicts that JSON can write, and
``run(config)``, which returns rows, dicts as well. Its records are a file of one line for each
configuration. The first line holds a hash of the code that made them: of the experiment's module
and of all modules of the book that it imports, and these import, without comments and docstrings.
Only imports at the top of a module count; what is imported within a function must not matter to
what is recorded. Change a line of this code, and the records no longer count.

Rows may have the columns ``first_loss``, the mean loss of the first steps, and ``chosen``, whether
the row counts in the end; ``Experiment.check`` says what for.
"""

import ast
import hashlib
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from math import inf
from pathlib import Path

FOLDER = Path(__file__).parent / "experiments" / "records"
COMMAND = "python -m normbook.experiments"
FIRST_LOSS = 1e-4  # how far off the mean loss of the first steps may be on another CPU


class RecordsError(RuntimeError):
    """There are no complete records of the code as it is; the message has the command to run."""


def records(name: str) -> list[dict]:
    """The rows of the experiment `name`, each with the configuration that it belongs to.

    Raises
    ------
    RecordsError : the experiment was not run, or not with the code as it is.
    """
    return Experiment(f"normbook.experiments.{name}").records()


@dataclass(frozen=True)
class Experiment:
    """An experiment by the name of its module, and the folder that keeps its records.

    `source` are the data, for those whose module lists it in ``SOURCES``.
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
        return code_hash(self.module)

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
        if header is None:
            problem = "was not run yet"
        elif header["code"] != self.code:
            problem = "was run with other code than is there now"
        elif len(entries) < header["configurations"]:
            problem = f"is not finished: {len(entries)} of {header['configurations']}"
        else:
            return [entry["config"] | row for entry in entries.values() for row in _rows(entry)]
        raise RecordsError(f"The experiment {self.name} {problem}. Run: {COMMAND} {self.name}")

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

    def check(self, config: dict) -> list[str]:
        """Run a configuration again; returns what differs from its record, empty if nothing does.

        CPUs of other kinds round differently, and training lets small differences grow: where the
        learning rate is high, until nothing is left of the record. So two things are compared.
        ``first_loss`` in the first row, that of the lowest rate, must agree to 1e-4: any change of
        code or data shows there. And the rows that are ``chosen``, or all if there is no such
        column, must agree in the end. The module's ``TOLERANCE`` tells for their columns how far
        off a number may be; columns that it doesn't name must be equal.
        """
        recorded = _rows(self._read()[1][_key(config)])
        again = json.loads(_json(self.run(config)))
        first = {"first_loss": FIRST_LOSS}
        differences = _differences(again[:1], recorded[:1], first, only=first)
        tolerance = {"first_loss": inf, **import_module(self.module).TOLERANCE}
        differences += _differences(_chosen(again), _chosen(recorded), tolerance)
        return [f"{config}: {difference}" for difference in differences]

    def _header(self, configurations):
        return {
            "experiment": self.name,
            "code": self.code,
            "configurations": len(configurations),
            "made with": {
                "python": platform.python_version(),
                "torch": version("torch"),
                "numpy": version("numpy"),
                "machine": platform.machine(),
            },
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


def code_hash(module: str) -> str:
    """A hash of the code of `module` and of those of its package that it imports, and these import.

    Comments, docstrings, the layout of the lines and the module's ``TOLERANCE`` don't count.
    Nothing is imported but the packages that the modules lie in, whose own ``__init__`` doesn't
    count.
    """
    sources = _sources(module, {})
    text = "\n".join(f"{name} {_structure(tree)}" for name, tree in sorted(sources.items()))
    return _sha256(text)[:16]


def modules_of(module: str) -> set[str]:
    """The names of the modules that `code_hash` covers."""
    return set(_sources(module, {}))


def _sources(module, found):
    """The syntax trees of a module and of those of the book that it imports, by name."""
    path = Path(find_spec(module).origin)
    found[module] = tree = ast.parse(path.read_text(encoding="utf8"))
    for node in tree.body:
        for name in _imported(node, book=module.partition(".")[0]):
            if name not in found:
                _sources(name, found)
    return found


def _imported(node, book) -> Iterator[str]:
    """The modules of the package `book` that a statement imports."""
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        if node.level:
            raise ValueError(f"line {node.lineno}: name the module in full, not from a dot on")
        names = [node.module]
        if _in(node.module, book) and _is_package(node.module):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
    for name in names:
        if _in(name, book) and find_spec(name) and not _is_package(name):
            yield name


def _in(module, book):
    return module.partition(".")[0] == book


def _is_package(module):
    return find_spec(module).submodule_search_locations is not None


def _structure(node):
    """A syntax tree as text, without docstrings, and the same in all versions of Python."""
    if isinstance(node, list):
        return "[" + ",".join(_structure(item) for item in node if not _is_silent(item)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [
        f"{name}={_structure(value)}"
        for name, value in ast.iter_fields(node)
        if value not in (None, []) or isinstance(node, ast.Constant)
    ]
    return f"{type(node).__name__}({','.join(fields)})"


def _is_silent(node):
    """Whether a statement has no part in the results: a docstring, or the module's TOLERANCE."""
    if isinstance(node, ast.Expr):
        return isinstance(getattr(node.value, "value", None), str)
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TOLERANCE"


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

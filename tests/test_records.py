"""Records of experiments: what makes them out of date, and that nothing stops them halfway."""

import os
import signal
import subprocess
import sys
import time

import pytest

from normbook.experiments.running import run_all
from normbook.records import Experiment, RecordsError, code_hash, modules_of

EXPERIMENT = '''
"""A toy experiment: squares."""

import time
from toybook import deeper
from toybook.helper import square

CONFIGURATIONS = [{"n": n} for n in range(6)]
TOLERANCE = {"square": 0.01}
PAUSE = 0.0


def run(config):
    """Rows."""
    time.sleep(PAUSE)
    if config["n"] == FAILS:
        raise ValueError("no such square")
    first = 2.0 - config["n"]
    return [
        {"first_loss": first, "sign": s, "square": s * square(config["n"])} for s in (-1, 1)
    ]


FAILS = None
'''
HELPER = '''
"""Helps."""

from toybook import lazy as unused_name
from toybook.deeper import power


def square(n):
    # Squares.
    from toybook import only_inside

    return power(n, 2)
'''
FILES = {
    "__init__": "",
    "experiment": EXPERIMENT,
    "helper": HELPER,
    "deeper": "def power(a, b):\n    return a**b\n",
    "lazy": "",
    "only_inside": "",
    "other": "import toybook.experiment\n",
}
MODULE = "toybook.experiment"


class Toy:
    """A package with an experiment, and the means to edit it."""

    def __init__(self, folder):
        self.package = folder / "toybook"
        self.package.mkdir()
        for name, source in FILES.items():
            (self.package / f"{name}.py").write_text(source, encoding="utf8")
        self.experiment = Experiment(MODULE, folder / "records")

    def edit(self, name, old, new):
        path = self.package / f"{name}.py"
        source = path.read_text("utf8")
        assert old in source
        path.write_text(source.replace(old, new), encoding="utf8")
        # As a new process would see it.
        self.forget()
        self.experiment = Experiment(MODULE, self.experiment.folder)

    @staticmethod
    def forget():
        for name in [name for name in sys.modules if name.split(".")[0] == "toybook"]:
            del sys.modules[name]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two edits may share one second
    yield Toy(tmp_path)
    Toy.forget()


def run_here(experiment):
    """What `run_all` does, without processes."""
    for config in experiment.pending():
        experiment.add(config, experiment.run(config), seconds=0.5)


def test_hash_covers_what_is_imported(toy):
    assert modules_of(MODULE) == {
        MODULE,
        "toybook.helper",
        "toybook.deeper",
        "toybook.lazy",
    }


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("experiment", "range(6)", "range(7)"),
        ("experiment", "FAILS = None", "FAILS = 3"),
        ("helper", "power(n, 2)", "power(n, 2.0)"),
        ("deeper", "a**b", "b**a"),
        ("deeper", "a**b", "a**b or None"),
        ("lazy", "", "x = 1\n"),
        ("helper", "def square(n):", "def square(n, m=None):"),
    ],
)
def test_changed_code_changes_the_hash(toy, name, old, new):
    before = code_hash(MODULE)
    toy.edit(name, old, new)
    assert code_hash(MODULE) != before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("experiment", "A toy experiment: squares.", "Squares of small numbers."),
        ("experiment", '    """Rows."""\n', ""),
        ("experiment", '"""A toy experiment: squares."""', ""),
        ("helper", "# Squares.", "# It squares."),
        ("helper", "def square(n):", "def square(\n    n\n):"),
        ("deeper", "a**b", "(a ** b)  # to the power"),
        ("experiment", '{"square": 0.01}', '{"square": 0.02, "sign": 1}'),
        ("only_inside", "", "x = 1\n"),
        ("other", "import", "import"),
    ],
)
def test_changed_words_dont_change_the_hash(toy, name, old, new):
    before = code_hash(MODULE)
    toy.edit(name, old, new)
    assert code_hash(MODULE) == before


def test_a_string_that_is_used_counts(toy):
    toy.edit("deeper", "return a**b", "return 'x'")
    before = code_hash(MODULE)
    toy.edit("deeper", "return 'x'", "return 'y'")
    assert code_hash(MODULE) != before


def test_imports_from_a_dot_on_are_refused(toy):
    toy.edit("helper", "from toybook.deeper import", "from .deeper import")
    with pytest.raises(ValueError, match="name the module in full"):
        code_hash(MODULE)


def test_hashing_runs_nothing(toy):
    for name in ("experiment", "helper", "deeper"):
        toy.edit(name, FILES[name], FILES[name] + "\nraise SystemExit\n")
    code_hash(MODULE)


def test_records(toy):
    with pytest.raises(RecordsError) as raised:
        toy.experiment.records()
    assert str(raised.value) == (
        "The experiment experiment was not run yet. Run: python -m normbook.experiments experiment"
    )
    run_here(toy.experiment)
    assert toy.experiment.records()[:3] == [
        {"n": 0, "first_loss": 2.0, "sign": -1, "square": 0},
        {"n": 0, "first_loss": 2.0, "sign": 1, "square": 0},
        {"n": 1, "first_loss": 1.0, "sign": -1, "square": -1},
    ]
    assert len(toy.experiment.records()) == 12
    assert toy.experiment.seconds() == 3


def test_records_of_other_code_are_refused_and_replaced(toy):
    run_here(toy.experiment)
    toy.edit("deeper", "a**b", "a**b + 1")
    with pytest.raises(RecordsError, match="other code than is there now"):
        toy.experiment.records()
    assert len(toy.experiment.pending()) == 6
    run_here(toy.experiment)
    assert toy.experiment.records()[1]["square"] == 1


def test_half_a_run_is_refused_and_goes_on(toy):
    for config in toy.experiment.pending()[:2]:
        toy.experiment.add(config, toy.experiment.run(config), 0.5)
    with pytest.raises(RecordsError, match="is not finished: 2 of 6"):
        toy.experiment.records()
    assert toy.experiment.pending() == [{"n": n} for n in range(2, 6)]


def test_half_a_line_is_dropped(toy):
    """A run that was killed as it wrote."""
    configurations = toy.experiment.pending()
    for config in configurations[:3]:
        toy.experiment.add(config, toy.experiment.run(config), 0.5)
    content = toy.experiment.path.read_bytes()
    toy.experiment.path.write_bytes(content[:-20])
    assert toy.experiment.pending() == configurations[2:]
    run_here(toy.experiment)
    assert [row["n"] for row in toy.experiment.records()[::2]] == list(range(6))


def test_the_order_of_finishing_leaves_no_trace(toy):
    run_here(toy.experiment)
    content = toy.experiment.path.read_bytes()
    toy.experiment.path.unlink()
    for config in toy.experiment.pending()[::-1]:
        toy.experiment.add(config, toy.experiment.run(config), 0.5)
    assert toy.experiment.path.read_bytes() == content


@pytest.mark.parametrize(
    ("old", "new", "differences"),
    [
        ("", "", []),
        ("[-9, 9]", "[-9, 9.009]", []),  # within the tolerance
        ("[-9, 9]", "[-9.02, 9]", ["row 0: square is -9, recorded -9.02"]),
        ("[-9, 9]", "[-9, null]", ["row 1: square is 9, recorded None"]),
        # A column that has no tolerance:
        ('[-1, 1], "square": [-9,', '[-1, 0], "square": [-9,', ["row 1: sign is 1, recorded 0"]),
        # The first loss, in the first row only:
        ("[-1.0, -1.0]", "[-1.00009, -1.0]", []),
        ("[-1.0, -1.0]", "[-1.0002, -1.0]", ["row 0: first_loss is -1.0, recorded -1.0002"]),
        ("[-1.0, -1.0]", "[-1.0, -5.0]", []),
    ],
)
def test_check(toy, old, new, differences):
    run_here(toy.experiment)
    text = toy.experiment.path.read_text("utf8")
    assert not old or text.count(old) == 1
    toy.experiment.path.write_text(text.replace(old, new), "utf8")
    found = toy.experiment.check({"n": 3})
    assert found == [f"{{'n': 3}}: {difference}" for difference in differences]


def test_check_of_what_is_chosen(toy):
    """Another row may be chosen; what came out of it must agree."""
    toy.edit("experiment", '"sign": s,', '"rate": s, "chosen": s == 1,')
    toy.edit("experiment", '{"square": 0.01}', '{"square": 20, "rate": 2}')
    run_here(toy.experiment)
    text = toy.experiment.path.read_text("utf8")
    # As if the other row had been chosen, and with nonsense in the one that was not.
    text = text.replace("[-9, 9]", "[-9, 900]").replace("[false, true]", "[true, false]")
    toy.experiment.path.write_text(text, "utf8")
    assert toy.experiment.check({"n": 3}) == []
    toy.experiment.path.write_text(text.replace("[-9, 900]", "[-90, 900]"), "utf8")
    assert toy.experiment.check({"n": 3}) == ["{'n': 3}: row 0: square is 9, recorded -90"]
    toy.experiment.path.write_text(text.replace("[true, false]", "[true, true]"), "utf8")
    assert toy.experiment.check({"n": 3}) == ["{'n': 3}: 1 rows, recorded 2"]


def test_sample(toy):
    for config in toy.experiment.pending():
        toy.experiment.add(config, toy.experiment.run(config), seconds=2 - config["n"] / 4)
    sample = list(toy.experiment.sample(seconds=3))
    assert sample[0] == {"n": 5}  # the shortest
    assert sum(2 - config["n"] / 4 for config in sample) <= 3
    assert sample == list(toy.experiment.sample(seconds=3))
    assert list(toy.experiment.sample(seconds=0.1)) == [{"n": 5}]
    assert len(list(toy.experiment.sample(seconds=100))) == 6


def test_numbers_that_json_has_not(toy):
    toy.edit("deeper", "a**b", 'float("nan")')
    with pytest.raises(ValueError, match="Out of range float"):
        run_here(toy.experiment)


def test_run_all(toy, capfd):
    toy.edit("experiment", "FAILS = None", "FAILS = 2")
    assert run_all([toy.experiment], jobs=2) == 1
    assert "experiment {'n': 2} failed: ValueError('no such square')" in capfd.readouterr().err
    assert toy.experiment.pending() == [{"n": 2}]  # the others went on
    assert run_all([toy.experiment], jobs=2) == 1


def test_goes_on_after_a_kill(toy, tmp_path):
    toy.edit("experiment", "PAUSE = 0.0", "PAUSE = 0.4")
    script = (
        "from normbook.records import Experiment; from pathlib import Path\n"
        "from normbook.experiments.running import run_all\n"
        f"if __name__ == '__main__': run_all([Experiment({MODULE!r}, Path('records'))], 1)"
    )
    (tmp_path / "main.py").write_text(script, "utf8")

    def recorded():
        path = toy.experiment.path
        return path.read_text("utf8").count('"columns"') if path.exists() else 0

    process = subprocess.Popen(
        [sys.executable, "main.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    while process.poll() is None and not recorded():
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    process.communicate()  # ends only once the worker has ended too: it holds the pipe
    before = recorded()
    time.sleep(0.6)
    assert 1 <= before < 6
    assert recorded() == before
    assert len(toy.experiment.pending()) in (6 - before, 7 - before)  # the last line may be torn
    assert run_all([toy.experiment], jobs=2) == 0
    assert len(toy.experiment.records()) == 12

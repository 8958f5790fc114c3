"""Records of experiments: what makes them out of date, and that nothing stops them halfway."""

import os
import signal
import subprocess
import sys
import time

import pytest

from normbook.experiments.records import Experiment, RecordsError, made_with
from normbook.experiments.runner import run_all, verify_all

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

from toybook.deeper import power


def square(n):
    # Squares.
    return power(n, 2)
'''
FILES = {
    "__init__": "",
    "experiment": EXPERIMENT,
    "helper": HELPER,
    "deeper": "def power(a, b):\n    return a**b\n",
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


def test_words_and_tolerances_may_change(toy):
    run_here(toy.experiment)
    toy.edit("experiment", '"""Rows."""', '"""The rows."""')
    toy.edit("experiment", '{"square": 0.01}', '{"square": 0.02}')
    assert toy.experiment.pending() == []
    assert len(toy.experiment.records()) == 12


def test_verified_records_count_for_other_code(toy, capfd):
    run_here(toy.experiment)
    rows = toy.experiment.records()
    toy.edit("deeper", "a**b", "a * a")
    with pytest.raises(RecordsError, match=r"or, if the change .* --verify experiment"):
        toy.experiment.records()
    assert verify_all([toy.experiment], jobs=1) == 0
    # Without seeds, each configuration is an arm of its own.
    assert "experiment: 6 configurations came out as recorded; stamped" in capfd.readouterr().out
    assert toy.experiment.records() == rows
    assert toy.experiment.versions() == made_with()


def test_records_that_come_out_differently_are_not_stamped(toy, capfd):
    run_here(toy.experiment)
    before = toy.experiment.path.read_bytes()
    toy.edit("deeper", "a**b", "a**b + 1e-12 * (a == 3)")  # within the tolerance
    assert verify_all([toy.experiment], jobs=1) == 1
    message = "refused, {'n': 3}: row 0: square is -9.000000000001, recorded -9"
    assert message in capfd.readouterr().err
    assert toy.experiment.path.read_bytes() == before
    with pytest.raises(RecordsError):
        toy.experiment.records()


def test_on_another_machine_the_tolerance_holds(toy, capfd):
    run_here(toy.experiment)
    text = toy.experiment.path.read_text("utf8")
    toy.experiment.path.write_text(text.replace('"machine": "', '"machine": "another '), "utf8")
    toy.edit("deeper", "a**b", "a**b + 1e-12")
    assert verify_all([toy.experiment], jobs=1) == 0
    assert toy.experiment.records()[6]["square"] == -9
    toy.edit("deeper", "1e-12", "0.02")
    assert verify_all([toy.experiment], jobs=1) == 1


def test_verification_runs_one_seed_of_each_arm(toy):
    toy.edit(
        "experiment",
        '{"n": n} for n in range(6)',
        '{"n": n, "seed": seed} for n in range(2) for seed in range(9)',
    )
    run_here(toy.experiment)
    first = toy.experiment.arms()
    assert [config["n"] for config in first] == [0, 1]
    assert first == toy.experiment.arms()
    seen = set()
    for power in range(2, 9):
        toy.edit("helper", f"power(n, {power})", f"power(n, {power + 1})")
        seen |= {config["seed"] for config in toy.experiment.arms()}
    assert len(seen) > 2  # other code, other seeds


def test_what_has_no_records_or_fails_is_not_stamped(toy, capfd):
    assert verify_all([toy.experiment], jobs=1) == 1
    assert "experiment: refused, no records" in capfd.readouterr().err
    run_here(toy.experiment)
    toy.edit("experiment", "FAILS = None", "FAILS = 2")
    assert verify_all([toy.experiment], jobs=2) == 1
    message = "refused, {'n': 2} failed: ValueError('no such square')"
    assert message in capfd.readouterr().err


def test_new_configurations_are_left_to_run(toy):
    run_here(toy.experiment)
    toy.edit("experiment", "range(6)", "range(1, 8)")
    assert verify_all([toy.experiment], jobs=1) == 0
    assert toy.experiment.pending() == [{"n": 6}, {"n": 7}]
    with pytest.raises(RecordsError, match="is not finished: 5 of 7"):
        toy.experiment.records()
    run_here(toy.experiment)
    assert [row["n"] for row in toy.experiment.records()[::2]] == [*range(1, 8)]


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
        "from normbook.experiments.records import Experiment; from pathlib import Path\n"
        "from normbook.experiments.runner import run_all\n"
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

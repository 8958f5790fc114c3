"""How `make` installs, with stand-ins for uv and Python that note how they were called."""

import os
import re
import subprocess

import pytest

from helpers import ROOT

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-ins are shell scripts")

STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >>"$LOG"
case "$*" in $FAILING) exit 2;; esac
if [ "$2" = venv ]; then
  mkdir -p "$3/bin"
  cp "$0" "$3/bin/python"
  cp "$0" "$3/bin/uv"
fi
"""
(TORCH,) = re.findall(r"^torch==\S+", (ROOT / "requirements.txt").read_text("utf8"), re.M)


@pytest.fixture
def install(tmp_path):
    """A function that installs; it returns whether that worked, and the calls of uv and pip.

    Calls fail that match `failing`, a pattern of the shell.
    """
    python, log, venv = tmp_path / "python3", tmp_path / "log", tmp_path / "venv"
    python.write_text(STAND_IN)
    python.chmod(0o755)

    def run(*variables, failing="-", target="book", **environment):
        log.write_text("")
        # Without what the tests' own make was called with.
        environment |= {"PATH": os.environ["PATH"], "LOG": str(log), "FAILING": failing}
        target = venv / f".{target}-installed"
        command = ["make", f"VENV={venv}", f"PYTHON={python}", str(target), *variables]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True)
        assert target.exists() == (done.returncode == 0)
        calls = log.read_text().replace(f" --python {venv}/bin/python", "").splitlines()
        calls = [re.sub("^(uv|python -m) ", "", call) for call in calls if " install " in call]
        return done.returncode == 0, calls

    return run


def test_takes_the_cpu_build_from_pytorch(install):
    worked, calls = install()
    assert worked
    assert calls[-2:] == [
        f"pip install --torch-backend=cpu {TORCH}",
        "pip install -r requirements.txt",
    ]


def test_takes_the_build_that_was_asked_for(install):
    _, calls = install(TORCH_BACKEND="auto")
    assert f"pip install --torch-backend=auto {TORCH}" in calls


def test_refuses_an_unknown_build(install):
    worked, calls = install(failing="*--torch-backend=cqu uv", TORCH_BACKEND="cqu")
    assert not worked
    assert not any("torch==" in call for call in calls)


def test_takes_pypis_build_where_pytorch_cant_be_reached(install):
    worked, calls = install(failing="*--dry-run*")
    assert worked
    assert calls[-2:] == [
        f"pip install --no-compile {TORCH}",
        "pip install -r requirements.txt",
    ]


def test_says_that_pytorchs_build_was_not_had(install):
    """A download that breaks off must not end in gigabytes of something else."""
    worked, calls = install(failing=f"*--torch-backend=cpu {TORCH}")
    assert not worked
    assert calls[-1] == f"pip install --torch-backend=cpu {TORCH}"


def test_pip_helps_where_uv_cant_reach_pypi(install):
    worked, calls = install(failing="*python -r requirements.txt")
    assert worked
    assert calls[-1] == "pip install --no-compile -r requirements.txt"


def test_installs_what_is_locked(install):
    _, calls = install("LOCKED=1")
    assert calls[-2:] == [
        "pip install --no-deps --require-hashes -r requirements.lock",
        "pip install -r requirements.txt",
    ]


@pytest.mark.parametrize("target", ["book", "test"])
def test_begins_again_after_it_was_broken_off(install, tmp_path, target):
    """What was left by half must not be taken for whole."""
    half = tmp_path / "venv" / "half a package"
    last = {"book": "*-r requirements.txt", "test": "*-e .[[]test]"}[target]
    assert not install(failing=last, target=target)[0]
    half.touch()
    worked, calls = install(target=target)
    assert worked and not half.exists()
    assert f"pip install --torch-backend=cpu {TORCH}" in calls
    half.touch()
    assert install(target=target) == (True, [])
    assert half.exists()


def test_never_removes_an_environment_that_was_there_before(install, tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([tmp_path / "python3", "-m", "venv", venv], env={"LOG": "/dev/null"}, check=True)
    (venv / "own").touch()
    assert not install(failing="*-r requirements.txt")[0]
    assert install()[0]
    assert (venv / "own").exists()

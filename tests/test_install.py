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
"""
(TORCH,) = re.findall(r"^torch==\S+", (ROOT / "requirements.txt").read_text("utf8"), re.M)


@pytest.fixture
def install(tmp_path):
    """A function that installs; it returns whether that worked, and the calls of uv and pip.

    Calls fail that match `failing`, a pattern of the shell.
    """

    def run(*variables, failing="-", **environment):
        log, folder = tmp_path / "log", tmp_path / "venv" / "bin"
        folder.mkdir(parents=True)
        for name in "python", "uv":
            (folder / name).write_text(STAND_IN)
            (folder / name).chmod(0o755)
        # Without what the tests' own make was called with.
        environment |= {"PATH": os.environ["PATH"], "LOG": str(log), "FAILING": failing}
        target = folder.parent / ".book-installed"
        command = ["make", f"VENV={folder.parent}", str(target), *variables]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True)
        assert target.exists() == (done.returncode == 0)
        calls = log.read_text().replace(f" --python {folder}/python", "").splitlines()
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

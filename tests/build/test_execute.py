"""The executor, on notebooks of a few cells, and small books built with the extension."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import nbformat
import numpy as np
import pytest
import torch
from nbformat.v4 import new_markdown_cell

from helpers import build_book, check_page, write_notebook, write_small_book
from normbook.build.execute import (
    cache_folder,
    cache_key,
    execute_all,
    execute_notebook,
    toc_notebooks,
)
from normbook.build.notebook_values import LIMIT, plain_values

pytestmark = pytest.mark.slow

# execute_notebook


def test_outputs_and_values(tmp_path):
    path = write_notebook(
        tmp_path / "a.ipynb",
        "import sys, os\nimport numpy as np\nx = np.arange(6.0).reshape(2, 3)\nmu = x.mean()\nmu",
        "python, folder, _hidden = sys.executable, os.getcwd(), 1",
    )
    before = path.read_bytes()
    execution = execute_notebook(path)
    assert execution.error is None
    first = execution.notebook.cells[1]
    assert first.outputs[0].data["text/plain"] == "np.float64(2.5)"
    assert [cell.get("execution_count") for cell in execution.notebook.cells] == [None, 1, 2]
    assert [cell.id for cell in execution.notebook.cells] == ["heading-01", "step-01", "step-02"]
    assert execution.values == {
        "x": [[0, 1, 2], [3, 4, 5]],
        "mu": 2.5,
        "python": sys.executable,
        "folder": str(tmp_path),
    }
    assert path.read_bytes() == before


def test_setup_runs_first_and_leaves_no_trace(tmp_path):
    path = write_notebook(tmp_path / "a.ipynb", "import math\ntau = math.tau")
    execution = execute_notebook(path, setup="import math; math.tau = 6")
    assert execution.values == {"tau": 6}
    assert len(execution.notebook.cells) == 2
    assert execution.notebook.cells[1].execution_count == 1


def test_error_names_the_cell_and_gives_the_traceback(tmp_path):
    path = write_notebook(tmp_path / "a.ipynb", "a = 1", "1 / 0", "b = 2")
    execution = execute_notebook(path)
    assert "a.ipynb failed in cell 3 (step-02)" in execution.error
    assert "ZeroDivisionError: division by zero" in execution.error
    assert "\x1b" not in execution.error
    assert execution.values == {}
    assert execution.notebook.cells[3].outputs == []


def test_error_in_the_setup(tmp_path):
    path = write_notebook(tmp_path / "a.ipynb", "a = 1")
    assert "failed before the first cell" in execute_notebook(path, setup="1 / 0").error


def test_an_allowed_error_is_an_error(tmp_path):
    path = write_notebook(tmp_path / "a.ipynb", "1 / 0")
    notebook = nbformat.read(path, 4)
    notebook.cells[1].metadata["tags"] = ["raises-exception"]
    nbformat.write(notebook, path)
    assert "ZeroDivisionError" in execute_notebook(path).error


def test_time_limit(tmp_path):
    path = write_notebook(tmp_path / "a.ipynb", "import time\ntime.sleep(60)")
    execution = execute_notebook(path, timeout=1)
    assert "in cell 2 (step-01)" in execution.error
    assert "timed out" in execution.error


def test_time_limit_for_who_ignores_interrupts(tmp_path):
    ignore = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    execution = execute_notebook(write_notebook(tmp_path / "a.ipynb", ignore), timeout=1)
    assert "timed out" in execution.error


def test_what_is_printed_is_one_output(tmp_path):
    first, shown = run_cell(
        tmp_path,
        "import sys\nfor percent in (50, 100):\n"
        "    print(f'\\r{percent} %', end='')\n    sys.stdout.flush()\n"
        "display('between')\nprint('.')",
    )
    assert first.text == "100 %.\n"
    assert shown.data["text/plain"] == "'between'"


def run_cell(folder, source):
    """The outputs of a notebook of one cell, which must not fail."""
    execution = execute_notebook(write_notebook(folder / "a.ipynb", source))
    assert execution.error is None
    return execution.notebook.cells[1].outputs


def test_a_thread_that_goes_on(tmp_path):
    path = write_notebook(
        tmp_path / "a.ipynb",
        "import threading, time\ndef chatter():\n"
        "    while True: print('.', end=''); time.sleep(0.001)\n"
        "threading.Thread(target=chatter).start()",
        "a = 1",
    )
    execution = execute_notebook(path)
    assert execution.error is None
    assert execution.values == {"a": 1}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups to end")
@pytest.mark.parametrize("end", ["a = 1", "os._exit(1)"])
def test_processes_of_a_notebook_end_with_it(end, tmp_path):
    execute_notebook(
        write_notebook(
            tmp_path / "a.ipynb",
            "import os, sys, subprocess\nfrom pathlib import Path\n"
            "sleeper = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
            f"Path('pid').write_text(str(subprocess.Popen(sleeper).pid))\n{end}",
        )
    )
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not is_running(pid):
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("a process is left")


def is_running(pid):
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True
    )
    return listed.stdout.strip()[:1] not in ("", "Z")  # Z: ended, but nobody has asked how


def test_kernel_that_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    path = write_notebook(tmp_path / "a.ipynb", "a = 1")
    execution = execute_notebook(path)
    assert "a.ipynb failed before the first cell:\nKernel died" in execution.error


def test_dead_kernel(tmp_path):
    path = write_notebook(tmp_path / "a.ipynb", "import os\nos._exit(1)")
    assert "Kernel died" in execute_notebook(path).error


def test_kernel_is_this_python_whatever_is_registered(tmp_path, monkeypatch):
    kernel = tmp_path / "kernels" / "python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(
        '{"argv": ["/nowhere/python", "{connection_file}"], "display_name": "Other"}'
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    path = write_notebook(tmp_path / "a.ipynb", "import sys\npython = sys.executable")
    assert execute_notebook(path).values == {"python": sys.executable}


def test_figures_come_out_whatever_the_backend(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    path = write_notebook(tmp_path / "a.ipynb", "import matplotlib.pyplot as plt\nplt.plot([1]);")
    outputs = execute_notebook(path).notebook.cells[1].outputs
    assert [set(output.data) for output in outputs] == [{"image/png", "text/plain"}]


def test_inside_a_running_event_loop(tmp_path):
    path = write_notebook(tmp_path / "a.ipynb", "a = 1")

    async def main():
        return execute_notebook(path)

    # In a thread, since Playwright has a loop running in this one.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, main()).result().values == {"a": 1}


# execute_all and its cache


def test_only_what_changed_is_executed_again(tmp_path):
    paths = [write_notebook(tmp_path / f"{name}.ipynb", f"name = '{name}'") for name in "ab"]
    first = execute_all(paths, tmp_path / "cache", report=[].append)
    assert {path.stem: e.values["name"] for path, e in first.items()} == {"a": "a", "b": "b"}
    assert [execution.cached for execution in first.values()] == [False, False]

    write_notebook(paths[1], "name = 'c'")
    lines = []
    second = execute_all(paths, tmp_path / "cache", report=lines.append)
    assert {path.stem: e.values["name"] for path, e in second.items()} == {"a": "a", "b": "c"}
    assert [execution.cached for execution in second.values()] == [True, False]
    assert lines[0].startswith("executing 1 of 2 notebooks")
    assert re.fullmatch(r"\[1/1\] b.ipynb ok, \d+\.\d s", lines[1])


def test_cached_run_has_the_same_outputs_and_the_present_prose(tmp_path):
    path = write_notebook(tmp_path / "a.ipynb", "print('hello')")
    (first,) = execute_all([path], tmp_path / "cache", report=[].append).values()
    notebook = nbformat.read(path, 4)
    notebook.cells[0].source = "# Another heading"
    nbformat.write(notebook, path)
    (second,) = execute_all([path], tmp_path / "cache", report=[].append).values()
    assert second.cached
    assert second.notebook.cells[1] == first.notebook.cells[1]
    assert second.notebook.cells[0].source == "# Another heading"


def test_failure_is_reported_and_runs_anew(tmp_path):
    paths = [
        write_notebook(tmp_path / f"{n}.ipynb", source) for n, source in enumerate(("1/0", "1"))
    ]
    for _ in range(2):
        lines = []
        failed, good = execute_all(paths, tmp_path / "cache", report=lines.append).values()
        assert failed.error and not failed.cached
        assert good.error is None
        assert any(re.match(r"\[\d/\d\] 0.ipynb FAILED", line) for line in lines)


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_text("{")])
def test_a_damaged_run_is_not_trusted(damage, tmp_path):
    path = write_notebook(tmp_path / "a.ipynb", "a = 1")
    execute_all([path], tmp_path / "cache", report=[].append)
    (stored,) = (tmp_path / "cache").rglob("base.ipynb")
    damage(stored)
    for cached in (False, True):
        (execution,) = execute_all([path], tmp_path / "cache", report=[].append).values()
        assert (execution.cached, execution.values) == (cached, {"a": 1})


def test_kernels_run_at_the_same_time(tmp_path):
    # Each waits for the file that the other makes.
    wait = (
        "import time\nfrom pathlib import Path\n"
        "Path('{}').touch()\nwhile not Path('{}').exists(): time.sleep(0.01)"
    )
    paths = [
        write_notebook(tmp_path / "1.ipynb", wait.format("one", "two")),
        write_notebook(tmp_path / "2.ipynb", wait.format("two", "one")),
    ]
    executions = execute_all(paths, tmp_path / "cache", jobs=2, timeout=60, report=[].append)
    assert [execution.error for execution in executions.values()] == [None, None]


@pytest.fixture
def package(tmp_path):
    package = tmp_path / "package"
    (package / "__pycache__").mkdir(parents=True)
    (package / "module.py").write_text("a = 1")
    (package / "style.css").write_text("")
    return package


@pytest.fixture
def requirements(tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("-e .\nnumpy==2.0  # a comment\n")
    return file


@pytest.mark.parametrize("name", ["module.py", "data.csv"])
def test_cache_key_covers_what_a_notebook_can_read(name, package, requirements):
    before = cache_key(requirements, package)
    assert cache_key(requirements, package) == before
    (package / name).write_text("a = 2")
    assert cache_key(requirements, package) != before


@pytest.mark.parametrize("name", ["__pycache__/module.pyc", "style.css", "widget.js"])
def test_cache_key_ignores_compiled_files_and_front_ends(name, package, requirements):
    before = cache_key(requirements, package)
    (package / name).write_text("x")
    assert cache_key(requirements, package) == before


def test_cache_key_covers_installed_versions(package, requirements, monkeypatch):
    before = cache_key(requirements, package)
    monkeypatch.setattr("normbook.build.execute.version", lambda name: f"another {name}")
    assert cache_key(requirements, package) != before


def test_old_caches_are_removed_and_nothing_else(tmp_path, requirements):
    base = tmp_path / "base"
    for name in ("0123456789abcdef", "html"):
        (base / name).mkdir(parents=True)
    folder = cache_folder(base, requirements)
    folder.mkdir()
    assert cache_folder(base, requirements) == folder
    assert sorted(os.listdir(base)) == sorted([".lock", folder.name, "html"])


def test_toc_notebooks(tmp_path):
    path = write_notebook(tmp_path / "a.ipynb")
    (tmp_path / "page.md").write_text("# Page")
    assert toc_notebooks(["a", "page"], tmp_path) == [path]
    assert toc_notebooks(["a.ipynb"], tmp_path) == [path]


# values


def test_plain_values():
    half = torch.tensor([1.5], dtype=torch.bfloat16, requires_grad=True)
    namespace = {
        "flag": np.bool_(True),
        "count": np.int64(3),
        "mean": Fraction(37, 75),
        "tensor": half,
        "shape": (2, torch.Size([3])),
        "table": {"a": [None, "text"], 1: np.float32(0.5)},
    }
    assert plain_values(namespace) == {
        "flag": True,
        "count": 3,
        "mean": 37 / 75,
        "tensor": [1.5],
        "shape": [2, [3]],
        "table": {"a": [None, "text"], "1": 0.5},
    }


def test_what_has_no_plain_value_is_left_out():
    loop = []
    loop.append(loop)
    namespace = {
        "large": np.zeros(LIMIT + 1),
        "complex_numbers": np.array([1j]),
        "function": print,
        "objects": np.array([object()]),
        "list_of_objects": [object()],
        "long_text": "x" * 10**6,
        "loop": loop,
        "_private": 1,
        "In": ["code"],
    }
    assert plain_values(namespace) == {}


# small books


@pytest.fixture
def small_book(tmp_path):
    return write_small_book(tmp_path)


def add_markdown(path, source):
    notebook = nbformat.read(path, 4)
    notebook.cells.append(new_markdown_cell(source, id=f"added-{len(notebook.cells):02}"))
    nbformat.write(notebook, path)


def test_build_executes_each_notebook_once(small_book):
    second = small_book / "chapters" / "second.ipynb"
    log = build_book(small_book).stdout
    assert "executing 2 of 2 notebooks" in log
    assert log.count("Using cached notebook") == 2

    assert "executing" not in build_book(small_book, "--all").stdout

    write_notebook(second, "print('three')")
    log = build_book(small_book).stdout
    assert "executing 1 of 2 notebooks" in log
    assert "second.ipynb ok" in log
    assert "three" in (small_book / "_build/html/chapters/second.html").read_text(encoding="utf8")


def test_failing_cell_fails_the_build(small_book):
    second = write_notebook(small_book / "chapters" / "second.ipynb", "total = 1", "total / 0")
    build = build_book(small_book)
    assert build.returncode != 0
    assert "second.ipynb failed in cell 3 (step-02)" in build.stdout
    assert "ZeroDivisionError" in build.stdout

    write_notebook(second, "total = 1")
    assert build_book(small_book).returncode == 0


COUNT_AND = """
with open("runs", "a") as file:
    file.write("x")
"""


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("while True: pass", "timed out"),
        ("import os; os._exit(1)", "Kernel died"),
    ],
)
def test_a_failure_runs_once_and_is_on_its_page(failing, message, small_book):
    config = small_book / "_config.yml"
    config.write_text(config.read_text("utf8").replace("timeout: 120", "timeout: 3"), "utf8")
    first = small_book / "chapters" / "first.ipynb"
    write_notebook(first, "print('before')", COUNT_AND + failing)
    build = build_book(small_book)
    assert build.returncode != 0
    assert "first.ipynb failed in cell 3 (step-02)" in build.stdout
    assert (small_book / "chapters" / "runs").read_text() == "x"
    page = (small_book / "_build/html/chapters/first.html").read_text(encoding="utf8")
    assert message in page
    assert "before" in page
    assert (small_book / "_build/html/chapters/second.html").is_file()


def test_writing_to_stderr_fails_the_build(small_book):
    write_notebook(
        small_book / "chapters" / "second.ipynb", "import sys\nprint('x', file=sys.stderr)"
    )
    build = build_book(small_book)
    assert build.returncode != 0
    assert "stderr" in build.stdout


def test_citation_links(small_book):
    first = small_book / "chapters" / "first.ipynb"
    add_markdown(first, "By [Ba et al., 2016](bibliography.md#ba2016).")
    build = build_book(small_book)
    assert build.returncode == 0, build.stdout[-3000:]
    page = (small_book / "_build/html/chapters/first.html").read_text(encoding="utf8")
    assert 'href="bibliography.html#ba2016"' in page

    add_markdown(first, "By [nobody](bibliography.md#nobody0000).")
    build = build_book(small_book)
    assert build.returncode != 0
    assert "nobody0000" in build.stdout


# Everything that is wider than a phone, and what the theme colors by itself.
WIDE = r"""
An inline formula $\mu = \frac{1}{m}\sum_{i=1}^{m} x_i$ and a [link](bibliography.md).

$$
\hat{x}_{n,c,h,w} = \frac{x_{n,c,h,w} - \mu_{n}}{\sqrt{\sigma_{n}^2 + \epsilon}} \qquad
\mu_n = \frac{1}{C H W}\sum_{c=1}^{C}\sum_{h=1}^{H}\sum_{w=1}^{W} x_{n,c,h,w} \tag{6-23}
$$

$$
\boldsymbol{y} = \cancel{x} \tag{2}
$$

| layer | cells | statistics indexed by | running statistics indexed by | gamma indexed by |
|---|---|---|---|---|
| BatchNorm2d | `n c h w` | `c` | `c` | `c` |

> **Key idea.** A quote with $x$.

<details>
<summary>Show the solution</summary>

Hidden, with $\sigma^2$.

</details>

<div class="alert alert-info">

A note with a [link](bibliography.md) and `code`.

</div>
"""
FIGURE = """
from IPython.display import HTML
HTML('<figure class="nb-figure"><svg viewBox="0 0 900 60" width="900" height="60" role="img"'
     ' aria-label="a line"><path d="M0 9H900" stroke="currentColor"/><text y="40"'
     ' fill="currentColor">text</text></svg><figcaption>A figure.</figcaption></figure>')
"""
TABLE = """
HTML('<table class="nb-verify"><caption>Checked</caption><tr><th>what</th><th>computed</th></tr>'
     '<tr><td>a mean</td><td>' + '0.4933' * 20 + '</td></tr></table>')
"""


def test_wide_content_scrolls_inside_itself(small_book, visit):
    first = small_book / "chapters" / "first.ipynb"
    write_notebook(first, FIGURE, TABLE, "print('x' * 500)")
    add_markdown(first, WIDE)
    build = build_book(small_book)
    assert build.returncode == 0, build.stdout[-3000:]
    page = small_book / "_build/html/chapters/first.html"
    for color_scheme in ("light", "dark"):
        check_page(visit(page, 360, color_scheme), color_scheme)


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "damaged.ipynb"
    path.write_text('{"cells": [')
    with pytest.raises(ValueError, match=r"damaged\.ipynb is no notebook"):
        execute_notebook(path)

"""The exercises: the student's notebook, and what its checkers say."""

import nbformat
import pytest
import torch

from helpers import ROOT
from normbook.build.strip_solutions import main, with_holes, without_solutions

EXERCISES = ROOT / "chapters" / "exercises.ipynb"


@pytest.fixture(autouse=True)
def leave_torch_as_it_is():
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)


@pytest.fixture(scope="module")
def full():
    return nbformat.read(EXERCISES, 4)


def run(notebook, **replaced):
    """Run the code of a notebook, some cells replaced; returns the failing cell's id and error."""
    names = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            try:
                exec(replaced.get(cell.id.replace("-", "_"), cell.source), names)
            except Exception as error:
                return cell.id, str(error)
    return None


def test_a_solution_leaves_its_outline():
    source = '''
import numpy as np
from math import sqrt

def f(x, eps=1e-5):
    """Does it.

    In two paragraphs.
    """
    def inner(y):
        return y
    return inner(x)

def g(x,
      *, y=2) -> int:
    # a comment
    return x  # another

a = b = f(2)
'''
    assert (
        with_holes(source)
        == '''
import numpy as np
from math import sqrt

def f(x, eps=1e-05):
    """Does it.

    In two paragraphs.
    """
    ...  # your code


def g(x, *, y=2) -> int:
    ...  # your code

a = b = ...  # your code
'''.strip()
    )


def test_a_solution_of_another_form_is_refused():
    with pytest.raises(ValueError, match=r"a solution holds 'print\(1\)'"):
        with_holes("print(1)")


def test_students_get_all_but_the_solutions(full):
    student = without_solutions(full)
    assert len(student.cells) == len(full.cells)
    holes = [cell for cell in student.cells if "# your code" in cell.source]
    solved = [cell for cell in full.cells if "solution" in cell.metadata.get("tags", [])]
    assert [cell.id for cell in holes] == [cell.id for cell in solved]
    assert len(solved) >= 20
    assert not any(cell.metadata.get("tags") for cell in holes)
    texts = [cell.source for cell in student.cells if cell not in holes]
    assert texts == [cell.source for cell in full.cells if cell not in solved]


def test_the_students_notebook_runs_up_to_the_first_hole(tmp_path, capsys):
    main(tmp_path / "new", EXERCISES)
    assert "exercises.ipynb" in capsys.readouterr().out
    notebook = nbformat.read(tmp_path / "new" / "exercises.ipynb", 4)
    nbformat.validate(notebook)
    assert run(notebook) == (
        "ex-row-check",
        "normalize_row: there is no answer yet. Write it in the cell above.",
    )


def test_each_exercise_alone_asks_for_an_answer(full):
    """With one hole and all else solved, that exercise's checker says so."""
    for cell in full.cells:
        if "solution" not in cell.metadata.get("tags", []):
            continue
        failed = run(full, **{cell.id.replace("-", "_"): with_holes(cell.source)})
        assert failed, cell.id
        assert failed[0] == cell.id.removesuffix("-solution") + "-check"
        assert "there is no answer yet" in failed[1]


MISTAKES = (
    ("ex_row", "n − 1", "normalize_row = lambda x: (x - x.mean()) / np.sqrt(x.var(ddof=1) + 1e-5)"),
    ("ex_row", "root is missing", "normalize_row = lambda x: (x - x.mean()) / (x.var() + 1e-5)"),
    ("ex_channel_mean_solution", "line up with W", "channel_means = lambda x: x.mean((0, 2, 3))"),
    (
        "ex_mask_solution",
        "One word too many",
        "mask_of = lambda lengths, steps: np.arange(steps) <= np.array(lengths)[:, None]",
    ),
    (
        "ex_standardize_solution",
        "depend on its mates",
        "standardize = lambda *both: [(x - x.mean(0)) / x.std(0) for x in both]",
    ),
    (
        "ex_bn_running_solution",
        "the unbiased one",
        "def update(mean, variance, x):\n"
        "    return .9 * mean + .1 * x.mean((0, 2, 3)), .9 * variance + .1 * x.var((0, 2, 3))",
    ),
    (
        "ex_bn_graph_solution",
        "their paths are missing",
        "batch_norm_backward = lambda dy, x: dy / np.sqrt(x.var(0) + 1e-5)",
    ),
    ("ex_rms", "24 of 24 values are off", "rms_norm = lambda x, gamma: 2 * x"),
    (
        "ex_ln_rnn",
        "before tanh",
        "def ln_rnn_step(x, h, W, U, gamma, beta):\n"
        "    return gamma * layer_norm(np.tanh(x @ W.T + h @ U.T)) + beta",
    ),
    (
        "ex_per_step_solution",
        "zeros of the padding are counted, and",
        "batch_norm_per_step = lambda x, mask: (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)",
    ),
    (
        "ex_count",
        "have parameters",
        "count = lambda d, ff: 4 * (d * d + d) + 2 * d * ff + ff + d",
    ),
    (
        "ex_pre_ln_solution",
        "post-LN",
        "pre_ln = lambda x, a, f, n, m: m((y := n(x + a(x))) + f(y))",
    ),
    (
        "ex_leak_solution",
        "layer norm leaks: not yet. Yours is True",
        "leaks = lambda f, x, t: True",
    ),
)


@pytest.mark.parametrize(("exercise", "said", "answer"), MISTAKES)
def test_well_known_mistakes_are_named(full, exercise, said, answer):
    failed, message = run(full, **{exercise: answer})
    assert exercise.replace("_", "-").removesuffix("-solution") == failed.removesuffix("-check")
    assert said in message


def test_every_chapter_has_three_to_six(full):
    counts = []  # of the sections, each named after a chapter
    for cell in full.cells:
        counts += [0] * cell.source.startswith("## ")
        if "solution" in cell.metadata.get("tags", []):
            counts[-1] += 1
    assert len(counts) == 7
    assert all(3 <= count <= 6 for count in counts)

"""The examples in the docstrings run, and print what they say."""

import doctest
import inspect
import re
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

# Those of the page on the package.
LIGHT = (  # without torch
    "core.normalize core.scheme data.dataset data.digits data.examples data.load data.text "
    "experiments.comparison experiments.verdicts page.exercise_check page.figures.figure "
    "page.figures.flow page.figures.plots page.figures.tensor page.quiz page.show_source "
    "page.verify widgets.explorer widgets.shared_statistics widgets.translations"
)
HEAVY = (
    "experiments.training layers.batch_norm_over_time layers.layer_norm_recurrent layers.norms "
    "layers.transformer"
)
MODULES = [f"normbook.{name}" for name in f"{LIGHT} {HEAVY}".split()]


def run_examples(name):
    """Run all examples of a module; what is wrong with them goes to stdout."""
    module = import_module(name)
    return doctest.testmod(module, globs={**vars(module), "np": np})


def public(module):
    """The functions and classes that a module defines for others.

    Where its package says what it is for, these are but those that the package names.
    """
    named = getattr(import_module(module.__name__.rpartition(".")[0]), "__all__", None)
    return {
        name: value
        for name, value in vars(module).items()
        if (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
        and (not name.startswith("_") if named is None else name in named)
    }


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name, capsys):
    failed, attempted = run_examples(name)
    assert not failed, capsys.readouterr().out
    assert attempted


def test_a_wrong_example_fails():
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(verbose=False).run(example, out=lambda text: None).failed == 1


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_has_an_example(name):
    bare = [n for n, value in public(import_module(name)).items() if ">>> " not in value.__doc__]
    assert bare == []


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_is_in_the_book(name, book):
    pages = [page.read_text(encoding="utf8") for page in book.glob("chapters/api_*.html")]
    anchors = set(re.findall(r'id="(normbook[\w.]+)"', "".join(pages)))
    # Widgets are imported from their package.
    module = "normbook.widgets" if name.startswith("normbook.widgets.") else name
    assert {f"{module}.{n}" for n in public(import_module(name))} <= anchors


def test_light_modules_need_no_torch():
    script = (
        "import doctest, sys, numpy as np; from importlib import import_module\n"
        "for name in sys.argv[1:]:\n"
        "    module = import_module(f'normbook.{name}')\n"
        "    assert not doctest.testmod(module, globs={**vars(module), 'np': np}).failed\n"
        "    assert 'torch' not in sys.modules, name"
    )
    command = [sys.executable, "-c", script, *LIGHT.split()]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert result.returncode == 0, result.stdout

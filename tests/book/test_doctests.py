"""The examples in the docstrings run, and print what they say."""

import ast
import doctest
import inspect
import re
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from helpers import NOTEBOOKS, ROOT
from notebook_code import imports, uses
from test_rooms import PACKAGE, ROOMS, module_of

ALL = {module_of(path): path.read_text("utf8") for path in PACKAGE.rglob("*.py")}
WITH_EXAMPLES = sorted(name for name, source in ALL.items() if ">>> " in source)
LIGHT = [  # of rooms that load no torch
    name
    for name in WITH_EXAMPLES
    if name.split(".")[1] != "layers" and not re.search("^(import|from) torch", ALL[name], re.M)
]
DIRECTIVE = re.compile(r"^ *\.\. auto(module|class|function):: (\S+)\n((?: +:\S.*\n)*)", re.M)


def documented(text):
    """The modules that a page of the package documents, and whether with all that is in them."""
    found, current = {}, ""
    for kind, name, options in DIRECTIVE.findall(text):
        if kind == "module":
            current = name
            found[name] = ":no-members:" not in options
        else:
            module, _, name = name.rpartition(".")
            found[getattr(import_module(module or current), name).__module__] = True
    return found


API = {path.name: path.read_text("utf8") for path in (ROOT / "chapters").glob("api_*.md")}
DOCUMENTED = {name: whole for text in API.values() for name, whole in documented(text).items()}
PUBLIC = sorted(name for name, whole in DOCUMENTED.items() if whole)


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


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_hold(name, capsys):
    failed, attempted = run_examples(name)
    assert not failed, capsys.readouterr().out
    assert attempted


def test_a_wrong_example_fails():
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(verbose=False).run(example, out=lambda text: None).failed == 1


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_has_an_example(name):
    bare = [n for n, value in public(import_module(name)).items() if ">>> " not in value.__doc__]
    assert bare == []


@pytest.mark.parametrize("name", PUBLIC)
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
        "    module = import_module(name)\n"
        "    assert not doctest.testmod(module, globs={**vars(module), 'np': np}).failed\n"
        "    assert 'torch' not in sys.modules, name"
    )
    command = [sys.executable, "-c", script, *LIGHT]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert result.returncode == 0, result.stdout


def home(name):
    """The module that defines what the package calls ``name``, through the faces of its rooms."""
    if name in ALL:
        return name
    parent, _, last = name.rpartition(".")
    if parent not in ALL:  # a part of something
        return home(parent)
    for node in ast.walk(ast.parse(ALL[parent])):
        if isinstance(node, ast.ImportFrom) and last in {alias.name for alias in node.names}:
            return home(f"{node.module}.{last}")
    return parent


def test_home():
    assert home("normbook.core.normalize.Statistics.mean") == "normbook.core.normalize"
    assert home("normbook.core.LAYER_NORM.pytorch") == "normbook.core.scheme"
    assert home("normbook.page.draw_sharing") == "normbook.page.figures.tensor"
    assert home("normbook.core.arithmetic.moments") == "normbook.core.arithmetic"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_imports_is_in_the_book(path):
    """A room itself says nothing; what is used of it does."""
    homes = {name: home(name) for name in {*imports(path).values(), *uses(path)}}
    rooms = {f"normbook.{room}" for room in ROOMS}
    assert {n: found for n, found in homes.items() if found not in rooms | set(DOCUMENTED)} == {}


def test_the_page_on_modules_leads_to_each():
    sections = {
        f"{page}#{heading.replace('.', '')}"
        for page, text in API.items()
        for heading in re.findall(r"^## (normbook[\w.]+)$", text, re.M)
    }
    links = re.findall(r"\]\((api_\w+\.md#\w+)\)", (ROOT / "chapters/api.md").read_text("utf8"))
    assert sorted(links) == sorted(sections)

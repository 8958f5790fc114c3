"""The package is a house: a room uses the rooms above it, and no module is used in a circle."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import normbook

PACKAGE = Path(normbook.__file__).parent
# From the top down. `core` and `data` use none.
ROOMS = ("core", "data", "layers", "page", "widgets", "experiments", "build")
MAY_USE = {room: set(ROOMS[:i]) for i, room in enumerate(ROOMS)} | {"data": set()}


def module_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


def uses(module, tree):
    """The modules of the package that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level + 1 or None]) if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name not in MODULES and "." in name:
                name = name.rpartition(".")[0]
            if name in MODULES and name != module:
                yield name


USES = {
    module: set(uses(module, ast.parse(path.read_text("utf8")))) for module, path in MODULES.items()
}


def room(module):
    return [*module.split("."), ""][1]


def test_every_module_is_in_a_room():
    assert {room(module) for module in MODULES} == {"", *ROOMS}
    assert sum(map(len, USES.values())) > 50


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_room_uses_those_above_it(module):
    own = room(module)
    used = {room(other) for other in USES[module]} - {own, ""}
    assert used <= MAY_USE.get(own, set())


def test_no_module_is_used_in_a_circle():
    """A package's face uses its modules; those may not use the face of their own room."""
    TopologicalSorter(USES).prepare()


def test_the_rule_notices_what_breaks_it():
    late = "def f():\n    from normbook.layers import norms\n    import normbook.data.mnist"
    assert set(uses("normbook.core.scheme", ast.parse(late))) == {
        "normbook.layers.norms",
        "normbook.data.mnist",
    }
    assert not {"layers", "data"} <= MAY_USE["core"]


@pytest.mark.parametrize("name", ["core", "data", "page", "widgets", "experiments"])
def test_rooms_that_load_neither_torch_nor_matplotlib(name):
    script = f"import sys, normbook.{name}; print({{'torch', 'matplotlib'}} & set(sys.modules))"
    command = [sys.executable, "-c", script]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.strip() == "set()"


@pytest.mark.parametrize("name", [name for name in ROOMS if name != "build"])
def test_a_room_has_a_public_face(name):
    face = __import__(f"normbook.{name}", fromlist=["*"])
    assert face.__doc__
    assert face.__all__ == sorted(face.__all__, key=lambda n: (not n.isupper(), n[0].islower(), n))
    assert all(hasattr(face, public) for public in face.__all__)

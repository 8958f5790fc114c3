"""The hash of the code that can change a result: what changes it, and what doesn't."""

import subprocess
import sys

import pytest

from normbook.experiments.code_hash import code_hash, reached

FILES = {
    "__init__": "",
    "main": '''
"""The module that is hashed."""

from math import sqrt

import numpy as np
from toybook import shapes
from toybook.face import area, unused

SCALE = {"m": 1.0}
SCALE["km"] = 1000.0
OTHER = 5


def run(size, unit="m"):
    """Rows."""
    from toybook.late import half

    if size < 0:
        raise ValueError(f"size is {size}")
    return np.sqrt(half(area(size, shapes.SIDES))) * SCALE[unit]
''',
    "face": "from toybook.deep.area import area\nfrom toybook.deep.area import unused\n",
    "deep.__init__": "from toybook.deep import area\n",
    "deep.area": '''
from dataclasses import dataclass


@dataclass
class Shape:
    """A shape."""

    sides: int = 4

    def area(self, size: float) -> float:
        return size**2 * self.sides


def area(size: float, sides: int) -> float:
    # Of a square.
    return Shape(sides).area(size)


def unused():
    return 1
''',
    "shapes": "SIDES = 4\nFACES = 6\n",
    "late": "def half(a):\n    return a / 2\n",
    "patch": "from toybook import shapes\n\nshapes.SIDES = 6\n",
}


class Toy:
    def __init__(self, folder):
        self.folder = folder / "toybook"
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf8")

    def edit(self, name, old, new):
        path = self.folder.joinpath(*name.split(".")).with_suffix(".py")
        text = path.read_text("utf8")
        assert old in text
        self.write(name, text.replace(old, new))

    @property
    def hash(self):
        return code_hash("toybook.main", "run")


@pytest.fixture
def toy(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return Toy(tmp_path)


def test_what_is_reached(toy):
    assert reached("toybook.main", "run") == {
        ("toybook.main", "run"),
        ("toybook.main", "SCALE"),
        ("toybook.main", ""),  # a table that is changed
        ("toybook.deep.area", "area"),
        ("toybook.deep.area", "Shape"),
        ("toybook.shapes", "SIDES"),
        ("toybook.late", "half"),
    }


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("main", "< 0", "<= 0"),
        ("main", "1000.0", "1000.5"),
        ("main", "ValueError", "TypeError"),
        ("main", 'unit="m"', 'unit="km"'),
        ("main", "import numpy as np", "import cupy as np"),
        ("shapes", "SIDES = 4", "SIDES = 5"),
        ("late", "a / 2", "a / 2.0"),
        ("deep.area", "sides: int = 4", "sides: int = 3"),
        ("deep.area", "size**2", "2**size"),
        ("deep.area", "@dataclass", "@dataclass(frozen=True)"),
        ("deep.area", "return Shape(sides)", "sides + 1\n    return Shape(sides)"),
        ("shapes", "SIDES = 4\n", "SIDES = 4\nprint(SIDES)\n"),  # something that is done on import
        ("main", "OTHER = 5", "OTHER = 5\nshapes.SIDES = 5"),
        ("main", "OTHER = 5", "OTHER = 5\nnp.sqrt = abs"),
        ("main", "OTHER = 5", "OTHER = 5\narea = abs"),  # in place of what was imported
        ("main", "OTHER = 5", "OTHER = 5\n_ = SCALE.update(m=2)"),
        ("main", "OTHER = 5", "OTHER = 5\nfor name in SCALE:\n    SCALE[name] = 1"),
        ("main", "OTHER = 5", "OTHER = 5\nif OTHER:\n    def run(size):\n        return size"),
        ("late", "def half", "from toybook.shapes import SIDES\n\n\n@SIDES\ndef half"),
        ("deep.area", "sides: int = 4", "sides: ClassVar[int] = 4"),
        # What a package around it, or a module that is only imported, does at its top:
        ("deep.__init__", "import area\n", "import area\n\narea.area = abs\n"),
        ("__init__", "", "import math\n\nmath.pi = 3\n"),
        ("late", "def half", "import toybook.patch\n\n\ndef half"),
    ],
)
def test_what_changes_the_hash(toy, name, old, new):
    before = toy.hash
    toy.edit(name, old, new)
    assert toy.hash != before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("main", "The module that is hashed.", "Another text."),
        ("main", '    """Rows."""\n', ""),
        ("main", "size is {size}", "a negative size"),
        ("main", "OTHER = 5", "OTHER = 6"),
        ("main", "import numpy as np", "import numpy as xp"),
        ("main", "from math import sqrt", "from math import cos"),
        ("deep.area", "# Of a square.", "# Of any square."),
        ("deep.area", "size: float, sides: int) -> float", "size, sides)"),
        ("deep.area", "size**2 * self", "(size ** 2)*self"),
        ("deep.area", "return 1", "return 2"),
        ("shapes", "FACES = 6", "FACES = 7\nROWS = 8"),
        ("shapes", "SIDES = 4", "SIDES: int = 4"),
        ("late", "def half", "if __name__ == '__main__':\n    print(1)\n\n\ndef half"),
        ("patch", "6", "7"),  # nobody imports it
    ],
)
def test_what_does_not(toy, name, old, new):
    before = toy.hash
    toy.edit(name, old, new)
    if "np" in old:
        toy.edit(name, "np.sqrt", "xp.sqrt")
    assert toy.hash == before


def test_code_may_move(toy):
    """Into other modules, behind another face, with another way to import it."""
    before = toy.hash
    text = FILES["deep.area"]
    shape, function = text.split("def area(size: float, sides")
    toy.write("shape", shape)
    toy.write("area", "from toybook import shape as s\n\n\ndef area(size: float, sides" + function)
    toy.edit("area", "Shape(", "s.Shape(")
    toy.edit("main", "from toybook.face import area, unused", "from toybook.area import area")
    toy.write("deep.__init__", "from toybook.shapes import SIDES")
    toy.edit("main", "from toybook import shapes", "from toybook import deep as shapes")
    assert toy.hash == before


def test_names_of_two_modules_are_told_apart(toy):
    toy.write("a", "def f():\n    return 1\n")
    toy.write("b", "def f():\n    return 2\n")
    toy.write("main", "from toybook import a, b\n\n\ndef run():\n    return a.f() - b.f()\n")
    before = toy.hash
    toy.edit("main", "a.f() - b.f()", "b.f() - a.f()")
    assert toy.hash != before
    toy.write("a", "def f():\n    return 2\n")
    toy.write("b", "def f():\n    return 1\n")
    assert toy.hash == before  # the modules have changed places


@pytest.mark.parametrize(
    "top",
    [
        "try:\n    from toybook.a import f\nexcept ImportError:\n    f = None",
        "import sys\nif sys.argv:\n    from toybook.a import f\nelse:\n    from toybook.b import f",
    ],
)
def test_imports_within_statements_are_followed(toy, top):
    toy.write("a", "def f():\n    return 1\n")
    toy.write("b", "def f():\n    return 2\n")
    toy.write("main", f"{top}\n\n\ndef run():\n    return f()\n")
    before = toy.hash
    toy.edit("a", "1", "3")
    assert toy.hash != before


def test_a_local_import_hides_nothing(toy):
    """Another function of the class may mean what was imported at the top."""
    toy.write("a", "def f():\n    return 1\n")
    toy.write("b", "def f():\n    return 2\n")
    text = """
from toybook.a import f


class run:
    def p(self):
        return f()

    def q(self):
        from toybook.b import f

        return f()
"""
    toy.write("main", text)
    before = toy.hash
    toy.edit("a", "1", "3")
    changed = toy.hash
    toy.edit("b", "2", "4")
    assert len({before, changed, toy.hash}) == 3


def test_a_module_that_is_handed_on_counts_as_a_whole(toy):
    toy.edit("main", "shapes.SIDES", 'getattr(shapes, "SIDES")')
    assert ("toybook.shapes", "FACES") in reached("toybook.main", "run")


def test_all_that_binds_a_name_counts(toy):
    toy.edit("shapes", "SIDES = 4", "if FACES := 6:\n    for SIDES in range(4):\n        pass")
    before = toy.hash
    toy.edit("shapes", "range(4)", "range(5)")
    assert toy.hash != before


def test_hashing_runs_nothing(toy):
    for name in FILES:
        toy.edit(name, FILES[name], FILES[name] + "\nraise SystemExit\n")
    assert toy.hash
    assert not [name for name in sys.modules if name.startswith("toybook")]


def test_what_cannot_be_followed_is_refused(toy):
    toy.edit("face", "from toybook.deep.area import area", "from .deep.area import area")
    with pytest.raises(ValueError, match="line 1: name the module in full, not from a dot on"):
        code_hash("toybook.main", "run")
    toy.edit("face", "from .deep.area import area", "from toybook.deep.area import *")
    with pytest.raises(ValueError, match=r"line 1: name what is imported, not \*"):
        code_hash("toybook.main", "run")
    toy.edit("face", "import *", "import area")
    with pytest.raises(ValueError, match=r"toybook\.main has no 'walk'"):
        code_hash("toybook.main", "walk")
    toy.edit("face", "import area", "import perimeter as area")
    with pytest.raises(ValueError, match=r"toybook\.deep\.area has no 'perimeter'"):
        code_hash("toybook.main", "run")


def test_hashing_loads_no_torch():
    script = (
        "import sys; from normbook.experiments.code_hash import code_hash;"
        "code_hash('normbook.experiments.warm_up', 'run'); print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", script]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "False"

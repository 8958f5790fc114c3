"""The modules of a front end, joined into one."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from py_mini_racer import MiniRacer

import normbook.widgets
from normbook.build.sphinxext.widgets import _refresh_code
from normbook.widgets import SharedStatistics
from normbook.widgets.join import join

FRONT = Path(normbook.widgets.__file__).parent / "shared_statistics_front"

MODULES = {
    "main.js": 'import { half, sum } from "./sums.js";\nimport { two } from "./two.js";\n\n'
    "const all = sum(two, half);\n\nexport default { all };\n",
    "sums.js": '// Sums\nimport {\n  two,\n} from "./two.js";\n\n'
    "export const sum = (a, b) => a + b;\nexport async function later() {}\n"
    "export const half = 1 / two;\n",
    "two.js": 'export let two = 2;\nconst text = `\n  export const three = "import";\n`;\n',
}


@pytest.fixture
def write(tmp_path):
    def write(**changed):
        """The module to begin with, in a folder with these others."""
        for name, code in (MODULES | {f"{k}.js": v for k, v in changed.items()}).items():
            (tmp_path / name).write_text(code, encoding="utf8")
        return tmp_path / "main.js"

    return write


def test_modules_come_after_what_they_import(write):
    joined = join(write())
    assert [file.name for file in joined.files] == ["two.js", "sums.js", "main.js"]
    assert joined.count("import") == 1  # the one in a text
    assert joined.count("\nexport ") == 1
    assert '  export const three = "import";' in joined
    with MiniRacer() as engine:
        assert (
            engine.eval(joined.replace("export default", "globalThis.main =") + "main.all") == 2.5
        )


@pytest.mark.parametrize(
    ("name", "code", "problem"),
    [
        ("two", 'import { sum } from "./sums.js";', r"\w+.js → .*: .* import each other"),
        ("two", "export const two = 2;\nconst all = 1;", "both define all"),
        ("two", "export const two = 2;\nconst two = 1;", "two.js and two.js both define two"),
        ("two", "export const three = 3;", "imports two, which two.js doesn't export"),
        ("two", "const two = 2;", "imports two, which two.js doesn't export"),
        ("two", "export const { two } = all;", "two.js: expected one name after 'const'"),
        ("two", "export const two = 2;\nexport default two;", "join 'export default two;'"),
        ("sums", "const sum = 2;\nexport { sum };", "sums.js: can't join 'export { sum };'"),
        ("sums", 'export * from "./two.js";', "sums.js: can't join 'export "),
        ("main", 'import { sum as add } from "./sums.js";', "main.js: can't join 'import .*sum as"),
        ("main", 'import * as sums from "./sums.js";', "main.js: can't join 'import "),
        ("main", 'import sums from "./sums.js";', "main.js: can't join 'import sums"),
        ("main", 'import "./sums.js";', "main.js: can't join 'import "),
        ("main", 'import { select } from "d3";', "main.js: can't join 'import .*d3"),
        ("main", 'import { a } from "https://esm.sh/a.js";', "can't join 'import .*esm"),
        ("main", 'import { a } from "../a.js";', "main.js: can't join 'import "),
    ],
)  # fmt: skip
def test_what_can_not_be_joined_is_named(write, name, code, problem):
    with pytest.raises(ValueError, match=problem):
        join(write(**{name: f"{code}\n"}))


def test_a_module_that_is_not_there_is_named(write):
    with pytest.raises(FileNotFoundError, match=r"three\.js"):
        join(write(main='import { three } from "./three.js";\n'))


def test_the_front_end_is_joined_from_all_of_its_modules():
    assert sorted(SharedStatistics._esm.files) == sorted(FRONT.glob("*.js"))
    assert SharedStatistics._esm == join(FRONT / "stage.js")
    assert SharedStatistics([[1, 2]]).get_state()["_esm"] == SharedStatistics._esm


def test_a_page_gets_the_joined_code_and_depends_on_its_files():
    noted = []
    env = SimpleNamespace(docname="page", note_dependency=noted.append)
    name = f"{SharedStatistics.__module__}.{SharedStatistics.__name__}"
    state = {"_anywidget_id": name, "_esm": "as it was", "_css": "as it was"}
    _refresh_code(state, env)
    assert state["_esm"] == SharedStatistics._esm
    assert {str(file) for file in FRONT.glob("*.js")} < set(noted)

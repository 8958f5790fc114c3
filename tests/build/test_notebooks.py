from importlib.metadata import version
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup

from normbook.build.execute import Execution
from normbook.build.sphinxext.notebooks import notebooks_table, versions_table


def run(name, seconds, error=None):
    return Execution(Path("chapters", name), nbformat.v4.new_notebook(), seconds, error=error)


def test_notebooks_with_their_times():
    assert notebooks_table([run("a.ipynb", 1.26), run("b.ipynb", 2.5, "NameError")]) == (
        "| notebook | time | ran to its end |\n|---|---|---|\n"
        "| [](a.ipynb) | 1.3 s | ✓ |\n| [](b.ipynb) | 2.5 s | ✗ |\n| all together | 3.8 s | |"
    )


def test_versions_are_those_installed(tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("# comment\n-e .\nnumpy==0.1  # old\nnot-there-at-all==1\n")
    python, *others = versions_table(file).splitlines()[2:]
    assert python.startswith("| Python | 3.")
    assert others == [f"| numpy | {version('numpy')} |"]


def test_page_has_every_notebook(book, executions):
    page = book / "chapters" / "status.html"
    table = BeautifulSoup(page.read_text(encoding="utf8"), "html.parser").find("table")
    rows = [[cell.get_text() for cell in row.find_all("td")] for row in table.find_all("tr")[1:]]
    assert [row[1:] for row in rows[:-1]] == [
        [f"{execution.seconds:.1f} s", "✓"] for execution in executions.values()
    ]
    assert all(title for title, *_ in rows)

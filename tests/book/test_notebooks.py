"""Hygiene of the notebooks as committed, and of their outputs as executed.

A test named ``..._finds_...`` shows that the check next to it can fail.
"""

import ast
import re

import nbformat
import pytest
from markdown_it import MarkdownIt

from helpers import CHAPTERS, NOTEBOOKS, read_notebook

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
CELL_METADATA = {"tags", "mystnb", "jupyter"}

# What is raw text in JupyterLab, VS Code, Colab or on GitHub.
NOT_PORTABLE = {
    "role": r"\{[\w:+.-]+\}`",
    "directive": r"^\s*(`{3,}|~{3,}|:{3,})\s*\{",
    "colon fence": r"^\s*:{3,}",
    "target": r"^\([\w-]+\)=\s*$",
    "labelled formula": r"\$\$\s*\([\w:-]+\)\s*$",
    "GitHub alert": r"^\s*>\s*\[!\w+\]",
    "footnote": r"\[\^[\w-]+\]",
    "image from another host": r"!\[[^\]]*\]\(\s*(https?:)?//",
}

notebooks = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path, cell_type):
    return [cell for cell in read_notebook(path).cells if cell.cell_type == cell_type]


@notebooks
def test_valid_and_stripped(path):
    nbformat.validate(read_notebook(path))
    for cell in cells(path, "code"):
        assert cell.outputs == [], f"{cell.id} has outputs"
        assert cell.execution_count is None, f"{cell.id} has an execution count"


@notebooks
def test_metadata_is_the_same_for_every_author(path):
    assert read_notebook(path).metadata == {
        "kernelspec": KERNELSPEC,
        "language_info": {"name": "python"},
    }
    for cell in read_notebook(path).cells:
        assert set(cell.metadata) <= CELL_METADATA, cell.id


def is_semantic(cell_id):
    """A name such as cnn-by-hand-03, and no random number such as an editor makes."""
    words = re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", cell_id)
    return bool(words and re.search("[g-z]", cell_id))


def test_is_semantic_finds_random_ids():
    assert is_semantic("cnn-by-hand-03")
    assert not is_semantic("a3f09c1b")
    assert not is_semantic("bfa00e7c-7e3b-4b0e-9d51-0c6f1d0cf4aa")
    assert not is_semantic("Cell 3")


@notebooks
def test_cell_ids(path):
    ids = [cell.id for cell in read_notebook(path).cells]
    assert [cell_id for cell_id in ids if not is_semantic(cell_id)] == []
    assert sorted(ids) == sorted(set(ids))


def not_portable(source):
    """What in the Markdown text ``source`` only some readers of notebooks render."""
    found = [
        (name, match.group())
        for name, pattern in NOT_PORTABLE.items()
        for match in re.finditer(pattern, source, re.MULTILINE)
    ]
    # Stars inside a word, or next to punctuation as in **so.**Then, make nothing bold.
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        for child in (token, *(token.children or [])):
            if child.type.startswith("html"):  # the book shows it as text
                found.append(("HTML", child.content))
            if child.type == "text" and "**" in child.content:
                found.append(("stars that are not bold", child.content))
    return found


@pytest.mark.parametrize(
    "source",
    [
        "see {cite}`ba2016`",
        "```{note}\ntext\n```",
        ":::{note}\ntext\n:::",
        "(a-target)=\n## Heading",
        "$$\nx\n$$ (label)",
        "> [!TIP]\n> text",
        "text[^1]",
        "![plot](https://example.org/a.png)",
        '<img src="a.png">',
        "<details>\n<summary>Show</summary>\n\nHidden\n\n</details>",
        "**the end.**and on",
        "**重点。**后面",
    ],
)
def test_not_portable_finds(source):
    assert not_portable(source)


def test_portable_markup_passes():
    source = (
        "## Heading\n\n**Bold.** Text, `x[^1:]`-free, $\\frac{1}{2}$ and [link](a.ipynb#b).\n\n"
        "$$\nx^{2} \\tag{6-23}\n$$\n\n> **Lead.** Quote\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    )
    assert not_portable(source.replace("`x[^1:]`-free, ", "")) == []


@notebooks
def test_markup_is_portable(path):
    found = {cell.id: not_portable(cell.source) for cell in cells(path, "markdown")}
    assert {cell_id: problems for cell_id, problems in found.items() if problems} == {}


def computed_statements(source):
    """The rows given to verify and refute in ``source`` whose stated value isn't a literal.

    A row is (what, stated, computed). One that isn't written out counts, too.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        if getattr(node.func, "id", getattr(node.func, "attr", None)) not in ("verify", "refute"):
            continue
        for row in node.args:
            if not (isinstance(row, ast.Tuple) and len(row.elts) == 3 and is_literal(row.elts[1])):
                yield ast.unparse(row)


def is_literal(expression):
    """Whether it is made of constants alone, such as [-0.805] * 5 or 37 / 75."""
    names = (ast.Name, ast.Call, ast.Attribute, ast.comprehension)
    return not any(isinstance(node, names) for node in ast.walk(expression))


def test_computed_statements_finds():
    assert list(computed_statements("verify(('mean', 0.5, x), ('b', [-1, 2], y))")) == []
    assert list(computed_statements("verify(('rows', [[-0.8, 1]] * 3, x))")) == []
    assert list(computed_statements("verify(('mean', x.mean(), x.mean()))"))
    assert list(computed_statements("verify(('mean', [mean], x.mean()))"))
    assert list(computed_statements("normbook.page.verify.refute(*rows, decimals=4)"))


@notebooks
def test_stated_values_are_literals(path):
    """A value that is computed and then compared with itself would prove nothing."""
    found = {cell.id: [*computed_statements(cell.source)] for cell in cells(path, "code")}
    assert {cell_id: rows for cell_id, rows in found.items() if rows} == {}


def test_the_landing_page_leads_to_every_chapter():
    landing, *_ = NOTEBOOKS
    text = "\n".join(cell.source for cell in cells(landing, "markdown"))
    assert set(CHAPTERS) <= set(re.findall(r"^- \[[^]]+\]\((\w+)\.ipynb\)", text, re.MULTILINE))


@notebooks
def test_executes(path, executions):
    execution = executions[path.stem]
    assert execution.error is None, execution.error
    for cell in execution.notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error", cell.id
            assert output.get("name") != "stderr", f"{cell.id} wrote to stderr: {output.text}"


def decimals(text):
    """The decimal numbers in ``text``, unsigned, as they are written."""
    return set(re.findall(r"(?<![\w.])\d+\.\d+(?![.\d]*\w)", text))


def prose_decimals(markdown):
    """The decimal numbers a reader sees in a Markdown text; addresses of links don't count."""
    return decimals(re.sub(r"\]\([^)]*\)|<[^>]*>", " ", markdown))


def shown(output):
    """The text of an output."""
    bundle = output.get("data", {})
    texts = [output.get("text", ""), bundle.get("text/plain", ""), bundle.get("text/markdown", "")]
    texts.append(re.sub("<[^>]*>", " ", bundle.get("text/html", "")))
    return "\n".join(texts)


def test_decimals_finds():
    assert decimals("0.7733, −1.5 and 2.0e-3") == {"0.7733", "1.5"}
    assert decimals("version 1.2.3, a1.5 and 3. Then") == set()
    assert prose_decimals("[1.5](x1.ipynb#a-2.5) <a id='3.5'>") == {"1.5"}


@notebooks
def test_numbers_in_the_prose_are_on_the_page(path, executions):
    """A number that is neither computed nor checked may be wrong unnoticed."""
    checked = set()
    for cell in executions[path.stem].notebook.cells:
        if cell.cell_type == "code":
            checked |= decimals(cell.source)
            for output in cell.get("outputs", []):
                checked |= decimals(shown(output))
    unchecked = {cell.id: prose_decimals(cell.source) - checked for cell in cells(path, "markdown")}
    assert {cell_id: numbers for cell_id, numbers in unchecked.items() if numbers} == {}

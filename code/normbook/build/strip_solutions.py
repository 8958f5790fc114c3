"""Makes the notebook for students from the full one: holes where solutions were.

Run as ``python -m normbook.build.strip_solutions FOLDER NOTEBOOK ...``. Cells tagged ``solution``
keep their imports, the signatures and docstrings of their functions, and the names that they
assign.
"""

import ast
import copy
import sys
from pathlib import Path

import nbformat

SOLUTION = "solution"
HOLE = "...  # your code"


def without_solutions(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A copy of the notebook with a hole in place of each solution, and without outputs."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        tags = cell.metadata.get("tags", [])
        if SOLUTION in tags:
            cell.source = with_holes(cell.source)
            cell.metadata = {}
    return notebook


def with_holes(source: str) -> str:
    """The code with a hole for the body of each function and the value of each assignment.

    Raises
    ------
    ValueError
        it holds a statement that is neither, nor an import.
    """
    parts = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            parts.append(ast.get_source_segment(source, node))
        elif isinstance(node, ast.FunctionDef):
            parts.append("\n" + _hollow(node) + "\n")
        elif isinstance(node, ast.Assign):
            names = " = ".join(ast.unparse(target) for target in node.targets)
            parts.append(f"{names} = {HOLE}")
        else:
            line = ast.get_source_segment(source, node)
            raise ValueError(f"a solution holds {line!r}; expected functions and assignments")
    return "\n".join(parts).strip()


def _hollow(function):
    documented = ast.get_docstring(function) is not None
    function.body = [*function.body[:documented], ast.Expr(ast.Constant(...))]
    return ast.unparse(function).removesuffix("...") + HOLE


def main(folder, *paths):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in map(Path, paths):
        target = folder / path.name
        nbformat.write(without_solutions(nbformat.read(path, 4)), target)
        print(f"wrote {target}")


if __name__ == "__main__":
    main(*sys.argv[1:])

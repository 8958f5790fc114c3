"""What the code of a notebook calls, imports and computes with, read and not run."""

import ast
from functools import cache

from helpers import read_notebook

DRAWN = {"SharedStatistics", "draw_sharing"}  # show a scheme, and compute no number of the page


@cache
def syntax(path):
    """The syntax trees of the code cells."""
    cells = read_notebook(path).cells
    return [ast.parse(cell.source) for cell in cells if cell.cell_type == "code"]


def calls(path):
    """Pairs of a name that is called and the keywords that are given."""
    for tree in syntax(path):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield ast.unparse(node.func).split(".")[-1], {word.arg for word in node.keywords}


def imports(path):
    """What is imported of the package, by the name it gets: ``{"F": "normbook.page.Flow"}``."""
    found = {}
    for tree in syntax(path):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            elif isinstance(node, ast.Import):
                found |= {a.asname or a.name: a.name for a in node.names}
    return {name: origin for name, origin in found.items() if origin.split(".")[0] == "normbook"}


def uses(path):
    """The names of the package that are computed with, such as ``normbook.layers.LayerNorm``."""
    origins = imports(path)

    def within(node):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in DRAWN:
            return
        if isinstance(node, ast.Name | ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            if first in origins:
                yield ".".join([origins[first], *rest])
        for child in ast.iter_child_nodes(node):
            yield from within(child)

    return {name for tree in syntax(path) for name in within(tree)}

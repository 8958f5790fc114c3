"""A hash of the code that can change what a function computes, and of no other.

From some names of a module on, it follows every name that their code uses, through the modules of
the same package, to functions, classes and tables. Of each it takes the syntax tree without what
changes no number: comments, docstrings, type hints, messages of errors, the layout of the lines,
and the names of the package's modules. So code may move from one module to another, and a row may
be added to a table beside those that are used; any other change of what is used shows.

Nothing is imported: the files are read.
"""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

_NO_NUMBER = {"annotation", "returns", "type_comment", "type_params", "ctx", "kind"}


def code_hash(module: str, *names: str) -> str:
    """A hash of these names of `module`, with all that they use of its package.

    Raises
    ------
    ValueError : a module is imported from a dot on, or with ``*``; a name isn't there.
    """
    program = _Program(module.partition(".")[0])
    found = program.reach(module, names)
    # Sorted by what they are, not by where: `_moved` in another module is the same.
    texts = sorted(f"{name} {text}" for (_, name), text in found.items())
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def reached(module: str, *names: str) -> set[tuple[str, str]]:
    """What `code_hash` covers, as pairs of a module and a name in it.

    The name "" stands for the statements of a module that bind no name.
    """
    return set(_Program(module.partition(".")[0]).reach(module, names))


@dataclass
class _Module:
    """The statements at the top of a module, by the names that they bind."""

    name: str
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)  # name here → dotted name there
    effects: list[ast.stmt] = field(default_factory=list)  # those that bind nothing


class _Program:
    """The modules of one package, read when they are needed."""

    def __init__(self, package):
        self.package = package
        self.modules = {}

    def reach(self, module, names):
        """The text of everything that is used, by module and name."""
        texts, todo = {}, []
        for name in names:
            if name not in self.read(module).bound:
                raise ValueError(f"{module} has no {name!r}")
            todo.append((module, name))
        while todo:
            place = where, name = todo.pop()
            if place in texts:
                continue
            own = self.read(where)
            statements = own.bound[name] if name else own.effects
            text = _Text(self, own)
            texts[place] = " ".join(text.of(statement) for statement in statements)
            todo += text.used
            if own.effects:
                todo.append((where, ""))
        return texts

    def read(self, name):
        if name not in self.modules:
            tree = ast.parse(self.file(name).read_text(encoding="utf8"))
            self.modules[name] = module = _Module(name)
            for statement in tree.body:
                self._sort(statement, module)
        return self.modules[name]

    def file(self, name):
        """The file of a module of the package; None if there is no such module."""
        first, *rest = name.split(".")
        spec = find_spec(first)
        for i, _ in enumerate(rest, 2):
            if spec is None or spec.submodule_search_locations is None:
                return None
            spec = PathFinder.find_spec(
                ".".join(name.split(".")[:i]), spec.submodule_search_locations
            )
        return Path(spec.origin) if spec and spec.origin else None

    def _sort(self, statement, module):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            module.imports |= self.imported(statement)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            module.bound.setdefault(statement.name, []).append(statement)
        elif not _is_text(statement):
            names = {
                node.id
                for target in _targets(statement)
                for node in ast.walk(target)
                if isinstance(node, ast.Name)
            }
            for name in names:  # also that of `table` in `table["row"] = 1`
                module.bound.setdefault(name, []).append(statement)
            if not names:
                module.effects.append(statement)

    def imported(self, statement):
        """What an import binds: the dotted name of each."""
        if isinstance(statement, ast.Import):
            names = [(a.asname or a.name.partition(".")[0], a) for a in statement.names]
            return {name: a.name if a.asname else name for name, a in names}
        if statement.level:
            raise ValueError(f"line {statement.lineno}: name the module in full, not from a dot on")
        names = [alias.name for alias in statement.names]
        if "*" in names and statement.module.partition(".")[0] == self.package:
            raise ValueError(f"line {statement.lineno}: name what is imported, not *")
        return {
            alias.asname or alias.name: f"{statement.module}.{alias.name}"
            for alias in statement.names
        }

    def resolve(self, dotted) -> tuple[str, str] | str:
        """The module and the name in it that `dotted` leads to; a module's name for a module."""
        owner, _, name = dotted.rpartition(".")
        if owner and self.file(owner):
            own = self.read(owner)
            if name in own.bound:
                return owner, name
            if own.imports.get(name, dotted) != dotted:
                return self.resolve(own.imports[name])
        if self.file(dotted):
            return dotted
        if not owner:
            raise ValueError(f"there is no module {dotted!r}")
        # An attribute of a class or table.
        found = self.resolve(owner)
        if isinstance(found, str):
            raise ValueError(f"{owner} has no {name!r}")
        return found


class _Text:
    """A statement as text, the same in all versions of Python, and what it uses of the package."""

    def __init__(self, program, module):
        self.program, self.module = program, module
        self.imports = module.imports
        self.used: list[tuple[str, str]] = []

    def of(self, statement):
        # What is imported within a function counts there alone.
        self.imports = dict(self.module.imports)
        for node in ast.walk(statement):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports |= self.program.imported(node)
        return self._text(statement)

    def _text(self, node):
        if isinstance(node, list):
            kept = [item for item in node if not _is_text(item)]
            return "[" + ",".join(map(self._text, kept)) + "]"
        if not isinstance(node, ast.AST):
            return repr(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            return "import"
        if isinstance(node, ast.Raise):  # without its message
            exc = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            return f"Raise({self._text(exc)})"
        if isinstance(node, ast.Name | ast.Attribute):
            chain = _chain(node)
            if chain and (known := self._known(chain)):
                return known
        fields = [
            f"{name}={self._text(value)}"
            for name, value in ast.iter_fields(node)
            if name not in _NO_NUMBER
            and (value not in (None, []) or isinstance(node, ast.Constant))
        ]
        kind = "Assign" if isinstance(node, ast.AnnAssign) else type(node).__name__
        return f"{kind}({','.join(fields)})"

    def _known(self, chain):
        """The text of ``a.b.c`` where `a` is bound at the top of the module; else None."""
        first, *rest = chain
        program = self.program
        if first in self.imports:
            dotted = self.imports[first]
            if dotted.partition(".")[0] != program.package:
                return f"Name({'.'.join([dotted, *rest])})"
            while True:
                place = program.resolve(dotted)
                if isinstance(place, tuple):
                    break
                if not rest:  # the module itself is handed on: all of it may be used
                    self.used += [(place, name) for name in program.read(place).bound]
                    return "Module"
                dotted = f"{place}.{rest.pop(0)}"
        elif first in self.module.bound:
            place = self.module.name, first
        else:
            return None
        self.used.append(place)
        return f"Name({'.'.join([place[1], *rest])})"


def _chain(node) -> list[str]:
    """``["a", "b", "c"]`` for ``a.b.c``; empty for anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _targets(statement) -> Iterator[ast.AST]:
    """What a statement assigns to, those within it included."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign):
            yield from node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.NamedExpr):
            yield node.target
        elif isinstance(node, ast.withitem) and node.optional_vars:
            yield node.optional_vars


def _is_text(node):
    """Whether a statement is a docstring, or another string that no number depends on."""
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets) == "__doc__"
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)

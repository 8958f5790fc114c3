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
import itertools
import re
from collections import Counter
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
    ValueError
        a module is imported from a dot on, or with ``*``; a name isn't there.
    """
    found = _Program(module).reach(names)
    # Sorted by what they are, not by where. Of several of one name, each is called by its text.
    plain = {place: _REFERENCE.sub(r"\2", text) for place, text in found.items()}
    alike = Counter(name for _, name in found)

    def call(match):
        place = match[1], match[2]
        return match[2] if alike[match[2]] == 1 else f"{match[2]}#{_sha256(plain[place])}"

    texts = sorted(f"{name} {_REFERENCE.sub(call, text)}" for (_, name), text in found.items())
    return _sha256("\n".join(texts))[:16]


def reached(module: str, *names: str) -> set[tuple[str, str]]:
    """What `code_hash` covers, as pairs of a module and a name in it.

    The name "" stands for the statements of a module that do more than bind a name.
    """
    return set(_Program(module).reach(names))


_REFERENCE = re.compile("\x00(.*?):(.*?)\x00")  # in a text, to a name of a module


def _sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class _Module:
    """The statements at the top of a module, by the names that they bind."""

    name: str
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, list[str]] = field(default_factory=dict)  # name here → dotted names there
    effects: list[ast.stmt] = field(default_factory=list)  # those that do more than bind


class _Program:
    """The modules of one package, read when they are needed."""

    def __init__(self, module):
        self.entry, self.package = module, module.partition(".")[0]
        self.modules = {}

    def reach(self, names):
        """The text of everything that is used, by module and name."""
        for name in names:
            if name not in self.read(self.entry).bound:
                raise ValueError(f"{self.entry} has no {name!r}")
        todo = [(self.entry, name) for name in names]
        texts, imported = {}, set()
        while todo:
            place = where, name = todo.pop()
            if place not in texts:
                own = self.read(where)
                todo += [(module, "") for module in self.imported_with(where, imported)]
                text = _Text(self, own)
                statements = own.bound[name] if name else own.effects
                texts[place] = " ".join(text.of(statement) for statement in statements)
                todo += text.used
        return texts

    def imported_with(self, module, seen):
        """The modules that an import of this one runs, by what stands at their top; new ones only.

        Those that do nothing but bind names are left out.
        """
        todo = [module]
        while todo:
            parts = todo.pop().split(".")
            for i in range(1, len(parts) + 1):  # the packages around it, too
                name = ".".join(parts[:i])
                if name not in seen and self.file(name):
                    seen.add(name)
                    todo += itertools.chain(*self.read(name).imports.values())
                    if self.read(name).effects:
                        yield name

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
        if first != self.package:
            return None
        spec = find_spec(first)
        for i, _ in enumerate(rest, 2):
            if spec is None or spec.submodule_search_locations is None:
                return None
            spec = PathFinder.find_spec(
                ".".join(name.split(".")[:i]), spec.submodule_search_locations
            )
        return Path(spec.origin) if spec and spec.origin else None

    def _sort(self, statement, module):
        if _is_silent(statement):
            return
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self.add_imports([statement], module.imports)
            return
        simple = isinstance(statement, ast.Assign | ast.AnnAssign)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = {statement.name}
            effect = any(self._is_own(decorator, module) for decorator in statement.decorator_list)
        else:
            self.add_imports(ast.walk(statement), module.imports)
            names = set(_bound_names(statement))
            parts = [part for target in _targets(statement) for part in ast.walk(target)]
            effect = not simple or any(isinstance(p, ast.Attribute | ast.Subscript) for p in parts)
            effect = effect or names <= {"_"}
        for name in names:  # also that of `table` in `table["row"] = 1`
            module.bound.setdefault(name, []).append(statement)
        if effect:
            module.effects.append(statement)

    def _is_own(self, decorator, module):
        """Whether a decorator is one of the package, which may keep what it decorates."""
        names = [node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)]
        origins = itertools.chain(*(module.imports.get(name, ()) for name in names))
        return any(name in module.bound for name in names) or any(
            origin.partition(".")[0] == self.package for origin in origins
        )

    def add_imports(self, nodes, imports):
        """What the imports among these nodes bind, as one more origin of each name."""
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    found = alias.name if alias.asname else first
                    imports.setdefault(alias.asname or first, []).append(found)
                    if found != alias.name:  # `import a.b` runs a.b and binds a
                        imports.setdefault(f"import {alias.name}", []).append(alias.name)
            elif isinstance(node, ast.ImportFrom):
                if node.level:
                    raise ValueError(
                        f"line {node.lineno}: name the module in full, not from a dot on"
                    )
                names = [alias.name for alias in node.names]
                if "*" in names and node.module.partition(".")[0] == self.package:
                    raise ValueError(f"line {node.lineno}: name what is imported, not *")
                for alias in node.names:
                    dotted = f"{node.module}.{alias.name}"
                    imports.setdefault(alias.asname or alias.name, []).append(dotted)

    def resolve(self, dotted) -> list[tuple[str, str] | str]:
        """The modules and names in them that `dotted` leads to; a module's name for a module."""
        owner, _, name = dotted.rpartition(".")
        if owner and self.file(owner):
            own = self.read(owner)
            origins = [other for other in own.imports.get(name, ()) if other != dotted]
            found = [place for other in origins for place in self.resolve(other)]
            found += [(owner, name)] if name in own.bound else []
            if found or (name in own.imports and not self.file(dotted)):
                return found
        if self.file(dotted):
            return [dotted]
        if dotted.partition(".")[0] != self.package:
            return []
        found = self.resolve(owner) if owner else []  # an attribute of a class or table
        if not found or isinstance(found[0], str):
            raise ValueError(f"{owner} has no {name!r}")
        return found


class _Text:
    """A statement as text, the same in all versions of Python, and what it uses of the package."""

    def __init__(self, program, module):
        self.program, self.module = program, module
        self.used: list[tuple[str, str]] = []

    def of(self, statement):
        # What is imported within a function counts there, beside what is at the top.
        self.imports = {name: [*origins] for name, origins in self.module.imports.items()}
        self.program.add_imports(ast.walk(statement), self.imports)
        return self._text(statement)

    def _text(self, node):
        if isinstance(node, list):
            kept = [item for item in node if not _is_silent(item)]
            return "[" + ",".join(map(self._text, kept)) + "]"
        if not isinstance(node, ast.AST):
            return repr(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            origins = {}
            self.program.add_imports([node], origins)
            return f"import[{','.join(self._known([name]) or name for name in origins)}]"
        if isinstance(node, ast.Raise):  # without its message
            exc = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            return f"Raise({self._text(exc)})"
        if isinstance(node, ast.AnnAssign):
            special = re.search("ClassVar|InitVar|KW_ONLY", ast.unparse(node.annotation))
            what = f"Assign(targets=[{self._text(node.target)}]"
            return (
                what
                + (f",value={self._text(node.value)}" if node.value else "")
                + (f"{special[0]})" if special else ")")
            )
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
        return f"{type(node).__name__}({','.join(fields)})"

    def _known(self, chain):
        """The text of ``a.b.c`` where `a` is bound at the top of the module; else None."""
        first, *rest = chain
        texts = [self._origin(dotted, rest) for dotted in self.imports.get(first, ())]
        if first in self.module.bound:
            texts.append(self._reference((self.module.name, first), rest))
        return "|".join(texts) or None

    def _origin(self, dotted, rest):
        program, rest = self.program, [*rest]
        if dotted.partition(".")[0] != program.package:
            return f"Name({'.'.join([dotted, *rest])})"
        places = program.resolve(dotted)
        while places and isinstance(places[0], str):
            module = places[0]
            if not rest:  # the module itself is handed on: all of it may be used
                own = program.read(module)
                names = [*own.bound, *(name for name in own.imports if " " not in name)]
                found = [p for name in names for p in program.resolve(f"{module}.{name}")]
                self.used += [place for place in found if not isinstance(place, str)]
                return "Module"
            places = program.resolve(f"{module}.{rest.pop(0)}")
        if not places:  # it comes from another package
            return f"Name({'.'.join([dotted.rpartition('.')[2], *rest])})"
        return "|".join(self._reference(place, rest) for place in places)

    def _reference(self, place, rest):
        self.used.append(place)
        return f"Name(\x00{place[0]}:{place[1]}\x00{''.join('.' + name for name in rest)})"


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


def _bound_names(statement) -> Iterator[str]:
    """The names that a statement binds or changes, by assignment or definition."""
    for target in _targets(statement):
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _is_silent(node):
    """Whether no number depends on a statement: a docstring, or one that no import runs."""
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets) in ("__doc__", "__all__")
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)

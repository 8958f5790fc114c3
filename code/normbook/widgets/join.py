"""Joins the JavaScript modules of a folder into the one module that a widget's page can load."""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

IMPORT = re.compile(r'^import \{((?:\s*\w+,)*\s*\w*\s*)\} from "\./([\w.]+)";\n', re.MULTILINE)
DEFINITION = re.compile(
    r"^(export )?((?:(?:async )?function\*?|class|const|let|var) (\w*))", re.MULTILINE
)
OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class Joined(str):
    """The code of a module; `files` are those it was joined from."""

    files: tuple[Path, ...] = ()


def join(entry: Path) -> Joined:
    """The code of a module and of all that it imports, directly or not.

    A module imports from its folder, by lines such as ``import { a, b } from "./other.js";``. In
    the end all have one scope, in which each name at the top of a module is defined once. What
    `entry` exports by default, the joined module exports, and nothing else.

    Raises
    ------
    ValueError
        There is an import or an export of another kind, or of a name that isn't there; or a name
        is defined twice; or modules import each other in a circle.
    """
    codes, uses = {}, {}
    waiting = [entry.name]
    while waiting:
        name = waiting.pop()
        if name not in codes:
            codes[name] = entry.with_name(name).read_text(encoding="utf8")
            uses[name] = [source for _, source in IMPORT.findall(codes[name])]
            waiting += uses[name]
    try:
        order = tuple(TopologicalSorter(uses).static_order())  # each after what it imports
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise ValueError(f"{circle}: modules import each other in a circle") from None
    home = {}  # of every name
    exports = set()
    parts = []
    for name in order:
        for names, source in IMPORT.findall(codes[name]):
            if missing := [n for n in re.findall(r"\w+", names) if (source, n) not in exports]:
                raise ValueError(f"{name} imports {missing[0]}, which {source} doesn't export")
        for export, definition, what in DEFINITION.findall(codes[name]):
            if not what:
                raise ValueError(f"{name}: expected one name after {definition.strip()!r}")
            if what in home:
                raise ValueError(f"{name} and {home[what]} both define {what}")
            home[what] = name
            exports.update({(name, what)} if export else ())
        part = DEFINITION.sub(r"\2", IMPORT.sub("", codes[name]))
        for line in OTHER.findall(part):
            if name != entry.name or not line.startswith("export default "):
                raise ValueError(f"{name}: can't join {line!r}")
        parts.append(part)
    joined = Joined("\n".join(parts))
    joined.files = tuple(entry.with_name(name) for name in order)
    return joined

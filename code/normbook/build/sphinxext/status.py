"""What the book was built with: directives for a page of notebooks, times and versions."""

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import quote

from packaging.requirements import InvalidRequirement, Requirement
from sphinx.util.docutils import SphinxDirective

from normbook.build.sphinxext.execute import Execution


def notebooks_table(executions: Iterable[Execution]) -> str:
    """The runs as a table in Markdown; a link without a text gets the title of its page."""
    executions = list(executions)
    # What MyST leaves as it is in an address must be so; all else stays text.
    rows = [
        f"| []({quote(execution.path.name, safe=';/?:@&=+$,')}) | {execution.seconds:.1f} s "
        f"| {'✗' if execution.error else '✓'} |"
        for execution in executions
    ]
    total = sum(execution.seconds for execution in executions)
    return "\n".join(
        [
            "| notebook | time | ran to its end |",
            "|---|---|---|",
            *rows,
            f"| all together | {total:.1f} s | |",
        ]
    )


def versions_table(requirements: Path) -> str:
    """Python and the installed packages that the file `requirements` names, in Markdown."""
    rows = [("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")]
    for line in requirements.read_text(encoding="utf8").splitlines():
        try:
            name = Requirement(line.split("#")[0].strip()).name
            rows.append((name, version(name)))
        except (InvalidRequirement, PackageNotFoundError):  # a comment, or not for this machine
            continue
    return "\n".join(["| software | version |", "|---|---|", *(f"| {n} | {v} |" for n, v in rows)])


class NotebooksTable(SphinxDirective):
    def run(self):
        self.env.note_reread()  # as it may look different after each build
        return self.parse_text_to_nodes(notebooks_table(self.env.app.executions.values()))


class VersionsTable(SphinxDirective):
    def run(self):
        self.env.note_reread()
        return self.parse_text_to_nodes(versions_table(Path(self.env.srcdir, "requirements.txt")))


def setup(app):
    app.add_directive("notebooks-table", NotebooksTable)
    app.add_directive("versions-table", VersionsTable)

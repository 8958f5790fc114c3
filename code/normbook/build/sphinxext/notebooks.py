"""The notebooks run before Sphinx reads them; how long that took, and with what, as tables."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import quote

from packaging.requirements import InvalidRequirement, Requirement
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from normbook.build.execute import Execution, cache_folder, execute_all, hold, toc_notebooks

logger = logging.getLogger(__name__)


def execute_ahead(app, config):
    """Run the notebooks of the book, and hand myst-nb the cache."""
    app.executions = {}  # by path, for whoever shows them
    base = Path(app.srcdir, config.nb_execution_cache_path or Path(app.outdir, "../.execution"))
    hold(base.resolve(), logger.info)  # until the process ends: builds take turns
    site_map = getattr(config, "external_site_map", None)
    if config.nb_execution_mode != "cache" or site_map is None:  # myst-nb runs a single page
        return
    folder = cache_folder(base.resolve(), Path(app.srcdir, "requirements.txt"))
    config.nb_execution_cache_path = str(folder)  # when it changes, myst-nb reads the pages anew
    app.executions = execute_all(
        toc_notebooks(site_map, app.srcdir),
        folder,
        timeout=config.nb_execution_timeout,
        report=logger.info,
    )
    for execution in app.executions.values():
        if execution.error:
            logger.warning(execution.error, type="normbook", subtype="execute")


def notebooks_table(executions: list[Execution]) -> str:
    """The runs as a table in Markdown; a link without a text gets the title of its page."""
    executions = list(executions)
    # What MyST leaves as it is in an address must be so; all else stays text.
    rows = "".join(
        f"| []({quote(run.path.name, safe=';/?:@&=+$,')}) | {run.seconds:.1f} s "
        f"| {'✗' if run.error else '✓'} |\n"
        for run in executions
    )
    total = sum(run.seconds for run in executions)
    return (
        f"| notebook | time | ran to its end |\n|---|---|---|\n{rows}"
        f"| all together | {total:.1f} s | |"
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


def table(make):
    class Table(SphinxDirective):
        def run(self):
            self.env.note_reread()  # as it may look different after each build
            return self.parse_text_to_nodes(make(self.env.app))

    return Table


def setup(app):
    # After sphinx-external-toc has read the table of contents, at 900.
    app.connect("config-inited", execute_ahead, priority=950)
    requirements = Path(app.srcdir, "requirements.txt")
    app.add_directive("notebooks-table", table(lambda a: notebooks_table([*a.executions.values()])))
    app.add_directive("versions-table", table(lambda _: versions_table(requirements)))

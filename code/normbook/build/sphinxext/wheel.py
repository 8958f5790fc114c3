"""The package as a wheel in the built book, so that a notebook runs where it is downloaded to."""

import subprocess
import sys
from pathlib import Path

from sphinx.util import logging

logger = logging.getLogger(__name__)


def build_wheel(project: Path, folder: Path) -> None:
    """Build the wheel of the package in `project` into `folder`; the same files, the same wheel.

    Raises
    ------
    CalledProcessError
        it could not be built; its ``stdout`` says why.
    """
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(
        command,
        cwd=project,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf8",
        errors="replace",
    )


def add_wheel(app, exception):
    project = Path(app.srcdir)
    if exception or app.builder.format != "html" or not (project / "pyproject.toml").is_file():
        return
    for old in Path(app.outdir).glob("*.whl"):
        old.unlink()
    try:
        build_wheel(project, Path(app.outdir).resolve())
    except subprocess.CalledProcessError as error:
        logger.warning(
            "the package's wheel is missing:\n%s", error.stdout, type="normbook", subtype="wheel"
        )


def setup(app):
    app.connect("build-finished", add_wheel)

"""The package as a wheel in the built book, so that a notebook runs where it is downloaded to."""

import subprocess
import sys
from pathlib import Path

from sphinx.util import logging

logger = logging.getLogger(__name__)


def build_wheel(project: Path, folder: Path) -> None:
    """Build the wheel of the package in `project` into `folder`; the same files, the same wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)


def add_wheel(app, exception):
    if exception or app.builder.format != "html" or not Path(app.srcdir, "pyproject.toml").exists():
        return
    for old in Path(app.outdir).glob("*.whl"):
        old.unlink()
    try:
        build_wheel(app.srcdir, Path(app.outdir).resolve())
    except subprocess.CalledProcessError as error:
        logger.warning("the package's wheel is missing:\n%s", error.stderr, type="normbook")


def setup(app):
    app.connect("build-finished", add_wheel)

"""What several test modules share."""

import subprocess
import sys
from pathlib import Path

from normbook.sphinxext.execute import toc_notebooks
from sphinx_external_toc.parsing import parse_toc_yaml

ROOT = Path(__file__).parents[1]
PAGES = list(parse_toc_yaml(ROOT / "_toc.yml"))  # document names, such as chapters/index
NOTEBOOKS = toc_notebooks(PAGES, ROOT)


def build_book(source, *options):
    """Build the book in the folder ``source`` strictly; returns the finished process."""
    script = Path(sys.executable).with_name("jupyter-book")
    command = [script, "build", source, "-W", "-n", "--keep-going", *options]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf8"
    )

"""MathJax served by the book itself.

The package sphinx-mathjax-offline ships all of MathJax 3 (24 MB). A page needs the TeX reader
with HTML output, its fonts, and the TeX extensions that it loads when a formula asks for one:
2 MB. They are copied from the installed package into the book; none of it is in the repository.
Sphinx puts the script on pages with formulas alone.
"""

from importlib.metadata import distribution
from pathlib import Path
from shutil import copy2

COMPONENT = "tex-chtml.js"
FILES = (COMPONENT, "input/tex/extensions/*.js", "output/chtml/fonts/woff-v2/*.woff")


def mathjax_folder():
    """Where the installed package keeps MathJax."""
    package = distribution("sphinx-mathjax-offline")
    return Path(package.locate_file("sphinx-mathjax-offline/static/mathjax"))


def use_local_mathjax(app, config):
    config.mathjax_path = f"mathjax/{COMPONENT}"


def copy_mathjax(app, exception):
    if exception or app.builder.format != "html":
        return
    source = mathjax_folder()
    for pattern in FILES:
        for file in source.glob(pattern):
            target = Path(app.outdir, "_static", "mathjax", file.relative_to(source))
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                copy2(file, target)


def setup(app):
    app.connect("config-inited", use_local_mathjax)
    app.connect("build-finished", copy_mathjax)

"""The package as the built book carries it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from bs4 import BeautifulSoup

import normbook
from helpers import ROOT
from normbook.build.execute import execute_notebook
from normbook.build.sphinxext.wheel import build_wheel

pytestmark = pytest.mark.slow

NAME = f"normbook-{normbook.__version__}-py3-none-any.whl"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build_wheel(ROOT, folder)
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """A folder with the package as pip installs it, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--no-index", "--quiet", "--target", folder]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, wheel], check=True)
    return folder


def run(code, folder):
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout.strip()


def test_wheel_has_every_file_of_the_package(wheel):
    assert wheel.name == NAME
    package = ROOT / "code" / "normbook"
    files = {
        f"normbook/{file.relative_to(package).as_posix()}"
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    packed = {name for name in ZipFile(wheel).namelist() if name.startswith("normbook/")}
    assert packed == files


def test_same_files_same_wheel(wheel, tmp_path):
    build_wheel(ROOT, tmp_path)
    assert (tmp_path / NAME).read_bytes() == wheel.read_bytes()


def test_installed_package_works(installed):
    code = """
import normbook
from normbook.data import load
from normbook.widgets import Explorer, SharedStatistics
print(normbook.__file__)
assert len(load("digits")) == 1797
for widget in Explorer, SharedStatistics:
    assert "export default" in str(widget._esm) and "{" in str(widget._css)
"""
    assert Path(run(code, installed)) == installed / "normbook" / "__init__.py"


def test_notebook_runs_as_downloaded(installed, tmp_path, monkeypatch, book):
    monkeypatch.setenv("PYTHONPATH", str(installed))
    notebook = tmp_path / "before_you_start.ipynb"
    notebook.write_bytes((book / "_sources" / "chapters" / notebook.name).read_bytes())
    own = f"import normbook; assert normbook.__file__.startswith({str(installed)!r})"
    assert execute_notebook(notebook, setup=own).error is None


def test_book_carries_the_wheel(book, wheel):
    assert (book / NAME).read_bytes() == wheel.read_bytes()
    assert [file.name for file in book.glob("*.whl")] == [NAME]


@pytest.mark.parametrize("name", ["chapters/api.md", "CONTRIBUTING.md"])
def test_line_that_installs_it_names_it(name):
    named = re.findall(r"[\w.-]+\.whl", (ROOT / name).read_text(encoding="utf8"))
    assert set(named) == {NAME}


def test_page_links_to_it(book):
    page = book / "chapters" / "api.html"
    links = BeautifulSoup(page.read_text(encoding="utf8"), "html.parser").select("a[href$='.whl']")
    assert [(page.parent / link["href"]).resolve() for link in links] == [(book / NAME).resolve()]

"""What the build layer relies on that other packages don't promise, and a test of each.

The packages are pinned. After a change of a pin, a failure here names what has moved, and why the
book needs it; without the test it might go wrong in silence.
"""

import inspect
import re
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import ipywidgets
import myst_nb.core.render
import myst_nb.sphinx_
import pytest
from jupyter_client import AsyncKernelManager
from myst_nb.core.render import WIDGET_VIEW_MIMETYPE
from myst_nb.sphinx_ import NbMetadataCollector, SelectMimeType
from nbclient import NotebookClient
from nbformat.v4 import new_notebook
from sphinx.errors import ExtensionError

from helpers import ROOT
from normbook.build import execute
from normbook.build.sphinxext import api_pages, theme, widgets
from normbook.widgets import SharedStatistics


class Touch(NamedTuple):
    """A part of a package that the book's build touches without a promise of it."""

    package: str
    what: str
    why: str  # what for, and in which of our files
    without: str  # what fails if it is otherwise
    test: str  # a function in this file, or one elsewhere


TOUCHES = [
    Touch("myst-nb", "NbMetadataCollector.get_js_files, .add_js_file; the key ipywidgets_state",
          "widgets.py adds code to the state of a page's widgets", "no widget lives",
          "test_myst_nb_collects_scripts"),
    Touch("myst-nb", "a container with mime_type for each kind of an output; the view's MIME type",
          "widgets.py keeps the picture beside the view", "no picture without JavaScript",
          "test_myst_nb_has_a_container_for_each_kind_of_output"),
    Touch("myst-nb", "chooses the kind of an output at priority 4", "widgets.py comes at 3",
          "no picture without JavaScript", "test_myst_nb_chooses_at_priority_4"),
    Touch("myst-nb", "the name of its style sheet", "theme.py leaves it out: 6 kB a page",
          "the build, by ExtensionError", "test_theme_refuses_what_it_does_not_know"),
    Touch("myst-nb", "the words of a fold's <summary>", "theme.py names it by what is to be read",
          "the build, by ExtensionError", "test_theme_refuses_what_it_does_not_know"),
    Touch("myst-nb", "takes nb_execution_cache_path until it reads a page",
          "notebooks.py sets it late", "notebooks run twice, one after the other",
          "tests/build/test_execute.py::test_build_executes_each_notebook_once"),
    Touch("jupyter-cache", "the data of a run: values beside execution_seconds",
          "execute.py stores what tests read", "tests that read a notebook's values",
          "tests/build/test_execute.py::test_only_what_changed_is_executed_again"),
    Touch("nbclient", "NotebookClient._cleanup_kernel, .widget_state",
          "execute.py forgets a kernel that never started, and numbers the widgets",
          "an error at exit; another book at each build", "test_nbclient"),
    Touch("jupyter-client", "KernelManager._kernel_spec_manager_default, .cleanup_resources",
          "execute.py starts the running Python, and ends what it started",
          "kernels of another Python; processes left behind", "test_jupyter_client"),
    Touch("anywidget", "_anywidget_id, _esm and _css in a widget's state",
          "widgets.py finds the class, and takes its code from disk", "old code in new pages",
          "test_anywidget_names_its_class"),
    Touch("ipywidgets", "names of models; IPY_MODEL_ before a reference",
          "widget_host.js shows boxes and links", "boxes stay empty, links do nothing",
          "test_ipywidgets_names_its_models"),
    Touch("myst-parser", "myst_slugs in the metadata of a page: line, id and title by slug",
          "links.py adds entries of the bibliography, and looks headings up",
          "the build, by warnings of links that lead nowhere",
          "tests/build/test_execute.py::test_citation_links"),
    Touch("sphinxcontrib-bibtex", "bibliographies of the domain cite, their citation_nodes",
          "links.py", "the build, by warnings of citations",
          "tests/build/test_execute.py::test_citation_links"),
    Touch("sphinx-external-toc", "external_site_map, there at priority 900",
          "notebooks.py knows the notebooks before Sphinx reads them", "notebooks run in turn",
          "tests/build/test_execute.py::test_build_executes_each_notebook_once"),
    Touch("Sphinx", "script_files and css_files of a page; attributes of a script",
          "theme.py defers scripts", "slow first paint; the build, by ExtensionError",
          "test_scripts_are_deferred"),
    Touch("Sphinx", "role=heading in the list of chapters, without a level",
          "layout.html takes it away", "axe finds it",
          "tests/book/test_browser.py::test_page"),
    Touch("Sphinx", "copies static files after env-updated", "maths.py adds a folder then",
          "formulas without a style", "tests/build/test_theme.py::test_a_page_is_light"),
    Touch("Sphinx", "the search: Scorer, a result's parts, stopwords, SHOW_SEARCH_SUMMARY",
          "search_scorer.js, theme.js", "the search finds less, or runs what it finds",
          "tests/book/test_search.py"),
    Touch("sphinx-mathjax-offline", "where it keeps MathJax", "maths.py", "the build, by an error",
          "tests/build/test_maths.py"),
    Touch("MathJax", "the form of its style sheet", "maths.py keeps the glyphs in use",
          "the build, by RuntimeError",
          "tests/build/test_maths.py::test_a_style_sheet_of_another_form_is_refused"),
    Touch("Jupyter Book", "names of the options that it hands to a theme",
          "theme.toml lists them", "the build, by warnings of options",
          "tests/book/test_book.py::test_builds_without_a_warning"),
    Touch("Python", "the words of a named tuple's fields", "api_pages.py leaves them out",
          "noise on the pages of the package", "test_named_tuples_describe_their_fields"),
]  # fmt: skip


@pytest.mark.parametrize("touch", TOUCHES, ids=lambda touch: f"{touch.package}: {touch.what:.40}")
def test_every_touch_has_its_test(touch):
    file, _, name = touch.test.rpartition("::")
    if not file and not name.endswith(".py"):
        assert name in globals()
    else:
        source = (ROOT / (file or name)).read_text(encoding="utf8")
        assert f"def {name if file else 'test_'}" in source


def test_every_touch_is_in_the_code_it_names():
    files = {file.name for file in Path(execute.__file__).parent.rglob("*.*")}
    named = {
        name for touch in TOUCHES for name in re.findall(r"\w+\.(?:py|js|html|toml)", touch.why)
    }
    assert named <= files


def test_myst_nb_collects_scripts():
    for name in ("get_js_files", "add_js_file"):
        assert callable(getattr(NbMetadataCollector, name))
    assert '"ipywidgets_state"' in inspect.getsource(myst_nb.core.render)


def test_myst_nb_has_a_container_for_each_kind_of_output():
    source = inspect.getsource(myst_nb.sphinx_)
    assert "nodes.container(mime_type=mime_type)" in source
    assert WIDGET_VIEW_MIMETYPE == "application/vnd.jupyter.widget-view+json"


def test_myst_nb_chooses_at_priority_4():
    assert SelectMimeType.default_priority == 4 > widgets.KeepPicture.default_priority


class Context(dict):
    """What Sphinx hands to `theme.prepare_page`, with myst-nb's style sheet."""

    def __init__(self, body="", style_sheet="_static/mystnb.123.css"):
        css = SimpleNamespace(filename=style_sheet)
        super().__init__(script_files=[], css_files=[css], body=body)

    def prepare(self):
        app = SimpleNamespace(config=SimpleNamespace(html_title="", author=""))
        theme.prepare_page(app, "page", "page.html", self, None)


def test_theme_refuses_what_it_does_not_know():
    Context(f'<details class="admonition hide">{theme.FOLD}</details>').prepare()
    with pytest.raises(ExtensionError, match="folds"):
        Context('<details class="admonition hide"><summary aria-label="Hide"></details>').prepare()
    with pytest.raises(ExtensionError, match="style sheet"):
        Context(style_sheet="_static/other.css").prepare()


def test_scripts_are_deferred(book):
    page = (book / "search.html").read_text(encoding="utf8")
    tags = re.findall(r"<script[^>]*src=[^>]*>", page)
    assert len(tags) > 5
    assert [tag for tag in tags if "defer" not in tag and "theme.js" not in tag] == []


def test_nbclient():
    client = NotebookClient(new_notebook())
    assert callable(client._cleanup_kernel)
    assert client.widget_state == {}


def test_jupyter_client():
    manager = execute._InThisPython(kernel_name="python3")
    assert manager.kernel_spec_manager.kernel_dirs == []
    assert inspect.iscoroutinefunction(AsyncKernelManager.cleanup_resources)


def test_anywidget_names_its_class():
    state = SharedStatistics([[1.0, 2]]).get_state()
    assert state["_anywidget_id"] == "normbook.widgets.shared_statistics.SharedStatistics"
    assert {"_esm", "_css"} <= state.keys()
    assert "export" in str(state["_esm"])


def test_ipywidgets_names_its_models():
    left, right = ipywidgets.IntText(), ipywidgets.IntText()
    made = [ipywidgets.Box(), ipywidgets.HBox([left]), ipywidgets.VBox(), ipywidgets.Layout()]
    made += [ipywidgets.jslink((left, "value"), (right, "value"))]
    made += [ipywidgets.jsdlink((left, "value"), (right, "value"))]
    assert {widget._model_name for widget in made} | {"AnyModel"} == widgets.RUN_BY_HOST
    assert made[1].get_state()["children"] == [f"IPY_MODEL_{left.model_id}"]


def test_named_tuples_describe_their_fields():
    field = namedtuple("Pair", "first second").first
    assert api_pages.skip_alias(None, None, None, field, False, None)

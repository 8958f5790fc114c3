import os

import pytest

from helpers import build_book, check_page, wait_for_widgets, write_notebook, write_small_book
from normbook.build.sphinxext import minify as module
from normbook.build.sphinxext.minify import minify


def test_comments_and_long_names_go():
    script = "/* why */ export const f = (number) => { /* what */ return number + 1; };"
    assert len(minify("js", script)) < len("export const f=n=>{return n+1}")
    assert minify("css", "/* why */\na {\n  color: red;\n}\n") == "a{color:red}"


def test_what_a_page_reads_stays():
    assert '"two  words // "' in minify("js", 'export const shown = "two  words // ";')
    assert "shown" in minify("js", 'export const shown = "two  words // ";')


def test_what_is_wrong_stays_for_the_browser_to_tell():
    assert minify("js", "export default { render( }") == "export default { render( }"


def test_without_the_minifier_the_code_stays(monkeypatch):
    monkeypatch.setattr(module, "tdewolff", None)
    assert minify("css", "a { color: red }") == "a { color: red }"


@pytest.mark.slow
def test_a_book_without_the_minifier_works_as_well(tmp_path, monkeypatch, visit):
    book, hidden = tmp_path / "book", tmp_path / "hidden"
    for folder in (book, hidden):
        folder.mkdir()
    (hidden / "minify.py").write_text("raise ImportError")
    path = [str(hidden), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    write_small_book(book)
    show = "from normbook.widgets import SharedStatistics\nSharedStatistics([[1, 2], [3, 4]])"
    write_notebook(book / "chapters" / "first.ipynb", show)
    build = build_book(book)
    assert build.returncode == 0, build.stdout[-3000:]
    html = book / "_build" / "html"
    assert "// Loaded before the page" in (html / "_static/theme.js").read_text(encoding="utf8")
    opened = visit(html / "chapters" / "first.html")
    wait_for_widgets(opened.page)
    assert opened.page.locator(".nb-widget-live").count() == 1
    check_page(opened, "light")

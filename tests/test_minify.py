from normbook.sphinxext import minify as module
from normbook.sphinxext.minify import minify


def test_comments_and_long_names_go():
    script = "/* why */ export const f = (number) => { /* what */ return number + 1; };"
    assert len(minify(script, "js")) < len("export const f=n=>{return n+1}")
    assert minify("/* why */\na {\n  color: red;\n}\n", "css") == "a{color:red}"


def test_what_a_page_reads_stays():
    assert '"two  words // "' in minify('export const shown = "two  words // ";', "js")
    assert "shown" in minify('export const shown = "two  words // ";', "js")


def test_what_is_wrong_stays_for_the_browser_to_tell():
    assert minify("export default { render( }", "js") == "export default { render( }"


def test_without_the_minifier_the_code_stays(monkeypatch):
    monkeypatch.setattr(module, "_minify", None)
    assert minify("a { color: red }", "css") == "a { color: red }"

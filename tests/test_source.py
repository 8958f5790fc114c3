import inspect

from normbook import arithmetic
from normbook.source import show_source


def test_shows_the_code_that_runs():
    shown = show_source(arithmetic.moments, arithmetic.hide).data
    assert shown.startswith("```python\n") and shown.endswith("\n```")
    for function in (arithmetic.moments, arithmetic.hide):
        assert inspect.getsource(function).rstrip() in shown

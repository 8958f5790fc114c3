import inspect

from normbook.core import arithmetic
from normbook.core.scheme import Scheme
from normbook.page.show_source import show_source


def test_shows_the_code_that_runs():
    shown = show_source(arithmetic.moments, arithmetic.hide).data
    assert shown.startswith("```python\n") and shown.endswith("\n```")
    for function in (arithmetic.moments, arithmetic.hide):
        assert inspect.getsource(function).rstrip() in shown


def test_methods_start_at_the_left_margin():
    shown = show_source(Scheme.with_lengths, arithmetic.hide).data
    assert shown.startswith("```python\ndef with_lengths(self")
    assert "\n\ndef hide(values" in shown

"""Highlighted code without a span around what looks like plain text anyway.

In the theme's styles, names and punctuation have the color of text. They are most of the tokens:
without their spans, a page has about a third fewer elements.
"""

from pygments.formatters import HtmlFormatter
from pygments.token import Name, Punctuation, Text, Whitespace
from sphinx.highlighting import PygmentsBridge

PLAIN = {Name, Name.Namespace, Punctuation, Whitespace}


class FewerSpans(HtmlFormatter):
    def format_unencoded(self, tokens, file):
        tokens = ((Text if kind in PLAIN else kind, value) for kind, value in tokens)
        super().format_unencoded(tokens, file)


def setup(app):
    PygmentsBridge.html_formatter = FewerSpans

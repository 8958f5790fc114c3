"""Show the package's own code on a page, so that what is read is what runs."""

import inspect
from textwrap import dedent

from IPython.display import Markdown


def show_source(*objects) -> Markdown:
    """The source of functions, methods, classes or modules, highlighted by what shows the notebook.

    Methods are moved to the left margin.

    Examples
    --------
    >>> from normbook.core import arithmetic
    >>> print(show_source(arithmetic.scale_and_shift).data.splitlines()[1])
    def scale_and_shift(centered, var, gamma, beta, eps: float, real=None):
    """
    code = "\n\n".join(dedent(inspect.getsource(item)).rstrip() for item in objects)
    return Markdown(f"```python\n{code}\n```")

"""Show the package's own code on a page, so that what is read is what runs."""

import inspect
from textwrap import dedent

from IPython.display import Markdown


def show_source(*objects) -> Markdown:
    """The source of functions, methods, classes or modules, highlighted by what shows the notebook.

    Methods are moved to the left margin.
    """
    code = "\n\n".join(dedent(inspect.getsource(item)).rstrip() for item in objects)
    return Markdown(f"```python\n{code}\n```")

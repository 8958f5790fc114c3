"""Show the package's own code on a page, so that what is read is what runs."""

import inspect

from IPython.display import Markdown


def show_source(*objects) -> Markdown:
    """The source of functions, classes or modules, highlighted by whatever shows the notebook."""
    code = "\n\n".join(inspect.getsource(item).rstrip() for item in objects)
    return Markdown(f"```python\n{code}\n```")

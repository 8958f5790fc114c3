"""The package's docstrings as pages, by Sphinx's autodoc and napoleon.

They are numpydoc's, but terser: types are left to the signature, and a parameter is said on one
line, ``name : what it is``. numpydoc has the type there, and says on the next line what it is.
"""

import re

from sphinx.ext.napoleon import Config, NumpyDocstring
from sphinx.util.inspect import signature, stringify_signature

NAPOLEON = Config(
    napoleon_use_param=False,
    napoleon_attr_annotations=False,
    napoleon_custom_sections=[("Attributes", "params_style")],
)
FIELDS = ("Parameters", "Attributes", "Raises", "Returns")
FIELD = re.compile(r"(\S.*?) : (.*)")


def to_numpydoc(lines: list[str]) -> list[str]:
    """The lines of a docstring as numpydoc has them."""
    result, within = [], False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following and set(following) == {"-"}:
            within = line in FIELDS
        field = FIELD.fullmatch(line) if within else None
        if field:
            result += [field[1], f"    {field[2]}"]
        else:
            result.append(line)
        # A paragraph ends the fields; for napoleon, two empty lines do.
        if within and not line and following and not following.startswith(" "):
            result.append("")
            within = False
    return result


def process_docstring(app, what, name, obj, options, lines):
    # Of a property, napoleon would take what stands before a colon for its type.
    what = "method" if what == "property" else what
    terse = to_numpydoc(lines)
    lines[:] = NumpyDocstring(terse, NAPOLEON, app, what, name, obj, options).lines()


def process_signature(app, what, name, obj, options, arguments, returned):
    """Of a widget, show what its ``__init__`` takes; autodoc looks at its ``__new__`` first."""
    if what == "class" and obj.__new__ is not object.__new__ and "__init__" in vars(obj):
        own = signature(obj.__init__, bound_method=True)
        return stringify_signature(own, unqualified_typehints=True), returned


def skip_member(app, what, name, obj, skip, options):
    """Leave out what Python itself says of the fields of a named tuple."""
    if (getattr(obj, "__doc__", None) or "").startswith("Alias for field number"):
        return True


def setup(app):
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("autodoc-skip-member", skip_member)

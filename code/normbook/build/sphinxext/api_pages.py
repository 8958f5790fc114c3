"""Two things that autodoc shows of the package otherwise than a reader wants."""

from sphinx.util.inspect import signature, stringify_signature


def show_init(app, what, name, obj, options, arguments, returned):
    """Of a widget, show what its ``__init__`` takes; autodoc looks at its ``__new__`` first."""
    if what == "class" and obj.__new__ is not object.__new__ and "__init__" in vars(obj):
        own = signature(obj.__init__, bound_method=True)
        return stringify_signature(own, unqualified_typehints=True), returned


def skip_alias(app, what, name, obj, skip, options):
    """Leave out what Python itself says of the fields of a named tuple."""
    if (getattr(obj, "__doc__", None) or "").startswith("Alias for field number"):
        return True


def setup(app):
    app.connect("autodoc-process-signature", show_init)
    app.connect("autodoc-skip-member", skip_alias)

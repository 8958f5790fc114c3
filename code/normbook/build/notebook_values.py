"""Plain values of a notebook's variables, so that tests can read what the page computed."""

import json
import math
import numbers
from collections.abc import Mapping

LIMIT = 5_000  # numbers in one variable; larger ones are left out


def to_plain(value):
    """A copy of ``value`` made of numbers, strings, booleans, None, lists and dicts.

    Numpy arrays and torch tensors become nested lists, fractions become floats.

    Raises TypeError for everything else, and ValueError for an array above ``LIMIT`` elements.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu()
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        if math.prod(value.shape) > LIMIT:
            raise ValueError(f"more than {LIMIT} elements")
        return to_plain(value.tolist())  # objects and complex numbers are refused in turn
    raise TypeError(f"no plain value for {type(value).__name__}")


def plain_values(namespace):
    """The variables of ``namespace`` that have a plain value; private ones are left out."""
    values = {}
    for name, value in namespace.items():
        if name.startswith("_") or name in ("In", "Out"):
            continue
        try:
            plain = to_plain(value)
            if len(json.dumps(plain)) <= 25 * LIMIT:
                values[name] = plain
        except (TypeError, ValueError, RecursionError):
            continue
    return values


def show_values(namespace):
    """Display ``plain_values`` as JSON text: the executor runs this after the last cell."""
    from IPython.display import display

    display({"text/plain": json.dumps(plain_values(namespace))}, raw=True)

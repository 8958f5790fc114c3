"""The checker of the exercises: right or wrong, and what went wrong where that can be told."""

from typing import Any

import numpy as np

TOLERANCE = 1e-9  # relative; answers are computed in float64


def check(what: str, yours: Any, expected: Any, traps: dict[str, Any] | None = None) -> None:
    """Compare an answer with the right one, and say that it is right.

    Parameters
    ----------
    what
        what is checked, in words.
    yours
        a number, string, array or tensor.
    expected
        the right one.
    traps
        what well-known mistakes would give, by what to say about each.

    Raises
    ------
    AssertionError
        the answer is wrong, missing, or of another shape. The message says which, and
        names the mistake if the answer is what one of `traps` gives.

    Examples
    --------
    >>> x = np.array([1.0, 2, 3, 4, 5])
    >>> traps = {"Divide by n, not by n - 1.": x.var(ddof=1)}
    >>> check("variance", x.var(), 2.0, traps)
    ✓ variance: right
    >>> check("variance", x.var(ddof=1), 2.0, traps)
    Traceback (most recent call last):
    AssertionError: variance: not yet. Divide by n, not by n - 1.
    """
    if yours is None or yours is Ellipsis:
        raise AssertionError(f"{what}: there is no answer yet. Write it in the cell above.")
    yours, expected = _array(yours), _array(expected)
    if _agree(yours, expected):
        print(f"✓ {what}: right")
        return
    for mistake, value in (traps or {}).items():
        if _agree(yours, _array(value)):
            raise AssertionError(f"{what}: not yet. {mistake}")
    if yours.shape != expected.shape:
        raise AssertionError(
            f"{what}: not yet. Yours has the shape {yours.shape}; expected {expected.shape}."
        )
    if not _is_number(yours) or not _is_number(expected) or not yours.ndim:
        raise AssertionError(f"{what}: not yet. Yours is {yours}.")
    wrong = ~np.isclose(yours, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    raise AssertionError(
        f"{what}: not yet. {wrong.sum()} of {wrong.size} values are off, the first at {first}: "
        f"yours is {yours[first]:.6g}, expected {expected[first]:.6g}."
    )


def _array(value):
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _is_number(array):
    return array.dtype.kind in "biuf"


def _agree(a, b):
    if a.shape != b.shape:
        return False
    if _is_number(a) and _is_number(b):
        return np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    return bool(np.all(a == b))

"""Check the numbers that a page states: shown to the reader, and a broken build if one is wrong."""

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = tuple[str, Any, Any]

SHOWN_AT_MOST = 8  # numbers in a cell of the table; of longer arrays, only the largest difference


class VerificationError(AssertionError):
    """A stated value does not hold, or one that was to be refuted does.

    Examples
    --------
    >>> verify(("variance of 1 to 5", 2.5, np.var([1, 2, 3, 4, 5])))
    Traceback (most recent call last):
    normbook.page.verify.VerificationError: what is stated does not hold:
    variance of 1 to 5: stated 2.5, computed 2
    """


@dataclass(frozen=True)
class Verification:
    """The checked rows, shown as a table: what, stated, computed, and ✓ or ✗.

    Examples
    --------
    >>> checked = verify(("mean of 1 to 5", 3, np.mean([1, 2, 3, 4, 5])))
    >>> checked.rows, checked.holds
    ((('mean of 1 to 5', '3', '3'),), True)
    """

    header: tuple[str, str]
    rows: tuple[tuple[str, str, str], ...]
    holds: bool

    @property
    def mark(self) -> str:
        return "✓" if self.holds else "✗"

    def __repr__(self):
        table = [("", *self.header, ""), *((*row, self.mark) for row in self.rows)]
        widths = [max(len(row[column]) for row in table) for column in range(4)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        )

    def _repr_html_(self):
        stated, computed = (f'<th scope="col">{html.escape(name)}</th>' for name in self.header)
        said = "holds" if self.holds else "does not hold"
        mark = f'<td role="img" aria-label="{said}">{self.mark}</td>'
        rows = "".join(
            f'<tr><th scope="row">{html.escape(what)}</th>'
            # No line break inside of 4e-16.
            + "".join(f"<td>{html.escape(value).replace('-', '&#8209;')}</td>" for value in values)
            + f"{mark}</tr>"
            for what, *values in self.rows
        )
        return (
            f'<table class="nb-verify"><thead><tr><td></td>{stated}{computed}<td></td></tr></thead>'
            f"<tbody>{rows}</tbody></table>"
        )


@dataclass(frozen=True)
class Raised:
    """An error that was expected: its type and what it says.

    Examples
    --------
    >>> raises(ZeroDivisionError, lambda: 1 / 0).message
    'division by zero'
    """

    kind: str
    message: str

    def __repr__(self):
        return f"{self.kind}: {self.message}"

    def _repr_html_(self):
        return f'<pre style="white-space: pre-wrap">{html.escape(repr(self))}</pre>'


def verify(*rows: Row, decimals: int | None = None, source: str = "") -> Verification:
    """Check rows of (what, stated, computed), and show them.

    Parameters
    ----------
    rows
        what is stated, in words; the stated value, a literal; the computed one. Values are
        numbers, strings, or arrays of either shape-compatible kind.
    decimals
        to how many decimals the value is stated: it may be off by half a unit of the last.
        None means exactly, up to rounding errors of the computation (1e-9, relative).
    source
        who states it, such as "document 002".

    Raises
    ------
    VerificationError
        a stated value differs from the computed one; the message has all that do.

    Examples
    --------
    >>> verify(("a third", 0.3333, 1 / 3), decimals=4)
             stated  computed
    a third  0.3333  0.333333  ✓
    """
    return _check(rows, decimals, source, holds=True)


def refute(*rows: Row, decimals: int | None = None, source: str = "") -> Verification:
    """The contrary of `verify`: check that what is stated does not hold, and show what does.

    Raises
    ------
    VerificationError
        a stated value agrees with the computed one.

    Examples
    --------
    >>> refute(("variance", 2.5, np.var([1, 2, 3, 4, 5])), source="a slide")
              a slide says  computed
    variance  2.5           2         ✗
    """
    return _check(rows, decimals, source, holds=False)


def _check(rows, decimals, source, holds):
    if not rows:
        raise TypeError("nothing to check; expected rows of (what, stated, computed)")
    wrong, shown = [], []
    for what, stated, computed in rows:
        stated, computed = _array(stated), _array(computed)
        agrees, difference = _compare(stated, computed, decimals)
        # Two decimals more of the computed value, to see how it rounds.
        row = (what, _show(stated, decimals), _show(computed, decimals and decimals + 2))
        if stated.size > SHOWN_AT_MOST and difference is not None:
            row = (what, _size(stated), f"largest difference {difference:.2g}")
        shown.append(row)
        if agrees != holds:
            wrong.append(f"{what}: stated {row[1]}, computed {row[2]}")
    if wrong:
        problem = "does not hold" if holds else "was to be refuted, but holds"
        allowed = "" if decimals is None else f" (to {decimals} decimals)"
        raise VerificationError(f"what is stated {problem}{allowed}:\n" + "\n".join(wrong))
    header = (f"{source} says" if source else "stated", "computed")
    return Verification(header, tuple(shown), holds)


def _array(value):
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def _compare(stated, computed, decimals):
    """Whether they agree, and the largest difference of numbers of equal shape."""
    if stated.shape != computed.shape:
        return False, None
    if stated.dtype.kind not in "iuf" or computed.dtype.kind not in "iuf":
        return bool(np.all(stated == computed)), None
    difference = np.abs(stated - computed)
    if decimals is None:
        allowed = 1e-9 * np.maximum(1, np.abs(stated))
    else:
        allowed = 0.5 * 10.0**-decimals + 1e-12  # half a unit, which rounds either way
    same = (difference <= allowed) | (np.isnan(stated) & np.isnan(computed))
    return bool(np.all(same)), float(np.max(difference, initial=0.0))


def _show(values, decimals):
    if values.size > SHOWN_AT_MOST:
        return _size(values)
    return ", ".join(_format(value, decimals) for value in values.ravel().tolist())


def _format(value, decimals):
    if not isinstance(value, float):
        return str(value)
    if decimals is not None:
        return f"{value:.{decimals}f}"
    return f"{value:.0e}" if 0 < abs(value) < 1e-9 else f"{value:.7g}"


def _size(values):
    return " × ".join(str(length) for length in values.shape) + " values"


def raises(error: type[Exception], function: Callable[[], Any]) -> Raised:
    """Check that calling `function` raises `error`, and show what it says.

    Raises
    ------
    VerificationError
        it raises nothing. Any other error passes through.

    Examples
    --------
    >>> from normbook.core.normalize import normalize
    >>> from normbook.core.scheme import BATCH_NORM_2D
    >>> x = np.ones((4, 3))
    >>> raises(ValueError, lambda: normalize(x, BATCH_NORM_2D))
    ValueError: x has 2 axes, shape (4, 3); BatchNorm2d expected 4: n c h w
    """
    try:
        value = function()
    except error as raised:
        return Raised(type(raised).__name__, str(raised))
    raise VerificationError(f"expected {error.__name__}, but nothing was raised; got {value!r}")

"""What an experiment found, as a table: differences, their intervals, and what they amount to."""

import html
from dataclasses import dataclass

from normbook.experiments.comparison import Comparison


@dataclass(frozen=True)
class Verdicts:
    """Comparisons and, in words, what each of them compares. Notebooks show them as a table.

    Examples
    --------
    >>> table = Verdicts((("N = 8", Comparison("BN", "LN", "error", 10, 5, 4, 0.1, -0.7, 0.9)),))
    >>> table
    N = 8: +0.10 [−0.70, +0.90]; not detectable here: lower in 5 of 10
    >>> table.header
    ('difference [95 % interval]', 'seed by seed')
    """

    rows: tuple[tuple[str, Comparison], ...]

    @property
    def header(self) -> tuple[str, str]:
        (unit,) = {comparison.unit for _, comparison in self.rows}
        return f"difference{unit and ', '}{unit} [95 % interval]", "seed by seed"

    def __repr__(self):
        return "\n".join(f"{what}: {_size(c)}; {_pairs(c)}" for what, c in self.rows)

    def _repr_html_(self):
        header = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.header)
        rows = "".join(
            f'<tr><th scope="row">{html.escape(what)}</th>'
            f"<td>{_size(comparison)}</td><td>{_pairs(comparison)}</td></tr>"
            for what, comparison in self.rows
        )
        return (
            f'<table class="nb-verify"><thead><tr><td></td>{header}</tr></thead>'
            f"<tbody>{rows}</tbody></table>"
        )


def verdicts(*rows: tuple[str, Comparison]) -> Verdicts:
    """Show rows of (what, comparison) as a table.

    Raises
    ------
    ValueError
        there is no row, or the differences are measured in several units.

    Examples
    --------
    >>> verdicts(("batches of 2", Comparison("BN", "LN", "error", 10, 0, 10, 28.1, 24.7, 31.5)))
    batches of 2: +28.10 [+24.70, +31.50]; higher in 10 of 10
    """
    units = sorted({comparison.unit for _, comparison in rows})
    if len(units) != 1:
        raise ValueError(f"the differences are measured in {units}; expected one unit for all")
    return Verdicts(rows)


def _size(comparison):
    mean, low, high = (
        f"{value:+.2f}".replace("-", "−")
        for value in (comparison.mean, comparison.low, comparison.high)
    )
    return f"{mean} [{low}, {high}]"


def _pairs(comparison):
    lower, higher, of = comparison.a_lower, comparison.b_lower, comparison.pairs
    most = f"lower in {lower} of {of}" if lower > higher else f"higher in {higher} of {of}"
    return most if comparison.detected else f"not detectable here: {most}"

"""All that is measured as one table: what, ours, the peer's, their ratio. Run by ``make bench``.

``tests/bench_*.py`` measure; each can be run alone, for its rows of the table. A row's two numbers
come from one run on one machine, and only their ratio means something elsewhere. Where a row is
about time or size, less is better, so a ratio below 1 is in our favor.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PARTS = ("layers", "build", "widget", "pages")


class Row(NamedTuple):
    """One thing measured; ``peer`` is what ``peer_name`` takes for the same, if there is one."""

    what: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""

    def __str__(self):
        if self.peer is None:
            return line(self.what, self.format(self.ours), "", "")
        peer = f"{self.format(self.peer)}, {self.peer_name}"
        return line(self.what, self.format(self.ours), peer, f"{self.ours / self.peer:.2f}")

    def format(self, value):
        return f"{value:.3g} {self.unit}" if value < 100 else f"{value:.0f} {self.unit}"


def line(what, ours, peer, ratio):
    return f"{what:54} {ours:>11}   {peer:28} {ratio:>5}".rstrip()


def show(rows: Iterable[Row]) -> None:
    """Print each row as soon as it is measured."""
    for row in rows:
        print(row, flush=True)


def main():
    print(line("what", "ours", "peer", "ratio"), flush=True)
    for part in PARTS:
        subprocess.run([sys.executable, Path(__file__).with_name(f"bench_{part}.py")], check=True)


if __name__ == "__main__":
    main()

"""The tensors to touch that pages show, and what to expect of them.

All of it follows from the values and the scheme that an executed notebook holds, by `Scheme.groups`
and exact fractions; the arithmetic and the text of the widget itself are not asked.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from helpers import NOTEBOOKS
from normbook.core import Scheme
from notebook_code import calls

STATES = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"


# Pages, by stem.
WITH_WIDGET = [
    path.stem
    for path in NOTEBOOKS
    if any(name in ("SharedStatistics", "Explorer") for name, _ in calls(path))
]
WITH_TENSOR = [
    path.stem for path in NOTEBOOKS if any(name == "SharedStatistics" for name, _ in calls(path))
]
WITH_TASK = [path.stem for path in NOTEBOOKS if any("goal" in words for _, words in calls(path))]


@dataclass(frozen=True)
class Tensor:
    """A tensor to touch: the state of the widget, as JSON."""

    state: dict

    def scheme(self, fields=None):
        """The scheme that these fields describe, by default the one shown."""
        fields = fields or self.state["scheme"]
        pairs = {key: tuple(map(tuple, fields[key])) for key in ("lengths", "names")}
        return Scheme(**fields | pairs)

    def groups(self, scheme=None):
        """The group of every cell that is shown, in the order of cells."""
        mask = self.state["mask"]
        if mask is not None:
            mask = np.array(mask["data"], bool).reshape(mask["shape"])[: self.state["batch"]]
        return (scheme or self.scheme()).groups(self.shape, mask).ravel()

    @property
    def shape(self):
        return (self.state["batch"], *self.state["values"]["shape"][1:])

    @property
    def cells(self):
        """The numbers that are shown, as they are written."""
        return [Fraction(str(v)) for v in self.state["values"]["data"][: np.prod(self.shape)]]

    @property
    def pinned(self):
        """The cell that is pinned, counted from 0 row by row, or None."""
        selection = self.state["selection"]
        return None if selection is None else np.ravel_multi_index(selection, self.shape)


def shown_tensors(execution):
    """The tensors that an executed notebook shows, in the order of the page."""
    models = execution.notebook.metadata.get("widgets", {STATES: {"state": {}}})[STATES]["state"]
    views = [
        output.data[VIEW]["model_id"]
        for cell in execution.notebook.cells
        for output in cell.get("outputs", [])
        if VIEW in output.get("data", {})
    ]
    states = [models[view]["state"] for view in views]
    return [Tensor(state) for state in states if "SharedStatistics" in state["_anywidget_id"]]


def written(value, digits=6):
    """A number with six decimals, or fewer where it is exact."""
    text = f"{float(value):.{digits}f}"
    return text.rstrip("0").rstrip(".").replace("-", "−") if float(text) else "0"


def mean_line(cells, centered=True):
    """What a tensor writes of the mean of these numbers, or of their mean square.

    Every part between two = has the value of the last one, as written.
    """
    m = len(cells)
    total = sum(v if centered else v**2 for v in cells)
    mean = written(total / m)
    # As many digits as it takes for the reader who divides.
    digits = next(d for d in range(6, 16) if written(round(total, d) / m) == mean)
    line = f"{written(total, digits)}/{m} = {mean}"
    terms = [str(float(v)).removesuffix(".0").replace("-", "−") for v in cells]
    if not centered:
        terms = [f"({term})²" if "−" in term else f"{term}²" for term in terms]
    spelled = " + ".join(terms).replace("+ −", "− ")
    if 1 < m < 7 and len(spelled) < 50:
        line = f"({spelled})/{m} = {line}"
    elif not centered:
        line = f"Σx²/{m} = {line}"
    return f"μ = {line}" if centered else f"mean x² = {line}"


def reading(tensor):
    """A cell and what is read when it is pointed at, which nothing says before.

    It is the first cell of those with another mean than the pinned one has.
    """
    cells, groups = tensor.cells, tensor.groups()
    lines = {
        group: mean_line(
            [cells[i] for i in np.flatnonzero(groups == group)], tensor.scheme().centered
        )
        for group in np.unique(groups[groups >= 0])
    }
    at_rest = None if tensor.pinned is None else lines[groups[tensor.pinned]]
    for cell, group in enumerate(groups):
        if group >= 0 and lines[group] != at_rest:
            return cell, lines[group]
    raise ValueError(f"all cells of {tensor.state['label']!r} read {at_rest!r}")


def play(tensor):
    """How to fulfil the task of a tensor, step by step; only the last step does.

    A step is ("tick", axis), ("choose", index of the layer) or ("type", cell, number).
    """
    goal, scheme = tensor.state["goal"], tensor.scheme()
    if "stats" in goal:
        letters = zip(tensor.state["cells"].split(), scheme.tokens, strict=True)
        ticked = {axis for axis, token in letters if not set(token) & set(scheme.stats.split())}
        wanted = set(tensor.state["cells"].split()) - set(goal["stats"].split())
        return [("tick", axis) for axis in tensor.state["cells"].split() if axis in ticked ^ wanted]
    number = 1 + int(max(map(abs, tensor.cells)))  # none of them
    choices = [(None, scheme)]
    choices += [(i, tensor.scheme(layer)) for i, layer in enumerate(tensor.state["layers"])]
    for index, layer in choices:
        groups = tensor.groups(layer)
        right = goal["moved"][0]
        if list(np.flatnonzero(groups == groups[right])) == goal["moved"]:
            if index is not None:
                return [("type", right, number), ("choose", index)]
            wrong, *_ = np.flatnonzero((groups >= 0) & (groups != groups[right]))
            return [("type", wrong, number), ("type", right, number)]
    raise ValueError(f"no step fulfils the task {goal['ask']!r}")

"""SharedStatistics: a tensor to touch, whose cells show who shares a mean and a variance.

This half holds the data, the layers and the words, and refuses what is wrong. All interaction is in
`shared_statistics.js`, so that it works in a built page where no Python runs.
"""

import html
from dataclasses import asdict
from math import inf, prod
from numbers import Real
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from normbook.core.scheme import LAYERS, Scheme, axes_of
from normbook.page.figures import LOOKS, draw_sharing
from normbook.widgets.translations import words_in

MAX_CELLS = 4096
PICTURE_CELLS = 1024  # a static picture of more would be heavier than the page around it
LAYOUTS = ("n c h w", "n t d", "n d l", "n d")
# What can stand in front; whatever is not asked for waits under "more".
CONTROLS = (
    "layers", "axes", "share", "mode", "batch", "steps", "gradient", "chips", "edit", "affine",
    "eps", "code", "reset",
)  # fmt: skip

# Layers that PyTorch has a name for, beside those of the book's table.
# fmt: off
# ruff: noqa: E501
NAMED = (
    Scheme("LayerNorm over T, D", "n t d", stats="n", params="t d", mask="n t", torch="nn.LayerNorm([{t}, {d}]{eps})(x)"),
    Scheme("LayerNorm over D, L", "n d l", stats="n", params="d l", torch="nn.LayerNorm([{d}, {l}]{eps})(x)"),
    Scheme("LayerNorm over channels", "n d l", stats="n l", params="d", torch="nn.LayerNorm({d}{eps})(x.mT).mT"),
    Scheme("InstanceNorm1d", "n d l", stats="n d", params="d", running="d", optional=True, torch="nn.InstanceNorm1d({d}{eps})(x)"),
    Scheme("LayerNorm over W only", "n c h w", stats="n c h", params="w", torch="nn.LayerNorm({w}{eps})(x)"),
)
# fmt: on


def layout_of(scheme: Scheme) -> str:
    """The axes of its input with split ones as one: ``n c h w`` for group norm."""
    return scheme.cells.replace("(g k)", "c")


def layers_for(layout: str) -> tuple[Scheme, ...]:
    """The layers with a name that take a tensor with these axes."""
    return tuple(layer for layer in LAYERS + NAMED if layout_of(layer) == layout)


_WORDED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # JSON has no numbers for them


def _to_json(array, _widget=None):
    if array is None:
        return None
    data = [float(v) if np.isfinite(v) else _WORDED[str(float(v))] for v in array.flat]
    return {"shape": list(array.shape), "data": data}


def _from_json(value, _widget=None):
    if value is None:
        return None
    return np.array([float(v) for v in value["data"]]).reshape(value["shape"])


class Tensor(traitlets.TraitType):
    """A numpy array of float64 that can't be changed in place, since nobody would be told."""

    default_value = None
    info_text = "an array of real numbers"

    def __init__(self, dtype=float, **kwargs):
        super().__init__(**kwargs)
        self.dtype = dtype
        self.tag(sync=True, to_json=_to_json, from_json=_from_json)

    def validate(self, obj, value):
        if value is None and self.allow_none:
            return None
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        try:
            array = np.asarray(value)
            real = array.dtype.kind in "biuf"
        except (TypeError, ValueError):
            real = False
        if not real:
            raise traitlets.TraitError(f"{self.name} is {value!r:.80}; expected real numbers")
        if self.dtype is bool and array.dtype != bool and not np.isin(array, (0, 1)).all():
            raise traitlets.TraitError(f"{self.name} holds {array!r:.80}; expected True and False")
        array = array.astype(self.dtype)  # a copy
        array.flags.writeable = False
        return array


def _scheme_from_json(value, _widget=None):
    return Scheme(**value | {"lengths": tuple((axis, length) for axis, length in value["lengths"])})


def _schemes_to_json(schemes, _widget=None):
    return [asdict(scheme) for scheme in schemes]


class SharedStatistics(anywidget.AnyWidget):
    """A tensor of 2 to 4 axes whose cells light up with those that share their statistics.

    Parameters
    ----------
    x : the tensor, anything that numpy reads as real numbers; at most 4,096 cells are drawn.
    scheme : the layer shown at first; by default the first that takes a tensor of this rank.
    cells : the axes of x where `scheme` doesn't tell: one of `LAYOUTS`.
    mask : True for a real cell: one value per n, t for tokens, else one per cell of x.
    lengths : of sequences of tokens, in place of `mask`; they can be changed by hand.
    layers : those to choose from; by default all that have a name for these axes.
    label : what the tensor is; read aloud and written above it.
    controls : the ones in front, of `CONTROLS`; the others wait under "more".
    prompt : a question to try at once, such as ``{"cell": (1, 2), "value": 90}``: change this cell
        to this value, and see which outputs move.
    goal : a task, and when it is done: ``{"ask": "Make it instance norm.", "stats": "n c"}`` when
        statistics have these indices; with "moved", a list of cells counted from 0 row by row,
        when an edit has moved the outputs of just these.
    next : another SharedStatistics, which a button unfolds below this one.
    language : "en" or "zh"; by default what `use_language` set.
    state : traits to begin with, such as ``selection=(0, 1)`` or ``view="normalized"``.

    All traits below can be observed, and raise `TraitError` at once where a value doesn't fit.

    Attributes
    ----------
    values : x in float64. Change it by assignment; its shape stays.
    mask : the mask, or None.
    selection : the index of the pinned cell, or None.
    eps : added to the variance.
    gamma, beta : indexed by the scheme's `params`; None means 1 and 0. A new scheme resets them.
    running_mean, running_var : indexed by the scheme's `running`; None means 0 and 1.
    batches : how many batches each running statistic has seen.
    batch : how many samples, the first ones, take part.
    mode : "train", or "eval" to use the running statistics.
    view : what stands in the cells, of `VIEWS`. "both" is the input above the output.
    share : what the lit cells share: "statistics" (μ, σ²) or "parameters" (γ, β).
    upstream : the gradient that arrives at the pinned output, in the view "gradient".

    Examples
    --------
    >>> from normbook.data.examples import THREE_SCALES
    >>> from normbook.core.scheme import BATCH_NORM_1D, LAYER_NORM
    >>> x = THREE_SCALES.x
    >>> tensor = SharedStatistics(x, LAYER_NORM, selection=(1, 4))
    >>> tensor.scheme = BATCH_NORM_1D  # the column lights up
    >>> tensor.selection, tensor.scheme.summary
    ((1, 4), 'average over n → one (μ, σ²) per d')
    """

    VIEWS = ("raw", "centered", "squared", "normalized", "output", "gradient", "both")

    _esm = Path(__file__).with_suffix(".js")
    _css = Path(__file__).with_suffix(".css")

    values = Tensor()
    scheme = traitlets.Instance(Scheme).tag(
        sync=True, to_json=lambda scheme, _: asdict(scheme), from_json=_scheme_from_json
    )
    mask = Tensor(bool, allow_none=True)
    selection = traitlets.Any(None, allow_none=True).tag(sync=True)
    eps = traitlets.Any(1e-5).tag(sync=True)
    gamma = Tensor(allow_none=True)
    beta = Tensor(allow_none=True)
    running_mean = Tensor(allow_none=True)
    running_var = Tensor(allow_none=True)
    batches = traitlets.List(traitlets.Int(min=0)).tag(sync=True)
    momentum = traitlets.Float(0.1, min=0, max=1).tag(sync=True)
    batch = traitlets.Int(min=1).tag(sync=True)
    mode = traitlets.Enum(("train", "eval"), "train").tag(sync=True)
    view = traitlets.Enum(VIEWS, "raw").tag(sync=True)
    share = traitlets.Enum(("statistics", "parameters"), "statistics").tag(sync=True)
    upstream = traitlets.Float(1.0).tag(sync=True)

    layers = traitlets.Tuple().tag(sync=True, to_json=_schemes_to_json)
    named = traitlets.Tuple().tag(sync=True, to_json=_schemes_to_json)
    cells = traitlets.Enum(LAYOUTS).tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    controls = traitlets.List(traitlets.Enum(CONTROLS)).tag(sync=True)
    prompt = traitlets.Dict(None, allow_none=True).tag(sync=True)
    goal = traitlets.Dict(None, allow_none=True).tag(sync=True)
    next = anywidget.WidgetTrait().tag(sync=True)
    words = traitlets.Dict().tag(sync=True)
    looks = traitlets.List().tag(sync=True)

    def __init__(
        self,
        x: Any,
        scheme: Scheme | None = None,
        *,
        cells: str | None = None,
        mask: Any = None,
        lengths: Any = None,
        layers: tuple[Scheme, ...] | None = None,
        label: str = "",
        controls: tuple[str, ...] = ("layers", "axes", "share", "steps", "chips", "code"),
        prompt: dict | None = None,
        goal: dict | None = None,
        next: "SharedStatistics | None" = None,
        language: str | None = None,
        **state: Any,
    ):
        unknown = [name for name in state if not self.has_trait(name)]
        if unknown:
            raise TypeError(f"SharedStatistics has no {unknown[0]!r}")
        shape = np.shape(x)
        if layout := (layout_of(scheme) if scheme else cells):
            if layout not in LAYOUTS:
                raise ValueError(f"the axes {layout!r} can't be drawn; expected one of {LAYOUTS}")
        else:
            layout = {4: "n c h w", 3: "n t d"}.get(len(shape), "n d")
        named = layers_for(layout)
        if layers is None:
            layers = tuple(layer for layer in named if layer in LAYERS)
        if lengths is not None:
            if mask is not None or layout != "n t d" or len(shape) != 3:
                raise ValueError("lengths are those of sequences of tokens, n t d, without a mask")
            lengths = np.asarray(lengths)
            if lengths.shape != shape[:1] or (lengths < 0).any() or (lengths > shape[1]).any():
                raise ValueError(
                    f"lengths is {lengths.tolist()}; expected {shape[0]} numbers from 0 to {shape[1]}"
                )
            mask = np.arange(shape[1]) < lengths[:, None]
        super().__init__(
            values=x,
            scheme=scheme or layers[0],
            mask=mask,
            layers=tuple(layers),
            named=named,
            cells=layout,
            label=label,
            controls=list(controls),
            prompt=prompt,
            goal=goal,
            next=next,
            words=words_in(language),
            looks=[list(look) for look in LOOKS],
            **{"batch": shape[0] if shape else 1} | state,
        )

    # What is wrong is refused, with the value in the message.

    @traitlets.validate("values")
    def _check_values(self, proposal):
        value, old = proposal["value"], self.__dict__.get("_shape")
        if value is None:
            raise traitlets.TraitError("values is None; expected an array")
        if old and value.shape != old:
            raise traitlets.TraitError(
                f"values has shape {value.shape}; expected {old}: make a new widget for another"
            )
        rank = len(self.cells.split())
        if value.ndim != rank:
            raise traitlets.TraitError(
                f"values has {value.ndim} axes, shape {value.shape}; expected {rank}: {self.cells}"
            )
        if not value.size:
            raise traitlets.TraitError(f"values has no cells, shape {value.shape}")
        if value.size > MAX_CELLS:
            part = list(value.shape)
            while prod(part) > MAX_CELLS:
                largest = part.index(max(part))
                part[largest] = (part[largest] + 1) // 2
            raise traitlets.TraitError(
                f"values has {value.size:,} cells, shape {value.shape}; at most {MAX_CELLS:,} are "
                f"drawn: slice it, as x[{', '.join(f':{length}' for length in part)}]"
            )
        self._shape = value.shape
        return value

    @traitlets.validate("scheme")
    def _check_scheme(self, proposal):
        scheme = proposal["value"]
        self._check_values({"value": self.values})  # which it is about may come after it
        if layout_of(scheme) != self.cells:
            raise traitlets.TraitError(
                f"scheme is {scheme.name} with cells {scheme.cells!r}; "
                f"expected a layer for {self.cells!r}"
            )
        try:
            scheme.axis_lengths(self.values.shape)
        except ValueError as error:
            raise traitlets.TraitError(f"scheme: {error}") from error
        return scheme

    @traitlets.validate("mask")
    def _check_mask(self, proposal):
        return self._check_shape(proposal, self.scheme.mask or self.scheme.cells)

    @traitlets.validate("gamma", "beta")
    def _check_parameter(self, proposal):
        name = proposal["trait"].name
        exists = self.scheme.params if name == "gamma" else self.scheme.has_beta
        if proposal["value"] is not None and not exists:
            raise traitlets.TraitError(f"{name} was given, but {self.scheme.name} has no {name}")
        return self._check_shape(proposal, self.scheme.params)

    @traitlets.validate("running_mean", "running_var")
    def _check_running(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        if value is not None and not self.scheme.running:
            raise traitlets.TraitError(
                f"{name} was given, but {self.scheme.name} keeps no running statistics"
            )
        if value is not None and name == "running_var" and (value < 0).any():
            raise traitlets.TraitError(f"running_var is {value.min()}; expected at least 0")
        return self._check_shape(proposal, self.scheme.running)

    def _check_shape(self, proposal, indices):
        name, value = proposal["trait"].name, proposal["value"]
        if value is not None:
            expected = self.scheme.shape_of(indices, self.values.shape)
            if value.shape != expected:
                raise traitlets.TraitError(
                    f"{name} has shape {value.shape}; {self.scheme.name} takes one value per "
                    f"{', '.join(axes_of(indices))}: expected {expected}"
                )
        return value

    @traitlets.validate("selection")
    def _check_selection(self, proposal):
        value, shape = proposal["value"], self.values.shape
        if value is None:
            return None
        try:
            index = tuple(int(i) for i in value)
            fits = len(index) == len(shape) and index == tuple(value)
            fits = fits and all(0 <= i < n for i, n in zip(index, shape, strict=True))
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise traitlets.TraitError(
                f"selection is {value!r}; expected the index of a cell of shape {shape}, or None"
            )
        return index

    @traitlets.validate("eps")
    def _check_eps(self, proposal):
        value = proposal["value"]
        if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= value < inf:
            raise traitlets.TraitError(
                f"eps is {value!r}; expected a finite number that is at least 0"
            )
        return float(value)

    @traitlets.validate("batch")
    def _check_batch(self, proposal):
        value, samples = proposal["value"], self.values.shape[0]
        if value > samples:
            raise traitlets.TraitError(
                f"batch is {value}; expected 1 to {samples}, the number of samples"
            )
        return value

    @traitlets.observe("scheme")
    def _reset_what_belongs_to_the_scheme(self, change):
        if change["old"] not in (None, traitlets.Undefined):
            for name in ("gamma", "beta", "running_mean", "running_var"):
                setattr(self, name, None)
            self.batches = []

    @property
    def shown(self) -> np.ndarray:
        """The values that take part: those of the first `batch` samples."""
        return self.values[: self.batch]

    def _repr_html_(self):
        """The same tensor with its groups, still: for readers without JavaScript, and for print."""
        caption = f"{self.label}: {self.scheme.summary}" if self.label else self.scheme.summary
        if self.values.size <= PICTURE_CELLS:
            mask = None if self.mask is None else self.mask[: self.batch]
            try:
                figure = draw_sharing(self.scheme, x=self.shown, caption=caption, mask=mask)
                return figure._repr_html_()
            except ValueError:  # a mask that leaves a group without any cell
                pass
        return f"<p>{html.escape(self.scheme.name)}. {html.escape(caption)}</p>"

"""SharedStatistics: a tensor to touch, whose cells show who shares a mean and a variance.

This half holds the data, the layers and the words, and refuses what is wrong. All interaction is in
the folder `shared_statistics_front`, so that it works in a built page where no Python runs.
"""

import html
import re
from dataclasses import asdict
from math import inf, prod
from numbers import Real
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from normbook.core.scheme import LAYERS, MORE_LAYERS, Scheme, layout_of, per
from normbook.page.figures import LOOKS, draw_sharing
from normbook.widgets.join import join
from normbook.widgets.translations import words_in

MAX_CELLS = 4096
PAIRS = ("lengths", "names")  # fields of a scheme that JSON holds as lists
PICTURE_CELLS = 1024  # a static picture of more would be heavier than the page around it
GUESSED = {2: "n d", 3: "n t d", 4: "n c h w"}  # the axes of x, by how many there are
# What can stand in front; whatever is not asked for waits under "more".
CONTROLS = (
    "layers", "axes", "share", "mode", "batch", "steps", "gradient", "chips", "edit", "affine",
    "eps", "code", "reset",
)  # fmt: skip


def layers_for(layout: str) -> tuple[Scheme, ...]:
    """The layers with a name that take a tensor with these axes."""
    return tuple(layer for layer in LAYERS + MORE_LAYERS if layout_of(layer) == layout)


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
    pairs = {key: tuple((axis, v) for axis, v in value.get(key, ())) for key in PAIRS}
    return Scheme(**value | pairs)


def _check_schemes(name, *given):
    for scheme in given:
        if not isinstance(scheme, Scheme):
            raise TypeError(
                f"{name}: {scheme!r:.80} is a {type(scheme).__name__}; expected a Scheme, such as "
                "LAYER_NORM of normbook.core"
            )


def _mask_of(lengths, scheme, layout, shape):
    """The mask of sequences of tokens with these lengths."""
    if len(shape) != 3 or scheme.mask.split() != layout.split()[:2]:
        raise ValueError(
            "lengths are those of sequences of tokens: expected a scheme with one mask value for "
            f"each of them, as cells='n t d' and mask='n t'; {scheme.name} has "
            f"cells={scheme.cells!r} and mask={scheme.mask!r}"
        )
    lengths = np.asarray(lengths)
    if lengths.shape != shape[:1] or (lengths < 0).any() or (lengths > shape[1]).any():
        raise ValueError(
            f"lengths is {lengths.tolist()}; expected {shape[0]} numbers from 0 to {shape[1]}"
        )
    return np.arange(shape[1]) < lengths[:, None]


def _is_same(one, other):
    """Whether it is the same layer, but for its lengths, as the front end decides it."""
    return all(getattr(one, key) == getattr(other, key) for key in ("name", "cells", "stats"))


def _schemes_to_json(schemes, _widget=None):
    return [asdict(scheme) for scheme in schemes]


class SharedStatistics(anywidget.AnyWidget):
    """A tensor whose cells light up with those that share their statistics.

    All attributes below can be observed, and raise `TraitError` at once where a value doesn't fit.

    Parameters
    ----------
    x
        the tensor, anything that numpy reads as real numbers; at most 4,096 cells are drawn.
    scheme
        the layer shown at first, with any axes; by default the first of `LAYERS` that takes x.
    cells
        the axes of x, such as ``"n d l"``, where `scheme` doesn't tell and 2, 3 or 4 axes are
        not those of features, tokens or images.
    mask
        True for a real cell: one value per n, t for tokens, else one per cell of x.
    lengths
        of sequences of tokens, in place of `mask`; they can be changed by hand.
    layers
        those to choose from; by default those of `LAYERS` with these axes, and `scheme`.
    label
        what the tensor is; read aloud and written above it.
    controls
        the ones in front, of `CONTROLS`; the others wait under "more".
    prompt
        a question to try at once, such as ``{"cell": (1, 2), "value": 90}``: change this cell
        to this value, and see which outputs move.
    goal
        a task, and when it is done: ``{"ask": "Make it instance norm.", "stats": "n c"}`` when
        statistics have these indices; with "moved", a list of cells counted from 0 row by row,
        when an edit has moved the outputs of just these.
    next
        another SharedStatistics, which a button unfolds below this one.
    language
        "en" or "zh"; by default what `use_language` set.
    state
        traits to begin with, such as ``selection=(0, 1)`` or ``view="normalized"``.

    Attributes
    ----------
    values
        x in float64. Change it by assignment; its shape stays.
    mask
        the mask, or None.
    selection
        the index of the pinned cell, or None.
    eps
        added to the variance.
    gamma, beta
        indexed by the scheme's `params`; None means 1 and 0. A new scheme resets them.
    running_mean, running_var
        indexed by the scheme's `running`; None means 0 and 1.
    batches
        how many batches each running statistic has seen.
    batch
        how many samples, the first ones, take part.
    mode
        "train", or "eval" to use the running statistics.
    view
        what stands in the cells, of `VIEWS`. "both" is the input above the output.
    share
        what the lit cells share: "statistics" (μ, σ²) or "parameters" (γ, β).
    upstream
        the gradient that arrives at the pinned output, in the view "gradient".

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

    _esm = join(Path(__file__).with_name("shared_statistics_front") / "stage.js")
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
    cells = traitlets.Unicode().tag(sync=True)
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
        _check_schemes("layers", *(layers or ()))
        if scheme is not None:
            _check_schemes("scheme", scheme)
        shape = np.shape(x)
        layout = cells or (layout_of(scheme) if scheme else GUESSED.get(len(shape)))
        if layout is None:
            raise traitlets.TraitError(
                f"values has {len(shape)} axes, shape {shape}; expected 2 to 4, or a scheme that "
                "tells what they are, such as Scheme('my norm', 'n c d h w', stats='c')"
            )
        named = layers_for(layout)
        if scheme is None:
            if not (layers or named):
                raise ValueError(
                    f"cells={layout!r}: the book has no layer for these axes; expected a scheme, "
                    f"such as Scheme('my norm', {layout!r}, stats={layout[:1]!r})"
                )
            scheme = (layers or named)[0]
        if mask is not None or lengths is not None:  # one mask for all there is to choose from
            named = tuple(layer for layer in named if layer.mask == scheme.mask)
        if layers is None:
            layers = tuple(layer for layer in named if layer in LAYERS)
            if not any(_is_same(layer, scheme) for layer in layers):
                layers += (scheme,)
        if lengths is not None:
            if mask is not None:
                raise ValueError("lengths and mask were given; expected one of them")
            mask = _mask_of(lengths, scheme, layout, shape)
        words = words_in(language)
        depth = {"depth": words["depth"]}
        own = {axis: depth.get(name, name) for axis, name in scheme.own_names.items()}
        super().__init__(
            values=x,
            scheme=scheme,
            mask=mask,
            layers=tuple(layers),
            named=named,
            cells=layout,
            label=label,
            controls=list(controls),
            prompt=prompt,
            goal=goal,
            next=next,
            words=words | {"axes": words["axes"] | own},
            looks=[list(look) for look in LOOKS],
            **{"batch": shape[0] if shape else 1} | state,
        )

    # What is wrong is refused, with the value in the message.

    @traitlets.validate("cells")
    def _check_cells(self, proposal):
        value = proposal["value"]
        letters = value.split(" ")
        if not re.fullmatch("[a-z]( [a-z])*", value) or len(set(letters)) < len(letters):
            raise traitlets.TraitError(
                f"cells is {value!r}; expected a letter for every axis, such as 'n c h w'"
            )
        return value

    @traitlets.validate("values")
    def _check_values(self, proposal):
        self._check_cells({"value": self.cells})  # which may come after it
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
        self._check_values({"value": self.values})  # which may come after it
        # A split axis stands for one letter, which is not one of its parts.
        if not re.fullmatch(re.sub(r"\((.*?)\)", r"[^\1]", scheme.cells), self.cells):
            raise traitlets.TraitError(
                f"scheme is {scheme.name} with cells {scheme.cells!r}; "
                f"expected a layer for {self.cells!r}"
            )
        try:
            scheme.on(self.values.shape)
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
            expected = self.scheme.on(self.values.shape).shape_of(indices)
            if value.shape != expected:
                raise traitlets.TraitError(
                    f"{name} has shape {value.shape}; {self.scheme.name} takes one value "
                    f"{per(indices)}: expected {expected}"
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
        """The values that take part, those of the first `batch` samples."""
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

"""The mathematics: one description for every layer, and one arithmetic. numpy alone is needed.

`Scheme` says which cells of a tensor share a mean and a variance; `normalize`, `statistics` and
`backward` compute with it, on numpy arrays and torch tensors.
"""

from normbook.core import arithmetic, blockwise
from normbook.core.normalize import (
    Gradients,
    Normalized,
    Statistics,
    backward,
    normalize,
    statistics,
)
from normbook.core.scheme import (
    AXIS_NAMES,
    BATCH_NORM_1D,
    BATCH_NORM_1D_LENGTH,
    BATCH_NORM_2D,
    BATCH_NORM_PER_STEP,
    BATCH_NORM_POOLED,
    BATCH_NORM_SEQUENCE_AS_CHANNEL,
    GROUP_NORM,
    GROUP_NORM_1,
    INSTANCE_NORM_2D,
    LAYER_NORM,
    LAYER_NORM_CHANNELS,
    LAYER_NORM_CHW,
    LAYER_NORM_TOKEN,
    LAYERS,
    RMS_NORM,
    Scheme,
    axes_of,
)

__all__ = [
    "AXIS_NAMES",
    "BATCH_NORM_1D",
    "BATCH_NORM_1D_LENGTH",
    "BATCH_NORM_2D",
    "BATCH_NORM_PER_STEP",
    "BATCH_NORM_POOLED",
    "BATCH_NORM_SEQUENCE_AS_CHANNEL",
    "GROUP_NORM",
    "GROUP_NORM_1",
    "INSTANCE_NORM_2D",
    "LAYERS",
    "LAYER_NORM",
    "LAYER_NORM_CHANNELS",
    "LAYER_NORM_CHW",
    "LAYER_NORM_TOKEN",
    "RMS_NORM",
    "Gradients",
    "Normalized",
    "Scheme",
    "Statistics",
    "arithmetic",
    "axes_of",
    "backward",
    "blockwise",
    "normalize",
    "statistics",
]

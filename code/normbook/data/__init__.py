"""What the layers are tried on: the worked examples of the sources, digits, text."""

from normbook.data.dataset import Dataset
from normbook.data.examples import (
    CONV_OUTPUT,
    FEATURE_MAPS,
    FOUR_TOKENS,
    FOUR_TOKENS_3,
    ONE_TO_FIVE,
    RAGGED,
    RAGGED_LENGTHS,
    RANDN,
    RECURRENT,
    THREE_SCALES,
    Example,
    RecurrentExample,
)
from normbook.data.load import load
from normbook.data.mnist import DownloadError
from normbook.data.text import topics

__all__ = [
    "CONV_OUTPUT",
    "FEATURE_MAPS",
    "FOUR_TOKENS",
    "FOUR_TOKENS_3",
    "ONE_TO_FIVE",
    "RAGGED",
    "RAGGED_LENGTHS",
    "RANDN",
    "RECURRENT",
    "THREE_SCALES",
    "Dataset",
    "DownloadError",
    "Example",
    "RecurrentExample",
    "load",
    "topics",
]

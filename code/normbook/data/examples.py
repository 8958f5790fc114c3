"""The worked examples of the source documents, as data with their provenance.

The four documents are numbered 000, 002, 003 and 004; the bibliography page describes them. Every
number that the book states about an example is computed from the data here.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Example:
    """A tensor of a source document.

    Attributes
    ----------
    title
        what it is.
    source
        the document and the place in it; where the numbers come from, if from elsewhere.
    cells
        its axes, as in `normbook.core.scheme`.
    values
        nested tuples.

    Examples
    --------
    >>> FEATURE_MAPS.title, FEATURE_MAPS.cells, FEATURE_MAPS.shape
    ('two samples with three channels of 5 × 5', 'n c h w', (2, 3, 5, 5))
    >>> FEATURE_MAPS.x.mean((1, 2, 3)).round(4)
    array([0.4933, 0.7733])
    """

    title: str
    source: str
    cells: str
    values: tuple

    @property
    def x(self) -> np.ndarray:
        """The tensor in float64, a new array each time."""
        return np.array(self.values, dtype=np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
        return np.shape(self.values)


@dataclass(frozen=True)
class RecurrentExample(Example):
    """A batch of sequences, and a recurrent layer with layer norm to put them through.

    With the state h, the layer sums up a = W_xh x + W_hh h in every time step.

    Attributes
    ----------
    W_xh, W_hh
        the layer's weights, a row for each of its units.
    gamma, beta
        the layer norm's scale and shift, one of each for every unit.

    Examples
    --------
    >>> W_xh, W_hh, gamma, beta = RECURRENT.weights
    >>> RECURRENT.shape, W_xh.shape, W_hh.shape, gamma.shape
    ((2, 3, 3), (4, 3), (4, 4), (4,))
    """

    W_xh: tuple
    W_hh: tuple
    gamma: tuple
    beta: tuple

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """W_xh, W_hh, gamma and beta in float64, new arrays each time."""
        parts = self.W_xh, self.W_hh, self.gamma, self.beta
        return tuple(np.array(values, dtype=np.float64) for values in parts)


def _maps(*samples: str) -> tuple:
    """Feature maps from digits: a string a sample, a line a channel, a word a row."""
    return tuple(
        tuple(
            tuple(tuple(int(digit) for digit in row) for row in channel.split())
            for channel in sample.strip().splitlines()
        )
        for sample in samples
    )


CONV_OUTPUT = Example(
    title="two samples with two channels of 2 × 2",
    source="document 000, `conv_output` in its first two listings; Feature1 and Feature2",
    cells="n c h w",
    values=(
        (((1, 1), (1, 2)), ((-1, 1), (0, 1))),
        (((0, -1), (2, 2)), ((0, -1), (3, 1))),
    ),
)

FEATURE_MAPS = Example(
    title="two samples with three channels of 5 × 5",
    source="document 002, figure 6-17 (lost in our copy of the text); the integers are those of "
    "Code/Chapter06/C04_LN/ln_compute.py in the repository moon-hotel/DeepLearningWithMe",
    cells="n c h w",
    values=_maps(
        """
        02010 02011 21200 10010 11101
        00010 10001 10010 01000 11100
        11000 01001 01111 01000 01000
        """,
        """
        12111 03111 20222 11200 10100
        01110 00211 10210 11200 01100
        01100 01021 12110 11000 01100
        """,
    ),
)

FOUR_TOKENS = Example(
    title="two samples of four tokens with two features",
    source="document 000, `embd_output` in its third listing",
    cells="n t d",
    values=(
        ((1, -1), (1, 1), (1, 0), (2, -1)),
        ((0, 0), (-1, -1), (2, 3), (2, 1)),
    ),
)

FOUR_TOKENS_3 = Example(
    title="two samples of four tokens with three features",
    source="document 002, the script that belongs to its section, layer_normalization.py in "
    "Code/Chapter06/C04_LN of the repository moon-hotel/DeepLearningWithMe",
    cells="n t d",
    values=(
        ((1, 1, 2), (2, 0, 0), (0, 0, 1), (0, 1, 0)),
        ((1, 0, 1), (1, 1, 2), (1, 0, 2), (0, 2, 2)),
    ),
)

RAGGED_LENGTHS = (5, 2, 4, 3, 6)

RAGGED = Example(
    title="five samples of up to six tokens with four features, zeros behind their ends",
    source="document 002, figure 6-15, for the lengths; it has no numbers, so these are made up: "
    "(7 n + 3 t + 5 d) mod 11 - 5",
    cells="n t d",
    values=tuple(
        tuple(
            tuple((7 * n + 3 * t + 5 * d) % 11 - 5 if t < length else 0 for d in range(4))
            for t in range(6)
        )
        for n, length in enumerate(RAGGED_LENGTHS)
    ),
)

ONE_TO_FIVE = Example(
    title="one sample with the features 1 to 5",
    source="document 004, its first listing",
    cells="n d",
    values=((1, 2, 3, 4, 5),),
)

THREE_SCALES = Example(
    title="three samples with five features: 1 to 5, times 1, 10 and 100",
    source="document 004, its second listing",
    cells="n d",
    values=((1, 2, 3, 4, 5), (10, 20, 30, 40, 50), (100, 200, 300, 400, 500)),
)

RANDN = Example(
    title="four samples with five features, drawn from a normal distribution",
    source="document 004, the tensor that its third listing printed, to four decimals",
    cells="n d",
    values=(
        (0.4391, -0.5611, -0.0781, 0.6589, -1.0762),
        (-1.3637, 0.9116, 0.3021, 0.0291, -0.6390),
        (-0.4089, 0.5864, -1.2565, 0.6122, -0.1534),
        (0.7772, -0.4230, -0.9149, 0.5048, 0.5255),
    ),
)

RECURRENT = RecurrentExample(
    title="two samples of three time steps with three features, and a layer of four units",
    source="document 002, its part on recurrent networks; it has no numbers, so these are made up",
    cells="n t d",
    values=(
        ((-1.5, -0.5, 0.5), (0.0, 1.0, -1.5), (1.5, -1.0, 0.0)),
        ((0.5, 1.5, -1.0), (-1.5, -0.5, 0.5), (0.0, 1.0, -1.5)),
    ),
    W_xh=((-0.6, 0.4, 0.0), (0.0, -0.4, 0.6), (0.6, 0.2, -0.2), (-0.2, -0.6, 0.4)),
    W_hh=(
        (-0.5, 0.375, 0.125, -0.125),
        (-0.25, -0.5, 0.375, 0.125),
        (0.0, -0.25, -0.5, 0.375),
        (0.25, 0.0, -0.25, -0.5),
    ),
    gamma=(1.0, 0.5, 1.5, 2.0),
    beta=(0.0, 0.1, -0.2, 0.3),
)

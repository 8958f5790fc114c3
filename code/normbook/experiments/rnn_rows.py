"""The digits read row by row by a recurrent network, with its norm in one place or another.

Question. Does a norm help a recurrent network to learn, and does it matter where it stands? What
does batch norm with statistics for each step do with a sequence longer than it was trained on?

Design. An image is a sequence of 8 rows of 8 pixels; a tanh network of 64 units reads it, and a
linear layer takes the last state to the classes. No norm; layer norm before tanh (Ba et al. 2016,
eq. 4), after tanh and fed back, and on the finished outputs; batch norm before tanh, with
statistics for each step and gamma and beta for all. (Gamma starts from 1. From 0.1, as Cooijmans et
al. 2016 advise for long sequences, was worse here, tried with three seeds.) Ten seeds, each
with its own split, initial weights and order of batches, which the arms share. Ten epochs of SGD
with momentum 0.9, batches of 32. For each arm and seed five learning rates, of which the one with
the lowest loss on a validation part is chosen. Error: the 360 test images, in eval mode. The chosen
networks also read them behind 1, 2 and 4 blank rows. In steps beyond the eighth, batch norm uses
the statistics of the eighth.

What it doesn't show: long sequences; LSTM and GRU; sequences of different lengths in one batch. One
test image is 0.28 points.
"""

import torch
from torch import nn

from normbook.data import load
from normbook.experiments.training import Images, error, reproducible, split, train_best
from normbook.layers.layer_norm_recurrent import LayerNormOutput, LayerNormRNN, LayerNormStateRNN

ROWS, PIXELS, UNITS = 8, 8, 64
BLANK = (1, 2, 4)
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)


class BatchNormRNN(nn.RNN):
    """h_t = tanh(BN_t(W_ih x_t + W_hh h_{t-1})), with running statistics for each step."""

    def __init__(self):
        super().__init__(PIXELS, UNITS, bias=False, batch_first=True)
        self.norms = nn.ModuleList(nn.BatchNorm1d(UNITS, affine=False) for _ in range(ROWS))
        self.gamma = nn.Parameter(torch.ones(UNITS))
        self.beta = nn.Parameter(torch.zeros(UNITS))

    def forward(self, x):
        h, outputs = x.new_zeros(len(x), UNITS), []
        for t, x_t in enumerate(x.unbind(1)):
            a = x_t @ self.weight_ih_l0.T + h @ self.weight_hh_l0.T
            h = torch.tanh(self.gamma * self.norms[min(t, ROWS - 1)](a) + self.beta)
            outputs.append(h)
        return torch.stack(outputs, 1), h[None]


ARMS = {
    "none": lambda: nn.RNN(PIXELS, UNITS, batch_first=True),
    "layer, before tanh": lambda: LayerNormRNN(PIXELS, UNITS),
    "layer, after tanh": lambda: LayerNormStateRNN(PIXELS, UNITS),
    "layer, on outputs": lambda: LayerNormOutput(nn.RNN(PIXELS, UNITS, batch_first=True)),
    "batch per step, before tanh": BatchNormRNN,
}
CONFIGURATIONS = [{"norm": norm, "seed": seed} for norm in ARMS for seed in range(10)]
TOLERANCE = {"rate": 10, "loss": 0.2, "validation_loss": 0.2, "error": 6} | {
    f"error, {blank} blank": 20 for blank in BLANK
}


class Reader(nn.Module):
    """Classes from an image, (N, 1, T, 8), by the state behind its last row."""

    def __init__(self, norm):
        super().__init__()
        self.head = nn.Linear(UNITS, 10)  # first, so that all arms begin with the same weights
        self.rnn = ARMS[norm]()

    def forward(self, x):
        return self.head(self.rnn(x.squeeze(1))[0][:, -1])


def behind_blank_rows(images: Images, blank: int) -> Images:
    """The images with blank rows on top: the sequence is so much longer."""
    rows = images.x.min().expand(len(images), 1, blank, PIXELS)
    return Images(torch.cat([rows, images.x], 2), images.y)


def run(config: dict) -> list[dict]:
    """The rows of `train_best`, one for each rate; the chosen one with the errors on longer ones.

    ``error, 2 blank`` is that behind two blank rows; None for rates that were not chosen.
    """
    seed = config["seed"]

    def build():
        torch.manual_seed(seed)
        return Reader(config["norm"])

    with reproducible(seed):
        parts = split(load(), seed)
        model, rows = train_best(build, parts, RATES, epochs=10, batch_size=32, seed=seed)
        longer = {
            f"error, {blank} blank": round(error(model, behind_blank_rows(parts.test, blank)), 4)
            for blank in BLANK
        }
        return [row | (longer if row["chosen"] else dict.fromkeys(longer)) for row in rows]

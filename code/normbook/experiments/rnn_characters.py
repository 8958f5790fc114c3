"""The next character of a text, with an LSTM: no layer norm, inside, or on its outputs.

Question. In practice, layer norm is put behind a finished recurrent layer, since PyTorch's have
none inside. Does it matter whether it stands inside, as in Ba et al. 2016, eq. 20-22?

Design. The help topics that come with Python, their first 400,000 characters; what isn't ASCII
counts as one character. The last tenth is held out: its first half to choose a learning rate by,
its second half to test with. An embedding of 32 numbers, one LSTM layer of 64 units, a linear
layer. 300 steps of Adam, each on 32 pieces of 30 characters, from a state of zeros. Ten seeds, each
with its own initial weights and pieces, which the arms share. For each arm and seed four learning
rates, of which the one with the lowest validation loss is chosen. In bits per character.

What it doesn't show: training to the end: 300 steps see less than the text once; long
pieces; large models.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbook.data import topics
from normbook.experiments.training import reproducible
from normbook.layers.layer_norm_recurrent import LayerNormLSTM, LayerNormOutput

CHARACTERS, EMBEDDING, UNITS = 128, 32, 64
STEPS, BATCH, LENGTH = 300, 32, 30
TRAIN, VALIDATION, TEST = 360_000, 20_000, 20_000
RATES = (0.01, 0.03, 0.1)
ARMS = {
    "none": lambda: nn.LSTM(EMBEDDING, UNITS, batch_first=True),
    "inside": lambda: LayerNormLSTM(EMBEDDING, UNITS),
    "on outputs": lambda: LayerNormOutput(nn.LSTM(EMBEDDING, UNITS, batch_first=True)),
}
CONFIGURATIONS = [{"norm": norm, "seed": seed} for norm in ARMS for seed in range(10)]
# The text differs a little from one version of Python to the next.
TOLERANCE = {"rate": 10, "validation_bits": 0.2, "bits": 0.2}


class CharacterModel(nn.Module):
    """Scores of the next character, (N, T, CHARACTERS), from the characters so far, (N, T)."""

    def __init__(self, norm):
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, EMBEDDING)
        self.head = nn.Linear(UNITS, CHARACTERS)
        self.rnn = ARMS[norm]()  # last, so that all arms begin with the same weights

    def forward(self, x):
        return self.head(self.rnn(self.embedding(x))[0])


def loss(model: nn.Module, pieces: Tensor) -> Tensor:
    """The mean cross-entropy of each character but the first of each piece, (N, T), in bits."""
    scores = model(pieces[:, :-1]).flatten(0, 1)
    return F.cross_entropy(scores, pieces[:, 1:].flatten()) / math.log(2)


def train(model: nn.Module, text: Tensor, rate: float, seed: int) -> None:
    """Train `model` in place on pieces of `text`, which `seed` tells."""
    generator = torch.Generator().manual_seed(seed)
    descent = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(STEPS):
        starts = torch.randint(len(text) - LENGTH, (BATCH, 1), generator=generator)
        descent.zero_grad()
        loss(model, text[starts + torch.arange(LENGTH + 1)]).backward()
        descent.step()


@torch.no_grad()
def bits(model: nn.Module, text: Tensor) -> float:
    """Bits per character of a text, read in pieces, each from a state of zeros."""
    return round(loss(model, text.unfold(0, LENGTH + 1, LENGTH)).item(), 4)


def run(config: dict) -> list[dict]:
    """A row for each rate: its bits per character on both held out parts, and which is chosen."""
    seed = config["seed"]
    codes = torch.tensor([min(ord(c), 127) for c in topics()])
    text, validation, test, _ = codes.split(
        [TRAIN, VALIDATION, TEST, len(codes) - TRAIN - VALIDATION - TEST]
    )
    rows = []
    with reproducible(seed):
        for rate in RATES:
            torch.manual_seed(seed)
            model = CharacterModel(config["norm"])
            train(model, text, rate, seed)
            rows.append(
                {
                    "rate": rate,
                    "validation_bits": bits(model, validation),
                    "bits": bits(model, test),
                }
            )
    best = min(row["validation_bits"] for row in rows)
    return [row | {"chosen": row["validation_bits"] == best} for row in rows]

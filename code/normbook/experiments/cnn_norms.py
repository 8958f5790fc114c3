"""Seven norms in one small CNN, trained on digits.

Question. Layer norm for a CNN has three meanings. Do they train alike, and how do they compare with
batch norm, group norm, instance norm and none?

Design. A CNN of four stages (3 × 3 convolution, norm, ReLU; maps of 8 × 8, 8 × 8, 4 × 4 and 4 × 4,
with 16, 32, 32 and 32 channels) on the digits, with one of two heads: a linear layer that sees all
pixels of the last maps, or global average pooling before it. Layer norm over C, H, W; the same
statistics with one γ and β per channel (group norm with one group); layer norm over the channels at
each pixel; group norm with 4 groups; instance norm with γ and β; batch norm; none. Ten seeds, each
with its own split, initial weights and order of batches, which all arms share. Five epochs of SGD
with momentum 0.9 in batches of 32, He's initialization. For each arm and seed four learning rates,
of which the one with the lowest loss on a validation part is chosen. Error: the 360 test images, in
eval mode.

What it doesn't show: anything of large networks and images, or of long training; whether another
grid of rates or another batch size would change the order. One test image is 0.28 points.
"""

import torch

from normbook.data import load
from normbook.experiments.models import NORMS_2D, cnn
from normbook.experiments.training import reproducible, split, train_best

RATES = {"pooled": (0.02, 0.06, 0.2, 0.6), "all pixels": (0.006, 0.02, 0.06, 0.2)}
CONFIGURATIONS = [
    {"head": head, "norm": norm, "seed": seed}
    for head in RATES
    for norm in NORMS_2D
    for seed in range(10)
]
TOLERANCE = {"rate": 10, "loss": 0.2, "validation_loss": 0.2, "error": 6}


def run(config: dict) -> list[dict]:
    """The rows of `train_best`, one for each rate."""
    seed = config["seed"]

    def build():
        torch.manual_seed(seed)
        return cnn(config["norm"], strides=(1, 1, 2, 1), pool=config["head"] == "pooled")

    with reproducible(seed):
        parts, rates = split(load(), seed), RATES[config["head"]]
        return train_best(build, parts, rates, epochs=5, batch_size=32, seed=seed)[1]

"""Learning rates that work, by norm and by initialization, in an MLP of twelve layers.

Question. Does a norm widen the range of learning rates at which a deep network learns? And how much
of that is the initialization?

Design. Twelve hidden layers of 64 with ReLU on the digits; batch norm, layer norm or none before
each ReLU; He's initialization or PyTorch's default. Seven learning rates over three decades, plain
SGD without momentum, five epochs in batches of 32. Ten seeds, each with its own split, initial
weights and order of batches, which all arms share. Error: the 360 test images, in eval mode; 90 %
is guessing. A run whose loss is no longer finite ends, and counts with the error of what is left.

What it doesn't show: longer training, other optimizers, warm-up, or skip connections.
"""

import torch

from normbook.data import load
from normbook.experiments.models import mlp
from normbook.experiments.training import reproducible, split, train_best

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
CONFIGURATIONS = [
    {"norm": norm, "init": init, "seed": seed}
    for init in ("he", "default")
    for norm in ("batch", "layer", "none")
    for seed in range(10)
]
TOLERANCE = {"rate": 10, "loss": 0.5, "validation_loss": 0.5, "error": 15}


def run(config: dict) -> list[dict]:
    """The rows of `train_best`, one for each rate."""
    seed = config["seed"]

    def build():
        torch.manual_seed(seed)
        return mlp(config["norm"], depth=12, init=config["init"])

    with reproducible(seed):
        parts = split(load(), seed)
        how = {"epochs": 5, "batch_size": 32, "seed": seed, "momentum": 0.0}
        return train_best(build, parts, RATES, **how)[1]

"""The forgotten ``eval()``: what a trained network predicts when it was left in train mode.

Question. Batch norm in train mode normalizes with the statistics of the batch at hand. How many
test images does a network get wrong then, by the size of the batches that it is asked with, and by
whether these are mixed or hold one class each?

Design. Three networks, with batch norm and with layer norm, on the digits: an MLP with two hidden
layers of 64; a CNN with maps of 8 × 8 and 4 × 4, whose last linear layer sees all pixels of these;
and the same CNN with global average pooling before it. Ten seeds, each with its own split, initial
weights and order of batches, which all arms share. Training: batches of 32, 10 epochs, SGD with
momentum 0.9, He's initialization, of three learning rates the one with the lowest loss on a
validation part. Then the 360 test images: once in eval mode, and in train mode in batches of sizes
that divide 360, in random order and sorted by class. A class has 35 to 37 images, so most batches
of up to 36 hold one class alone. Asking leaves the running statistics as they were.

What it doesn't show: larger networks or other data; what it does to a model to be trained on sorted
batches, or to go on learning from its questions; a batch of one, which the MLP with batch norm
refuses.
"""

import torch

from normbook.data import load
from normbook.experiments.models import cnn, mlp
from normbook.experiments.training import error, reproducible, split, train_best

NETS = {
    "mlp": mlp,
    "cnn": lambda norm: cnn(norm, strides=(1, 2)),
    "cnn, pooled": lambda norm: cnn(norm, strides=(1, 2), pool=True),
}
RATES = (0.03, 0.1, 0.3)
SIZES = (2, 3, 4, 6, 9, 12, 18, 36, 60, 120, 360)
CONFIGURATIONS = [
    {"net": net, "norm": norm, "seed": seed}
    for net in NETS
    for norm in ("batch", "layer")
    for seed in range(10)
]
TOLERANCE = {"rate": 10, "error": 10}


def run(config: dict) -> list[dict]:
    """Rows of mode, order, batch_size and error, the latter in percent of the test images.

    ``rate`` is the chosen one, ``first_loss`` that of the lowest.
    """
    seed = config["seed"]

    def build():
        torch.manual_seed(seed)
        return NETS[config["net"]](config["norm"])

    with reproducible(seed):
        parts = split(load(), seed)
        model, rates = train_best(build, parts, RATES, epochs=10, batch_size=32, seed=seed)
        (chosen,) = (row for row in rates if row["chosen"])
        sort = torch.argsort(parts.test.y, stable=True)
        orders = {"mixed": parts.test, "sorted": parts.test[sort]}
        asked = [("eval", "mixed", len(parts.test))]
        asked += [("train", order, size) for order in orders for size in SIZES]
        return [
            {
                "rate": chosen["rate"],
                "first_loss": rates[0]["first_loss"],
                "mode": mode,
                "order": order,
                "batch_size": size,
                "error": round(error(model, orders[order], mode=mode, batch_size=size), 4),
            }
            for mode, order, size in asked
        ]

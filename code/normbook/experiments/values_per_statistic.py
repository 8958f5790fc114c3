"""Error against m, the number of values in one statistic, and not against the batch size.

Question. Is it the batch size that batch norm needs, or the number m of values that share a mean
and a variance?

Design. Three networks on the digits, which differ in m for the same batch size N: a CNN whose norms
see maps of 4 × 4 and 2 × 2, so m is 16 N and 4 N; the same with one more stage, whose norm sees
maps of 1 × 1, so its m is N; and an MLP with two hidden layers, m = N for both. Batch norm, against
a layer whose m has nothing to do with the batch: group norm with 4 groups in the CNNs, layer norm
in the MLP. N = 2, 4, 8, 16, 64; ten seeds, each with its own split, initial weights and order of
batches, which the arms share. Four epochs of SGD with momentum 0.9 for every N, He's
initialization. For each arm, N and seed four learning rates, in proportion to N, of which the one
with the lowest loss on a validation part is chosen. (Where m is 2, batch norm often takes the
lowest; still lower ones, tried with three other seeds, were no better.) Error: the 360 test images,
in eval mode.

What it doesn't show: large images, where 16 N is thousands even for N = 2; many classes; training
to the end, since with N = 64 there are few steps: compare arms at the same N, not one N with
another.
"""

import torch

from normbook.data import load
from normbook.experiments.models import cnn, mlp, values_per_statistic
from normbook.experiments.training import reproducible, split, train_best

NETS = {
    "cnn, m = 16 N, 4 N": lambda norm: cnn(norm, strides=(2, 2)),
    "cnn, m = 16 N, 4 N, N": lambda norm: cnn(norm, strides=(2, 2, 2)),
    "mlp, m = N, N": mlp,
}
RATES_PER_SAMPLE = (0.0002, 0.000625, 0.001875, 0.00625)  # 0.0064 to 0.2 for N = 32
CONFIGURATIONS = [
    {"net": net, "norm": norm, "batch_size": batch_size, "seed": seed}
    for net in NETS
    for norm in ("batch", "layer" if net.startswith("mlp") else "group")
    for batch_size in (2, 4, 8, 16, 64)
    for seed in range(10)
]
# Where m is 2, batch norm's runs are chaotic: on another CPU, 30.0 became 50.3.
TOLERANCE = {"rate": 10, "loss": 0.5, "validation_loss": 0.5, "error": 25}


def run(config: dict) -> list[dict]:
    """The rows of `train_best`, one for each rate, and m: of each norm, the values in a statistic.

    m is the batch's for batch norm; for group and layer norm it is a sample's.
    """
    seed, size = config["seed"], config["batch_size"]

    def build():
        torch.manual_seed(seed)
        return NETS[config["net"]](config["norm"])

    with reproducible(seed):
        parts = split(load(), seed)
        rates = [size * rate for rate in RATES_PER_SAMPLE]
        model, rows = train_best(build, parts, rates, epochs=4, batch_size=size, seed=seed)
        return [{**row, "m": values_per_statistic(model, size)} for row in rows]

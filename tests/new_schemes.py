"""Five layers that no row of the table describes, each as a scheme and in plain PyTorch.

Nothing else in the package knows of them: who can describe a layer can compute with it, draw it,
touch it and write it as code.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from cases import Case
from normbook.core.scheme import Scheme

WEIGHT_STANDARDIZATION = Scheme("weight standardization", "o i h w", stats="o")
BATCH_NORM_3D = Scheme(
    "BatchNorm3d", "n c d h w", stats="c", params="c", running="c",
    torch="nn.BatchNorm3d({c}{eps})(x)",
)  # fmt: skip
SCALE_NORM = Scheme("ScaleNorm", "n t d", stats="n t", params="1", mask="n t", centered=False)
GROUP_NORM_TOKEN = Scheme(
    "GroupNorm per token", "n t (g k)", stats="n t g", params="(g k)", mask="n t",
    names=(("k", "feature within the group"),),
)  # fmt: skip
LAYER_NORM_OVER_SEQUENCE = Scheme(
    "LayerNorm over a sequence", "n t d", stats="n", params="t d", mask="n t"
)


@dataclass(frozen=True)
class NewCase(Case):
    """A layer with the scheme at hand."""

    described: Scheme

    @property
    def scheme(self):
        g = self.lengths.get("g")
        return self.described.with_lengths(g=g) if g else self.described


def _standardize(x, gamma, beta, eps):
    """Qiao et al. 2019: the weights of every output channel have mean 0 and variance 1."""
    flat = x.flatten(1)
    var, mean = torch.var_mean(flat, 1, correction=0, keepdim=True)
    return ((flat - mean) / (var + eps).sqrt()).view_as(x)


def _batch_norm_3d(x, gamma, beta, eps, running=None):
    mean, var = running or (None, None)
    return F.batch_norm(x, mean, var, gamma, beta, training=running is None, eps=eps)


def _scale_norm(x, gamma, beta, eps):
    """Nguyen & Salazar 2019: every token divided by its length, which √d is taken out of."""
    scaled = x * x.shape[-1] ** 0.5 / (x.square().sum(-1, keepdim=True) + x.shape[-1] * eps).sqrt()
    return scaled if gamma is None else gamma * scaled


def _group_norm_token(x, gamma, beta, eps):
    tokens = x.flatten(0, 1)
    return F.group_norm(tokens, GROUPS, gamma, beta, eps).view_as(x)


def _layer_norm_sequence(x, gamma, beta, eps):
    return F.layer_norm(x, x.shape[1:], gamma, beta, eps)


GROUPS = 2
TOKENS = {"n": 2, "t": 3, "d": 4}
NEW_CASES = (
    NewCase(
        "WEIGHT_STANDARDIZATION", {"o": 3, "i": 2, "h": 2, "w": 3}, _standardize,
        WEIGHT_STANDARDIZATION,
    ),
    NewCase(
        "BATCH_NORM_3D", {"n": 2, "c": 2, "d": 3, "h": 2, "w": 2}, _batch_norm_3d, BATCH_NORM_3D
    ),
    NewCase("SCALE_NORM", TOKENS, _scale_norm, SCALE_NORM),
    NewCase(
        "GROUP_NORM_TOKEN", {"n": 2, "t": 3, "g": GROUPS, "k": 2}, _group_norm_token,
        GROUP_NORM_TOKEN,
    ),
    NewCase("LAYER_NORM_OVER_SEQUENCE", TOKENS, _layer_norm_sequence, LAYER_NORM_OVER_SEQUENCE),
)  # fmt: skip

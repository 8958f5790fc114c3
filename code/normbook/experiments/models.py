"""The networks of the experiments, small, with the norm as a choice.

Whatever the norm, the convolutions and linear layers are the same and, from the same seed, begin
with the same weights.

Examples
--------
>>> values_per_statistic(cnn("batch", strides=(2, 2)), batch_size=8)
[128, 32]
>>> values_per_statistic(mlp("layer"), batch_size=8)
[64, 64]
"""

import copy
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn


class ChannelLayerNorm(nn.LayerNorm):
    """Layer norm over the channels of (N, C, H, W), at each pixel by itself."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


# For c channels of h × w pixels. All but "none" have a γ and a β.
NORMS_2D = {
    "none": lambda c, h, w: nn.Identity(),
    "batch": lambda c, h, w: nn.BatchNorm2d(c),
    "layer": lambda c, h, w: nn.LayerNorm([c, h, w]),
    "layer, γ per channel": lambda c, h, w: nn.GroupNorm(1, c),
    "layer over channels": lambda c, h, w: ChannelLayerNorm(c),
    "group": lambda c, h, w: nn.GroupNorm(4, c),
    "instance": lambda c, h, w: nn.InstanceNorm2d(c, affine=True),
}

# For d features.
NORMS_1D = {
    "none": lambda d: nn.Identity(),
    "batch": lambda d: nn.BatchNorm1d(d),
    "layer": lambda d: nn.LayerNorm(d),
    "layer, no γ and β": lambda d: nn.LayerNorm(d, elementwise_affine=False),
    "rms": lambda d: nn.RMSNorm(d),
}


def mlp(
    norm: str,
    *,
    inputs: int = 64,
    width: int = 64,
    depth: int = 2,
    last: bool = False,
    init: str = "he",
) -> nn.Sequential:
    """Hidden layers of linear, norm, ReLU, `depth` of them, and a linear layer for ten classes.

    With `last` the norm comes after the ReLU.
    """
    layers = [nn.Flatten()]
    for fan_in in [inputs] + [width] * (depth - 1):
        norm_and_relu = [NORMS_1D[norm](width), nn.ReLU()]
        layers += [nn.Linear(fan_in, width), *norm_and_relu[:: -1 if last else 1]]
    return initialize(nn.Sequential(*layers, nn.Linear(width, 10)), init)


def cnn(
    norm: str, *, strides: Sequence[int], pool: bool = False, size: int = 8, init: str = "he"
) -> nn.Sequential:
    """Stages of a 3 × 3 convolution, norm and ReLU, then a linear layer for ten classes.

    One stage for each stride; a stride of 2 halves the image, which is `size` × `size` at first.
    The first stage has 16 channels, the others 32. The linear layer sees all pixels of the last
    maps or, with `pool`, their mean per channel (global average pooling).
    """
    layers, channels = [], 1
    for stride in strides:
        size //= stride
        wider = 16 if channels == 1 else 32
        layers.append(nn.Conv2d(channels, wider, 3, stride=stride, padding=1))
        layers += [NORMS_2D[norm](wider, size, size), nn.ReLU()]
        channels = wider
    if pool:
        layers.append(nn.AvgPool2d(size))
        size = 1
    layers += [nn.Flatten(), nn.Linear(channels * size * size, 10)]
    return initialize(nn.Sequential(*layers), init)


def initialize(model: nn.Module, init: str) -> nn.Module:
    """Give the convolutions and linear layers their first weights, in place; returns the model.

    "he" draws weights of variance 2 / fan-in, and 1 / fan-in for the last layer, which no ReLU
    follows; biases are 0 (He et al. 2015). "default" leaves PyTorch's: weights of variance
    1 / (3 fan-in), and random biases.
    """
    if init not in ("he", "default"):
        raise ValueError(f"init is {init!r}; expected 'he' or 'default'")
    layers = [part for part in model.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    for layer in layers if init == "he" else ():
        gain = "linear" if layer is layers[-1] else "relu"
        nn.init.kaiming_normal_(layer.weight, nonlinearity=gain)
        nn.init.zeros_(layer.bias)
    return model


def values_per_statistic(model: nn.Module, batch_size: int, size: int = 8) -> list[int]:
    """How many values share one mean and variance in each norm of `model`, from first to last.

    For layers whose statistics are the batch's, as in training: what is m in the text.
    """
    model, found = copy.deepcopy(model).train(), []

    def note(layer, inputs, _):
        x = inputs[0]
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            found.append(x.numel() // x.shape[1])
        elif isinstance(layer, ChannelLayerNorm):
            found.append(x.shape[1])
        elif isinstance(layer, nn.InstanceNorm2d):
            found.append(prod(x.shape[2:]))
        elif isinstance(layer, nn.GroupNorm):
            found.append(prod(x.shape[1:]) // layer.num_groups)
        elif isinstance(layer, nn.LayerNorm | nn.RMSNorm):
            found.append(prod(layer.normalized_shape))

    for layer in model.modules():
        layer.register_forward_hook(note)
    with torch.no_grad():
        model(torch.zeros(batch_size, 1, size, size))
    return found

"""Trainable layers, modules of PyTorch."""

from normbook.layers.batch_norm_over_time import BatchNormPerStep, BatchNormPooled
from normbook.layers.layer_norm_recurrent import (
    LayerNormGRU,
    LayerNormGRUCell,
    LayerNormLSTM,
    LayerNormLSTMCell,
    LayerNormOutput,
    LayerNormRNN,
    LayerNormRNNCell,
    LayerNormStateLSTM,
    LayerNormStateLSTMCell,
    LayerNormStateRNN,
    LayerNormStateRNNCell,
)
from normbook.layers.norms import (
    BatchNorm1d,
    BatchNorm2d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    LayerNorm,
    RMSNorm,
)
from normbook.layers.transformer import DynamicTanh, Encoder, EncoderLayer, SelfAttention

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNormPerStep",
    "BatchNormPooled",
    "DynamicTanh",
    "Encoder",
    "EncoderLayer",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "LayerNorm",
    "LayerNormGRU",
    "LayerNormGRUCell",
    "LayerNormLSTM",
    "LayerNormLSTMCell",
    "LayerNormOutput",
    "LayerNormRNN",
    "LayerNormRNNCell",
    "LayerNormStateLSTM",
    "LayerNormStateLSTMCell",
    "LayerNormStateRNN",
    "LayerNormStateRNNCell",
    "RMSNorm",
    "SelfAttention",
]

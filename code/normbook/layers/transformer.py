"""The Transformer's encoder layer, with the norm in each of the places it has had, and a stack.

Parameters, their names and their initial values are those of `torch.nn.TransformerEncoderLayer`:
the same seed gives the same weights, and a state dict of the one loads into the other. Outputs and
gradients agree, too. The norms are those of `normbook.layers.norms`.

Tensors are (sample, token, feature): N, T, D. Masks are as in `torch.nn`: True leaves out, contrary
to the masks of `normalize`. What stands in padding, NaN included, never reaches a real token.

torch.compile and torch.export take the encoder whole; torch.jit.script and torch.fx.symbolic_trace
raise an error.
"""

import copy
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from normbook.layers.batch_norm_over_time import BatchNormPooled, check_padding
from normbook.layers.norms import LayerNorm
from normbook.layers.recurrent_base import check_bool, check_tensor, converted, reset

Norm = Callable[[int], nn.Module]  # takes a number of features and makes their norm

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}


class DynamicTanh(nn.Module):
    """gamma * tanh(alpha * x) + beta, in place of a norm: no cell shares anything with another.

    Input (..., num_features), output as the input. `weight` (gamma) and `bias` (beta) have one
    value per feature; `alpha` is one number, learned as well.

    References
    ----------
    Zhu et al. 2025, section 4, with its initial alpha.

    Examples
    --------
    >>> DynamicTanh(3)(torch.tensor([[-10.0, 0, 1]])).detach()
    tensor([[-0.9999,  0.0000,  0.4621]])
    """

    def __init__(self, num_features: int, alpha: float = 0.5):
        super().__init__()
        self.first_alpha = alpha
        self.alpha = nn.Parameter(torch.tensor(alpha))
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))

    def reset_parameters(self):
        """Start anew: alpha as it was given, gamma 1 and beta 0."""
        values = (self.alpha, self.first_alpha), (self.weight, 1.0), (self.bias, 0.0)
        for parameter, value in values:
            nn.init.constant_(parameter, value)

    def forward(self, input):
        return self.weight * torch.tanh(self.alpha * input) + self.bias


class SelfAttention(nn.Module):
    """Multi-head attention among the tokens of a sequence (Vaswani et al. 2017, section 3.2).

    Parameters, by name and initial value, are those of `torch.nn.MultiheadAttention`. It is none
    itself: that takes queries, keys and values apart, and returns the weights as well.

    Parameters
    ----------
    embed_dim, num_heads
        the number of features, D, and of heads that share them.
    dropout
        of the attention weights, in train mode.
    bias
        whether the linear maps have one.
    qk_norm
        makes the norm of queries and that of keys, from the number of features of one head;
        the heads share them. None for no norm. Henry et al. 2020 normalize both by their length,
        Dehghani et al. 2023 by layer norm.

    Raises
    ------
    TypeError
        bias is no bool; x is no tensor or a nested one.
    ValueError
        num_heads doesn't divide embed_dim.

    Examples
    --------
    >>> x = torch.randn(2, 5, 8)
    >>> SelfAttention(8, 2)(x).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        device=None,
        dtype=None,
        *,
        qk_norm: Norm | None = None,
    ):
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"{num_heads} heads can't share {embed_dim} features evenly")
        check_bool(bias=bias)
        factory = {"device": device, "dtype": dtype}
        self.num_heads = num_heads
        self.dropout = dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim, **factory))
        in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim, **factory)) if bias else None
        self.register_parameter("in_proj_bias", in_proj_bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias, **factory)
        self.register_module("q_norm", None)
        self.register_module("k_norm", None)
        self._reset_parameters()
        if qk_norm is not None:
            self.q_norm = converted(qk_norm(embed_dim // num_heads), factory)
            self.k_norm = converted(qk_norm(embed_dim // num_heads), factory)

    def _reset_parameters(self):
        """Start anew, but for out_proj.weight: as torch's, which has this name."""
        nn.init.xavier_uniform_(self.in_proj_weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)
        for norm in (self.q_norm, self.k_norm):
            if norm is not None:
                reset(norm)

    def forward(self, x, mask=None, padding=None):
        """What each token of x (N, T, D) gathers from the others; output as x.

        `mask` is added to the scores of (query, key), and broadcasts to (N, num_heads, T, T). Where
        the boolean `padding` (N, T) is True, keys and values are 0, whatever x holds.
        """
        check_tensor(type(self).__name__, x)
        n, t, d = x.shape
        q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        if padding is not None:  # the mask alone would let NaN through
            k, v = (part.masked_fill(padding[:, :, None], 0) for part in (k, v))
        heads = n, t, self.num_heads, d // self.num_heads
        q, k, v = (part.reshape(heads).transpose(1, 2) for part in (q, k, v))
        if self.q_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        dropout = self.dropout if self.training else 0.0
        gathered = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        return self.out_proj(gathered.transpose(1, 2).reshape(n, t, d))


class EncoderLayer(nn.Module):
    """Attention, then a feed-forward network, each added to its input and normalized.

    With f for attention or the network, x becomes

    - LN(x + f(x)) by default, post-LN (Vaswani et al. 2017);
    - x + f(LN(x)) if `norm_first`, pre-LN (Xiong et al. 2020);
    - x + LN(f(x)) if `norm_output`, res-post-norm (Liu et al. 2022, Swin Transformer V2).

    It is no `torch.nn.TransformerEncoderLayer`: in eval mode, `torch.nn.TransformerEncoder` gives
    that nested tensors, and its fused code knows only layer norm.

    Parameters
    ----------
    d_model, nhead, dim_feedforward
        the number of features, D, of heads, and of hidden units.
    dropout
        of attention weights, of hidden units, and of what is added; in train mode.
    activation
        of the hidden units, "relu", "gelu", or a function or module; a copy of it.
    layer_norm_eps
        the eps of the layer norms, if `norm` is None.
    batch_first
        True; it's here for the signature of PyTorch's layer, whose default is False.
    bias
        whether the linear maps and the layer norms have one.
    norm
        makes a norm from the number of features, such as `RMSNorm` or `BatchNormPooled`. None
        for layer norm.
    qk_norm
        as in `SelfAttention`.

    Raises
    ------
    TypeError
        bias, batch_first, norm_first or norm_output is no bool.
    ValueError
        nhead doesn't divide d_model; unknown activation; batch_first is False; norm_first
        and norm_output are both True.

    Examples
    --------
    >>> layer = EncoderLayer(512, 8)
    >>> sum(p.numel() for p in layer.parameters())
    3152384
    >>> theirs = nn.TransformerEncoderLayer(512, 8, batch_first=True)
    >>> theirs.load_state_dict(layer.state_dict())
    <All keys matched successfully>
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        bias: bool = True,
        device=None,
        dtype=None,
        *,
        norm_output: bool = False,
        norm: Norm | None = None,
        qk_norm: Norm | None = None,
    ):
        super().__init__()
        check_bool(
            batch_first=batch_first, norm_first=norm_first, bias=bias, norm_output=norm_output
        )
        if not callable(activation) and activation not in ACTIVATIONS:
            raise ValueError(
                f"activation={activation!r}; expected one of {[*ACTIVATIONS]}, or a function"
            )
        if not batch_first:
            raise ValueError("batch_first=False; expected True: (sample, token, feature)")
        if norm_first and norm_output:
            raise ValueError("norm_first and norm_output are both True; expected at most one")
        factory = {"device": device, "dtype": dtype}
        norm = norm or partial(LayerNorm, eps=layer_norm_eps, bias=bias)
        self.norm_first = norm_first
        self.norm_output = norm_output
        self.activation = copy.deepcopy(ACTIVATIONS.get(activation, activation))
        self.self_attn = SelfAttention(d_model, nhead, dropout, bias, qk_norm=qk_norm, **factory)
        self.linear1 = nn.Linear(d_model, dim_feedforward, bias, **factory)
        self.linear2 = nn.Linear(dim_feedforward, d_model, bias, **factory)
        self.norm1 = converted(norm(d_model), factory)
        self.norm2 = converted(norm(d_model), factory)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        """Output as `src`, (N, T, D), or (T, D) for one sample.

        Parameters
        ----------
        src_mask
            (T, T) or (N * nhead, T, T), by query and key. Boolean, True where the query may
            not attend to the key; or floating point, added to the scores.
        src_key_padding_mask
            boolean (N, T), or (T,) for one sample, True for padding, which no
            token attends to.
        is_causal
            whether no token may attend to a later one. No other mask is needed for it.

        Raises
        ------
        TypeError
            a mask has another dtype; src is no tensor or a nested one.
        ValueError
            src or a mask has another shape.
        """
        check_tensor(type(self).__name__, src)
        d_model = self.linear1.in_features
        if src.dim() not in (2, 3) or src.shape[-1] != d_model:
            raise ValueError(
                f"src has shape {tuple(src.shape)}; expected (sample, token, {d_model}), or "
                f"(token, {d_model})"
            )
        if src.dim() == 2:
            return _of_one(self.forward, src, src_mask, src_key_padding_mask, is_causal)
        padding = src_key_padding_mask
        mask = _merge_masks(src, self.self_attn.num_heads, src_mask, padding, is_causal)

        def attend(x):
            return self.dropout(self.self_attn(x, mask, padding))

        def feed_forward(x):
            hidden = self.activation(self.linear1(x))
            return self.dropout(self.linear2(self.dropout(hidden)))

        x = self._add_and_norm(src, attend, partial(_normalize, self.norm1, padding=padding))
        return self._add_and_norm(x, feed_forward, partial(_normalize, self.norm2, padding=padding))

    def _add_and_norm(self, x, f, norm):
        if self.norm_first:
            return x + f(norm(x))
        if self.norm_output:
            return x + norm(f(x))
        return norm(x + f(x))


class Encoder(nn.Module):
    """Encoder layers in a row, and the norm that pre-LN and res-post-norm need at the end.

    Names of parameters are those of `torch.nn.TransformerEncoder`. There all layers start as copies
    of one; here each has weights of its own.

    Parameters
    ----------
    num_layers
        at least 1.
    args, options
        as `EncoderLayer` takes them.

    Raises
    ------
    ValueError
        num_layers is less than 1; or as `EncoderLayer`.

    Examples
    --------
    >>> encoder = Encoder(2, 8, 2, 16, norm_first=True)
    >>> encoder(torch.randn(3, 5, 8), is_causal=True).shape
    torch.Size([3, 5, 8])
    >>> encoder.norm
    LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)
    """

    def __init__(self, num_layers: int, *args, **options):
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers={num_layers}; expected at least 1")
        self.layers = nn.ModuleList(EncoderLayer(*args, **options) for _ in range(num_layers))
        last = self.layers[-1]
        # Another norm like those of the layers, which hold their initial values still.
        self.norm = copy.deepcopy(last.norm2) if last.norm_first or last.norm_output else None

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=False):
        """Output as `src`, (N, T, D) or (T, D); masks and errors as in `EncoderLayer`."""
        check_tensor(type(self).__name__, src)
        if src.dim() == 2:
            return _of_one(self.forward, src, mask, src_key_padding_mask, is_causal)
        x = src
        for layer in self.layers:
            x = layer(x, mask, src_key_padding_mask, is_causal)
        return x if self.norm is None else _normalize(self.norm, x, src_key_padding_mask)


def _of_one(forward, src, mask, padding, is_causal):
    """One sample without the axis of samples, as a batch of one."""
    padding = None if padding is None else padding[None]
    return forward(src[None], mask, padding, is_causal)[0]


def _normalize(norm, x, padding):
    """Batch norm alone has to be told where the padding is."""
    return norm(x, padding=padding) if isinstance(norm, BatchNormPooled) else norm(x)


def _merge_masks(src, heads, mask, padding, is_causal):
    """All masks as one that is added to the scores (N, heads, T, T), or None."""
    n, t, _ = src.shape
    masks = []
    if is_causal:
        masks.append(torch.ones(t, t, dtype=torch.bool, device=src.device).triu(1))
    if mask is not None:
        if mask.dtype != torch.bool and not mask.dtype.is_floating_point:
            raise TypeError(f"src_mask has dtype {mask.dtype}; expected bool or floating point")
        if mask.shape not in ((t, t), (n * heads, t, t)):
            raise ValueError(
                f"src_mask has shape {tuple(mask.shape)}; expected {(t, t)} by query and key, or "
                f"{(n * heads, t, t)} by sample and head as well"
            )
        masks.append(mask if mask.dim() == 2 else mask.reshape(n, heads, t, t))
    if padding is not None:
        check_padding(padding, src, "src_key_padding_mask")
        masks.append(padding[:, None, None, :])
    if not masks:
        return None
    zero = src.new_zeros(())
    return sum(
        torch.where(m, -torch.inf, zero) if m.dtype == torch.bool else m.to(src.dtype)
        for m in masks
    )

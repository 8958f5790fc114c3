"""The recurrent layers without norms, and the Transformer's, on PyTorch's samples of its own.

They have neither dropout nor buffers, so that train and eval mode are one but for the Transformer's
layer, which has a faster path in eval mode.
"""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import PackedSequence

import torch_samples
from normbook import layers
from torch_samples import IS_PINNED, assert_close, assert_same, outcome, step

TRAIN, EVAL = (True, True), (False, False)  # whether trained, with gradients of the inputs

# Ours, torch's, and how many of its samples are in each of 2 dtypes.
RECURRENT = {
    "LayerNormRNN": ("RNN", 64),
    "LayerNormStateRNN": ("RNN", 64),
    "LayerNormLSTM": ("LSTM", 16),
    "LayerNormStateLSTM": ("LSTM", 16),
    "LayerNormGRU": ("GRU", 32),
    "LayerNormRNNCell": ("RNNCell", 3),
    "LayerNormStateRNNCell": ("RNNCell", 3),
    "LayerNormLSTMCell": ("LSTMCell", 2),
    "LayerNormStateLSTMCell": ("LSTMCell", 2),
    "LayerNormGRUCell": ("GRUCell", 2),
}
every_recurrent = pytest.mark.parametrize("name", RECURRENT)


# Of weights around 0, so that not all gates are open or shut.
load = partial(torch_samples.load_into_each_other, low=-0.5)


def recurrent_samples(name):
    """The samples that ours have a meaning for: LSTM's with a projection are left out."""
    theirs, number = RECURRENT[name]
    options = {"with_packed_sequence": True} if theirs in ("RNN", "GRU") else {}
    # Without norms, the layers with a normalized state are the others once more.
    dtypes = (torch.float64,) if "State" in name else torch_samples.DTYPES
    seen = 0
    for what, dtype, training, sample in torch_samples.module_samples(
        theirs, [TRAIN], dtypes, **options
    ):
        if sample.constructor_input.kwargs.pop("proj_size", 0) == 0:
            seen += 1
            yield what, dtype, training, sample
    assert not IS_PINNED or seen == len(dtypes) * number


def made(name, constructor, **changed):
    """Our layer, without its norms."""
    return getattr(layers, name)(*constructor.args, **constructor.kwargs | changed, norm=None)


@every_recurrent
def test_recurrent(name):
    """Of one sequence without an axis of samples, or of packed ones: batch_first says nothing."""
    for what, dtype, training, sample in recurrent_samples(name):
        constructor, args = sample.constructor_input, sample.forward_input.args
        theirs = getattr(nn, RECURRENT[name][0])(*constructor.args, **constructor.kwargs)
        batch_first = constructor.kwargs.pop("batch_first", True)
        ours = made(name, constructor).to(dtype).train(training)
        load(ours, theirs.to(dtype).train(training))
        assert_same(step(ours, *args), step(theirs, *args), what, float32=1e-4)
        if batch_first and not isinstance(args[0], PackedSequence):
            # The reference adds the axis of samples, and takes it away again.
            torch.testing.assert_close(ours(*args), sample.reference_fn(ours, *args))


@pytest.mark.parametrize("name", [name for name in RECURRENT if not name.endswith("Cell")])
def test_recurrent_take_batch_first(name):
    """True, which is what they are."""
    for what, dtype, _, sample in recurrent_samples(name):
        if sample.constructor_input.kwargs["batch_first"]:
            layer = made(name, sample.constructor_input).to(dtype)
            assert layer(*sample.forward_input.args), what


@every_recurrent
def test_recurrent_raise(name):
    """The same type of exception as torch, when made or when called."""
    differences = {}
    for what, dtype, training, sample in torch_samples.error_samples(RECURRENT[name][0]):
        case, errors = sample.module_error_input, []
        constructor = case.constructor_input
        if {"relu", "tanh"} & set(map(str, constructor.args)):
            continue  # torch's cells take it for a bias that is true; ours say that it is none
        for make in (partial(getattr(layers, name), norm=None), getattr(nn, RECURRENT[name][0])):
            with outcome() as error:
                layer = make(*constructor.args, **constructor.kwargs).train(training)
                if "dtype" not in constructor.kwargs:
                    layer = layer.to(dtype)
                if case.forward_input is not None:
                    layer(*case.forward_input.args)
            errors.append(error)
        ours, theirs = errors
        assert theirs.type is sample.error_type, what
        if ours.type is not theirs.type:
            differences.setdefault(f"{ours.value!r} instead of {theirs.value!r}", what)
    assert not differences, "\n".join(f"{what}: {text}" for text, what in differences.items())


# The Transformer's


def encoder_samples():
    """The samples of an encoder layer, and torch's layer for each, with batch_first."""
    seen = 0
    for what, dtype, training, sample in torch_samples.module_samples(
        "TransformerEncoderLayer", [TRAIN, EVAL]
    ):
        constructor = sample.constructor_input
        constructor.kwargs["batch_first"] = True
        theirs = nn.TransformerEncoderLayer(*constructor.args, **constructor.kwargs)
        seen += 1
        yield what, dtype, training, sample, theirs.to(dtype).train(training)
    assert not IS_PINNED or seen == 2 * (39 + 35)


def test_encoder_layer():
    """With the activation by name, and one sequence as a batch of one."""
    for what, dtype, training, sample, theirs in encoder_samples():
        args, kwargs = list(sample.constructor_input.args), sample.constructor_input.kwargs
        if len(args) == 5:
            args[4] = {F.relu: "relu", F.gelu: "gelu"}[args[4]]
        ours = layers.EncoderLayer(*args, **kwargs)
        load(ours.to(dtype).train(training), theirs)
        args, kwargs = sample.forward_input.args, dict(sample.forward_input.kwargs)
        if args[0].dim() == 2:
            args = (args[0][None],)
            padding = kwargs["src_key_padding_mask"]
            kwargs["src_key_padding_mask"] = None if padding is None else padding[None]
        assert_same(*[step(m, *args, **kwargs) for m in (ours, theirs)], what, float32=1e-4)
        with torch.inference_mode(not training):  # torch's layer then takes a path of its own
            assert_close(*[m(*args, **kwargs) for m in (ours, theirs)], what, float32=1e-4)


@pytest.mark.parametrize("what_differs", ["function", "sequence"])
def test_encoder_layer_of_input_as_it_is(what_differs):
    """A function as the activation; one sequence without the axis of samples."""
    for what, dtype, training, sample, theirs in encoder_samples():
        constructor, forward = sample.constructor_input, sample.forward_input
        differs = "function" if len(constructor.args) == 5 else "sequence"
        if differs == what_differs and (differs == "function" or forward.args[0].dim() == 2):
            ours = layers.EncoderLayer(*constructor.args, **constructor.kwargs)
            load(ours.to(dtype).train(training), theirs)
            results = [step(layer, *forward.args, **forward.kwargs) for layer in (ours, theirs)]
            assert_same(*results, what, float32=1e-4)


class AttentionAmongThemselves(nn.MultiheadAttention):
    def forward(self, x, mask, padding):
        return super().forward(x, x, x, padding, need_weights=False, attn_mask=mask)[0]


def test_self_attention():
    """The query alone, as a batch of one, and torch's masks as one that is added.

    Left out are the samples with `add_bias_kv` or `add_zero_attn`, which ours doesn't have.
    """
    seen = 0
    for what, dtype, training, sample in torch_samples.module_samples(
        "MultiheadAttention", [TRAIN]
    ):
        kwargs, masks = sample.constructor_input.kwargs, sample.forward_input.kwargs
        if kwargs.pop("add_bias_kv") | kwargs.pop("add_zero_attn"):
            continue
        theirs = AttentionAmongThemselves(**kwargs | {"batch_first": True})
        del kwargs["batch_first"]
        ours = layers.SelfAttention(**kwargs)
        load(ours.to(dtype).train(training), theirs.to(dtype).train(training))
        x, mask, padding = (
            None if value is None else value[None]
            for value in (
                sample.forward_input.args[0],
                masks["attn_mask"],
                masks["key_padding_mask"],
            )
        )
        hidden = torch.zeros(1, 3, 3, 3, dtype=torch.bool)  # by sample, head, query and key
        if mask is not None:
            hidden |= mask
        if padding is not None:
            hidden |= padding[:, None, None]
        added = torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, -torch.inf)
        expected = step(theirs, x, masks["attn_mask"], padding)
        assert_same(step(ours, x, added, padding), expected, what, float32=1e-4)
        seen += 1
    assert not IS_PINNED or seen == 2 * 16

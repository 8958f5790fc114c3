"""The samples by which PyTorch tests its own modules and operators.

They are internal to torch. Where a version doesn't have them, a test that asks for them is skipped,
except with the version that requirements.txt pins.
"""

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product

import hypothesis
import pytest
import torch
from torch.nn.utils.rnn import PackedSequence

from helpers import ROOT

_PINNED = re.search(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text(encoding="utf8"), re.M)
IS_PINNED = torch.__version__.partition("+")[0] == _PINNED[1]
DTYPES = (torch.float32, torch.float64)


def modules():
    """torch's ModuleInfo of each module, by the name of its class."""
    module_db, _ = _databases()
    return {info.module_cls.__name__: info for info in module_db}


def operators():
    """torch's OpInfo of each operator, by name and, where there are several, variant."""
    _, op_db = _databases()
    return {f"{op.name} {op.variant_test_name}".strip(): op for op in op_db}


def _databases():
    found = _import()
    if isinstance(found, Exception):
        _missing(repr(found))
    return found


def _missing(what):
    text = f"torch {torch.__version__} has no such samples: {what}"
    pytest.fail(text) if IS_PINNED else pytest.skip(text)


def module(name):
    return modules().get(name) or _missing(name)


def operator(name):
    return operators().get(name) or _missing(name)


@cache
def _import():
    """Both databases, or the error. What their import changes for all of Python is changed back."""
    profile = hypothesis.settings.get_current_profile_name()
    environment = dict(os.environ)
    calls = {kind: kind.__call__ for kind in (torch.ScriptFunction, torch.ScriptMethod)}
    try:
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.common_modules import module_db
    except (ImportError, AttributeError) as error:
        return error
    finally:
        hypothesis.settings.load_profile(profile)
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        for kind, call in calls.items():
            kind.__call__ = call
        flags = torch.backends.flags_frozen.__globals__
        flags["__allow_nonbracketed_mutation_flag"] = True
    return module_db, op_db


ALL_MODES = [*product((True, False), repeat=2)]  # whether it is trained, and inputs have gradients


def module_samples(name, modes=ALL_MODES, dtypes=DTYPES, **options):
    """(description, dtype, training, sample) of a module, for every mode and dtype."""
    info = module(name)
    for dtype, (training, gradient) in product(dtypes, modes):
        torch.manual_seed(0)
        samples = info.module_inputs_func(info, "cpu", dtype, gradient, training, **options)
        for i, sample in enumerate(samples):
            what = f"{name}, sample {i} {sample.desc}, {dtype}, {training=}, {gradient=}"
            yield what, dtype, training, sample


def error_samples(name):
    """(description, dtype, training, sample) of a module's samples that raise."""
    info = module(name)
    make = info.module_error_inputs_func or _missing(f"errors of {name}")
    for dtype, training in product(DTYPES, (True, False)):
        torch.manual_seed(0)
        for i, sample in enumerate(make(info, "cpu", dtype, False, training)):
            yield f"{name}, error {i}, {dtype}, {training=}", dtype, training, sample


def load_into_each_other(ours, theirs, low=0.5):
    """Both have torch's names, shapes and now the same random values, from `low` to `low` + 1."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in theirs.state_dict().values():
            if value.is_floating_point():
                value.copy_(low + torch.rand(value.shape, generator=generator))
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())


def step(module, *args, **kwargs):
    """Outputs, gradients and buffers of one forward and backward pass, by name."""
    module.zero_grad()
    inputs = []

    def fresh(value):
        if isinstance(value, tuple) and not isinstance(value, PackedSequence):
            return tuple(map(fresh, value))
        if isinstance(value, PackedSequence):
            return value._replace(data=fresh(value.data))
        if isinstance(value, torch.Tensor):
            value = value.detach().clone().requires_grad_(value.requires_grad)
            if value.requires_grad:
                inputs.append(value)
        return value

    outputs = _tensors(module(*map(fresh, args), **{key: fresh(v) for key, v in kwargs.items()}))
    generator = torch.Generator().manual_seed(1)
    weights = [torch.rand(out.shape, generator=generator, dtype=out.dtype) for out in outputs]
    loss = sum((out * weight).sum() for out, weight in zip(outputs, weights, strict=True))
    if loss.requires_grad:
        loss.backward()
    results = {f"output {i}": out.detach() for i, out in enumerate(outputs)}
    results |= {f"gradient of input {i}": value.grad for i, value in enumerate(inputs)}
    results |= {f"gradient of {name}": p.grad for name, p in module.named_parameters()}
    return results | {name: value.clone() for name, value in module.named_buffers()}


def _tensors(output):
    """All tensors that a module returns; it may return None beside them."""
    if isinstance(output, PackedSequence):
        return [output.data]
    if isinstance(output, tuple):
        return [tensor for part in output for tensor in _tensors(part)]
    return [] if output is None else [output]


def assert_same(actual, expected, what, **tolerance):
    """The same names, values and dtypes, None where there is None."""
    assert list(actual) == list(expected), what
    for key, theirs in expected.items():
        assert (actual[key] is None) == (theirs is None), f"{what}: {key}"
        if theirs is not None:
            assert_close(actual[key], theirs, f"{what}: {key}", **tolerance)


def assert_close(actual, expected, what, float32=1e-5):
    """The same values and dtype, to ten digits in float64; for float32, an absolute tolerance."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, what
    rtol, atol = (1e-10, 1e-10) if expected.dtype == torch.float64 else (1.3e-6, float32)
    if not torch.allclose(actual, expected, rtol, atol, equal_nan=True):  # ten times as fast
        torch.testing.assert_close(
            actual, expected, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}: {m}"
        )


@dataclass
class Outcome:
    value: Exception | None = None

    @property
    def type(self):
        return None if self.value is None else type(self.value)


@contextmanager
def outcome():
    """Keeps the exception that is raised, if there is one."""
    result = Outcome()
    try:
        yield result
    except Exception as error:
        result.value = error

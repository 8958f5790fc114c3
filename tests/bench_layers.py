"""How fast and how frugal the layers are, against `torch.nn` and against the usual plain code.

Recurrent layers are measured against themselves without norms.

All in float32, on one thread, as medians from one run: the contestants take turns, so that a busy
machine slows them alike.
"""

import os
import shutil

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn

from bench import Row, show
from normbook import layers
from normbook.core import BATCH_NORM_2D, LAYER_NORM_TOKEN, normalize

ROUNDS = 20


class Plain(nn.Module):
    """What most tutorials print: mean, var, and autograd for the rest."""

    def __init__(self, axes, shape):
        super().__init__()
        self.axes = axes
        self.weight, self.bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))

    def forward(self, x):
        mean = x.mean(self.axes, keepdim=True)
        var = x.var(self.axes, unbiased=False, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(var + 1e-5) + self.bias


CASES = {
    "batch norm": {
        "shape": (32, 64, 56, 56),
        "torch.nn": lambda: nn.BatchNorm2d(64),
        "normbook": lambda: layers.BatchNorm2d(64),
        "plain": lambda: Plain((0, 2, 3), (64, 1, 1)),
        "scheme": BATCH_NORM_2D,
    },
    "layer norm": {
        "shape": (32, 128, 512),
        "torch.nn": lambda: nn.LayerNorm(512),
        "normbook": lambda: layers.LayerNorm(512),
        "plain": lambda: Plain(-1, (512,)),
        "scheme": LAYER_NORM_TOKEN,
    },
}


def medians(contestants):
    """The median time of each function in ms."""
    times = {name: [] for name in contestants}
    for _ in range(ROUNDS + 2):
        for name, function in contestants.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: 1000 * statistics.median(seconds[2:]) for name, seconds in times.items()}


def rows(what, values, ours, unit):
    """Ours against each of the others."""
    ours = values.pop(ours)
    for name, value in values.items():
        yield Row(what, ours, unit, value, name)


def time_case(name, case):
    x = torch.randn(case["shape"], requires_grad=True)
    dy = torch.randn(case["shape"])
    modules = {key: case[key]() for key in ("torch.nn", "normbook", "plain")}

    def step(module):
        return lambda: module(x).backward(dy)

    def forward(module):
        def run():
            with torch.no_grad():
                module(x)

        return run

    times = medians({key: step(m) for key, m in modules.items()})
    yield from rows(f"{name} {case['shape']}, forward + backward", times, "normbook", "ms")
    times = medians({key: forward(m) for key, m in modules.items()})
    yield from rows(f"{name}, forward", times, "normbook", "ms")

    array, scheme = x.detach().numpy(), case["scheme"]
    gamma, beta = (p.detach().numpy() for p in modules["torch.nn"].parameters())
    arrays = {
        "torch.nn": forward(modules["torch.nn"]),
        "numpy": lambda: normalize(array, scheme, gamma, beta),
    }
    yield from rows(f"{name}, forward of numpy arrays", medians(arrays), "numpy", "ms")


def time_compiled(name, case):
    """Both compiled, each to one graph; the first steps, which compile, are not counted."""
    x = torch.randn(case["shape"], requires_grad=True)
    dy = torch.randn(case["shape"])

    def step(key):
        compiled = torch.compile(case[key](), fullgraph=True)
        return lambda: compiled(x).backward(dy)

    times = medians({key: step(key) for key in ("torch.nn", "normbook")})
    yield from rows(f"{name}, forward + backward, compiled", times, "normbook", "ms")


def time_recurrent(name, hidden_size=128):
    """The loop with norms, over the same loop without."""
    shape = (32, 50, 64)
    x = torch.randn(shape, requires_grad=True)
    dy = torch.randn(32, 50, hidden_size)
    modules = {
        "no norms": getattr(layers, name)(64, hidden_size, norm=None),
        "layer norm": getattr(layers, name)(64, hidden_size),
    }

    def step(module):
        return lambda: module(x)[0].backward(dy)

    times = medians({key: step(m) for key, m in modules.items()})
    yield from rows(f"{name} {shape}, {hidden_size} units", times, "layer norm", "ms")


def peak_memory(name, key):
    """Print the memory that one forward pass takes at its peak, over that of the input."""
    case = CASES[name]
    x = torch.randn(case["shape"], requires_grad=key != "numpy")
    if key == "numpy":
        array, scheme = x.numpy(), case["scheme"]

        def forward(rows):
            return normalize(array[:rows], scheme)

    else:
        module = case[key]()

        def forward(rows):
            return module(x[:rows])

    forward(1)  # what is loaded at the first call is not counted
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far; on Linux
    before = resident("VmRSS")
    result = forward(None)
    peak = resident("VmHWM")
    del result
    print((peak - before) / (x.numel() * x.element_size()))


def resident(field):
    """The memory of this process in bytes: VmRSS now, VmHWM at its peak."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def memory_case(name):
    """Each in a process of its own, which starts with no memory to reuse."""
    if not Path("/proc/self/clear_refs").exists():  # only Linux tells
        return
    values = {}
    for key in ("torch.nn", "normbook", "plain", "numpy"):
        command = [sys.executable, __file__, name, key]
        values[key] = float(subprocess.run(command, check=True, capture_output=True).stdout)
    numpy, torch_nn = values.pop("numpy"), values["torch.nn"]
    what = f"{name}, forward, memory on top of the input"
    yield from rows(what, values, "normbook", "inputs")
    yield Row(f"{what}, numpy", numpy, "inputs", torch_nn, "torch.nn")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name, case in CASES.items():
        show(time_case(name, case))
        if shutil.which("c++"):  # the compiler makes C++ of it
            show(time_compiled(name, case))
        show(memory_case(name))
    for name in ("LayerNormRNN", "LayerNormLSTM", "LayerNormGRU"):
        show(time_recurrent(name))


if __name__ == "__main__":
    peak_memory(*sys.argv[1:]) if sys.argv[1:] else main()

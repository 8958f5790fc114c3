"""A page must not survive a wrong core: patched on purpose, the notebooks fail to execute.

A page must notice whatever breaks something that it computes with. What its numbers can't tell, it
says by tags of its first cell, such as "unmoved by ε outside the root".
"""

from textwrap import dedent

import pytest

from helpers import NOTEBOOKS, PATIENCE, read_notebook
from notebook_code import uses
from separate_run import run

pytestmark = pytest.mark.slow

# Runs first: another scheme, or another function, by the name that the chapters import. The layers
# have the right ones by then.
PATCH = """
import sys
from dataclasses import replace
from normbook import core, layers
def patch(name, new):
    for module in ("normbook.core", "normbook.core.scheme", "normbook.core.normalize"):
        if hasattr(sys.modules[module], name):
            setattr(sys.modules[module], name, new)
"""

UNMOVED = "unmoved by "
PATHS = {path.stem: path for path in NOTEBOOKS}
COUNTED = ("core.BATCH_NORM_2D.parameter_count", "core.GROUP_NORM_1.parameter_count")
GAMMA_WITHIN_GROUPS = ("core.backward + core.LAYER_NORM", "core.backward + core.LAYER_NORM_TOKEN")
LAYERS_WITH_RUNNING = ("layers.BatchNorm1d", "layers.BatchNorm2d", "layers.BatchNormPooled")

# A name for what is wrong; whoever computes with one of these must notice, where "layers" is all of
# the room and a + joins what must come together; and the code that makes it wrong.
SABOTAGE = {
    "Bessel's variance": (("core.normalize", "core.statistics", "layers"), """
        from normbook.core import arithmetic
        moments = arithmetic.moments
        def sabotaged(x, scheme, real=None):
            mean, var, m, centered = moments(x, scheme, real)
            return mean, var * m / (m - 1), m, centered
        arithmetic.moments = sabotaged
    """),
    "a wrong axis": (("core.LAYER_NORM_CHW", "core.LAYER_NORM", "core.BATCH_NORM_2D"), """
        wrong = {"LAYER_NORM_CHW": "c", "LAYER_NORM": "d", "BATCH_NORM_2D": "n"}
        for name, stats in wrong.items():
            patch(name, replace(getattr(core, name), stats=stats))
    """),
    "ε outside the root": (("core.normalize", "layers"), """
        from normbook.core import arithmetic
        scale_and_shift = arithmetic.scale_and_shift
        def sabotaged(centered, var, gamma, beta, eps, real=None):
            return scale_and_shift(centered, (var**0.5 + eps) ** 2, gamma, beta, 0, real)
        arithmetic.scale_and_shift = sabotaged
    """),
    "γ per element": (COUNTED, """
        for name in ("BATCH_NORM_2D", "GROUP_NORM_1"):
            patch(name, replace(getattr(core, name), params="c h w"))
    """),
    "running variance biased": ((*LAYERS_WITH_RUNNING, "layers.BatchNormPerStep"), """
        from normbook.layers import norms
        update = norms._ByChannel._update_running
        def sabotaged(self, mean, var, m, factor):
            update(self, mean, var * ((m - 1) / m), m, factor)
        norms._ByChannel._update_running = sabotaged
        per_step = layers.BatchNormPerStep._update_running
        def sabotaged_per_step(self, steps, used):
            m = used.count[:, :1]
            per_step(self, steps, used._replace(var=used.var * ((m - 1) / m)))
        layers.BatchNormPerStep._update_running = sabotaged_per_step
    """),
    "train and eval swapped": (LAYERS_WITH_RUNNING, """
        from normbook.layers import norms
        forward = norms._BatchNorm.forward
        def sabotaged(self, input):
            self.training = not self.training
            output = forward(self, input)
            self.training = not self.training
            return output
        norms._BatchNorm.forward = sabotaged
    """),
    "LN per sample": (("core.LAYER_NORM_TOKEN",), """
        patch("LAYER_NORM_TOKEN", replace(core.LAYER_NORM_TOKEN, stats="n"))
    """),
    "γ in front of the means": (GAMMA_WITHIN_GROUPS, """
        from normbook.core import arithmetic
        gradients = arithmetic.gradients
        def sabotaged(dy, centered, var, m, gamma, *rest):
            dx, *others = gradients(dy, centered, var, m, None, *rest)
            return dx if gamma is None else dx * gamma, *others
        arithmetic.gradients = sabotaged
    """),
    "RMSNorm that centers": (("core.RMS_NORM",), """
        patch("RMS_NORM", replace(core.RMS_NORM, centered=True))
    """),
    "norm after tanh": (("core.LAYER_NORM + core.normalize",), """
        import numpy as np
        right_normalize, right_tanh, put_off = core.normalize, np.tanh, []
        def without(x, scheme, *args, **kwargs):
            result = right_normalize(x, scheme, *args, **kwargs)
            if scheme.name != "LayerNorm":
                return result
            put_off[:] = [(scheme, *args)]
            return result._replace(output=x)
        def with_norm(x):
            output = right_tanh(x)
            return right_normalize(output, *put_off.pop()).output if put_off else output
        patch("normalize", without)
        np.tanh = with_norm
    """),
    "the norm at the branch's input": (("layers.EncoderLayer", "layers.Encoder"), """
        from normbook.layers import transformer
        def sabotaged(self, x, f, norm):
            return x + f(norm(x))
        transformer.EncoderLayer._add_and_norm = sabotaged
    """),
    "a mask that hides nothing": (("layers.EncoderLayer", "layers.Encoder"), """
        from normbook.layers import transformer
        transformer._merge_masks = lambda *args: None
    """),
}  # fmt: skip


def depends(path, needed):
    """Whether a notebook computes with what is needed."""
    used = {name.removeprefix("normbook.") for name in uses(path)}
    used |= {name.split(".")[0] for name in used}
    return any(set(names.split(" + ")) <= used for names in needed)


def unmoved(path):
    """The sabotages that a notebook says it can't notice."""
    tags = read_notebook(path).cells[0].metadata.get("tags", [])
    return {tag.removeprefix(UNMOVED) for tag in tags if tag.startswith(UNMOVED)}


DEPENDS = [
    (path.stem, name)
    for path in NOTEBOOKS
    for name, (needed, _) in SABOTAGE.items()
    if depends(path, needed)
]


def execute(page, sabotage):
    cells = read_notebook(PATHS[page]).cells
    sources = {cell.id: cell.source for cell in cells if cell.cell_type == "code"}
    return run(PATHS[page], sources, PATCH + dedent(sabotage), PATIENCE)


@pytest.mark.parametrize(("page", "name"), DEPENDS)
def test_page_notices(page, name):
    failure = execute(page, SABOTAGE[name][1])
    if name in unmoved(PATHS[page]):
        assert failure is None, f"it does notice, in {failure.cell}: the tag must go"
        return
    assert failure
    assert not failure.own, failure
    # A number is wrong, for `verify` or the exercises' checker, or a shape is.
    shapes = ("ValueError: gamma has shape", "IndexError: too many indices")
    assert failure.kind in ("VerificationError", "AssertionError") or (
        f"{failure.kind}: {failure.message}".startswith(shapes)
    ), failure


def test_pages_depend_on_much():
    assert len(DEPENDS) > 50
    assert {name for _, name in DEPENDS} == set(SABOTAGE)
    for path in NOTEBOOKS:
        assert {(path.stem, name) for name in unmoved(path)} <= set(DEPENDS)


def test_a_setup_alone_does_no_harm():
    assert execute("layer_norm_cnn", "") is None


def test_a_setup_that_fails_by_itself_proves_nothing():
    sabotage = "def sabotaged(*args): return 1 / 0\npatch('normalize', sabotaged)"
    assert execute("index", sabotage).own

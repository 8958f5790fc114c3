"""A page must not survive a wrong core: patched on purpose, the chapters fail to execute."""

from textwrap import dedent

import pytest

from helpers import ROOT
from normbook.build.execute import execute_notebook

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

# A name for what is wrong, and the code that makes it so.
SABOTAGE = {
    "Bessel's variance": """
        from normbook.core import arithmetic
        moments = arithmetic.moments
        def sabotaged(x, scheme, real=None):
            mean, var, m, centered = moments(x, scheme, real)
            return mean, var * m / (m - 1), m, centered
        arithmetic.moments = sabotaged
    """,
    "a wrong axis": """
        wrong = {"LAYER_NORM_CHW": "c", "LAYER_NORM": "d", "BATCH_NORM_2D": "n"}
        for name, stats in wrong.items():
            patch(name, replace(getattr(core, name), stats=stats))
    """,
    "ε outside the root": """
        from normbook.core import arithmetic
        scale_and_shift = arithmetic.scale_and_shift
        def sabotaged(centered, var, gamma, beta, eps, real=None):
            return scale_and_shift(centered, (var**0.5 + eps) ** 2, gamma, beta, 0, real)
        arithmetic.scale_and_shift = sabotaged
    """,
    "γ per element": """
        for name in ("BATCH_NORM_2D", "GROUP_NORM_1"):
            patch(name, replace(getattr(core, name), params="c h w"))
    """,
    "running variance biased": """
        from normbook.layers import norms
        update = norms._ByChannel._update_running
        def sabotaged(self, mean, var, m, factor):
            update(self, mean, var * ((m - 1) / m), m, factor)
        norms._ByChannel._update_running = sabotaged
    """,
    "train and eval swapped": """
        from normbook.layers import norms
        forward = norms._BatchNorm.forward
        def sabotaged(self, input):
            self.training = not self.training
            output = forward(self, input)
            self.training = not self.training
            return output
        norms._BatchNorm.forward = sabotaged
    """,
    "LN per sample": """
        patch("LAYER_NORM_TOKEN", replace(core.LAYER_NORM_TOKEN, stats="n"))
    """,
    "γ in front of the means": """
        from normbook.core import arithmetic
        gradients = arithmetic.gradients
        def sabotaged(dy, centered, var, m, gamma, *rest):
            dx, *others = gradients(dy, centered, var, m, None, *rest)
            return dx if gamma is None else dx * gamma, *others
        arithmetic.gradients = sabotaged
    """,
    "RMSNorm that centers": """
        patch("RMS_NORM", replace(core.RMS_NORM, centered=True))
    """,
    "norm after tanh": """
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
    """,
    "the norm at the branch's input": """
        from normbook.layers import transformer
        def sabotaged(self, x, f, norm):
            return x + f(norm(x))
        transformer.EncoderLayer._add_and_norm = sabotaged
    """,
    "a mask that hides nothing": """
        from normbook.layers import transformer
        transformer._merge_masks = lambda *args: None
    """,
}

# Where each must be noticed.
DEPENDS = [
    ("batch_norm", "Bessel's variance"),
    ("batch_norm", "a wrong axis"),
    ("batch_norm", "ε outside the root"),
    ("batch_norm", "γ per element"),
    ("batch_norm", "running variance biased"),
    ("batch_norm", "train and eval swapped"),
    ("layer_norm_cnn", "Bessel's variance"),
    ("layer_norm_cnn", "a wrong axis"),
    ("layer_norm_cnn", "ε outside the root"),
    ("layer_norm_cnn", "γ per element"),
    ("layer_norm_nlp", "Bessel's variance"),
    ("layer_norm_nlp", "a wrong axis"),
    ("layer_norm_nlp", "ε outside the root"),
    ("layer_norm_nlp", "LN per sample"),
    ("layer_norm_nlp", "γ in front of the means"),
    ("layer_norm_nlp", "RMSNorm that centers"),
    ("rnn", "Bessel's variance"),
    ("rnn", "a wrong axis"),
    ("rnn", "ε outside the root"),
    ("rnn", "norm after tanh"),
    ("transformer", "Bessel's variance"),
    ("transformer", "ε outside the root"),
    ("transformer", "LN per sample"),
    ("transformer", "the norm at the branch's input"),
    ("transformer", "a mask that hides nothing"),
    ("index", "Bessel's variance"),
    ("index", "a wrong axis"),
    ("before_you_start", "Bessel's variance"),
    ("before_you_start", "a wrong axis"),
    ("motivation", "Bessel's variance"),
    ("motivation", "a wrong axis"),
    ("motivation", "ε outside the root"),
    ("motivation", "γ per element"),
    ("which_norm", "LN per sample"),
]


@pytest.mark.parametrize(("chapter", "name"), DEPENDS)
def test_chapter_notices(chapter, name):
    execution = execute_notebook(
        ROOT / f"chapters/{chapter}.ipynb", setup=PATCH + dedent(SABOTAGE[name])
    )
    assert execution.error is not None
    # A number or a shape is wrong, and not the sabotage itself.
    assert "VerificationError" in execution.error or "ValueError: gamma" in execution.error


def test_a_setup_alone_does_no_harm():
    path = ROOT / "chapters/layer_norm_cnn.ipynb"
    assert execute_notebook(path, setup=PATCH).error is None

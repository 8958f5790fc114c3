import re

import numpy as np
import pytest

from normbook.widgets.scales import MOST_TICKS, scale_for

FAMILIES = [
    (0, 100),
    (3, 8),
    (0.1, 0.3),
    (1e-12, 1e-1),
    (2, 64),
    (1e-30, 3e-30),
    (1, 1e30),
    (5, 5),
    (1e9, 1e9 + 1),
    (7, 7.1),
    (-1, 1),
    (0, 0),
]


@pytest.mark.parametrize(
    ("values", "kind"),
    [(f, kind) for f in FAMILIES for kind in ("linear", "log") if kind == "linear" or min(f) > 0],
)
def test_ticks_are_few_round_and_in_range(values, kind):
    scale = scale_for(values, kind)
    assert 2 <= len(scale.ticks) <= MOST_TICKS
    assert scale.low < min(values) <= max(values) < scale.high
    assert all(scale.low <= tick <= scale.high for tick in scale.ticks)
    assert list(scale.ticks) == sorted(set(scale.ticks))
    for tick, label in zip(scale.ticks, scale.labels, strict=True):
        assert float(label.replace("−", "-")) == pytest.approx(tick, rel=1e-9)
    assert len(set(scale.labels)) == len(scale.labels)


def test_two_decades_have_evenly_spread_ticks():
    assert scale_for([2, 36, 360], "log").ticks == (3, 10, 30, 100, 300)
    assert scale_for([3, 40], "log").ticks == (5, 10, 20)


def test_powers_of_two_have_ticks_at_powers_of_two():
    assert scale_for([2, 4, 8, 16, 32, 64], "log").labels == ("2", "4", "8", "16", "32", "64")
    assert scale_for([10, 100, 1000], "log").labels == ("10", "100", "1000")


def test_ends_can_be_given():
    scale = scale_for([2, 99], ends=(0, 100))
    assert (scale.low, scale.high) == (0, 100)
    assert scale.labels == ("0", "20", "40", "60", "80", "100")


def test_nan_takes_no_room():
    assert scale_for([np.nan, 1, 3]) == scale_for([1, 3])


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([1, 2], {"kind": "square"}, "the scale of values is 'square'; expected one of"),
        ([], {}, "values holds no number"),
        ([np.nan], {}, "values holds no number"),
        ([1, -np.inf], {}, "values holds -inf"),
        ([1, 0], {"kind": "log"}, "values holds 0; a log scale starts above 0"),
        ([1, -0.5], {"kind": "log", "name": "y"}, "y holds -0.5"),
        ([1, 2], {"ends": (3, 3)}, "the ends of values are (3, 3); expected two ascending"),
        ([1, 2], {"ends": (0, np.nan)}, "the ends of values are (0, nan)"),
        ([1, 2], {"ends": (0, 3), "kind": "log"}, "expected two ascending numbers above 0"),
    ],
)
def test_what_has_no_scale_is_named(values, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        scale_for(values, **options)

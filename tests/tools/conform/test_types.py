"""What rules, stages, attacks and codecs make of rows of any type, kind by kind."""

import numpy as np
import pytest
from conftest import own_kinds_of
from numpy.testing import assert_array_equal
from test_conform import ARGUMENTS
from test_stack_inputs import HALVES

from fedsim.tools.conform import rules, stages
from fedsim.tools.conform.rows import D, K, Stack
from fedsim.tools.conform.subjects import subjects_of

LINKS = [
    f"{kind}({ARGUMENTS[kind]})" if kind in ARGUMENTS else kind
    for family in ("rule", "stage", "attack", "codec")
    for kind in own_kinds_of(family)
]


@pytest.mark.quick(60)
@pytest.mark.parametrize("call", LINKS)
def test_any_type_gives_the_bits_of_floats(call):
    (subject,) = subjects_of((call,), (), 0)
    play = (rules if subject.family == "rule" else stages).of_subject(subject)
    ones = np.ones(K)
    result = lambda rows: play(Stack(rows, ones, ones))

    rows = np.random.default_rng(1).integers(0, 256, (K, D))
    for whole in (rows, rows.astype(np.uint8), rows * 2**40, rows > 100):
        of_floats = result(whole.astype(np.float64))
        assert_array_equal(result(whole), of_floats, strict=True)
    of_floats = result(rows.astype(np.float32))
    for half in HALVES:
        with np.errstate(over="ignore"):
            actual = result(rows.astype(half))
            rounded = of_floats.astype(half)
        assert actual.dtype == half
        assert_array_equal(actual.astype(np.float32), rounded.astype(np.float32))

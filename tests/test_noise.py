"""On pure noise sentences claim nothing, but rarely; and the command that counts would find a rule that claims too much."""

from collections import Counter

import numpy as np
import pytest
from trust import noise

from fedsim.study import cost_tests, pairing
from fedsim.study.claims import BETTER, KINDS, SAME_SCORE


def test_every_kind_of_claim_would_be_a_mistake_in_some_shape():
    kinds = Counter()
    for number in range(4 * len(noise.SHAPES)):
        shape = noise.SHAPES[number % len(noise.SHAPES)]
        kinds.update(shape(np.random.default_rng((1, number))).false)
    assert set(kinds) == set(KINDS)


def test_a_share_is_too_large_only_where_chance_does_not_explain_it():
    once = Counter({BETTER: 1})
    assert noise.too_often(once, Counter({BETTER: 10})) == []
    assert noise.too_often(Counter({BETTER: 9}), Counter({BETTER: 40})) == [BETTER]


@pytest.mark.long
def test_few_comparisons_of_noise_claim_anything():
    made, could, some = noise.wrong(40)
    assert noise.too_often(made, could) == [] and some <= 6, made


@pytest.mark.long
@pytest.mark.parametrize(("shape", "kind"), [("plain", BETTER), ("costly", SAME_SCORE)])
def test_rules_that_claim_too_much_are_found(shape, kind, monkeypatch):
    """Tests of eight methods over ten seeds without Holm's adjustment."""
    drawn = noise.drawn
    for module in (pairing, cost_tests):
        monkeypatch.setattr(module, "holm", lambda p_values, tests=None: list(p_values))
    monkeypatch.setattr(noise, "drawn", lambda rng: drawn(rng)._replace(seeds=10, methods=8))
    monkeypatch.setattr(noise, "SHAPES", (getattr(noise, shape),))
    made, could, _ = noise.wrong(80)
    assert kind in noise.too_often(made, could), (made, could)

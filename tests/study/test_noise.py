"""On pure noise, sentences rarely claim anything; a rule that claims too much is detected."""

from collections import Counter

import numpy as np
import pytest
from trust import noise, shapes

from fedsim.study import cost_findings, pairing
from fedsim.study.claims import BETTER, KINDS, SAME_SCORE
from fedsim.study.statistics import half_width


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
    assert noise.too_often(made, could) == [], made
    assert some <= 6, made


@pytest.mark.long
def test_leaving_out_holm_is_detected(monkeypatch):
    drawn = shapes.drawn
    monkeypatch.setattr(pairing, "holm", lambda p_values, tests=None: list(p_values))
    monkeypatch.setattr(shapes, "drawn", lambda rng: drawn(rng)._replace(seeds=10, methods=8))
    monkeypatch.setattr(noise, "SHAPES", (shapes.plain,))
    made, could, _ = noise.wrong(60)
    assert BETTER in noise.too_often(made, could), (made, could)


@pytest.mark.long
def test_reading_non_significance_as_equality_is_detected(monkeypatch):
    """The rule from before there was a margin: the same score wherever the interval contains 0."""
    level = lambda d, bound: 0.0 if len(d) > 1 and abs(d.mean()) <= half_width(d) else 1.0
    monkeypatch.setattr(cost_findings, "p_mean_above", level)
    monkeypatch.setattr(noise, "SHAPES", (shapes.costly,))
    made, could, _ = noise.wrong(30)
    assert SAME_SCORE in noise.too_often(made, could), (made, could)

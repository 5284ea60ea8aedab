"""Cohorts of every kind: laws of draws, and the plain references of Oort, turns and tiers."""

import itertools
from typing import Any

import numpy as np
import pytest
from by_hand import COHORTS
from conftest import own_kinds_of
from numpy.testing import assert_allclose

from fedsim.fleet import Drawn, Population
from fedsim.fleet.selection import SKETCH_SIZE

nan, inf = np.nan, np.inf
BLOBS = {"kind": "gaussian_blobs", "samples": 120, "clients": 12, "test": 0.0}


def rng(seed=0):
    return np.random.default_rng(seed)


def population(**columns) -> Population:
    """Seven clients of which something is known."""
    sketch = rng(1).normal(size=(7, SKETCH_SIZE))
    sketch[2], sketch[5] = nan, inf
    known: dict[str, Any] = {
        "ids": np.array([1, 2, 4, 6, 8, 9, 11]),
        "samples": np.array([3, 1, 4, 1, 5, 9, 2]),
        "loss": np.array([0.5, 2.0, nan, 1.0, 0.1, inf, 0.7]),
        "norm": np.array([0.1, 3.0, nan, 1.0, 0.2, inf, 0.5]),
        "sketch": sketch,
        "drawn": np.array([2, 1, 0, 1, 3, 1, 1]),
        "last": np.array([5, 2, 0, 4, 5, 1, 3]),
        "seconds": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 3.0]),
        "labels": np.array([[2, 1], [0, 1], [4, 0], [1, 0], [2, 3], [9, 0], [0, 2]]),
    }
    return Population(**known | columns)


def made(kind: str, **parameters):
    return own_kinds_of("cohort")[kind](**parameters)


def cohort_of(name: str):
    kind, parameters = COHORTS[name]
    return made(kind, **parameters)


def ids_of(drawn) -> list[int]:
    return np.sort(drawn.ids if isinstance(drawn, Drawn) else drawn).tolist()


# ------------------------------------------------------------------------------- laws of every kind


@pytest.mark.parametrize("name", COHORTS)
def test_draws_are_reachable_clients_and_reproducible(name):
    """Draws from all clients, from some and from one; each client once unless the cohort repeats.

    A draw depends on the generator alone.
    """
    cohort, whole = cohort_of(name), population()
    for r, subset in itertools.product((1, 2, 9), (list(range(7)), [1, 2, 5], [2])):
        some = whole if cohort.ordered else whole.subset(np.array(subset))
        assert cohort.ordered or some.ids.tolist() == whole.ids[subset].tolist()
        drawn = cohort.draw(some, r, rng(r))
        ids = ids_of(drawn)
        assert set(ids) <= set(some.ids.tolist())
        assert cohort.repeats or len(set(ids)) == len(ids)
        assert not cohort.feedback or len(set(ids)) <= cohort.nominal(7)
        assert isinstance(drawn, Drawn) == cohort.factors
        assert ids_of(cohort.draw(some, r, rng(r))) == ids


@pytest.mark.parametrize("name", COHORTS)
def test_a_cohort_reads_only_what_it_declares(name):
    cohort, whole = cohort_of(name), population()
    history = ("drawn", "last") if "drawn" in cohort.needs else ()
    asked = {name: getattr(whole, name) for name in (*cohort.needs, *history)}
    less = Population(whole.ids, whole.samples, **asked)
    assert ids_of(cohort.draw(less, 3, rng())) == ids_of(cohort.draw(whole, 3, rng()))


def test_ten_clients_are_drawn_where_no_size_is_given():
    sizes = {kind: made(kind).nominal(1000) for kind in ("uniform", "weighted", "cyclic", "oort")}
    assert sizes == dict.fromkeys(sizes, 10)
    assert [made("listed", rounds=rounds).repeats for rounds in ([[0], [1]], [[2, 0, 2]])] == [0, 1]


@pytest.mark.parametrize("name", [name for name in COHORTS if cohort_of(name).share is not None])
def test_draws_times_factors_have_the_declared_share(name):
    cohort, whole, often = cohort_of(name), population(drawn=np.ones(7, int)), np.zeros(12)
    for r in range(1, 1001):
        drawn = cohort.draw(whole, r, rng([3, r]))
        np.add.at(often, *((drawn.ids, drawn.factor) if isinstance(drawn, Drawn) else (drawn, 1)))
    assert_allclose(often[whole.ids] / 1000, np.broadcast_to(cohort.share(whole), 7), atol=0.12)


# --------------------------------------------------------------------------------------------- oort


def utility(whole, i, r, clip=0.95, alpha=2.0, preferred=0.3):
    """Of a client whose last loss is known, in plain words."""
    finite = np.isfinite(whole.loss)
    stat = whole.samples[finite] * whole.loss[finite]
    most, least = np.quantile(stat, clip), stat.min()
    u = (min(whole.samples[i] * whole.loss[i], most) - least) / (most - least)
    u += np.sqrt(0.1 * np.log(r) / whole.last[i])
    T = np.quantile(whole.seconds, preferred)
    return u * (T / whole.seconds[i]) ** alpha if whole.seconds[i] > T else u


def test_oort_draws_the_best_clients_by_utility():
    """With a cutoff at the last of the best, exploitation has no choice."""
    whole, r = population(), 6
    known = [i for i in range(7) if np.isfinite(whole.loss[i])]
    best = sorted(known, key=lambda i: -utility(whole, i, r))
    for size in (1, 2, 4):
        cohort = made("oort", size=size, explore=0.0, least=0.0, cutoff=1.0)
        assert ids_of(cohort.draw(whole, r, rng())) == sorted(whole.ids[best[:size]].tolist())
    cohort = made("oort", size=1, explore=0.0, least=0.0, cutoff=0.3)
    drawn = np.array([cohort.draw(whole, r, rng(s))[0] for s in range(1000)])
    u = np.array([utility(whole, i, r) for i in best])
    exploited = u >= 0.3 * u[0]
    assert 1 < exploited.sum() < len(best)
    often = [np.mean(drawn == whole.ids[i]) for i in best]
    assert_allclose(often, np.where(exploited, u, 0) / u[exploited].sum(), atol=0.05)


def test_oort_explores_less_over_time_and_fast_clients_first():
    n, seconds = 400, np.repeat([1.0, 4.0], 200)
    loss = np.where(np.arange(n) % 2, nan, 1.0)
    known = {"loss": loss, "drawn": np.zeros(n), "last": np.ones(n), "seconds": seconds}
    whole = Population(np.arange(n), np.ones(n, int), **known)
    drawn = [made("oort", size=100).draw(whole, r, rng(r)) for r in (1, 35, 500)]
    assert [np.isnan(loss[ids]).sum() for ids in drawn] == [90, round(90 * 0.98**34), 20]

    # Probabilities go by 1/t: 0.8 of the draws are fast clients, a little less without replacement.
    exploring = made("oort", size=10, explore=1.0, least=1.0)
    quick = [seconds[exploring.draw(whole, 1, rng(s))] == 1 for s in range(60)]
    assert 0.74 < np.mean(quick) < 0.84


# ---------------------------------------------------------- turns, tiers and those that are in time


def of_classes(clients: list[int]) -> Population:
    """Clients with a sample each: so many of every class."""
    labels = np.eye(4, dtype=int)[np.repeat(np.arange(4), clients)]
    return Population(np.arange(12), np.ones(12, int), labels=labels)


def test_classes_take_turns():
    whole, cohort = of_classes([6, 3, 2, 1]), made("round_robin_by_class", size=3)
    rounds = [cohort.draw(whole, r, rng()).tolist() for r in (1, 2, 3, 4)]
    assert sorted(itertools.chain(*rounds)) == list(range(12))
    for drawn in rounds:
        of_class = whole.labels[drawn].sum(0)
        assert (np.abs(of_class - [1.5, 0.75, 0.5, 0.25]) <= 1).all()  # three twelfths of them
    equal, cohort = of_classes([3] * 4), made("round_robin_by_class", size=4)
    for r in (1, 2, 3):
        assert equal.labels[cohort.draw(equal, r, rng())].sum(0).tolist() == [1] * 4


def test_tifl_draws_from_one_tier():
    whole, cohort = population(), made("tifl", size=2, tiers=3, weights=[0.0, 1.0, 3.0])
    tiers = [{1, 2, 4}, {11, 6}, {8, 9}]  # 1 s, 2 s, 3 s (by id), 3 s, 4 s, 5 s, 6 s
    drawn = [set(cohort.draw(whole, 1, rng(seed)).tolist()) for seed in range(400)]
    often = [np.mean([ids <= tier for ids in drawn]) for tier in tiers]
    assert often[0] == 0 and often[1] + often[2] == 1 and 0.66 < often[2] < 0.84
    assert len(made("tifl", size=5, tiers=3).draw(whole, 1, rng())) in (2, 3)


@pytest.mark.parametrize(
    ("kind", "parameters", "said"),
    [
        ("tifl", {"size": 2, "tiers": 3, "weights": [1.0]}, "1 weights for 3 tiers"),
        ("tifl", {"size": 2, "tiers": 3, "weights": [0.0] * 3}, "3 weights for 3 tiers"),
        ("fedcs", {"candidates": 4, "size": 5}, "4 candidates for a cohort of 5"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(kind, parameters, said):
    with pytest.raises(ValueError, match=said):
        made(kind, **parameters)

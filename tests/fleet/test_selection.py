"""Cohorts of `fedsim.fleet.cohorts`: laws, plain references, what they look at, and whole runs."""

import itertools
from typing import Any

import jax
import numpy as np
import pytest
from building import built
from by_hand import COHORTS, machines_of
from conftest import own_kinds_of
from numpy.testing import assert_allclose
from test_codecs import SIZES, D, problem_arrays, quadratics

from fedsim.assemble.federation import federations_of
from fedsim.engine.feedback import update_feedback
from fedsim.errors import ScenarioError
from fedsim.fleet import Drawn, Local, Plan, Planner, Population
from fedsim.fleet.cohorts.clustered import fill_urns, similar_groups
from fedsim.fleet.cohorts.divfl import facilities
from fedsim.fleet.cohorts.importance import inclusion, scores, systematic
from fedsim.fleet.plan import Conditions
from fedsim.fleet.selection import SKETCH_SIZE
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario import read
from fedsim.study.verdict import unpaired_lines

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


# --------------------------------------------------------------------------------------- importance


def test_importance_probabilities_match_the_paper():
    """Equation 7, by trying every number of certain clients.

    The largest scores are certain, and the probabilities sum to the size.
    """
    for seed, size in itertools.product(range(5), (1, 3, 6, 7, 9)):
        score = rng(seed).pareto(0.7, 7) + 1e-3
        got, falling = inclusion(score, size), np.sort(score)
        for length in range(7, 0, -1):  # l: clients that are not certain
            scale = (size + length - 7) / falling[:length].sum()
            if scale * falling[length - 1] <= 1:
                break
        want = np.ones(7) if size >= 7 else np.minimum(1, scale * score)
        assert_allclose(got, want, rtol=1e-12)
        assert got.sum() == pytest.approx(min(size, 7))
    uniform = scores(np.array([1.0, 9.0, 3.0]), np.ones(3), 1.0)  # the floor is all
    assert_allclose(inclusion(uniform, 2), 2 / 3)


def test_unknown_scores_are_average_and_infinite_or_negative_ones_the_floor():
    samples = np.array([1, 3, 2, 1, 4])
    got = scores(np.array([2.0, 4.0, nan, inf, -1.0]), samples, 0.2)
    v = np.array([2.0, 12.0, 2 * (2 * 1 + 4 * 3) / 8, 0, 0])
    assert_allclose(got, 0.8 * v / v.sum() + 0.2 / 5)
    assert_allclose(scores(np.full(5, nan), samples, 0.2), 0.8 * samples / 11 + 0.04)
    assert_allclose(scores(np.array([inf, 0.0]), np.ones(2), 0.5), 0.5)
    assert_allclose(scores(np.array([1e308, 1e308, nan]), np.array([9, 9, 9]), 0.1), 1 / 3)


def test_a_systematic_draw_has_its_size_and_its_probabilities():
    chances = np.array([1.0, 0.7, 0.25, 0.05, 0.6, 0.4])
    drawn = [systematic(chances, rng(seed)) for seed in range(4000)]
    assert all(len(set(each.tolist())) == 3 for each in drawn)
    assert_allclose(np.bincount(np.concatenate(drawn)) / 4000, chances, atol=0.03)


def test_factors_change_no_draw_and_need_a_rule_that_is_a_sum():
    weighed, plain = (
        made("importance", size=3, unbiased=unbiased).draw(population(), 1, rng())
        for unbiased in (True, False)
    )
    assert ids_of(plain) == ids_of(weighed)
    why = "importance gives clients factors, and median is no sum in which"
    cohort = {"kind": "importance", "size": 3}
    with pytest.raises(ScenarioError, match=why):
        built({"name": "s", "data": BLOBS, "cohort": cohort, "server": ["median"]})


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


# ---------------------------------------------------------------------------------------- clustered


def test_urns_match_the_algorithm():
    """Algorithm 1 as distributions: each sums to 1, all of client k to size · n_k / Σ n."""
    whole, m = population(), 4
    n, total = whole.samples, whole.samples.sum()
    distributions, urn, free = np.zeros((m, 7)), 0, total
    for i in sorted(range(7), key=lambda i: (-n[i], i)):
        balls = m * n[i]
        while balls:
            amount = min(balls, free)
            distributions[urn, i] += amount / total
            balls, free = balls - amount, free - amount
            if not free:
                urn, free = urn + 1, total
    assert_allclose(distributions.sum(1), 1), assert_allclose(distributions.sum(0), m * n / total)
    drawn = np.array([made("clustered", size=m).draw(whole, 1, rng(seed)) for seed in range(3000)])
    often = np.stack([[np.mean(drawn[:, k] == i) for i in whole.ids] for k in range(m)])
    assert_allclose(often, distributions, atol=0.03)
    assert (drawn == 9).any(1).all()  # 9 of 25 samples: in every round of 4


def test_as_many_urns_as_equal_clients_draw_everybody():
    equal = population(samples=np.full(7, 3))
    for by in ("samples", "similarity"):
        assert ids_of(made("clustered", size=7, by=by).draw(equal, 1, rng())) == equal.ids.tolist()


def test_similar_clients_share_an_urn():
    direction = rng().normal(size=(3, SKETCH_SIZE))
    sketch = np.full((7, SKETCH_SIZE), nan)
    sketch[:6] = np.tile(direction, (2, 1)) * rng(1).uniform(1, 9, (6, 1))
    sketch[:6] += 1e-3 * rng(2).normal(size=(6, SKETCH_SIZE))
    n, urn = np.array([2, 2, 2, 2, 2, 2, 0]), 12
    assert sorted(map(sorted, similar_groups(3 * n, urn, sketch))) == [[0, 3], [1, 4], [2, 5]]
    for seed in range(20):
        n, m = rng(seed).integers(1, 20, 7), 1 + seed % 7
        places, ends = fill_urns(m * n, n.sum(), sketch)
        balls, start = np.diff(ends, prepend=0), np.append(0, ends[:-1])
        assert ends[-1] == m * n.sum()
        assert np.bincount(places, balls, 7).tolist() == (m * n).tolist()
        assert (start // n.sum() == (ends - 1) // n.sum()).all()  # no stretch is in two urns


# ---------------------------------------------------------------- divfl, and what updates look like


def test_the_facility_location_choice_is_greedy():
    points = rng(4).normal(size=(30, 5))
    candidates, chosen = points[::3], []
    for _ in range(4):
        total = lambda more: sum(
            min(np.linalg.norm(p - candidates[i]) for i in [*chosen, more]) for p in points
        )
        chosen.append(min((i for i in range(10) if i not in chosen), key=total))
    assert facilities(points, candidates, 4) == chosen
    assert facilities(1e200 * points, 1e200 * candidates, 4) == chosen


@pytest.mark.long
def test_norms_are_precise_and_sketches_approximate_products():
    """Norms are precise; products of sketches are about those of the updates.

    A row has the same bits whatever rows are beside it.
    """
    rows = {
        "a": rng().normal(size=(12, 20, 50)).astype(np.float32),
        "b": rng(1).normal(size=(12, 30)).astype(np.float32),
    }
    rows["a"][1] = rows["a"][0] + 0.3 * rows["a"][1]  # rows 0 and 1 are alike
    rows["b"][3, 0] = inf
    flat = np.concatenate([rows["a"].reshape(12, -1), rows["b"]], 1)
    whole = jax.tree.map(np.asarray, update_feedback(rows, ("norm", "sketch")))
    fine = np.arange(12) != 3
    norms = np.linalg.norm(flat[fine].astype(float), axis=1)
    assert_allclose(whole["norm"][fine], norms, rtol=1e-6)
    assert not np.isfinite(whole["norm"][3]) and not np.isfinite(whole["sketch"][3]).all()
    products, want = (x[fine] @ x[fine].T for x in (whole["sketch"], flat.astype(float)))
    assert np.abs(products - want).max() < 0.7 * want.max()
    assert products[0, 1] > 0.6 * want[0, 1] > 0
    assert np.linalg.norm(whole["sketch"][0] - whole["sketch"][1]) < 15
    for block in np.split(np.arange(12), [1, 6]):  # one row is a case of its own
        part = update_feedback({name: leaf[block] for name, leaf in rows.items()}, tuple(whole))
        for name, values in part.items():
            np.testing.assert_array_equal(values, whole[name][block])


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


# ---------------------------------------------------------------------------------- plans of rounds


@pytest.fixture(scope="module")
def federation():
    return federations_of(read({"name": "s", "data": BLOBS}), None, np.dtype(np.float32))[0]


def plan_of(federation, cohort, rounds=9, **fleet) -> Plan:
    local = Local(batch=4, epochs=None, steps=1, shuffle=True, drop_last=False, lr=lambda r: 0.1)
    return Plan(federation, cohort, local, 3, rounds, Conditions(**machines_of(fleet)))


def test_the_least_drawn_clients_are_next(federation):
    """All clients are drawn before any is drawn again, whatever they report.

    Also when planned ahead, surveyed, or resumed from a commit.
    """
    plan = plan_of(federation, made("least_participated", size=4))
    planner, rounds = Planner(plan), [work.ids.tolist() for work in plan.survey.rounds()]
    assert not plan.pure and planner.ready(9)
    for i in (0, 3, 6):
        assert sorted(itertools.chain(*rounds[i : i + 3])) == list(range(12))
    assert rounds[0] != rounds[3]
    assert [planner.round(r).ids.tolist() for r in (1, 2, 3, 4)] == rounds[:4]
    for r in (1, 2):
        planner.complete(planner.round(r), {})
    again = Planner(plan)
    again.restore(planner.arrays(), 2)
    assert again.state["drawn"].sum() == 8 and again.state["last"].max() == 2
    assert [again.round(r).ids.tolist() for r in range(3, 10)] == rounds[2:]


def test_cohorts_get_seconds_and_classes_from_the_federation(federation):
    cohort = made("fedcs", seconds=4.0, candidates=12)
    speed = np.arange(1.0, 13.0)
    plan = plan_of(federation, cohort, speed=lambda clients, rng: speed)
    assert plan.pure and plan.round(1)[0].ids.tolist() == [0, 1, 2, 3] and plan.expected[0] == 4.0
    labels = plan_of(federation, made("round_robin_by_class", size=3)).population.labels
    assert labels.sum() == federation.sizes.sum()
    assert plan_of(federation, made("uniform", size=3)).population.seconds is None


def test_factors_become_weights_of_the_round(federation):
    plan = plan_of(federation, made("importance", size=4, by="loss", floor=0.6))
    assert plan.expected == (12.0, federation.sizes.sum())
    planner = Planner(plan)
    for losses in ([9.0, 1.0, nan, 1.0], [2.0, 2.0, 2.0, 2.0]):
        work, known = planner.round(planner.completed + 1), planner.feedback["loss"]
        chances = inclusion(scores(known, federation.sizes, 0.6), 4)
        assert_allclose(1 / work.count, chances[work.ids])
        planner.complete(work, {"loss": np.array(losses)})
        assert known[work.ids].tolist() == np.nan_to_num(losses, nan=inf).tolist()
    assert len({*work.count.tolist()}) > 1


# ---------------------------------------------------------------------------------- whole scenarios


def test_the_sentence_on_pairing_names_what_a_cohort_looks_at():
    line = "Cohorts of {} depend on {}, so they are not paired between methods."
    looks_at = {
        "importance by norm": "update norms",
        "importance by loss": "losses",
        "oort": "losses",
        "clustered by similarity": "updates",
        "divfl": "updates",
        "power_of_choice": "losses",
    }
    for name, (kind, parameters) in COHORTS.items():
        want = [line.format(kind, looks_at[name])] if name in looks_at else []
        assert unpaired_lines({"cohort": {"kind": kind, **parameters}}) == want

    uniform = {"kind": "uniform"}
    clustered = {"kind": "clustered", "size": 3, "by": "similarity"}
    varied = {"cohort": uniform, "compare": {"vary": {"cohort": ["all", clustered]}}}
    assert unpaired_lines(varied) == [line.format("clustered", "updates")]
    varied = {"cohort": uniform, "compare": {"vary": {"cohort.kind": ["uniform", "oort"]}}}
    assert unpaired_lines(varied) == [line.format("oort", "losses")]


KINDS = {
    "importance": {"size": 3, "by": "norm"},
    "divfl": {"size": 3, "candidates": 4},
    "oort": {"size": 3},
    "least_participated": {"size": 3},
    "power_of_choice": {"size": 3, "candidates": 4},
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_clients_report_matches_plain_numpy(kind):
    """Partial participation, clients without samples, half a server step.

    Cohorts with factors divide by the expected number of samples.
    """
    (H, a), n, lr, steps, rounds = problem_arrays(), np.array(SIZES), 0.05, 3, 9
    N, x, joined = len(n), np.full(D, 2.0), np.zeros(len(n), int)
    known = {"loss": np.full(N, nan), "norm": np.full(N, nan)}
    known |= {"sketch": np.full((N, SKETCH_SIZE), nan), "seconds": np.full(N, float(steps))}
    known |= {"drawn": np.zeros(N, int), "last": np.zeros(N, int)}
    cohort, present = made(kind, **KINDS[kind]), np.flatnonzero(n)
    for r in range(1, rounds + 1):
        columns = {name: column[present] for name, column in known.items()}
        whole = Population(present, n[present], **columns)
        drawn = cohort.draw(whole, r, generator(3, Stream.COHORT, r))
        ids, factors = drawn if isinstance(drawn, Drawn) else (drawn, np.ones(len(drawn)))
        total, weight = np.zeros(D), n.sum() if cohort.factors else n[ids].sum()
        for i, factor in zip(ids, factors, strict=True):
            y, losses = x, []
            for _ in range(steps):
                losses.append(0.5 * (y - a[i]) @ H[i] @ (y - a[i]))
                y = y - lr * H[i] @ (y - a[i])
            total = total + n[i] * factor * (y - x)
            known["loss"][i], known["norm"][i] = np.mean(losses), np.linalg.norm(y - x)
            known["sketch"][i] = sketched(y - x)
        known["drawn"][ids] += 1
        known["last"][ids], x = r, x + 0.5 * total / weight
        joined[ids] += 1
    mean = {"kind": "mean", "denominator": "expected" if cohort.factors else "actual"}
    result = quadratics(
        rounds=rounds,
        seeds=[3],
        cohort={"kind": kind, **KINDS[kind]},
        client={"lr": lr, "batch": "full", "steps": steps},
        server=[mean, {"kind": "sgd", "lr": 0.5}],
    )
    assert_allclose(result.model(), x, rtol=1e-12)
    assert result.clients["rounds_joined"].tolist() == joined.tolist()


def hashed(x: int) -> int:
    """The hash of positions, in Python's integers."""
    x = (x ^ x >> 16) * 0x85EBCA6B % 2**32
    x = (x ^ x >> 13) * 0xC2B2AE35 % 2**32
    return x ^ x >> 16


def sketched(update: np.ndarray) -> np.ndarray:
    """Signs and positions of the first coordinates."""
    row, turn = np.zeros(SKETCH_SIZE), hashed(0x9E3779B9)
    for j, value in enumerate(update):
        row[(j - turn) % SKETCH_SIZE] = value * (1 - 2 * (hashed(j) >> 31))
    return row

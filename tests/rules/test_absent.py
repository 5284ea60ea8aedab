"""Absent clients: what rules remember of them, where runs end, and weights that are unbiased."""

from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import built
from by_hand import machines_of
from cohorts import cohort_of, context_of
from test_codecs import SIZES, D, quadratics, trained

from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.fleet import Clients, Population
from fedsim.fleet.clock import Cost
from fedsim.fleet.machines import Machines
from fedsim.fleet.shares import shares


@pytest.mark.long
def test_ca2fl_of_a_buffer_is_its_simulation():
    """The plan says whose messages a buffer has and from which models; the rest is by hand."""
    steps = [1, 2, 3, 5, 8, 2, 4]
    result = quadratics(
        rounds=12,
        server=["ca2fl", {"kind": "sgd", "lr": 0.7}],
        schedule={**BUFFER, "restart": "flush", "staleness": "constant"},
        cohort={"kind": "uniform", "size": 3},
        client={"lr": 0.1, "batch": "full", "steps": steps},
    )
    plan = result.experiment.plans[0]
    x, last, state, stale = np.full(D, 2.0), np.zeros((len(SIZES), D)), plan.begin(), 0
    models = [x]
    for r in range(1, 13):
        work, state = plan.round(r, state)
        updates = np.array(
            [
                trained(models[start], i, 0.1, steps[i])
                for i, start in zip(work.ids, work.start, strict=True)
            ]
        )
        change = (updates - last[work.ids]).mean(0)
        x = x + 0.7 * (last.sum(0) / np.count_nonzero(SIZES) + change)
        last[work.ids] = updates
        stale += int(work.age.sum())
        models.append(x)
    assert stale > 0
    np.testing.assert_allclose(result.model(), x, rtol=1e-11)
    np.testing.assert_allclose(result.state()["client"]["last_update"], last, rtol=1e-11)


BUFFER = {"kind": "fedbuff", "buffer": 2, "concurrency": 4}
KNOWN = {"kind": "horvitz_thompson", "shares": "known"}
UNKNOWN = "server[0].shares: how often all has a client under this fleet is not"
REFUSED = [
    (
        {"server": [KNOWN], "schedule": BUFFER},
        "server[0].shares: how often fedbuff has a client is not known; "
        "write reported, use the rule fedau",
    ),
    ({"server": [KNOWN], "fleet": {"availability": "markov"}}, UNKNOWN),
    ({"server": [KNOWN], "fleet": {"deadline": 3.0}}, UNKNOWN),
    ({"server": [KNOWN], "fleet": {"stragglers": {"share": 0.5, "work": "drop"}}}, UNKNOWN),
]


@pytest.mark.parametrize(("sections", "said"), REFUSED)
def test_what_cannot_be_is_refused_in_one_line(sections, said):
    data = {"kind": "digits", "clients": 40}
    with pytest.raises(ScenarioError) as error:
        built({"name": "x", "data": data, "model": "logistic", "cohort": "all", **sections})
    assert said in str(error.value) and len(str(error.value).splitlines()) == 1


SAMPLES = np.array([3, 0, 1, 6, 2])
ABLE = np.flatnonzero(SAMPLES)
REACH = np.array([0.5, 0.9, 0.2, 1.0, 0.7])
UNIFORM, POISSON, WEIGHTED = (
    FAMILIES["cohort"][kind] for kind in ("uniform", "poisson", "weighted")
)


def machines(reach=None, **fleet) -> Machines:
    """A fleet whose clients can be reached with these probabilities."""
    if reach is not None:
        bernoulli = FAMILIES["availability"]["bernoulli"]()
        fleet["availability"] = bernoulli._replace(begin=lambda clients, rng: reach)
    clients = Clients(SAMPLES, lambda: np.zeros((5, 0)))
    of_seed = machines_of({"availability": None, **fleet})["machines"]
    return of_seed(clients, Cost(SAMPLES, 0, 0), 0)


def subsets(ids):
    return [S for m in range(len(ids) + 1) for S in combinations(ids, m)]


def chance(S, ids, p) -> float:
    """That of all ids those in S come, each by itself with probability p_i."""
    return float(np.prod([p[i] if i in S else 1 - p[i] for i in ids]))


def of_reached(size: int):
    """Every cohort of so many of those that can be reached -> its probability."""
    for reached in subsets(ABLE):
        cohorts = list(combinations(reached, min(size, len(reached))))
        for S in cohorts:
            yield S, chance(reached, ABLE, np.full(5, 0.6)) / len(cohorts)


def drawn_by_samples(size: int):
    for draws in product(ABLE, repeat=size):
        yield draws, float(np.prod(SAMPLES[list(draws)] / SAMPLES.sum()))


def thinned(cohorts, leave: float):
    """Of every cohort each client leaves by itself."""
    for S, p in cohorts:
        for stay in subsets(sorted(set(S))):
            yield [i for i in S if i in stay], p * chance(stay, set(S), np.full(5, 1 - leave))


EXPECTED = {
    "uniform": (UNIFORM(2), {}, lambda: [(S, 1 / 6) for S in combinations(ABLE, 2)]),
    "poisson": (
        POISSON(0.3),
        {"reach": REACH},
        lambda: [(S, chance(S, ABLE, 0.3 * REACH)) for S in subsets(ABLE)],
    ),
    "all": (
        FAMILIES["cohort"]["all"](),
        {"reach": REACH},
        lambda: [(S, chance(S, ABLE, REACH)) for S in subsets(ABLE)],
    ),
    "uniform of those that can be reached": (
        UNIFORM(2),
        {"reach": np.full(5, 0.6)},
        lambda: of_reached(2),
    ),
    "weighted": (WEIGHTED(2), {}, lambda: drawn_by_samples(2)),
    "weighted, and they leave": (
        WEIGHTED(2),
        {"dropout": (0.1, 0.05, 0.1)},
        lambda: thinned(drawn_by_samples(2), 0.25),
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_known_shares_make_the_estimate_unbiased_over_all_cohorts(name):
    """The exact expectation: every cohort that can be, times its probability."""
    cohort, fleet, cohorts = EXPECTED[name]
    pi = shares(cohort, Population(ABLE, SAMPLES[ABLE]), machines(**fleet))
    total = sums = 0.0
    with jax.enable_x64(True):
        for S, p in cohorts():
            count = np.bincount(S, minlength=5).astype(float)
            total += p * np.asarray(estimate(count, np.asarray(pi, float)))
            sums += p
    assert sums == pytest.approx(1)
    np.testing.assert_allclose(total, SAMPLES @ DELTAS / SAMPLES.sum(), rtol=1e-10)


DELTAS = np.random.default_rng(1).normal(size=(5, 2))


@jax.jit
def estimate(count, share):
    """The rule's step for messages of so many draws, by known shares."""
    rule = FAMILIES["rule"]["horvitz_thompson"](shares="known")
    samples = jnp.asarray(SAMPLES, float)
    sent = cohort_of(DELTAS, arrived=count > 0, samples=samples, count=count)
    known = {"samples": samples.sum(), "share": share}
    return rule.apply(sent, (), context_of(5, N=jnp.float64(4), **known))[0]


def test_shares_that_nobody_knows():
    population, loss = Population(ABLE, SAMPLES[ABLE]), FAMILIES["cohort"]["power_of_choice"](2, 3)
    of = lambda cohort, fleet: shares(cohort, population, fleet)
    assert of(loss, machines()) is None
    assert of(WEIGHTED(2), machines(np.full(5, 0.5))) is None
    for fleet in ({"reach": REACH}, {"deadline": 3.0}, {"report_goal": 1}):
        assert of(UNIFORM(2), machines(**fleet)) is None, fleet
    np.testing.assert_allclose(of(WEIGHTED(2), machines(np.ones(5))), 2 * SAMPLES / 12)
    cyclic = FAMILIES["cohort"]["cyclic"](2)
    np.testing.assert_allclose(of(cyclic, machines(REACH)), np.where(SAMPLES > 0, REACH, 0) / 2)

"""Every rule behind plain local training against its definition in NumPy (see `reference`)."""

import jax
import numpy as np
import pytest
from conftest import OF_ADAPTERS, READERS, own_kinds_of
from reference import alone, clients, scenarios
from reference.conditions import CONDITIONS, HARD
from reference.registry import METHODS, RULES, SGD

import fedsim
from fedsim.errors import ScenarioError

pytestmark = pytest.mark.usefixtures("quickly_compiled")

LR, PROBLEM = 0.1, "squares"
FILTERS = [
    name
    for name, (_, rule) in RULES.items()
    if rule.__module__ in ("reference.filters", "reference.detectors")
]
ELSEWHERE = {"dyn"}  # behind its own client method alone


REMEMBER = ("mifa", "fedvarp", "ca2fl", "fedau", "fedau(cutoff=2)")
ONCE = (
    "term",
    "delta_fl",
    "gifair",
    "fedmgda",
    "agnostic",
    "agnostic(lr=0.3)",
    "median",
    "trimmed_mean",
    "krum",
    "multi_krum",
    "geometric_median",
    "rfa",
    "centered_clipping",
    *(name for name in FILTERS if name not in ("sign_majority", "robust_learning_rate")),
)


AT_ONCE = (
    *(
        "mean(samples)",
        "mean_over_all",
        "nova",
        "fedexp",
        "horvitz_thompson",
        "q_fair",
        "agnostic(lr=0.3)",
    ),
    *("median", "trimmed_mean", "krum", "geometric_median", "centered_clipping"),
)
IN_PARTS = [
    name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.long) for name in RULES
]


@pytest.mark.parametrize("name", IN_PARTS)
def test_rounds_of_some_of_the_clients_and_half_a_server_step(name):
    """And, where a sum counts an update as often as it was drawn, of clients drawn twice."""
    link, rule = RULES[name]
    start = np.array([0.2, -0.1, 0.4])
    for twice in (False, True)[: 1 if name in (*REMEMBER, *ONCE, "hierarchical") else 2]:
        rounds = alone.rounds(twice)
        want = alone.in_numpy(rule, rounds, start)
        with jax.enable_x64(True):
            got = alone.in_fedsim(link, rule.min_clients, rounds, start)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def run(server: list[dict], **changes) -> fedsim.Result:
    written = scenarios.scenario(SGD, server, LR, PROBLEM, HARD)
    return scenarios.run({**written, **changes}, PROBLEM, HARD.sizes)


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_a_run_has_the_final_parameters_and_states_of_its_rule(name):
    link, rule = RULES[name]
    want = scenarios.expected(clients.Client, rule, [link], LR, PROBLEM, HARD)
    scenarios.compare(run([link]), want)


TWICE = {"kind": "listed", "rounds": alone.TWICE}
REFUSED = {
    "fewer than the rule needs": (
        "krum",
        CONDITIONS["cyclic"].cohort,
        "krum needs at least 5 reporting clients, the cohort has 4",
    ),
    "one memory of two updates": (
        "mifa",
        TWICE,
        "listed draws a client twice, and mifa remembers one update of every",
    ),
    "an update counts once": (
        "median",
        TWICE,
        "listed draws a client twice, and median is no sum in which an update counts",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_rule_behind_the_wrong_cohort_is_refused(case):
    name, cohort, message = REFUSED[case]
    with pytest.raises(ScenarioError, match=message):
        run([RULES[name][0]], cohort=cohort)


def test_every_rule_of_the_registry_has_a_reference():
    known = own_kinds_of("rule").keys()
    others = ELSEWHERE | READERS | OF_ADAPTERS
    assert {link["kind"] for link, _ in RULES.values()} == known - others
    assert ELSEWHERE < {method.server[0]["kind"] for method in METHODS.values()}

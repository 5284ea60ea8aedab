"""Every rule behind plain local training against its definition in NumPy (see `reference`)."""

import jax
import numpy as np
import pytest
from conftest import OF_ADAPTERS, READERS, crossed
from reference import alone, clients, scenarios
from reference.conditions import CONDITIONS, Condition
from reference.programs import programs  # noqa: F401 (a fixture)
from reference.registry import METHODS, RULES, SGD

import fedsim
from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError

pytestmark = pytest.mark.usefixtures("quickly_compiled")

LR, PROBLEM = 0.1, "squares"
TWICE = Condition(cohort={"kind": "listed", "rounds": alone.TWICE}, lr=0.5)
COHORTS = {**CONDITIONS, "drawn twice": TWICE}
FEW = "{} needs at least {} reporting clients, the cohort has {}"
FILTERS = [
    name
    for name, (_, rule) in RULES.items()
    if rule.__module__ in ("reference.filters", "reference.detectors")
]
ELSEWHERE = {"dyn"}  # behind its own client method alone


def run(server: list[dict], condition: Condition) -> fedsim.Result:
    written = scenarios.scenario(SGD, server, LR, PROBLEM, condition)
    return scenarios.run(written, PROBLEM, condition.sizes)


def check(name: str, condition: Condition) -> None:
    """Final parameters and states of fedsim and of NumPy."""
    link, rule = RULES[name]
    want = scenarios.expected(clients.Client, rule, [link], LR, PROBLEM, condition)
    scenarios.compare(run([link], condition), want)


def refusal(name: str, case: str) -> str | None:
    """Why fedsim refuses a rule under a condition, in its words."""
    link, rule = RULES[name]
    size = {"alone": 1, "alone, others empty": 3, "cyclic": 4}.get(case, 5)
    if size < rule.min_clients:
        return FEW.format(link["kind"], rule.min_clients, size)
    if case == "drawn twice" and name in REMEMBER:
        return f"listed draws a client twice, and {link['kind']} remembers one update of every"
    if case == "drawn twice" and name in ONCE:
        return (
            f"listed draws a client twice, and {link['kind']} is no sum in which an update counts"
        )
    return None


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
    *("mean(samples)", "mean_over_all", "nova", "fedexp", "horvitz_thompson", "q_fair", "agnostic"),
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


@pytest.mark.long
@pytest.mark.share(40)
@pytest.mark.parametrize(("name", "case"), crossed(RULES, COHORTS))
def test_every_rule_under_every_condition(name, case):
    message = refusal(name, case)
    if message is None:
        check(name, COHORTS[case])
    else:
        with pytest.raises(ScenarioError) as error:
            run([RULES[name][0]], COHORTS[case])
        assert message in str(error.value)


def test_every_rule_of_the_registry_has_a_reference():
    known = {
        name
        for name, factory in FAMILIES["rule"].items()
        if factory.__module__.startswith("fedsim.")
    }
    assert {link["kind"] for link, _ in RULES.values()} == known - ELSEWHERE - READERS - OF_ADAPTERS
    assert ELSEWHERE < {method.server[0]["kind"] for method in METHODS.values()}

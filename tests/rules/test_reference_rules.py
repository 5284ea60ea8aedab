"""Every rule behind plain local training against its definition in NumPy (see `reference`)."""

import jax
import numpy as np
import pytest
import scipy.optimize
from conftest import OF_ADAPTERS, READERS, own_kinds_of
from reference import alone, clients, scenarios
from reference.conditions import CONDITIONS, HARD
from reference.registry import METHODS, RULES, SGD

import fedsim
from fedsim.errors import ScenarioError

LR, PROBLEM = 0.1, "squares"
ELSEWHERE = {"dyn"}  # behind its own client method alone
COUNTED = ("mean(samples)", "mean(uniform)", "mean(steps)", "mean(effort)", "mean_over_all")
COUNTED += ("nova", "fedexp", "horvitz_thompson", "q_fair", "sign_majority", "robust_learning_rate")
"""Rules that are sums in which an update counts as often as its client was drawn."""
AT_ONCE = ("mean(samples)", "mean(steps)", "mean(effort)", "mean_over_all", "nova", "fedexp")
AT_ONCE += ("horvitz_thompson", "q_fair", "agnostic(lr=0.3)", "median", "trimmed_mean")
AT_ONCE += ("multi_krum", "geometric_median", "centered_clipping")
IN_PARTS = [
    name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.long) for name in RULES
]


@pytest.mark.parametrize("name", IN_PARTS)
def test_rounds_of_some_of_the_clients_and_half_a_server_step(name):
    """And, where a sum counts an update as often as it was drawn, of clients drawn twice."""
    link, rule = RULES[name]
    start = np.array([0.2, -0.1, 0.4])
    for twice in (False, True) if name in COUNTED else (False,):
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


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.02, 0.1])
@pytest.mark.parametrize("weights", ["samples", "uniform"])
def test_weights_of_fedmgda_near_the_mean_are_those_of_a_solver(epsilon, weights):
    rows = np.random.default_rng(4).normal(size=(7, 4)) + 0.4
    counts = np.array([3.0, 1, 2, 5, 1, 4, 2])
    units = rows / np.linalg.norm(rows, axis=1)[:, None]
    centre = counts / counts.sum() if weights == "samples" else np.full(7, 1 / 7)
    solved = scipy.optimize.minimize(
        lambda share: np.sum((share @ units) ** 2),
        centre,
        jac=lambda share: 2 * units @ (share @ units),
        method="SLSQP",
        bounds=[(max(p - epsilon, 0), min(p + epsilon, 1)) for p in centre],
        constraints={"type": "eq", "fun": lambda share: share.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    link = {"kind": "fedmgda", "epsilon": epsilon, "weights": weights}
    got = fedsim.aggregate(link, rows, weights=counts)
    np.testing.assert_allclose(got, solved.x @ units, atol=1e-6)


TWICE = {"kind": "listed", "rounds": alone.TWICE}
REFUSED = {  # rule -> the cohort that it cannot stand behind, and what is said
    "krum": (CONDITIONS["cyclic"].cohort, "needs at least 5 reporting clients, the cohort has 4"),
    "mifa": (TWICE, "listed draws a client twice, and mifa remembers one update of every"),
    "median": (TWICE, "draws a client twice, and median is no sum in which an update counts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rule_behind_the_wrong_cohort_is_refused(name):
    cohort, message = REFUSED[name]
    with pytest.raises(ScenarioError, match=message):
        run([RULES[name][0]], cohort=cohort)


def test_every_rule_of_the_registry_has_a_reference():
    known = own_kinds_of("rule").keys()
    others = ELSEWHERE | READERS | OF_ADAPTERS
    assert {link["kind"] for link, _ in RULES.values()} == known - others
    assert ELSEWHERE < {method.server[0]["kind"] for method in METHODS.values()}

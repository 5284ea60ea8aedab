"""Steps between rule and optimisers, sums over what is expected, attacks on a known defence."""

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import WHOLE, oracle
from numpy.testing import assert_allclose, assert_array_equal
from test_codecs import SIZES, D, quadratics, trained

import fedsim
import fedsim.types
from fedsim.errors import ScenarioError

SCENARIO = {
    "name": "steps",
    "rounds": 6,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 10},
    "cohort": {"kind": "poisson", "rate": 0.1},
}


def run(**changes) -> fedsim.Result:
    return fedsim.run({**SCENARIO, **changes})


@pytest.mark.long
@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_a_sum_over_what_is_expected_is_that_of_plain_numpy(weights):
    """Some of the clients, others without samples, half a server step."""
    cohorts = [[0, 3], [1, 3, 6], [4], [0, 1, 3, 4]]
    rule = {"kind": "mean", "weights": weights, "denominator": "expected"}
    made = quadratics(
        server=[rule, {"kind": "sgd", "lr": 0.5}],
        cohort={"kind": "listed", "rounds": cohorts},
        rounds=len(cohorts),
        client={"lr": 0.1, "batch": "full", "steps": 2},
    )
    weight = np.array(SIZES if weights == "samples" else [1] * len(SIZES))
    share = np.bincount(np.concatenate(cohorts), minlength=len(SIZES)) / len(cohorts)
    x = np.full(D, 2.0)
    for ids in cohorts:
        able = [i for i in ids if SIZES[i]]
        total = sum(weight[i] * trained(x, i, lr=0.1, steps=2) for i in able)
        x = x + 0.5 * total / (share @ weight)
    assert_allclose(made.model(), x, rtol=1e-12)


@pytest.mark.long
def test_noise_has_the_width_that_was_asked_for():
    server = ["mean", {"kind": "aggregate_noise", "std": 2.0}]
    steps = [fedsim.aggregate(server, np.zeros((3, 20_000)), seed=seed) for seed in (0, 1)]
    for step in steps:
        assert abs(step.std() / 2 - 1) < 0.02 and abs(step.mean()) < 0.04
    assert abs(np.corrcoef(steps)[0, 1]) < 0.03


@pytest.mark.long
def test_a_step_reports_and_remembers():
    fedsim.aggregate_stage(counted_rounds)
    made = run(server=["mean", "counted_rounds"], cohort="all", rounds=3)
    assert made.rounds["counted_rounds/rounds"].iloc[1:].tolist() == [1.0, 2.0, 3.0]


def counted_rounds() -> fedsim.types.AggregateStage:
    """Counts its rounds."""
    apply = lambda aggregate, state, context: (aggregate, state + 1, {"rounds": state + 1})
    return fedsim.types.AggregateStage(apply, init=lambda params, present: jnp.zeros(()))


REFUSED = {
    "before the rule": (["aggregate_noise", "mean"], "aggregate_noise"),
    "after an optimiser": (
        ["mean", {"kind": "sgd", "lr": 1.0}, {"kind": "aggregate_noise", "std": 1.0}],
        "server[2]: aggregate_noise works on the aggregate and comes after sgd; "
        "move it before that",
    ),
    "steps": (
        [{"kind": "mean", "weights": "steps", "denominator": "expected"}],
        "server[0]: mean: the average number of steps of a round is unknown",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name):
    server, text = REFUSED[name]
    with pytest.raises(ScenarioError) as error:
        run(server=server)
    assert text in str(error.value)


def array(given) -> np.ndarray:
    return np.asarray(given["data"] if isinstance(given, dict) else given, np.float64)


def defence_of(params: dict, n: int) -> list[dict]:
    """The defences of the cases as ours; `GM` is ByzFL's geometric median, which is not ours."""
    f = params["f"]
    rules = {
        "TrMean": {"kind": "trimmed_mean", "trim": f},
        "Median": {"kind": "median"},
        "KrumByzfl": {"kind": "krum", "f": f, "neighbours": n - f - 1},
        "MultiKrumByzfl": {"kind": "multi_krum", "f": f, "neighbours": n - f - 1, "select": n - f},
    }
    mixed = [{"kind": "mix_neighbours", "f": f}] if params["pre"] == "nnm" else []
    return [*mixed, rules[params["agg"]]]


@pytest.mark.long
def test_the_search_follows_its_oracle():
    """Some of the cases whose defences are ours: each is a program of its own."""
    of_search = [case for case in oracle("attacks") if case["fn"] == "optimised_attack"]
    cases = [case for case in of_search if case["params"]["agg"] != "GM"]
    assert len(cases) == 80
    for case in cases[:: 5 if WHOLE else 40]:
        params, honest = case["params"], array(case["inputs"]["H"])
        n = len(honest) + params["f"]
        defence = defence_of(params, n)
        kind = {"ipm": "inner_product", "alie": "little_is_enough"}[params["base"]]
        stack = np.concatenate([honest, np.zeros((params["f"], honest.shape[1]))])
        link = {"kind": "optimised", "attack": kind, "evaluations": params["evals"]}
        malicious = list(range(len(honest), n))
        sent, _ = fedsim.transmit(link, stack, malicious=malicious, defence=defence)
        want = array(case["expected"]["vec"])
        assert_array_equal(sent[: len(honest)], honest)
        assert_allclose(sent[-1], want, rtol=1e-7, atol=1e-9, err_msg=case["name"])


@pytest.mark.quick(2)
@pytest.mark.parametrize("defence", ["mean", "median"])
def test_the_search_leaves_clients_out_that_are_not_finite(defence):
    """The others send what they would without such a client, which the server's filter drops."""
    rows = np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0], [0.0, 0.0], [np.nan, 5.0]])
    link, known = {"kind": "optimised", "evaluations": 6}, {"malicious": [3], "defence": defence}
    beside, _ = fedsim.transmit(link, rows, **known)
    alone, _ = fedsim.transmit(link, rows, weights=[1, 1, 1, 1, 0], **known)
    assert_allclose(beside[3], alone[3], rtol=1e-12)
    assert np.isfinite(alone[:4]).all() and np.isnan(beside[4, 0])

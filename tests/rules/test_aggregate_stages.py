"""Steps between rule and optimisers, rounds in which nobody came, attacks on a known defence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import WHOLE, oracle
from numpy.testing import assert_allclose, assert_array_equal
from test_codecs import SIZES, D, quadratics, trained

import fedsim
import fedsim.types
from fedsim.errors import ScenarioError

pytestmark = pytest.mark.usefixtures("quickly_compiled")

SCENARIO = {
    "name": "steps",
    "rounds": 6,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 10},
    "cohort": {"kind": "poisson", "rate": 0.1},
    "server": [
        {"kind": "mean", "weights": "uniform", "denominator": "expected"},
        {"kind": "aggregate_noise", "std": 0.01},
    ],
}
CLIENT = {"lr": 0.1, "batch": "full", "steps": 2}
NOISED = [
    {"kind": "mean", "weights": "uniform", "denominator": "expected"},
    {"kind": "aggregate_noise", "std": 0.3},
]


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
        client=CLIENT,
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
def test_nobody_came_and_the_noise_is_added_all_the_same():
    """Where nobody comes in any round, the model is the sum of the noise, and all rounds count."""
    nobody = {"kind": "poisson", "rate": 1e-9}
    made = quadratics(server=NOISED, cohort=nobody, rounds=3, client=CLIENT)
    assert made.rounds["skipped"].tolist() == [0] * 4 and made.rounds["clients_sampled"].sum() == 0
    moved = made.model() - 2.0
    assert (np.abs(moved) > 0).all() and np.abs(moved).max() < 0.3 * 3**0.5 * 5
    still = quadratics(
        server=[{"kind": "mean"}, NOISED[1]], cohort=nobody, rounds=3, client=CLIENT
    )  # a mean over those who came is skipped
    assert_array_equal(still.model(), np.full(D, 2.0))
    assert still.rounds["skipped"].sum() == 3


@pytest.mark.long
def test_noise_has_the_width_that_was_asked_for():
    zeros = np.zeros((3, 20_000))
    for std in (0.5, 2.0):
        step = fedsim.aggregate(["mean", {"kind": "aggregate_noise", "std": std}], zeros)
        assert abs(step.std() / std - 1) < 0.02 and abs(step.mean()) < 0.02 * std
    first, other = (
        fedsim.aggregate(["mean", {"kind": "aggregate_noise", "std": 1.0}], zeros, seed=s)
        for s in (0, 1)
    )
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.03


@pytest.mark.long
def test_a_step_reports_and_remembers():
    fedsim.aggregate_stage(counted_rounds)
    made = run(
        server=["mean", "counted_rounds", {"kind": "aggregate_noise", "std": 0.0}],
        cohort="all",
        rounds=3,
    )
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
    cases = [
        case
        for case in oracle("attacks")
        if case["fn"] == "optimised_attack" and case["params"]["agg"] != "GM"
    ]
    assert len(cases) == 80
    for case in cases[:: 5 if WHOLE else 40]:
        params, honest = case["params"], array(case["inputs"]["H"])
        n = len(honest) + params["f"]
        defence = defence_of(params, n)
        kind = {"ipm": "inner_product", "alie": "little_is_enough"}[params["base"]]
        stack = np.concatenate([honest, np.zeros((params["f"], honest.shape[1]))])
        link = {"kind": "optimised", "attack": kind, "evaluations": params["evals"]}
        sent, _ = fedsim.transmit(
            link, stack, malicious=list(range(len(honest), n)), defence=defence
        )
        assert_array_equal(sent[: len(honest)], honest)
        assert_allclose(
            sent[-1], array(case["expected"]["vec"]), rtol=1e-7, atol=1e-9, err_msg=case["name"]
        )


@pytest.mark.quick(2)
@pytest.mark.parametrize("defence", ["mean", "median"])
def test_the_search_leaves_clients_out_that_are_not_finite(defence):
    """The others send what they would without such a client, which the server's filter drops."""
    rows = np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0], [0.0, 0.0]])
    link = {"kind": "optimised", "evaluations": 6}
    alone, _ = fedsim.transmit(link, rows, malicious=[3], defence=defence)
    beside, _ = fedsim.transmit(
        link, np.vstack([rows, [np.nan, 5.0]]), malicious=[3], defence=defence
    )
    assert_allclose(beside[3], alone[3], rtol=1e-12)
    assert np.isfinite(alone).all() and np.isnan(beside[4, 0])


def test_an_attack_of_a_plugin_is_told_the_defence():
    fedsim.attack(spoiled)
    sent, _ = fedsim.transmit(
        "spoiled", [[1.0], [2.0], [6.0], [0.0]], malicious=[3], defence="median"
    )
    assert sent.tolist() == [[1.0], [2.0], [6.0], [1.5]]


def spoiled() -> fedsim.types.Aim:
    """Sends what the defence would have made of the stack."""

    def aim(defence):
        def apply(updates, state, context):
            row = defence(updates, context)
            delta = jnp.where(context.malicious[:, None], row, updates.delta)
            return updates._replace(delta=delta), state, {}

        return fedsim.types.Stage(apply)

    return fedsim.types.Aim(aim)


@pytest.mark.long
def test_the_noise_is_no_other_link_s():
    """Another link in front of it leaves its draws as they are."""
    with jax.enable_x64(True):
        step = lambda *before: fedsim.aggregate(
            [*before, "mean", {"kind": "aggregate_noise", "std": 1.0}], np.zeros((2, 5))
        )
        assert_array_equal(step(), step({"kind": "clip", "norm": 1.0}))

"""Schedules with messages at any time against plain NumPy: models that are mixed, windows, clients that cannot be reached."""

import jax
import numpy as np
import pytest
from conftest import oracle
from federations import quadratic, trajectory

import fedsim
from fedsim.fleet.staleness import staleness_factor
from fedsim.fleet.timetables import fedasync, fedbuff

N, D = 6, 3
TIMES = [1, 2, 3, 5, 8, 2]
SIMULATED = {case["name"]: case for case in oracle("systems") if case["fn"] == "async_sim"}


def problem(sizes=(3, 1, 4, 2, 2, 5)) -> dict:
    """f_i = ½ (x − a_i)ᵀ H_i (x − a_i)."""
    rng = np.random.default_rng(0)
    H = np.stack([np.eye(D) * rng.uniform(0.5, 2) for _ in sizes])
    return {"sizes": list(sizes), "H": H, "a": rng.normal(size=(len(sizes), D)), "x0": rng.normal(size=D)}


def trained(inputs: dict, i: int, x: np.ndarray, steps: int, lr: float = 0.1) -> np.ndarray:
    for _ in range(steps):
        x = x - lr * inputs["H"][i] @ (x - inputs["a"][i])
    return x


def scenario(schedule: dict, **sections) -> dict:
    client = {"lr": 0.1, "batch": "full", "steps": TIMES}
    cohort = {"kind": "listed", "rounds": [list(range(N))]}
    plain = {"name": "s", "rounds": 5, "cohort": cohort, "client": client, "numerics": {"dtype": "float64"}}
    return {**plain, "schedule": schedule, **sections}


FACTORS = {
    "constant": lambda age: 1.0,
    "polynomial": lambda age: (1 + age) ** -0.8,
    "hinge": lambda age: 1.0 if age <= 0 else 1 / (2.0 * (age - 0) + 1),
}


@pytest.mark.parametrize("staleness", FACTORS)
def test_a_mixed_model_is_its_formula(staleness):
    """x ← (1 − α s(τ)) x + α s(τ) y behind half a server step, on the flights of the oracle."""
    inputs, versions = problem(), [problem()["x0"]]
    log = SIMULATED["async_c2_b1"]["expected"]["log"]
    for flush in log:
        (u,) = flush["updates"]
        y = trained(inputs, u["client"], versions[u["version"]], TIMES[u["client"]])
        share = 0.6 * FACTORS[staleness](u["staleness"])
        versions.append(versions[-1] + 0.5 * share * (y - versions[-1]))
    schedule = {"kind": "fedasync", "alpha": 0.6, "concurrency": 2, "staleness": staleness}
    written = {**schedule, "exponent": 0.8, "slope": 2.0, "threshold": 0}
    server = [{"kind": "mean", "weights": "uniform"}, {"kind": "sgd", "lr": 0.5}]
    got, result = trajectory(scenario(written, server=server), **quadratic(inputs))
    np.testing.assert_allclose(got, versions[1:], rtol=1e-12)
    assert result.rounds["staleness_max"].tolist()[1:] == [flush["updates"][0]["staleness"] for flush in log]


def test_models_that_replace_the_servers_are_one_client_after_another():
    """α = 1 and one client at a time: x is each client's model in turn, whatever α τ would be."""
    inputs, x = problem(), problem()["x0"]
    got, _ = trajectory(scenario({"kind": "fedasync", "alpha": 1.0, "concurrency": 1}), **quadratic(inputs))
    for client, model in enumerate(got):
        x = trained(inputs, client, x, TIMES[client])
        np.testing.assert_allclose(model, x, rtol=1e-12)


def test_staleness_is_the_papers():
    ages = np.arange(12)
    assert staleness_factor("polynomial", 0.5, 1.0, 0)(ages) == pytest.approx(1 / np.sqrt(1 + ages))
    paper = [1 if age <= 4 else 1 / (10 * (age - 4) + 1) for age in ages]
    assert staleness_factor("hinge", 1.0, 10.0, 4)(ages) == pytest.approx(paper)
    hinge = fedbuff(staleness="hinge").discount
    assert hinge is not None and hinge(ages) == pytest.approx(paper)
    mixing = fedasync(alpha=0.3, staleness="constant").mixing
    assert mixing is not None and mixing(ages) == pytest.approx(np.full(12, 0.3))


@pytest.mark.long
def test_normalisation_statistics_are_mixed_with_the_model():
    """After one message, α = 1 gives the client's variables and α = 1/4 a quarter of the way to them."""
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool, mask):
            return nn.Dense(3)(nn.BatchNorm(use_running_average=not train)(x, mask=mask[:, None]))

    rng = np.random.default_rng(0)
    data = fedsim.Arrays(rng.normal(2.0, 1.0, (12, 4)), np.arange(12) % 3, np.arange(12) // 6)
    ends = {}
    for alpha in (1.0, 0.25):
        seen = []
        written = scenario({"kind": "fedasync", "alpha": alpha, "concurrency": 1}, rounds=1, cohort="all")
        written["client"] = {"lr": 0.1, "batch": "full", "steps": 2}
        watch = lambda e, s, row, seen=seen: seen.append(jax.tree.map(np.asarray, row.server.shared))
        fedsim.run(written, data=data, model=Net(), watch=watch)
        start, ends[alpha] = seen
    assert jax.tree.leaves(start["stats"])
    quarter = jax.tree.map(lambda old, new: 0.75 * old + 0.25 * new, start, ends[1.0])
    jax.tree.map(lambda want, got: np.testing.assert_allclose(got, want, rtol=1e-12), quarter, ends[0.25])
    assert not np.allclose(*(jax.tree.leaves(ends[alpha]["stats"])[0] for alpha in ends))

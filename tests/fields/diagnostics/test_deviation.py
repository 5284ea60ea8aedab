"""How far an aggregate lies from the honest clients, and the ratio to a bound, as defined."""

import jax
import numpy as np
import pytest
from cohorts import cohort_of, context_of
from conftest import if_whole
from reference.scenarios import flat

import fedsim
from fedsim import rules
from fedsim.fields.diagnostics.deviation import deviation_of, ratio_to_bound


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.long
def test_where_the_bound_is_nothing_rounding_does_not_break_it():
    rows = np.random.default_rng(0).normal(size=(5, 3))
    near, mean = rows.mean(0) + 1e-6, rows.mean(0)
    deviation = jax.jit(lambda: deviation_of(near, mean, cohort_of(rows), context_of(5)))()
    ratio = lambda rule: ratio_to_bound(deviation, rule.bound)
    assert np.isnan(ratio(rules.trimmed_mean(0))) and 0 < ratio(rules.trimmed_mean(1)) < 1e-6


SCENARIO = {
    "name": "bounds",
    "rounds": 1,
    "data": {"kind": "digits", "clients": 9, "partition": {"kind": "dirichlet", "alpha": 0.3}},
    "client": {"lr": 0.1, "batch": "full", "epochs": 1},
    "fleet": {"malicious": [1, 4]},
    "wire": [{"kind": "sign_flip", "scale": 3}],
    "numerics": {"dtype": "float64", "block": 4},
    "evaluate": {"diagnostics": True},
}


def updates_of(federation) -> np.ndarray:
    """What every client makes of a start at zero in a full step `[9, D]`, W before b."""
    f = federation
    x = f.train.x.reshape(len(f.train.x), -1).astype(float) * f.scale
    rows = []
    for i in range(9):
        own = f.holders.of(i)
        off = np.eye(10)[f.train.y[own]] - 0.1
        rows.append(np.append(x[own].T @ off, off.sum(0)) * 0.1 / len(own))
    return np.array(rows)


@if_whole
@pytest.mark.long
@pytest.mark.parametrize(
    "server", [["mean"], ["median"], [{"kind": "clip", "norm": 0.2}, "median"]]
)
def test_columns_are_their_definitions(server):
    asked = fedsim.run({**SCENARIO, "server": server})
    plain = fedsim.run({**SCENARIO, "server": server, "evaluate": {}})
    assert plain.model()["W"].tobytes() == asked.model()["W"].tobytes()
    honest = np.delete(updates_of(asked.experiment.plans[0].federation), [1, 4], 0)
    row = asked.rounds.iloc[-1]
    away = np.linalg.norm(flat(asked.model()) - honest.mean(0))
    assert row["honest_distance"] == pytest.approx(away, rel=1e-9)
    assert ("kappa_ratio" in asked.rounds) == (server == ["median"])
    if server == ["median"]:
        spread = ((honest - honest.mean(0)) ** 2).sum(1).mean()
        kappa = 4 * (1 + 2 / 5) ** 2
        assert row["kappa_ratio"] == pytest.approx(away**2 / spread / kappa, rel=1e-9)

"""How a run ends: `done` only where it trained; ten empty rounds, a model that never moved and a loss beyond floats do not."""

import math

import numpy as np
import pandas as pd
import pytest
from test_lanes import X64, ragged

import fedsim
from fedsim.study.summary import growth

pytestmark = pytest.mark.usefixtures("quickly_compiled")

CLIENT = {"lr": 0.3, "batch": "full", "steps": 2}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4)).astype(np.float32)


def run(rounds=3, data=None, out=None, **sections):
    written = {"name": "ends", "rounds": rounds, "client": CLIENT, **sections}
    return fedsim.run(written, data=ragged(clients=6) if data is None else data, out=out)


def arrays(x, y=None) -> fedsim.Arrays:
    labels = (X[:, 0] > 0).astype(int) if y is None else y
    return fedsim.Arrays(x, labels, client=np.arange(90) % 6, x_test=X[:9], y_test=labels[:9])


NEVER_MOVED = {
    "features": {"data": arrays(np.sign(X) * np.float32(3e38))},
    "learning rate": {"client": {**CLIENT, "lr": 1e38}, "model": {"kind": "mlp", "hidden": [8]}},
    "attackers": {"wire": ["nonfinite"], "fleet": {"malicious": 1.0}},
}


@pytest.mark.parametrize("case", NEVER_MOVED)
def test_a_run_in_which_no_update_was_usable_has_diverged(case, tmp_path):
    result = run(**NEVER_MOVED[case], out=tmp_path / "run")
    assert result.status == "diverged" and "the model never moved" in result.reasons[0]
    row = result.summary.iloc[0]
    assert row["diverged"] == 1 and math.isnan(row["final"]) and row["reason"] == result.reasons[0]
    assert pd.read_csv(tmp_path / "run/summary.csv")["reason"].tolist() == [result.reasons[0]]


def test_ten_empty_rounds_running_end_a_run():
    result = run(rounds=30, **NEVER_MOVED["attackers"])
    assert result.status == "diverged" and result.rounds["round"].max() == 10
    assert result.reasons[0] == "round 10: 10 rounds running, no client's update could be used"


def test_rounds_without_anybody_do_not_count():
    """Nobody is drawn in most rounds; then everybody, and nothing is usable: only those rounds are empty."""
    some = {"cohort": {"kind": "poisson", "rate": 0.02}, "seeds": [3]}
    quiet = run(rounds=40, **some)
    nobody = quiet.rounds["clients_sampled"].iloc[1:] == 0
    assert nobody.rolling(10).sum().max() == 10  # more than ten running, and the run goes on
    assert quiet.status == "done" and quiet.rounds["skipped"].iloc[1:][nobody].eq(1).all()
    attacked = run(rounds=40, **some, **NEVER_MOVED["attackers"])
    assert attacked.status == "diverged" and attacked.rounds["round"].max() == 40
    assert f"none of the {(~nobody).sum()} updates" in attacked.reasons[3]


@pytest.mark.long
def test_too_few_for_the_rule_is_skipped_and_never_diverged():
    few = {"cohort": {"kind": "listed", "rounds": [[0, 1, 2, 3, 4], *[[0, 1]] * 12]}}
    result = run(rounds=13, server=[{"kind": "krum", "f": 1}], **few)
    assert result.status == "done" and result.rounds["skipped"].tolist() == [0, 0, *[1] * 12]


@pytest.mark.parametrize(
    "sections", [{"client": {**CLIENT, "lr": 0}}, {"server": ["mean", {"kind": "sgd", "lr": 0.0}]}]
)
def test_a_learning_rate_of_0_keeps_the_model_and_is_done(sections):
    result = run(**sections)
    assert result.status == "done" and (result.model()["W"] == 0).all()


def test_a_reported_loss_that_is_not_finite_is_divergence():
    """The updates are usable and the parameters finite, and still nobody can say what the run is worth."""
    result = run(
        rounds=2, data=arrays(X * np.float32(1e10), X[:, 0] * np.float32(1e12)), client={**CLIENT, "lr": 1e-30}
    )
    assert result.status == "diverged" and result.reasons[0].startswith("round 1: train_loss is ")
    assert all(np.isfinite(leaf).all() for leaf in result.model().values())


def test_a_dropped_client_s_loss_is_no_part_of_the_mean():
    """One of six clients has features that overflow: it is dropped and counted, and the others' losses are reported."""
    x = X.copy()
    x[np.arange(90) % 6 == 2] = np.float32(3e38)
    result = run(data=arrays(x))
    assert result.status == "done" and result.rounds["n_nonfinite"].tolist() == [0, 1, 1, 1]
    assert np.isfinite(result.rounds["train_loss"].iloc[1:]).all()


def test_the_counts_go_on_after_a_commit(tmp_path):
    """A model that moved in the first rounds has moved, whatever comes later, also when it is taken up again."""
    written = {"name": "ends", "rounds": 2, "client": CLIENT, "checkpoint": {"rounds": 1}}
    once = fedsim.run(written, data=ragged(clients=6), out=tmp_path / "run")
    more = fedsim.run({**written, "rounds": 4}, data=ragged(clients=6), out=tmp_path / "run", resume=True)
    assert once.status == more.status == "done" and more.experiment.scenario.spec.rounds == 4


@pytest.mark.long
def test_a_diverged_run_is_never_a_score():
    data = {"kind": "gaussian_blobs", "samples": 60, "clients": 4}
    written = {"name": "ends", "rounds": 2, "data": data, "client": CLIENT, "seeds": 2}
    attacked = {**written, "wire": ["nonfinite"], "fleet": {"malicious": 1.0}}
    comparison = fedsim.compare(attacked, ["fedavg", "fedsgd"])
    summary = comparison.summary
    assert summary["final"].isna().all() and summary["reason"].str.contains("never moved").all()
    assert (comparison.table["diverged"] == 2).all()


def test_a_run_that_grows_without_bound_says_so(tmp_path):
    """Far too long a step on a quadratic: every round is ten times further out, and nothing has overflowed yet."""
    quadratic = {"kind": "quadratics", "clients": 4, "features": 3}
    written = {"name": "ends", "rounds": 6, "data": quadratic, "model": "linear", "numerics": X64}
    result = fedsim.run({**written, "client": {**CLIENT, "lr": 30.0}}, out=tmp_path / "run")
    assert result.status == "done" and "grows without bound" in result.notes[0]
    assert fedsim.run({**written, "client": {**CLIENT, "lr": 0.01}}).notes == {}


def test_growth_is_measured_against_the_first_loss_and_only_where_it_lasts():
    rows = lambda *losses: [{"round": r, "train_loss": loss} for r, loss in enumerate(losses)]
    assert growth(rows(None, 1.0, 2000.0)) and not growth(rows(1.0, 2000.0, 1999.0))
    assert not growth(rows(1.0, 999.0)) and not growth(rows(0.0, 5.0)) and not growth(rows(1.0)) and not growth([])

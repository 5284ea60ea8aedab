"""What links report of a round: columns of `rounds.csv`, and the states of row-wise stages that come from them."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TESTS
from numpy.testing import assert_allclose

import fedsim
from fedsim.compose import FAMILIES
from fedsim.disk.tables import to_csv
from fedsim.runs.result import ORDER
from fedsim.types import Context, RowStage
from tests.cohorts import cohort_of

ORACLES = TESTS / "oracles"
BLOBS = {"kind": "gaussian_blobs", "samples": 300, "clients": 10}
SCENARIO = {
    "name": "reports",
    "rounds": 6,
    "data": BLOBS,
    "cohort": {"kind": "uniform", "size": 6},
    "fleet": {"malicious": 0.3},
    "evaluate": {"every": 2},
    "server": ["adaptive_clip", "mean"],
}


def run(**changes) -> fedsim.Result:
    return fedsim.run({**SCENARIO, **changes})


def test_adaptive_clip_follows_its_oracle():
    cases = json.loads((ORACLES / "dp_accounting.json").read_text())["cases"]
    (case,) = [case for case in cases if case["fn"] == "adaptive_clip"]
    given = case["params"]
    made = FAMILIES["stage"]["adaptive_clip"](
        quantile=given["gamma"], lr=given["lr"], initial=given["C0"]
    )
    norm, norms = made.init({"w": jnp.zeros(2)}, jnp.ones(3, bool)), []
    for share in case["inputs"]["fraction_unclipped"]:
        norm = made.after(norm, {"unclipped": jnp.float32(share)})
        norms.append(float(norm))
    assert_allclose(norms, case["expected"]["C"], rtol=1e-6)


def test_a_bound_is_that_of_whom_it_left_alone():
    made = FAMILIES["stage"]["adaptive_clip"]()
    row = cohort_of(jnp.array([[3.0, 4.0]]))._replace(delta=jnp.array([3.0, 4.0]))
    one, no = jnp.ones(()), jnp.zeros((), bool)
    context = Context(jax.random.key(0), 1, one, one, {}, jnp.int32(0), no)
    shares = [
        float(made.measure(row, context._replace(state=C))["unclipped"])
        for C in jnp.array([4.9, 5.0])
    ]
    assert shares == [0.0, 1.0]


@pytest.mark.long
def test_a_bound_moves_by_what_was_reported_and_is_the_one_that_was_used():
    made = run(
        server=[{"kind": "adaptive_clip", "initial": 0.4, "quantile": 0.7}, "mean"],
        evaluate={"every": 1},
    )
    norm, within = (
        made.rounds[f"adaptive_clip/{name}"].to_numpy()[1:] for name in ("norm", "unclipped")
    )
    assert norm[0] == np.float32(0.4) and 0 < within.min() < within.max() <= 1
    assert_allclose(norm[1:], norm[:-1] * np.exp(-0.2 * (within[:-1] - 0.7)), rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("numerics", [{"block": 2}, {"block": 5, "lanes": 3}])
def test_no_layout_changes_what_is_reported(numerics):
    tables = [
        to_csv(run(**more).records["rounds"], ORDER["rounds"])
        for more in ({}, {"numerics": numerics})
    ]
    assert tables[0] == tables[1] and "adaptive_clip/norm,adaptive_clip/unclipped\n" in tables[0]


@pytest.mark.long
def test_a_second_stage_of_a_kind_has_a_number_and_a_skipped_round_moves_nothing():
    twice = run(
        server=["adaptive_clip", {"kind": "adaptive_clip", "initial": 0.01}, "mean"], rounds=2
    )
    assert {"adaptive_clip/norm", "adaptive_clip[1]/norm"} <= set(twice.rounds)
    assert twice.rounds["adaptive_clip[1]/norm"].iloc[-1] == pytest.approx(
        0.01 * np.exp(-0.2 * -0.5)
    )
    nobody = run(wire=["nonfinite"], fleet={"malicious": 1.0}, rounds=2, evaluate={"every": 1})
    assert nobody.rounds["adaptive_clip/norm"].iloc[1:].tolist() == [
        0.0,
        0.0,
    ]  # a mean over no rows


@pytest.mark.long
def test_krum_says_when_it_took_a_malicious_row():
    """A flip by 0 sends nothing but zeros: the model stays where it was in the rounds in which Krum takes it."""
    made = run(
        server=[{"kind": "krum", "f": 1}],
        wire=[{"kind": "sign_flip", "scale": 0.0}],
        evaluate={"every": 1},
    )
    taken = made.rounds["krum/malicious_kept"].iloc[1:].astype(int).tolist()
    assert (
        taken == (np.diff(made.rounds["test_loss"]) == 0).astype(int).tolist()
        and 0 < sum(taken) < 6
    )
    assert made.rounds["malicious_kept"].iloc[1:].tolist() == taken


@pytest.mark.long
def test_counts_are_summed_since_the_row_before():
    rule = [{"kind": "multi_krum", "f": 1, "select": 6}]
    every = (
        run(server=rule, evaluate={"every": 1})
        .rounds["multi_krum/malicious_kept"]
        .iloc[1:]
        .to_numpy()
    )
    second = run(server=rule).rounds["multi_krum/malicious_kept"].iloc[1:].to_numpy()
    assert second.tolist() == every.reshape(-1, 2).sum(1).tolist() and every.max() > 0


@pytest.mark.long
def test_a_run_that_goes_on_reports_as_if_undisturbed(tmp_path):
    whole = fedsim.run({**SCENARIO, "checkpoint": {"rounds": 1}}, out=tmp_path / "whole")
    fedsim.run({**SCENARIO, "rounds": 3, "checkpoint": {"rounds": 1}}, out=tmp_path / "left")
    fedsim.run({**SCENARIO, "checkpoint": {"rounds": 1}}, out=tmp_path / "left", resume=True)
    assert (tmp_path / "left/rounds.csv").read_bytes() == (
        tmp_path / "whole/rounds.csv"
    ).read_bytes()
    assert whole.rounds["adaptive_clip/norm"].notna().sum() == 3


def test_a_state_is_read_by_every_row_and_moved_by_all():
    fedsim.stage(counted)
    made = run(server=["counted", "mean"], rounds=2, evaluate={"every": 1})
    assert made.rounds["counted/rows"].iloc[1:].tolist() == [6, 6]
    assert made.rounds["counted/before"].iloc[1:].tolist() == [0.0, 6.0]


def counted() -> RowStage:
    """Counts the rows of all rounds."""
    return RowStage(
        apply=lambda updates, context: updates,
        init=lambda params, present: jnp.zeros(()),
        measure=lambda updates, context: {"rows": jnp.int32(1), "before": context.state},
        after=lambda state, info: state + info["rows"],
    )


@pytest.mark.long
def test_a_round_that_is_skipped_counts_nothing():
    """Where all clients are malicious, Krum takes one of them in every round but those in which too few came."""
    made = run(
        server=[{"kind": "krum", "f": 1}],
        wire=["sign_flip"],
        fleet={"malicious": 1.0},
        cohort={"kind": "poisson", "rate": 0.5},
        evaluate={"every": 1},
        rounds=30,
    )
    skipped = made.rounds["skipped"].iloc[1:].to_numpy()
    assert (
        made.rounds["krum/malicious_kept"].iloc[1:].to_numpy() == 1 - skipped
    ).all() and 0 < skipped.sum() < 30

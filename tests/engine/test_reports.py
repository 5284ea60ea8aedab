"""What links report of a round: columns of `rounds.csv`, and states of row-wise stages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cohorts import cohort_of, context_of
from conftest import oracle
from numpy.testing import assert_allclose

import fedsim
from fedsim.compose import FAMILIES
from fedsim.types import RowStage

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
    (case,) = [case for case in oracle("dp_accounting") if case["fn"] == "adaptive_clip"]
    given = case["params"]
    stage = FAMILIES["stage"]["adaptive_clip"](
        quantile=given["gamma"], lr=given["lr"], initial=given["C0"]
    )
    norms = []
    norm = stage.init({"w": jnp.zeros(2)}, jnp.ones(3, bool))
    for share in case["inputs"]["fraction_unclipped"]:
        norm = stage.after(norm, {"unclipped": jnp.float32(share)})
        norms.append(float(norm))
    assert_allclose(norms, case["expected"]["C"], rtol=1e-6)


def test_updates_at_the_bound_count_as_unclipped():
    stage = FAMILIES["stage"]["adaptive_clip"]()
    row = cohort_of(jnp.array([[3.0, 4.0]]))._replace(delta=jnp.array([3.0, 4.0]))
    context = context_of(1, ids=jnp.int32(0), malicious=jnp.zeros((), bool))
    measure = jax.jit(lambda norm: stage.measure(row, context._replace(state=norm))["unclipped"])
    assert [float(measure(np.float32(norm))) for norm in (4.9, 5.0)] == [0.0, 1.0]


@pytest.mark.long
def test_a_second_stage_of_a_kind_is_numbered_and_a_skipped_round_keeps_the_bound():
    second = {"kind": "adaptive_clip", "initial": 0.01}
    twice = run(server=["adaptive_clip", second, "mean"], rounds=2)
    assert {"adaptive_clip/norm", "adaptive_clip[1]/norm"} <= set(twice.rounds)
    norm = twice.rounds["adaptive_clip[1]/norm"].iloc[-1]
    assert norm == pytest.approx(0.01 * np.exp(-0.2 * -0.5))

    nobody = run(wire=["nonfinite"], fleet={"malicious": 1.0}, rounds=2, evaluate={"every": 1})
    norms = nobody.rounds["adaptive_clip/norm"].iloc[1:].tolist()
    assert norms == [0.0, 0.0]  # means over no rows


@pytest.mark.long
def test_krum_reports_when_it_selects_a_malicious_row():
    """A flip by 0 sends only zeros: where Krum takes such a row, the model does not move."""
    flip = {"kind": "sign_flip", "scale": 0.0}
    result = run(server=[{"kind": "krum", "f": 1}], wire=[flip], evaluate={"every": 1})
    selected = result.rounds["krum/malicious_kept"].iloc[1:].astype(int).tolist()
    unmoved = np.diff(result.rounds["test_loss"]) == 0
    assert selected == unmoved.astype(int).tolist()
    assert 0 < sum(selected) < 6
    assert result.rounds["malicious_kept"].iloc[1:].tolist() == selected


@pytest.mark.long
def test_every_row_reads_the_state_and_all_rows_update_it():
    fedsim.stage(counted)
    result = run(server=["counted", "mean"], rounds=2, evaluate={"every": 1})
    assert result.rounds["counted/rows"].iloc[1:].tolist() == [6, 6]
    assert result.rounds["counted/before"].iloc[1:].tolist() == [0.0, 6.0]


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
    """Where all clients are malicious, Krum takes one in every round that is not skipped."""
    result = run(
        server=[{"kind": "krum", "f": 1}],
        wire=["sign_flip"],
        fleet={"malicious": 1.0},
        cohort={"kind": "poisson", "rate": 0.5},
        evaluate={"every": 1},
        rounds=12,
    )
    skipped = result.rounds["skipped"].iloc[1:].to_numpy()
    selected = result.rounds["krum/malicious_kept"].iloc[1:].to_numpy()
    assert selected.tolist() == (1 - skipped).tolist()
    assert 0 < skipped.sum() < 12

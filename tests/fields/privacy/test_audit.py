"""Audits: canaries are clients like others, and what they show is below ε unless ε is wrong."""

import html

import numpy as np
import pytest
from conftest import if_whole
from numpy.testing import assert_allclose, assert_array_equal

import fedsim
from fedsim import tree
from fedsim.compose import FAMILIES
from fedsim.fields.privacy.audit_lines import findings
from fedsim.fields.privacy.mechanism import Mechanism

pytest.importorskip("jax_privacy")

CANARIES = 60
PRIVACY = {"clip": 0.2, "noise_multiplier": 0.05, "delta": 1e-5}
SCENARIO = {
    "name": "audited",
    "rounds": 3,
    "data": {"kind": "gaussian_blobs", "samples": 400, "clients": 80},
    "model": "mlp",  # with more parameters, whose directions are nearer to orthogonal
    "privacy": {**PRIVACY, "audit": {"canaries": CANARIES}},
}


def run(seeds: int = 1, **changes) -> fedsim.Result:
    privacy = {**SCENARIO["privacy"], **changes.pop("privacy", {})}
    return fedsim.run({**SCENARIO, "seeds": seeds, **changes, "privacy": privacy})


@if_whole
@pytest.mark.long
def test_nobody_else_notices():
    """Other clients take part as ever, and canaries that are left out never do."""
    cohort = {"kind": "poisson", "rate": 0.5}
    audited = run(cohort=cohort)
    plain = fedsim.run({**SCENARIO, "cohort": cohort, "privacy": PRIVACY})
    absent = audited.canaries[audited.canaries["takes_part"] == 0]["client"]
    present = ~plain.clients["client"].isin(absent)
    joined = audited.clients["rounds_joined"]
    assert_array_equal(joined[present], plain.clients["rounds_joined"][present])
    assert joined[~present].sum() == 0 < plain.clients["rounds_joined"][~present].sum()
    assert audited.rounds["epsilon"].tolist() == plain.rounds["epsilon"].tolist()
    assert "canaries" not in plain.frames() and "epsilon_low" not in plain.summary


@pytest.mark.long
def test_what_a_canary_leaves_is_its_part_in_every_round_and_noise():
    """Its score is the rounds that it joined, plus N(0, T z²) and what others have of its way."""
    canaries = run(privacy={"noise_multiplier": 8.0}).canaries
    off = canaries["score"] - canaries["rounds_joined"]
    of_others = np.sqrt(CANARIES / 2 * 3**2 / 1900)  # by directions of about 1900 parameters
    std = np.hypot(8.0 * np.sqrt(3), of_others)
    assert_allclose(off.std(), std, rtol=0.3)
    assert_allclose(off.mean(), 0, atol=4 * std / np.sqrt(len(off)))


@if_whole
@pytest.mark.long
@pytest.mark.parametrize("mechanism", ["gaussian", "tree"])
def test_much_noise_shows_next_to_nothing(mechanism):
    """A sound run shows more than ε in one of twenty seeds at most, and far less in most."""
    result = run(10, privacy={"noise_multiplier": 30.0, "mechanism": mechanism})
    summary = result.summary
    assert (summary["epsilon_low"] > summary["epsilon"]).sum() <= 1
    assert summary["epsilon_low"].median() < 0.1


@pytest.mark.long
def test_a_mechanism_that_forgets_its_noise_is_caught(monkeypatch):
    def silent() -> Mechanism:
        return Mechanism(lambda like, state, context: (tree.zeros_like(like), state))

    monkeypatch.setitem(FAMILIES["mechanism"], "gaussian", silent)
    result = run(2, privacy={"noise_multiplier": 10.0})
    summary = result.summary
    assert (summary["epsilon"] < 1).all() and (summary["epsilon_low"] > 1).all()
    assert "in 2 of 2 runs the lower bound is above" in findings(result.records["summary"])[1]


def test_sentences_state_both_bounds_and_claim_no_more():
    row = {"method": "fedavg", "epsilon": 4.0, "epsilon_low": 0.5, "epsilon_confidence": 0.9}
    rows = [row, {**row, "epsilon_low": 1.5}]
    (line,) = findings(rows)
    assert "at least 0.5 to 1.5 in 2 runs (90 % confidence each); the accountant allows 4." in line
    *_, above = findings([*rows, {**row, "epsilon_low": 4.5}])
    assert "in 1 of 3 runs" in above and above.endswith("to 10 % of sound runs at most.")
    *_, above = findings([{**row, "epsilon_low": 4.5}] * 2)  # 1 % by chance
    assert above.endswith("at most; check noise, clip and sampling.")
    assert findings([{"method": "fedavg", "epsilon": 4.0}]) == []


@pytest.mark.long
def test_hardly_any_noise_shows_every_canary_which_is_told_and_verified(tmp_path, pictures):
    result = fedsim.run(SCENARIO, out=tmp_path)
    canaries = result.canaries
    inside = canaries["takes_part"] == 1
    assert len(canaries) == CANARIES and 15 < inside.sum() < 45
    assert canaries["rounds_joined"].tolist() == [3 * part for part in canaries["takes_part"]]
    assert canaries["score"][inside].min() > canaries["score"][~inside].max()
    assert result.rounds["clients_sampled"].tolist()[1:] == [80 - (~inside).sum()] * 3
    row = result.summary.iloc[0]
    assert 1.5 < row["epsilon_low"] < row["epsilon"]
    assert row["epsilon"] == fedsim.epsilon(PRIVACY, clients=80, rounds=3)
    assert all(check.ok for check in fedsim.verify(tmp_path).checks)
    page = html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert findings(result.records["summary"])[0] in page
    assert "60 canaries" in page

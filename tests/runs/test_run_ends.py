"""How a run ends: `done` only where it trained, not without usable updates or finite losses."""

import html
import json
import math

import numpy as np
import pandas as pd
import pytest
from conftest import sampled
from test_commands import fedsim as typed
from test_lanes import X64

import fedsim
from fedsim.report import derived
from fedsim.study.guessing import chance_levels, is_at_chance
from fedsim.study.summary import growth

CLIENT = {"lr": 0.3, "batch": "full", "steps": 2}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4)).astype(np.float32)


def run(rounds=3, data=None, out=None, **sections):
    written = {"name": "ends", "rounds": rounds, "client": CLIENT, **sections}
    return fedsim.run(written, data=arrays(X) if data is None else data, out=out)


def arrays(x, y=None) -> fedsim.Arrays:
    labels = (X[:, 0] > 0).astype(int) if y is None else y
    test = slice(9, 19)
    return fedsim.Arrays(x, labels, np.arange(90) % 6, x_test=X[test], y_test=labels[test])


ATTACKED = {"wire": ["nonfinite"], "fleet": {"malicious": 1.0}}


def test_a_run_in_which_no_update_was_usable_has_diverged(tmp_path):
    result = run(data=arrays(np.sign(X) * np.float32(3e38)), out=tmp_path / "run")
    assert result.status == "diverged" and "the model never moved" in result.reasons[0]
    row = result.summary.iloc[0]
    assert row["diverged"] == 1 and math.isnan(row["final"]) and row["reason"] == result.reasons[0]
    assert pd.read_csv(tmp_path / "run/summary.csv")["reason"].tolist() == [result.reasons[0]]


@pytest.mark.long
def test_ten_empty_rounds_in_a_row_end_a_run():
    result = run(rounds=30, **ATTACKED)
    assert result.status == "diverged" and result.rounds["round"].max() == 10
    assert result.reasons[0] == "round 10: 10 rounds running, no client's update could be used"


@pytest.mark.long
def test_rounds_without_clients_do_not_count_as_empty():
    """Most rounds draw nobody, which is not a failure; rounds with only unusable updates are."""
    some = {"cohort": {"kind": "poisson", "rate": 0.02}, "seeds": [3]}
    quiet = run(rounds=40, **some)
    nobody = quiet.rounds["clients_sampled"].iloc[1:] == 0
    assert nobody.rolling(10).sum().max() == 10  # ten in a row, and the run goes on
    assert quiet.status == "done" and quiet.rounds["skipped"].iloc[1:][nobody].eq(1).all()
    attacked = run(rounds=40, **some, **ATTACKED)
    assert attacked.status == "diverged" and attacked.rounds["round"].max() == 40
    assert f"none of the {(~nobody).sum()} updates" in attacked.reasons[3]


@pytest.mark.long
def test_rounds_with_too_few_messages_for_the_rule_are_skipped_not_diverged():
    few = {"cohort": {"kind": "listed", "rounds": [[0, 1, 2, 3, 4], *[[0, 1]] * 12]}}
    result = run(rounds=13, server=[{"kind": "krum", "f": 1}], **few)
    assert result.status == "done" and result.rounds["skipped"].tolist() == [0, 0, *[1] * 12]


FIVE = [0, 1, 2, 3, 4]
NEVER = {"kind": "bernoulli", "rate": 0.0}
KRUM = {"server": [{"kind": "krum", "f": 1}]}  # needs five messages
NOBODY = "no client reported in any round; change cohort, fleet or schedule so that some do"
TOO_FEW = (
    "the rule needs at least 5 usable updates, and no round had that many; "
    "change the rule, or who reports"
)
SURVIVORS = {**KRUM, "cohort": {"kind": "listed", "rounds": [[0, 1], [2, 3], [4], FIVE]}}
WINDOWS = {
    **KRUM,
    "client": {**CLIENT, "steps": [1, 1, 1, 2, 9, 9]},
    "schedule": {"kind": "semi_sync", "seconds": 1.0, "concurrency": 6},
}
NOT_RUN = {
    "all leave": ({"fleet": {"dropout": 1.0}}, NOBODY),
    "nobody can be reached": ({"fleet": {"availability": NEVER}}, NOBODY),
    "nothing to remember": ({"fleet": {"dropout": 1.0}, "server": ["mifa"]}, NOBODY),
    "windows with too few messages": (WINDOWS, TOO_FEW),
    "survivors too few for the rule": (SURVIVORS, TOO_FEW),
}


@pytest.mark.parametrize("case", sampled(NOT_RUN, len(NOT_RUN)))
def test_a_run_in_which_no_round_was_aggregated_has_not_run(case):
    sections, reason = NOT_RUN[case]
    result = run(**sections)
    assert (result.status, result.reasons) == ("not_run", {0: f"no round was aggregated: {reason}"})
    row = result.summary.iloc[0]
    assert (row["diverged"], row["status"], row["reason"]) == (0, "not_run", result.reasons[0])
    assert row[["final", "best", "mean_last_k"]].isna().all() and row["k"] == 4


def test_a_run_of_0_rounds_is_done():
    result = run(rounds=0, fleet={"dropout": 1.0})
    assert result.status == "done" and np.isfinite(result.summary["final"].iloc[0])


@pytest.mark.long
def test_a_run_that_has_not_run_resumes_with_more_rounds_to_equal_bytes(tmp_path):
    written = {"name": "ends", "client": CLIENT, **SURVIVORS, "evaluate": {"every": 2}}
    fedsim.run({**written, "rounds": 4}, data=arrays(X), out=tmp_path / "whole")
    for rounds, status in ((3, "not_run"), (4, "done")):
        more = fedsim.run(
            {**written, "rounds": rounds},
            data=arrays(X),
            out=tmp_path / "run",
            resume=rounds > 3,
        )
        assert (more.status, bool(more.reasons)) == (status, status == "not_run")
    for name in ("rounds.csv", "summary.csv", "clients.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.long
def test_a_method_that_has_not_run_is_a_row_without_a_score_and_a_sentence(
    tmp_path, pictures, monkeypatch
):
    monkeypatch.setattr(derived, "all_figures", lambda *_: ())
    written = {
        "name": "ends",
        "rounds": 2,
        "seeds": 2,
        "data": {"kind": "gaussian_blobs", "samples": 120, "clients": 6},
        "fleet": {"dropout": 0.7},
    }
    (tmp_path / "ends.yaml").write_text(json.dumps(written))
    ended = typed("compare ends.yaml --methods 'mean,krum(f=1)' --out out", tmp_path)
    assert ended.returncode == 5
    assert "krum(f=1), seed 1: no round was aggregated: the rule needs at" in ended.stderr
    sentence = "ut a score: krum(f=1) (2 of 2 seeds aggregated no round)."
    assert sentence in ended.stdout
    table = pd.read_csv(tmp_path / "out/compare.csv").set_index("method")
    counts = table.loc["krum(f=1)", ["seeds", "diverged", "failed", "not_run"]]
    assert counts.tolist() == [0, 0, 0, 2]
    assert np.isnan(table.loc["krum(f=1)", "mean"]) and table.loc["mean", "mean"] > 0.2
    for again in ("verify out", "report out"):
        assert typed(again, tmp_path).returncode == 0
    assert "not run" in (tmp_path / "out/tables/summary.tex").read_text()
    assert sentence in html.unescape((tmp_path / "out/report.html").read_text())


@pytest.mark.long
def test_a_command_whose_run_has_not_run_says_why_with_exit_code_5(tmp_path):
    data = {"kind": "gaussian_blobs", "samples": 60, "clients": 6}
    written = {"name": "ends", "rounds": 2, "data": data, "fleet": {"dropout": {"before": 1.0}}}
    (tmp_path / "ends.yaml").write_text(json.dumps(written))
    for more in ("", "--resume"):
        ended = typed(f"run ends.yaml --out out {more}", tmp_path)
        assert ended.returncode == 5
        assert f"fedsim: seed 0 has not run: no round was aggregated: {NOBODY}; see" in ended.stderr
    assert typed("verify out", tmp_path).returncode == 0


@pytest.mark.long
def test_a_learning_rate_of_0_keeps_the_model_and_is_done():
    result = run(client={**CLIENT, "lr": 0})
    assert result.status == "done" and (result.model()["W"] == 0).all()


@pytest.mark.long
def test_a_reported_loss_that_is_not_finite_is_divergence():
    """Updates are usable and parameters finite, and still the run cannot be scored."""
    data = arrays(X * np.float32(1e10), X[:, 0] * np.float32(1e12))
    result = run(rounds=2, data=data, client={**CLIENT, "lr": 1e-30})
    assert result.status == "diverged" and result.reasons[0].startswith("round 1: train_loss is ")
    assert all(np.isfinite(leaf).all() for leaf in result.model().values())


def test_a_dropped_client_s_loss_is_not_part_of_the_mean():
    """One of six clients overflows: it is dropped and counted, and other losses are reported."""
    x = X.copy()
    x[np.arange(90) % 6 == 2] = np.float32(3e38)
    result = run(data=arrays(x))
    assert result.status == "done" and result.rounds["n_nonfinite"].tolist() == [0, 1, 1, 1]
    assert np.isfinite(result.rounds["train_loss"].iloc[1:]).all()


@pytest.mark.long
def test_a_run_that_grows_without_bound_says_so(tmp_path):
    """Steps on a quadratic are far too long: each round is ten times farther off, finite still."""
    quadratic = {"kind": "quadratics", "clients": 4, "features": 3}
    written = {"name": "ends", "rounds": 6, "data": quadratic, "model": "linear", "numerics": X64}
    result = fedsim.run({**written, "client": {**CLIENT, "lr": 30.0}}, out=tmp_path / "run")
    assert result.status == "done" and "grows without bound" in result.notes[0]
    assert fedsim.run({**written, "client": {**CLIENT, "lr": 0.01}}).notes == {}


def test_growth_is_measured_against_the_first_loss_and_only_where_it_lasts():
    rows = lambda *losses: [{"round": r, "train_loss": loss} for r, loss in enumerate(losses)]
    assert growth(rows(None, 1.0, 2000.0)) and not growth(rows(1.0, 2000.0, 1999.0))
    for short in ((1.0, 999.0), (0.0, 5.0), (1.0,), ()):
        assert not growth(rows(*short))


def test_a_run_is_said_to_guess_where_a_comparison_would_say_so():
    """Labels that nothing predicts, nine tenths of which are the same."""
    y = (np.arange(90) % 10 == 9).astype(int)
    result = run(rounds=1, data=arrays(0 * X, y))
    level = chance_levels(result.partition, "test_accuracy")[""]
    assert is_at_chance(result.summary["final"].item(), result.records["summary"], level)
    said = "final test accuracy 0.9 is at chance level: always answering '0' would score about 0.9"
    assert result.notes == {0: said}

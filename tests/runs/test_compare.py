"""Comparisons: paired by construction, tested exactly, and no finished run is repeated."""

import json
import math
import re

import jax
import numpy as np
import pandas as pd
import pytest
from conftest import WHOLE
from directories import leftovers
from faulty import Disk, Killed
from scipy import stats

import fedsim
from fedsim.cli import console
from fedsim.disk.tables import read_table
from fedsim.errors import ScenarioError
from fedsim.study.words import variation_in_words

SCENARIO = {
    "name": "small",
    "rounds": 4,
    "seeds": 3,
    "data": {"kind": "digits", "clients": 12, "partition": {"kind": "dirichlet", "alpha": 0.3}},
    "cohort": {"kind": "uniform", "size": 4},
    "client": {"lr": 0.1, "batch": 16, "epochs": 1},
    "evaluate": {"every": 2, "target": 0.2},
}
TWICE = {"method": "fedavg", "label": "twice", "set": {"client.epochs": 2}}
METHODS = ["fedavg", "median", TWICE]  # which share the clients' program
NAMES = ["fedavg", "median", "twice"]
VARY = {"client.lr": [0.05, 0.1]}


def same_models(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


def bits(folder):
    """Tables and models, without what is measured."""
    paths = [*folder.glob("*.csv"), *folder.glob("model.*")]
    return {path.name: path.read_bytes() for path in paths if path.name != "timing.csv"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A comparison of three rules and two variations, and what was returned."""
    out = tmp_path_factory.mktemp("compare") / "out"
    comparison = fedsim.compare(SCENARIO, METHODS, vary=VARY, out=out)
    return out, comparison


def test_rows_are_those_of_the_grid_in_order(saved):
    out, comparison = saved
    rounds = pd.read_csv(out / "rounds.csv")
    assert rounds.columns[:5].tolist() == ["method", "variant", "client.lr", "seed", "round"]
    keys = rounds[["method", "variant", "seed", "round"]]
    assert keys.equals(keys.sort_values(list(keys), ignore_index=True))
    assert len(rounds) == 3 * 2 * 3 * 3 and set(rounds["client.lr"]) == {0.05, 0.1}
    assert comparison.rounds["test_accuracy"].tolist() == rounds["test_accuracy"].tolist()
    assert comparison.status == "done" and not comparison.reasons
    assert comparison.across["variations"].tolist() == [2, 2, 2]
    assert len(pd.read_csv(out / "profiles.csv")) == 3 * 51


def test_methods_share_partition_cohorts_and_start(saved):
    out, comparison = saved
    partition = pd.read_csv(out / "partition.csv")
    columns = ["variant", "client.lr", "seed", "client", "label", "samples"]
    assert partition.columns.tolist() == columns
    joined = comparison.clients.groupby(["variant", "seed", "client"])["rounds_joined"].nunique()
    assert (joined == 1).all()
    start = (
        comparison.rounds.query("round == 0").groupby(["variant", "seed"])["test_loss"].nunique()
    )
    assert (start == 1).all()


def test_the_table_agrees_with_an_independent_computation(saved):
    """From rounds.csv alone, by SciPy."""
    out, _ = saved
    rounds, table = pd.read_csv(out / "rounds.csv"), pd.read_csv(out / "compare.csv")
    final = rounds[rounds["round"] == 4].pivot_table("test_accuracy", ["variant", "seed"], "method")
    assert len(table) == 6 and set(table["baseline"]) == {"fedavg"}
    own, table = table[table["method"] == "fedavg"], table[table["method"] != "fedavg"]
    raw = []
    # Of the baseline there are its scores, and nothing that a comparison would give.
    for row in own.to_dict("records"):
        mine = final.loc[row["variant"]]["fedavg"]
        assert (row["mean"], row["sd"]) == pytest.approx((mine.mean(), mine.std()))
        assert (row["seeds"], row["diverged"], row["failed"]) == (3, 0, 0)
    assert own.loc[:, "difference":"p_wilcoxon"].isna().all(axis=None)
    for row in table.to_dict("records"):
        mine, base = final.loc[row["variant"]][row["method"]], final.loc[row["variant"]]["fedavg"]
        d = (mine - base).to_numpy()
        test = stats.ttest_rel(mine, base)
        flips = stats.permutation_test(
            (d,), np.mean, permutation_type="samples", n_resamples=math.inf
        )
        assert row["difference"] == pytest.approx(d.mean(), abs=1e-15)
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(
            tuple(test.confidence_interval(0.95))
        )
        assert row["p_value"] == pytest.approx(flips.pvalue)
        assert row["effect_size"] == pytest.approx(d.mean() / d.std(ddof=1))
        assert row["probability_of_improvement"] == pytest.approx(((d > 0) + 0.5 * (d == 0)).mean())
        assert (row["mean"], row["sd"]) == pytest.approx((mine.mean(), mine.std()))
        raw.append(row["p_value"])
    order = np.argsort(raw, kind="stable")
    adjusted = np.maximum.accumulate([min(1, (len(raw) - i) * raw[k]) for i, k in enumerate(order)])
    assert table["p_adjusted"].to_numpy()[order] == pytest.approx(adjusted)


@pytest.mark.long
def test_two_names_of_one_method_have_a_difference_of_exactly_0():
    methods = ["fedavg", "mean", {"method": "fedavg", "label": "again"}]
    comparison = fedsim.compare(SCENARIO, methods, rounds=2)
    by_method = comparison.rounds.set_index("method")
    names = ("fedavg", "mean", "again")
    one, mean, again = (by_method.loc[name].reset_index(drop=True) for name in names)
    assert one.equals(again) and one.equals(mean)
    others = comparison.table[comparison.table["method"] != "fedavg"]
    assert len(others) == 2 and (others["difference"] == 0).all() and (others["p_value"] == 1).all()
    assert comparison.verdict[0].startswith("No clear difference from fedavg: ")


@pytest.mark.long
def test_a_configuration_that_fails_is_a_row_with_its_reason(tmp_path):
    out, methods = tmp_path / "out", ["fedavg", "krum(f=1)"]
    comparison = fedsim.compare(SCENARIO, methods, rounds=2, out=out)
    summary = pd.read_csv(out / "summary.csv").set_index("method")
    assert comparison.status == "incomplete" and len(summary) == 6
    failed = summary.loc["krum(f=1)"]
    assert set(failed["status"]) == {"failed"}
    assert failed["reason"].str.contains("needs at least").all()
    row = comparison.table.set_index("method").loc["krum(f=1)"]
    assert row["failed"] == 3 and row["seeds"] == 0 and np.isnan(row["difference"])
    assert any("krum(f=1) (3 of 3 seeds failed)" in line for line in comparison.verdict)
    assert json.loads((out / "run.json").read_text())["status"] == "incomplete"


@pytest.mark.long
def test_a_diverged_run_counts_as_the_worst_and_is_not_dropped():
    wild = {"method": "fedavg", "label": "wild", "set": {"client.lr": 1e38}}
    row = fedsim.compare(SCENARIO, ["fedavg", wild]).table.set_index("method").loc["wild"]
    assert row[["diverged", "seeds", "mean", "probability_of_improvement"]].tolist() == [3, 3, 0, 0]
    assert row["difference"] < -0.1 and row["verdict"] == "diverged"


@pytest.mark.long
def test_methods_and_seeds_can_be_added_without_repeating_runs(saved, tmp_path):
    out = tmp_path / "out"
    fedsim.compare({**SCENARIO, "seeds": 2}, ["fedavg", TWICE], vary=VARY, out=out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("checkpoints/*/*")}
    seen = []
    watch = lambda experiment, seed, row: seen.append((experiment.method, seed))
    fedsim.compare(SCENARIO, METHODS, vary=VARY, out=out, resume=True, watch=watch)
    added = {("fedavg", 2), *(("median", seed) for seed in range(3))}
    assert set(seen) == added
    assert all(path.stat().st_mtime_ns == was for path, was in before.items())
    assert bits(out) == bits(saved[0])


@pytest.mark.long
def test_a_killed_comparison_resumes_with_the_same_bytes(tmp_path):
    """Killed while runs train, and again while they go on."""
    committing = {**SCENARIO, "seeds": 1, "rounds": 2, "checkpoint": {"rounds": 1}}
    fedsim.compare(committing, METHODS[:2], out=tmp_path / "whole")
    out = tmp_path / "out"
    for operation in (90, 40):
        with pytest.raises(Killed), Disk(out, at=operation):
            fedsim.compare(committing, METHODS[:2], out=out, resume=True)
        assert list(out.glob("checkpoints/*/state-*"))
    fedsim.compare(committing, METHODS[:2], out=out, resume=True)
    assert bits(out) == bits(tmp_path / "whole") and leftovers(out) == []


@pytest.mark.long
def test_a_method_that_trains_by_itself_has_its_own_program():
    """With another one, clients of a buffered server would draw as those of a round do."""
    scenario = {**SCENARIO, "rounds": 3, "data": {**SCENARIO["data"], "augment": ["flip"]}}
    buffered = {"kind": "fedbuff", "buffer": 1, "concurrency": 8}
    runs = []
    for schedules in ([buffered], [{"kind": "sync"}, buffered]):
        comparison = fedsim.compare(scenario, "fedsam", vary={"schedule": schedules}, seeds=[0])
        runs.append(comparison.outcomes[-1].result)
    assert runs[0].records["rounds"] == runs[1].records["rounds"]
    same_models(*[run.model() for run in runs])


@pytest.mark.long
def test_tuning_gives_every_method_the_same_grid_and_chooses_on_validation_data(tmp_path):
    written = {**SCENARIO, "data": {**SCENARIO["data"], "validation": 0.2}}
    tune = {"client.lr": [0.001, 0.1, 0.100]}
    comparison = fedsim.compare(written, ["fedavg", "median"], tune=tune, out=tmp_path / "out")
    tuning = pd.read_csv(tmp_path / "out/tuning.csv")
    assert len(tuning) == 6
    for method, rows in tuning.groupby("method"):
        (chosen,) = rows[rows["chosen"] == 1].to_dict("records")
        assert rows["chosen"].idxmax() == rows["validation_mean"].idxmax()  # the first of equals
        row = comparison.table.set_index("method").loc[method]
        grid = rows["test_mean"]
        assert (row["sensitivity_low"], row["sensitivity_high"]) == (grid.min(), grid.max())
        assert row["tuned"] == chosen["tuned"]
        assert row["tuning_steps"] == rows["local_steps"].sum() > 0
    assert set(comparison.summary["client.lr"]) == set(tuning[tuning["chosen"] == 1]["client.lr"])
    assert len(comparison.summary) == 6  # what was not chosen is not reported
    assert fedsim.verify(tmp_path / "out").equal
    with pytest.raises(ScenarioError, match=r"data.validation: .*set data.validation=0.1"):
        fedsim.compare(SCENARIO, ["fedavg"], tune={"client.lr": [0.1, 0.2]})


@pytest.mark.long
def test_the_resolved_scenario_repeats_the_comparison(tmp_path):
    """Including what was given on the command line, and an axis of an integer and a fraction."""
    grid = {"vary": ["fleet.malicious=0,0.2"], "baseline": "plain", "score": "best"}
    methods = [{"method": "fedavg", "label": "plain"}, "median"]
    fedsim.compare(SCENARIO, methods, **grid, seeds=2, out=tmp_path / "one")
    again = fedsim.compare(tmp_path / "one/scenario.yaml", out=tmp_path / "two")
    assert again.baseline == "plain" and again.score == "best"
    for name in ("rounds.csv", "summary.csv", "compare.csv", "scenario.yaml"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert "fleet.malicious=0,0," in (tmp_path / "one/compare.csv").read_text()
    assert fedsim.verify(tmp_path / "one").equal


def test_the_table_starts_with_the_baseline_and_then_the_best(saved, capsys):
    out, comparison = saved
    console.verdict(comparison, out)
    table = capsys.readouterr().out.split("\n\n")[1]
    lines = [line.strip() for line in table.splitlines()]
    means = comparison.summary.groupby(["variant", "method"])["final"].mean()
    for variant in dict.fromkeys(comparison.summary["variant"]):
        first = lines.index(f"{variation_in_words(variant)}:") + 1
        mine = [line.split()[0] for line in lines[first : first + len(NAMES)]]
        assert mine[0] == comparison.baseline and set(mine) == set(NAMES)
        assert means[variant][mine[1]] >= means[variant][mine[2]]


# Runs under version control, and the folders of their scenarios.
KEPT = {"rules": "compare", "optimisers": "compare", "eps_front": "privacy"}


@pytest.mark.parametrize("name", [*KEPT, *(["heterogeneity"] if WHOLE else [])])
def test_comments_of_a_shipped_comparison_match_its_stored_run(name, root):
    """Made by the scenario of that name, as test_readme checks."""
    path = root / f"scenarios/{KEPT.get(name, 'compare')}/{name}.yaml"
    if name in KEPT:
        table = read_table(root / "reports" / name, "compare")
    else:
        table = fedsim.compare(path).table
    lines = re.findall(r"^#   (?!fedsim)(.*  .*)$", path.read_text(), re.M)
    header, *rows = [re.split(r"\s{2,}", line) for line in lines]
    assert len(rows) == len(table)
    keys = [key for key in header if key in ("method", "variant")]
    by_key = {tuple(row[key] for key in keys): row for row in table.to_dict("records")}
    for cells in rows:
        stated = dict(zip(header, cells, strict=False))
        row = by_key[tuple(stated[key] for key in keys)]
        score = stated.get("final") or stated["score"]
        assert row["mean"] == pytest.approx(float(score), abs=0.01), cells
        if "lr" in stated:
            assert row["tuned"] == f"client.lr={stated['lr']}", cells
        if "difference" in stated:
            assert row["difference"] == pytest.approx(float(stated["difference"]), abs=0.01), cells
            better = row["probability_of_improvement"] * 10
            assert better == pytest.approx(float(stated["better_in"]), abs=1), cells

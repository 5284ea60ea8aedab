"""Comparisons: paired by construction, tested exactly, and no finished run is repeated."""

import json
import math
import re
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

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
from fedsim.runs.executor import all_runs, keys_of, next_family, tasks_by_family
from fedsim.runs.workers import Workers
from fedsim.scenario import read
from fedsim.study.grid import design_of
from fedsim.study.words import variation_in_words

pytestmark = pytest.mark.usefixtures("quickly_compiled")

SCENARIO = {
    "name": "small",
    "rounds": 4,
    "seeds": 3,
    "data": {"kind": "digits", "clients": 12, "partition": {"kind": "dirichlet", "alpha": 0.3}},
    "cohort": {"kind": "uniform", "size": 4},
    "client": {"lr": 0.1, "batch": 16, "epochs": 1},
    "evaluate": {"every": 2, "target": 0.2},
}
RULES = ["fedavg", "median", "trimmed_mean"]  # which share the clients' program
VARY = {"client.lr": [0.05, 0.1]}
TABLES = ("rounds.csv", "clients.csv", "partition.csv", "summary.csv", "compare.csv")


def same_models(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


def bits(folder):
    models = sorted(path.name for path in folder.glob("model.*"))
    return {name: (folder / name).read_bytes() for name in (*TABLES, *models)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A comparison of three rules and two variations, and what was returned."""
    out = tmp_path_factory.mktemp("compare") / "out"
    comparison = fedsim.compare(SCENARIO, RULES, vary=VARY, out=out)
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


def test_few_seeds_are_remarked_on(saved):
    _, comparison = saved
    assert comparison.verdict[0].endswith("3 seeds are too few, 7 would do.")


@pytest.mark.long
def test_two_names_of_one_method_have_a_difference_of_exactly_0():
    comparison = fedsim.compare(
        SCENARIO, ["fedavg", "mean", {"method": "fedavg", "label": "again"}]
    )
    rounds = comparison.rounds.drop(columns="method")
    one, again, mean = (
        rounds[comparison.rounds["method"] == m].reset_index(drop=True)
        for m in ("fedavg", "again", "mean")
    )
    assert one.equals(again) and one.equals(mean)
    others = comparison.table[comparison.table["method"] != "fedavg"]
    assert len(others) == 2 and (others["difference"] == 0).all() and (others["p_value"] == 1).all()
    assert comparison.verdict[0].startswith("No clear difference from fedavg: ")


@pytest.mark.long
def test_a_configuration_that_fails_is_a_row_with_its_reason(tmp_path):
    comparison = fedsim.compare(
        SCENARIO, ["fedavg", "krum(f=1)"], vary={"cohort.size": [2, 6]}, out=tmp_path / "out"
    )
    summary = pd.read_csv(tmp_path / "out/summary.csv")
    failed = summary[summary["status"] == "failed"]
    assert comparison.status == "incomplete" and len(summary) == 12 and len(failed) == 3
    assert failed["reason"].str.contains("needs at least").all()
    assert set(failed["variant"]) == {"cohort.size=2"}
    row = (
        comparison.table[comparison.table["variant"] == "cohort.size=2"]
        .set_index("method")
        .loc["krum(f=1)"]
    )
    assert row["failed"] == 3 and row["seeds"] == 0 and np.isnan(row["difference"])
    assert any(
        "krum(f=1) with 2 clients per round (3 of 3 seeds failed)" in line
        for line in comparison.verdict
    )
    assert json.loads((tmp_path / "out/run.json").read_text())["status"] == "incomplete"


@pytest.mark.long
def test_a_diverged_run_counts_as_the_worst_and_is_not_dropped():
    written = {
        **SCENARIO,
        "rounds": 20,
        "on_nonfinite": "keep",
        "model": {"kind": "mlp", "hidden": [8]},
    }
    comparison = fedsim.compare(
        written, ["fedavg", {"method": "fedavg", "label": "wild", "set": {"client.lr": 1e30}}]
    )
    row = comparison.table.set_index("method").loc["wild"]
    assert row["diverged"] == 3
    assert row["seeds"] == 3
    assert row["mean"] == 0
    assert row["difference"] < -0.3
    assert row["probability_of_improvement"] == 0
    assert row["verdict"] == "diverged"


@pytest.mark.long
def test_the_scenario_may_contain_the_comparison(tmp_path):
    path = tmp_path / "s.yaml"
    section = {
        "methods": ["fedavg", {"method": "median", "label": "middle"}],
        "baseline": "middle",
    }
    path.write_text(
        json.dumps(
            {**SCENARIO, "compare": {**section, "vary": {"cohort.size": [3]}, "score": "best"}}
        )
    )
    comparison = fedsim.compare(path)
    assert comparison.baseline == "middle"
    assert comparison.table["method"].tolist() == ["fedavg", "middle"]
    assert set(comparison.table["score"]) == {"best"}
    assert comparison.summary["cohort.size"].tolist() == [3] * 6
    assert fedsim.run(path).status == "done"  # which leaves it alone


@pytest.mark.long
def test_methods_and_seeds_can_be_added_without_repeating_runs(saved, tmp_path):
    out = tmp_path / "out"
    fedsim.compare({**SCENARIO, "seeds": 2}, RULES[:2], vary=VARY, out=out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("checkpoints/*/*")}
    seen = []
    watch = lambda experiment, seed, row: seen.append((experiment.method, seed))
    fedsim.compare(SCENARIO, RULES, vary=VARY, out=out, resume=True, watch=watch)
    added = {(method, 2) for method in RULES[:2]} | {(RULES[2], seed) for seed in range(3)}
    assert set(seen) == added
    assert all(path.stat().st_mtime_ns == was for path, was in before.items())
    assert bits(out) == bits(saved[0])


@pytest.mark.long
def test_a_killed_comparison_resumes_with_the_same_bytes(saved, tmp_path):
    """Killed while runs train, and again while they go on."""
    out = tmp_path / "out"
    committing = {**SCENARIO, "checkpoint": {"rounds": 1}}
    for operation in (400, 300):
        with pytest.raises(Killed), Disk(out, at=operation):
            fedsim.compare(committing, RULES, vary=VARY, out=out, resume=True)
    assert list(out.glob("checkpoints/*/state-*"))
    fedsim.compare(committing, RULES, vary=VARY, out=out, resume=True)
    assert bits(out) == bits(saved[0]) and leftovers(out) == []


@pytest.mark.long
def test_a_seed_has_the_same_bytes_beside_further_seeds(tmp_path):
    scenario = {**SCENARIO, "client": {**SCENARIO["client"], "batch": "full"}}
    several = fedsim.run(scenario, seeds=[0, 3])
    fedsim.compare(scenario, "fedavg", seeds=[0], out=tmp_path / "out")
    more = fedsim.compare(scenario, "fedavg", seeds=[0, 3], out=tmp_path / "out", resume=True)
    for seed in (0, 3):
        same_models(more.model("fedavg", seed), several.model(seed=seed))


@pytest.mark.long
def test_a_method_that_trains_by_itself_has_its_own_program():
    """With another one, clients of a buffered server would draw as those of a round do."""
    scenario = {**SCENARIO, "rounds": 6, "data": {**SCENARIO["data"], "augment": ["flip"]}}
    buffered = {"kind": "fedbuff", "buffer": 1, "concurrency": 8}
    runs = []
    for schedules in ([buffered], [{"kind": "sync"}, buffered]):
        comparison = fedsim.compare(scenario, "fedsam", vary={"schedule": schedules}, seeds=[0])
        runs.append(comparison.outcomes[-1].result)
    assert runs[0].records["rounds"] == runs[1].records["rounds"]
    same_models(*[run.model() for run in runs])


def test_a_process_whose_loss_is_seen_by_its_next_task_first_is_lost_once():
    read_nothing = SimpleNamespace()
    carrier = Workers(read_nothing, read_nothing, 2, None, None, read_nothing, lambda: False)
    broken = Future()
    broken.set_exception(BrokenProcessPool())

    def start(task):
        raise BrokenProcessPool

    carrier.starters, carrier.latest = {0: start}, {0: broken}
    with pytest.warns(UserWarning, match="a process of the comparison is gone") as caught:
        assert carrier.start([["a task"]]) == {}
        assert carrier.receive(broken) == ""
    assert len(caught) == 1


def test_processes_get_the_runs_that_they_have_compiled():
    vary = {"fleet.malicious": [0, 0.25], "client.lr": [0.05, 0.1], "wire": [[], ["sign_flip"]]}
    cells = design_of(read({**SCENARIO, "seeds": 5}), ["fedavg", "median"], vary).cells
    families = tasks_by_family(all_runs(cells), 2, most=16, least=2)
    dealt = [run for parts in families for part in parts for run in keys_of(part)]
    assert sorted(dealt) == sorted(keys_of(all_runs(cells)))
    kinds = [
        {(c.method, "sign_flip" in c.variant) for part in parts for c, _ in part}
        for parts in families
    ]
    assert len(families) == 4 and all(
        len(kind) == 1 for kind in kinds
    )  # what differs in its data alone needs no other program
    assert next_family(families, {}, 0) == 0
    assert next_family(families, {0: 0}, 1) == 1
    assert next_family(families, {0: 2, 1: 0}, 0) == 2  # its own
    left = [[], families[1][:1], families[2], []]
    assert next_family(left, {0: 0, 1: 1, 2: 2}, 0) == 2  # what has most left
    assert next_family([[], []], {0: 0}, 0) is None
    alone = design_of(
        read({**SCENARIO, "seeds": 1}), ["fedavg"], {"client.lr": [0.05, 0.1, 0.2, 0.3]}
    ).cells
    (parts,) = tasks_by_family(all_runs(alone), 2, most=16, least=2)
    assert [len(part) for part in parts] == [1, 1, 1, 1]  # all processes have work


@pytest.mark.long
def test_tuning_gives_every_method_the_same_grid_and_chooses_on_validation_data(tmp_path):
    written = {**SCENARIO, "data": {**SCENARIO["data"], "validation": 0.2}}
    comparison = fedsim.compare(
        written, ["fedavg", "median"], tune={"client.lr": [0.001, 0.1, 0.100]}, out=tmp_path / "out"
    )
    tuning = pd.read_csv(tmp_path / "out/tuning.csv")
    assert len(tuning) == 6 and tuning.groupby("method")["chosen"].sum().tolist() == [1, 1]
    for _, rows in tuning.groupby("method"):
        best = rows["validation_mean"].max()
        assert rows.loc[rows["chosen"] == 1, "validation_mean"].item() == best
        assert (
            rows["chosen"].to_numpy().argmax()
            == (rows["validation_mean"] == best).to_numpy().argmax()
        )  # first of equals
    assert set(comparison.summary["client.lr"]) == set(tuning[tuning["chosen"] == 1]["client.lr"])
    assert len(comparison.summary) == 6  # what was not chosen is not reported
    table, grid = (
        comparison.table.set_index("method").loc["median"],
        tuning[tuning["method"] == "median"]["test_mean"],
    )
    assert (table["sensitivity_low"], table["sensitivity_high"]) == (grid.min(), grid.max())
    assert (
        table["tuned"]
        == tuning[(tuning["method"] == "median") & (tuning["chosen"] == 1)]["tuned"].item()
    )
    assert table["tuning_steps"] == tuning[tuning["method"] == "median"]["local_steps"].sum() > 0
    assert fedsim.verify(tmp_path / "out").equal
    with pytest.raises(ScenarioError, match=r"data.validation: .*set data.validation=0.1"):
        fedsim.compare(SCENARIO, ["fedavg"], tune={"client.lr": [0.1, 0.2]})


def test_methods_are_ranked_over_all_variations(saved):
    _, comparison = saved
    across = comparison.across.set_index("method")
    assert across["variations"].tolist() == [2, 2, 2]
    assert across["mean_rank"].sum() == pytest.approx(6)
    scores = comparison.summary[comparison.summary["method"] == "median"]["final"]
    assert across.loc["median", "iqm"] == pytest.approx(stats.trim_mean(scores, 0.25))
    assert (
        across.loc["median", "ci_low"]
        <= across.loc["median", "iqm"]
        <= across.loc["median", "ci_high"]
    )


def test_profiles_count_the_runs_that_are_better(saved):
    out, comparison = saved
    profiles = pd.read_csv(out / "profiles.csv")
    assert profiles.groupby("method")["share"].is_monotonic_decreasing.all()
    assert len(profiles) == 3 * 51
    assert (profiles.groupby("threshold")["share"].max().iloc[-1], profiles["share"].max()) == (
        0,
        1,
    )
    for _, row in profiles.iloc[::7].iterrows():
        scores = comparison.summary[comparison.summary["method"] == row["method"]]["final"]
        assert row["share"] == (scores > row["threshold"]).mean()


@pytest.mark.long
def test_the_resolved_scenario_repeats_the_comparison(tmp_path):
    """Including what was given on the command line."""
    grid = {
        "vary": ["data.partition={kind: dirichlet, alpha: 1},iid"],
        "baseline": "plain",
        "score": "best",
    }
    methods = [
        {"method": "fedavg", "label": "plain"},
        "median",
        {"method": "fedavg", "set": {"client.lr": 0.5}},
    ]
    fedsim.compare(SCENARIO, methods, **grid, seeds=2, out=tmp_path / "one")
    again = fedsim.compare(tmp_path / "one/scenario.yaml", out=tmp_path / "two")
    assert again.baseline == "plain" and again.score == "best"
    for name in ("rounds", "summary", "compare", "scenario"):
        suffix = "yaml" if name == "scenario" else "csv"
        one, two = ((tmp_path / run / f"{name}.{suffix}").read_bytes() for run in ("one", "two"))
        assert one == two, name


@pytest.mark.long
def test_axes_of_integers_and_fractions_are_verified(tmp_path):
    fedsim.compare(
        SCENARIO, ["fedavg", "median"], vary={"fleet.malicious": [0, 0.2]}, out=tmp_path / "out"
    )
    assert "fleet.malicious=0,0," in (tmp_path / "out/compare.csv").read_text()
    assert fedsim.verify(tmp_path / "out").equal


def test_the_table_starts_with_the_baseline_and_then_the_best(saved, capsys):
    out, comparison = saved
    console.verdict(comparison, out)
    table = capsys.readouterr().out.split("\n\n")[1]
    lines = [line.strip() for line in table.splitlines()]
    means = comparison.summary.groupby(["variant", "method"])["final"].mean()
    for variant in dict.fromkeys(comparison.summary["variant"]):
        first = lines.index(f"{variation_in_words(variant)}:") + 1
        mine = [line.split()[0] for line in lines[first : first + len(RULES)]]
        assert mine[0] == comparison.baseline and set(mine) == set(RULES)
        assert means[variant][mine[1]] >= means[variant][mine[2]]


# Runs under version control, and their baselines.
KEPT = {"rules": "mean", "optimisers": "fedavg", "eps_front": "no privacy"}
FOLDERS = {"eps_front": "privacy"}  # of scenarios; the others are in compare


def kept_run(out):
    """A stored comparison, made by the scenario of that name (as test_readme checks)."""
    tables = {"rounds": read_table(out, "rounds"), "table": read_table(out, "compare")}
    return SimpleNamespace(**tables, baseline=KEPT[out.name])


def scores(rounds, keys, last):
    """Mean accuracy of the last evaluations, by run."""
    rows = rounds.sort_values("round").groupby([*keys, "seed"]).tail(last)
    return rows.groupby([*keys, "seed"], as_index=False)["test_accuracy"].mean()


@pytest.mark.long
@pytest.mark.parametrize("name", [*KEPT, *(["heterogeneity"] if WHOLE else [])])
def test_comments_of_a_shipped_comparison_match_its_stored_run(name, root):
    """The table in its comments matches, and the verdicts follow from rounds.csv alone."""
    path = root / f"scenarios/{FOLDERS.get(name, 'compare')}/{name}.yaml"
    lines = [
        re.split(r"\s{2,}", line[4:].strip())
        for line in path.read_text().splitlines()
        if line.startswith("#   ")
    ]
    header, *rows = [
        cells for cells in lines if len(cells) > 1 and not cells[0].startswith("fedsim")
    ]
    comparison = kept_run(root / "reports" / name) if name in KEPT else fedsim.compare(path)
    keys = [key for key in header if key in ("method", "variant")]
    final = scores(comparison.rounds, keys, 3 if "score" in header else 1)
    means = final.groupby(keys)["test_accuracy"].mean()
    table = comparison.table.set_index(keys)
    assert len(rows) == len(means)
    for cells in rows:
        stated = dict(zip(header, cells, strict=False))
        key = tuple(stated[name] for name in keys) if len(keys) > 1 else stated["method"]
        assert means[key] == pytest.approx(
            float(stated.get("final", stated.get("score"))), abs=0.01
        ), key
        if "lr" in stated and key != comparison.baseline:
            assert table.loc[key]["tuned"] == f"client.lr={stated['lr']}"
        if "difference" in stated:
            row = table.loc[key]
            assert row["difference"] == pytest.approx(float(stated["difference"]), abs=0.01), key
            better = row["probability_of_improvement"] * 10
            assert better == pytest.approx(float(stated["better_in"]), abs=1), key

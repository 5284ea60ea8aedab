"""The report of a suite: statistics over tasks, what sentences claim on noise, files and page."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats

from fedsim.cli import cli
from fedsim.errors import DirectoryError
from fedsim.report.latex import escaped
from fedsim.tools.suite import tables
from fedsim.tools.suite.analysis import analysed, scaled
from fedsim.tools.suite.execute import run_suite
from fedsim.tools.suite.page import page_of
from fedsim.tools.suite.report import tables_of, write_report
from fedsim.tools.suite.results import Task, read_tasks
from fedsim.tools.suite.sentences import across_lines, headline, notes, task_lines
from fedsim.tools.suite.statistics import all_pairs, expected_best, rank_intervals
from fedsim.tools.suite.tasks import tasks_of

CLAIMS = (" beats ", " is better than ")
TASK = """
name: {name}
rounds: 1
seeds: 2
data: {{kind: gaussian_blobs, samples: 200, clients: 4, validation: 0.2}}
client: {{batch: 16, epochs: 1}}
compare:
  suite: 1
  budget: 2
  methods: [fedavg, fedprox(mu=0.1), local_only, centralised]
  tune: {{client.lr: "log(0.01, 1)"}}
"""


def task(name, scores, metric="test_accuracy", baseline="a", **tables):
    """A task with some scores by method; a method with None has no shared model."""
    summary = []
    for method, values in scores.items():
        if values is None:
            summary.append({"method": method, "seed": 0, "not_federated": "alone"})
            continue
        for seed, value in enumerate(values):
            row = {"method": method, "seed": seed, "metric": metric, "diverged": 0}
            summary.append({**row, "final": float(value)})
    names = ("compare", "rounds", "timing", "tuning")
    of_task = {"summary": summary, **{name: tables.get(name, []) for name in names}}
    return Task(name, metric, "final", baseline, of_task, lost={})


def lines_of(analysis):
    """All sentences."""
    return [headline(analysis), *across_lines(analysis), *task_lines(analysis), *notes(analysis)]


def holm_by_hand(p):
    """Holm's adjustment in plain NumPy."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(np.minimum(1, np.sort(p) * np.arange(len(p), 0, -1)))
    adjusted = np.empty(len(p))
    adjusted[order] = steps
    return adjusted


def test_all_pairs_are_those_of_scipy_with_holm_over_all_of_them():
    scores = np.random.default_rng(3).normal([[0.0], [0.4], [1.5], [1.6]], 0.5, (4, 8))
    by_method = {name: dict(enumerate(row)) for name, row in zip("abcd", scores, strict=True)}
    pairs = all_pairs(by_method, larger_is_better=False)
    expected = []
    mean_difference = lambda x, y, axis: (x - y).mean(axis)
    for pair, (x, y) in zip(pairs, itertools.combinations(scores, 2), strict=True):
        test = stats.permutation_test((x, y), mean_difference, permutation_type="samples")
        expected.append(test.pvalue)
        ends = stats.ttest_rel(x, y).confidence_interval()
        assert (pair.test.ci_low, pair.test.ci_high) == pytest.approx(ends)
        assert pair.sign == -np.sign((x - y).mean())  # a smaller score is better
    assert [pair.test.p_value for pair in pairs] == pytest.approx(expected)
    assert [pair.p_adjusted for pair in pairs] == pytest.approx(holm_by_hand(expected))
    assert {pair.told_apart for pair in pairs} == {True, False}


def test_the_best_of_k_trials_is_the_mean_over_all_choices_of_k():
    scores = np.random.default_rng(1).normal(size=6)
    for rising, best in ((True, max), (False, min)):
        for k, expected in enumerate(expected_best(scores.tolist(), rising), start=1):
            chosen = [best(some) for some in itertools.combinations(scores, k)]
            assert expected == pytest.approx(np.mean(chosen))
    assert expected_best([math.inf, 1.0], larger_is_better=False) == [math.inf, 1.0]


def test_intervals_of_ranks_cover_what_seeds_leave_open():
    scores = np.random.default_rng(2).normal(size=(3, 4, 10))
    scores[0] += 50  # always first
    mean, low, high = rank_intervals(scores, larger_is_better=True)
    assert (mean[0], low[0], high[0]) == (1, 1, 1)
    assert (low[1:] < mean[1:]).all() and (mean[1:] < high[1:]).all()


def test_few_seeds_are_named_with_how_many_it_takes():
    scores = {name: np.arange(8) / 20 + rank for rank, name in enumerate("abcdefgh")}
    analysis = analysed([task("one", scores)])
    assert headline(analysis).startswith("Over 1 task, no clear difference: with 8 seeds and 28")
    (line,) = task_lines(analysis)
    assert "8 seeds and 28 pairs, no two methods can be told apart, which takes at least 11" in line
    assert not any(claim in line for line in lines_of(analysis) for claim in CLAIMS)


def test_what_is_told_apart_is_said_and_what_is_not_is_open():
    noise = np.random.default_rng(0).normal(0, 0.01, (2, 3, 9))
    tasks = []
    for number in range(2):
        a, b, c = noise[number] + 0.5
        tasks.append(task(f"task{number}", {"a": a, "b": b + 0.3, "c": c, "alone": None}))
    tasks[0] = tasks[0]._replace(cautions=["In 9 of 10 seeds, ..."])
    analysis = analysed(tasks)
    assert "task0: In 9 of 10 seeds, ..." in notes(analysis)
    assert headline(analysis).startswith("Over 2 tasks, b beats a and c: mean test accuracy 0.")
    lines = lines_of(analysis)
    assert any("alone has no score" in line and "data.client_test" in line for line in lines)
    assert any("may still differ" in line for line in lines)
    rows = {(row["method"], row["other"]): row for row in tables.overall_pair_rows(analysis)}
    counts = {pair: (row["wins"], row["open"], row["losses"]) for pair, row in rows.items()}
    assert counts == {("a", "b"): (0, 0, 2), ("a", "c"): (0, 2, 0), ("b", "c"): (2, 0, 0)}
    assert rows["a", "c"]["outcome"] == "open"


def test_tables_have_the_numbers_of_the_tasks():
    scores = {"a": [0.5, 0.7, 0.6], "b": [0.9, 0.8, 0.4], "new": [0.1, 0.2, 0.3], "alone": None}
    a = {"method": "a"}
    ends = ((0, 0), (0, 1), (1, 0), (1, 2))  # seed and round
    rounds = [{**a, "seed": s, "bytes_up": 10 * r, "bytes_down": 5, "x": 0} for s, r in ends]
    timing = [{**a, "seed": s, "local_steps": 4, "wall_seconds": 1.5} for s in (0, 0, 1)]
    tried = [("a", 0.5), ("a", None), ("a", 0.7), ("alone", None)]
    tuning = [
        {"method": method, "metric": "validation_accuracy", "validation_mean": mean}
        for method, mean in tried
    ]
    compare = [{**a, "trials": 2, "tuning_steps": 90}]
    tables_of_first = {"compare": compare, "rounds": rounds, "timing": timing, "tuning": tuning}
    first = task("first", scores, **tables_of_first)
    second = task("second", {"a": [0.2, 0.2, 0.2], "b": [0.3, 0.3, 0.3]})
    rows = tables_of(analysed([first, second]))
    of_b = next(row for row in rows["scores"] if row["method"] == "b")
    d = np.array([0.4, 0.1, -0.2])
    assert of_b["difference"] == pytest.approx(d.mean())
    assert of_b["ci_high"] - d.mean() == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(d))
    overall = {row["method"]: row for row in rows["overall"]}
    assert overall["b"]["mean"] == pytest.approx(0.5) and overall["b"]["mean_rank"] == 1
    assert overall["a"]["worst_task"] == "second"
    assert overall["a"]["worst_mean"] == pytest.approx(0.2)
    assert overall["new"]["note"] == "no score in second" and overall["new"]["iqm"] is None
    cost = next(row for row in rows["costs"] if row["method"] == "a")
    assert (cost["trials"], cost["tuning_steps"], cost["local_steps"]) == (2, 90, 6)
    assert (cost["bytes_up"], cost["bytes_down"]) == (15, 5)
    # the trial that failed counts as the worst accuracy
    assert [row["expected"] for row in rows["budget"]] == pytest.approx([0.4, 0.6 + 0.1 / 3, 0.7])
    profile = [row["share"] for row in rows["profiles"] if row["method"] == "b"]
    assert profile[0] == 1 and profile[-1] == 0


def test_a_task_of_other_methods_leaves_the_others_their_means():
    rng = np.random.default_rng(5)

    def draw(name, methods):
        scores = {method: rng.uniform(0.5, 0.9, 6) for method in methods}
        return task(name, {**scores, "local_only": None})

    tasks = [draw("one", "abc"), draw("two", "abcd"), draw("rules", "aef"), draw("few", "ab")]
    analysis = analysed(tasks)
    assert [task.name for task in analysis.common] == ["one", "two"]
    assert set(analysis.ranked) == {*"abc"}
    assert analysis.missing == {"d": ["one"]}
    assert "leave out rules, few, which compare other methods" in analysis.remarks[-1]
    assert "Over 2 of 4 tasks" in headline(analysis)

    rows = {row["method"]: row for row in tables.overall_rows(analysis)}
    of_a = [task.scores("a")[seed] for task in tasks[:2] for seed in range(6)]
    assert rows["a"]["mean"] == pytest.approx(np.mean(of_a))
    assert (rows["d"]["tasks"], rows["d"]["mean"]) == (1, None)
    assert set(rows) == {*"abcd", "local_only"}

    # Three tasks of two methods are a larger table than one of five.
    many = analysed([draw("one", "ab"), draw("two", "ab"), draw("many", "abcde")])
    assert [task.name for task in many.common] == ["one", "two", "many"]


def test_losses_are_put_on_the_scale_of_their_task_which_swapping_two_methods_keeps():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(2, 2, 5))
    table[1, 0, 3] = np.inf  # diverged
    rising = [False, True]
    swapped = table.copy()
    swapped[:, 1, 2] = table[::-1, 1, 2]
    expected = scaled(table, rising)
    expected[:, 1, 2] = expected[::-1, 1, 2]
    assert np.array_equal(scaled(swapped, rising), expected)
    tasks = [
        task("loss", {"a": [1.0, 2.0], "b": [3.0, np.inf]}, "test_loss"),
        task("accuracy", {"a": [0.2, 0.3], "b": [0.4, 0.6]}),
    ]
    trials = [{"method": "a", "metric": "validation_loss", "validation_mean": m} for m in (1, None)]
    tasks[0].tables["tuning"].extend(trials)
    analysis = analysed(tasks)
    assert b"scaled score" in page_of(analysis, tables_of(analysis), [])  # with infinite numbers
    assert analysis.larger_is_better and analysis.metric == "scaled_score"
    assert analysis.scores.min() == 0 and analysis.scores.max() == 1
    assert any("scales of their own" in line for line in lines_of(analysis))


def test_the_page_is_the_same_again_and_escapes_names():
    hostile = "<script>alert(1)</script>"
    first = task("t", {"a": [0.1, 0.2], hostile: [0.3, 0.1]}, tuning=[])
    analysis = analysed([first])
    page = page_of(analysis, tables_of(analysis), ["x & y"])
    assert page == page_of(analysis, tables_of(analysis), ["x & y"])
    assert b"<script>alert" not in page and b"x &amp; y" in page


def noise_suites(number, shared):
    """Suites in which no method is better: three methods, three tasks, eight seeds.

    `shared` is how much a method's luck under a seed is the same in all tasks.
    """
    rng = np.random.default_rng(5)
    for _ in range(number):
        scores = rng.normal(size=(3, 3, 8)) + shared * rng.normal(size=(3, 1, 8))  # tasks: axis 1
        yield [task(f"t{i}", dict(zip("abc", scores[:, i], strict=True))) for i in range(3)]


@pytest.mark.long
def test_on_noise_every_sentence_is_wrong_in_at_most_five_percent():
    number = 300
    most = number * 0.05 + 3 * math.sqrt(number * 0.05 * 0.95)
    for shared in (0.0, 2.0):
        over_tasks = 0
        in_task = np.zeros(3)
        for tasks in noise_suites(number, shared):
            analysis = analysed(tasks)
            over_tasks += any(" beats " in line for line in lines_of(analysis))
            in_task += [" is better than " in line for line in task_lines(analysis)]
        assert 0 < over_tasks <= most and (0 < in_task).all() and (in_task <= most).all()


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Two tasks that were run, and their folder."""
    folder = tmp_path_factory.mktemp("suite")
    for name in ("first", "second"):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name))
    played = run_suite(tasks_of([folder], None, []), folder / "out", progress=False, pictures=False)
    assert {ended.code for ended in played} == {0}
    return folder / "out"


@pytest.mark.long
def test_a_report_has_the_numbers_of_the_comparisons_and_is_byte_equal_again(suite, tmp_path):
    result = CliRunner().invoke(cli, ["suite", "report", str(suite), "--out", str(tmp_path / "r")])
    assert result.exit_code == 0, result.output
    said = "with 2 seeds and 1 pair, no two methods can be told apart, which takes at least 6"
    assert said in result.output
    columns = ["mean", "sd", "difference", "ci_low", "ci_high"]
    scores = pd.read_csv(tmp_path / "r/scores.csv")
    for name in ("first", "second"):
        compared = pd.read_csv(suite / name / "compare.csv").set_index("method")[columns]
        of_task = scores[scores["task"] == name].set_index("method")[columns]
        pd.testing.assert_frame_equal(of_task.loc[compared.index], compared)
    assert set(pd.read_csv(tmp_path / "r/overall.csv")["note"].dropna()) == {
        "pooled data, not federated",
        "no score: trains no shared model",
    }
    assert escaped("fedprox(mu=0.1)") in (tmp_path / "r/tables/scores.tex").read_text()
    written = write_report([suite], tmp_path / "again")
    for name in written.names:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "r" / name).read_bytes()


@pytest.mark.long
def test_folders_join_by_task_and_what_does_not_fit_is_refused_in_one_line(suite, tmp_path):
    once, _ = read_tasks([suite])
    twice, left_out = read_tasks([suite, suite / "first"])
    assert twice == once and left_out == []

    table = suite / "first" / "summary.csv"
    text = table.read_text()
    other = tmp_path / "other"
    other.mkdir()
    for name in ("run.json", "compare.csv"):
        (other / name).write_bytes((suite / "first" / name).read_bytes())
    (other / "summary.csv").write_text(text.replace("fedprox(mu=0.1)", "mine"))
    (joined, _), _ = read_tasks([suite, other])
    assert set(joined.methods) == {*once[0].methods, "mine"} and "mine" not in once[0].methods
    assert joined.scores("mine") == joined.scores("fedprox(mu=0.1)")

    empty = tmp_path / "empty"
    empty.mkdir()
    frame = pd.read_csv(table)
    frame.assign(final=frame["final"] - 0.25).to_csv(other / "summary.csv", index=False)
    for folders, reason in (
        ([suite, other], "'first' has other scores of "),
        ([tmp_path / "none"], "there is no such folder"),
        ([empty], "no task of a suite"),
    ):
        with pytest.raises(DirectoryError, match=reason) as refusal:
            read_tasks(folders)
        assert "\n" not in str(refusal.value)
    result = CliRunner().invoke(cli, ["suite", "report", str(suite), "--out", f"{suite}/first"])
    assert result.exit_code != 0 and "is a run" in str(result.exception or result.output)

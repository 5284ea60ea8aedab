"""The tables and the page of a suite have the numbers of its tasks."""

import numpy as np
import pytest
from scipy import stats
from test_suite_sentences import lines_of, task

from fedsim.tools.suite import tables
from fedsim.tools.suite.analysis import analysed, scaled
from fedsim.tools.suite.page import page_of
from fedsim.tools.suite.report import tables_of
from fedsim.tools.suite.sentences import headline


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

"""The tables of a suite's report, as rows."""

from collections.abc import Mapping

import numpy as np

from fedsim.study.pairing import profiles_of, shared_scores
from fedsim.study.standings import NO_OWN_SCORE, OUTSIDE
from fedsim.study.statistics import iqm, paired, sample_sd, stratified
from fedsim.study.summary import Record, larger_is_better
from fedsim.tools.suite.analysis import Analysis
from fedsim.tools.suite.results import Task
from fedsim.tools.suite.statistics import Pair, rank_intervals
from fedsim.types.client import ALONE

OUTCOMES = {1: "better", 0: "open", -1: "worse"}  # of a test, after Holm
NO_SCORE_IN = "no score in {tasks}"
LOST = "{number} of {runs} runs count as the worst: they failed, diverged or did not run"


def score_rows(analysis: Analysis) -> list[Record]:
    """Return a row per task and method: mean score, and its paired difference to the baseline."""
    rows = []
    for task in analysis.tasks:
        for method in analysis.methods:
            if method not in task.methods:
                continue
            values = np.array(list(task.scores(method).values()))
            row: Record = {
                "task": task.name,
                "method": method,
                "baseline": task.baseline,
                "metric": task.metric,
                "score": task.score,
                "seeds": len(values),
                "mean": float(values.mean()) if len(values) else None,
                "sd": sample_sd(values),
            }
            row |= _difference(analysis, task, method)
            row["lost"] = task.lost.get(method, 0)
            row["note"] = _note(task, method, len(values))
            rows.append(row)
    return rows


def pair_rows(analysis: Analysis) -> list[Record]:
    """Return a row per task and pair of federated methods."""
    rows = []
    for task in analysis.tasks:
        for pair in analysis.pairs[task.name]:
            rows.append({"task": task.name, **_pair_row(pair)})
    return rows


def overall_pair_rows(analysis: Analysis) -> list[Record]:
    """Return a row per pair of ranked methods over the tasks, with wins, open tasks and losses."""
    rows = []
    for pair in analysis.across:
        outcomes = []
        for task in analysis.common:
            for of_task in analysis.pairs[task.name]:
                if {of_task.one, of_task.other} == {pair.one, pair.other}:
                    outcomes.append(of_task.outcome_of(pair.one))
        counts = {
            "tasks": len(outcomes),
            "wins": outcomes.count(1),
            "open": outcomes.count(0),
            "losses": outcomes.count(-1),
        }
        rows.append({**_pair_row(pair), **counts})
    return rows


def overall_rows(analysis: Analysis) -> list[Record]:
    """Return a row per method over all tasks: mean, IQM, rank and worst task, with intervals."""
    ranked = analysis.ranked
    ranks: Mapping[str, list[float]] = {}
    if ranked and analysis.seeds:
        scores = analysis.of_methods(ranked)
        intervals = np.array(rank_intervals(scores, analysis.larger_is_better))  # [3, methods]
        ranks = dict(zip(ranked, intervals.T.tolist(), strict=True))

    rows = []
    for method in analysis.methods:
        if not any(method in task.methods for task in analysis.common):
            continue
        row: Record = {
            "method": method,
            "tasks": _tasks_of(analysis, method),
            "seeds": 0,
            **dict.fromkeys(("mean", "iqm", "iqm_low", "iqm_high")),
            **dict.fromkeys(("mean_rank", "rank_low", "rank_high", "worst_task", "worst_mean")),
            "note": _note_across(analysis, method),
        }
        if method in analysis.complete and analysis.seeds:
            (scores,) = analysis.of_methods([method])  # [tasks, seeds]
            row["seeds"] = len(analysis.seeds)
            row |= _summary_across(scores)
            row |= _worst_task(analysis, scores)
        if method in ranks:
            row["mean_rank"], row["rank_low"], row["rank_high"] = ranks[method]
        rows.append(row)
    return rows


def profile_rows(analysis: Analysis) -> list[Record]:
    """Return a row per method and threshold: the share of runs of all tasks that are better."""
    return profiles_of(
        analysis.complete,
        analysis.scores,
        analysis.larger_is_better,
        {"metric": analysis.metric, "score": analysis.score},
    )


def _difference(analysis: Analysis, task: Task, method: str) -> Record:
    """The paired difference of a method to the baseline; tested where both are federated."""
    row: Record = dict.fromkeys(("difference", "ci_low", "ci_high", "p_value", "p_adjusted"))
    values, others = shared_scores(task.scores(method), task.scores(task.baseline))
    if method == task.baseline or not len(values):
        return row
    test = paired(values, others, larger_is_better(task.metric))
    row["difference"] = test.difference
    row["ci_low"] = test.ci_low
    row["ci_high"] = test.ci_high
    for pair in analysis.pairs[task.name]:
        if {pair.one, pair.other} == {method, task.baseline}:
            row["p_value"] = pair.test.p_value
            row["p_adjusted"] = pair.p_adjusted
    return row


def _pair_row(pair: Pair) -> Record:
    """The columns of a pair."""
    return {
        "method": pair.one,
        "other": pair.other,
        "seeds": pair.test.seeds,
        "difference": pair.test.difference,
        "ci_low": pair.test.ci_low,
        "ci_high": pair.test.ci_high,
        "p_value": pair.test.p_value,
        "p_adjusted": pair.p_adjusted,
        "outcome": OUTCOMES[pair.outcome_of(pair.one)],
    }


def _note(task: Task, method: str, seeds: int) -> str:
    """What is said of a method in a task: that it is not federated, or how many runs are lost."""
    if method in task.outside:
        return _note_outside(task.outside[method], seeds)
    if task.lost.get(method):
        return LOST.format(number=task.lost[method], runs=seeds)
    return ""


def _note_across(analysis: Analysis, method: str) -> str:
    """Why a method is not ranked; empty if it is."""
    if method in analysis.outside:
        return _note_outside(analysis.outside[method], _tasks_of(analysis, method))
    if method in analysis.missing:
        return NO_SCORE_IN.format(tasks=", ".join(analysis.missing[method]))
    return ""


def _note_outside(reason: str, scores: int) -> str:
    """What is said of a method that is not federated."""
    if reason == ALONE and not scores:
        return NO_OWN_SCORE
    return OUTSIDE[reason]


def _tasks_of(analysis: Analysis, method: str) -> int:
    """In how many tasks with methods in common a method has a score."""
    return sum(bool(task.scores(method)) for task in analysis.common if method in task.methods)


def _summary_across(scores: np.ndarray) -> Record:
    """Mean and interquartile mean of scores `[tasks, seeds]`."""
    low = None
    high = None
    if np.isfinite(scores).all() and scores.shape[1] > 1:
        low, high = stratified(scores)
    return {
        "mean": float(scores.mean()),
        "iqm": float(iqm(scores)),
        "iqm_low": low,
        "iqm_high": high,
    }


def _worst_task(analysis: Analysis, scores: np.ndarray) -> Record:
    """The task in which a method has its worst mean score, of scores `[tasks, seeds]`."""
    means = scores.mean(1)
    index = int(np.argmin(means) if analysis.larger_is_better else np.argmax(means))
    return {"worst_task": analysis.common[index].name, "worst_mean": float(means[index])}

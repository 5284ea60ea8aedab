"""What a suite shows: methods within every task, and over all tasks together."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.errors import DirectoryError
from fedsim.study.pairing import shared_seeds
from fedsim.study.statistics import ranks
from fedsim.study.summary import Record, as_loss, in_words, is_share, larger_is_better, worst
from fedsim.tools.suite.results import Task
from fedsim.tools.suite.statistics import Pair, all_pairs

Scores = Mapping[str, Mapping[str, Mapping[int, float]]]
"""by task, method and seed"""

SCALED = (
    "Scores of tasks have scales of their own, so over tasks a score is its place between the "
    "worst (0) and the best (1) finite score that counts in the task; one that is not finite is 0."
)
OTHER_METHODS = (
    "Means over tasks leave out {tasks}, which {compare} other methods; "
    "fedsim suite report with their folders alone shows them."
)
FEW_IN_COMMON = "Over tasks, only the seeds count that all methods have in all tasks: {number}."


class Analysis(NamedTuple):
    """A suite, analysed.

    Over tasks are the methods that have scores in all tasks with their methods in common, under the
    seeds that all share.

    Attributes:
      common: those with methods in common, over which means are taken.
      methods: all methods in the order of tables and colours.
      outside: why methods are not federated, by method; they are in tables, and not ranked.
      pairs: all pairs of federated methods by task.
      complete: the methods that have scores in all of `common`.
      missing: the tasks of `common` in which a federated method has no score, by method.
      seeds: the seeds that all of `complete` have in all of `common`.
      scores: of `complete`, on one scale, `[methods, tasks, seeds]`.
      larger_is_better: whether a larger score is better on that scale.
      metrics: those of `common`, each once, or the name of that scale.
      remarks: how the scale was made, and what it leaves out.
      across: all pairs of ranked methods, by their mean scores over the tasks.
    """

    tasks: list[Task]
    common: list[Task]
    methods: list[str]
    outside: dict[str, str]
    pairs: dict[str, list[Pair]]
    complete: list[str]
    missing: dict[str, list[str]]
    seeds: list[int]
    scores: np.ndarray
    larger_is_better: bool
    metrics: Sequence[str]
    remarks: list[str]
    across: list[Pair]

    @property
    def baseline(self) -> str:
        """The method that the others are compared with, which is the same in all tasks."""
        return self.tasks[0].baseline

    @property
    def metric(self) -> str:
        """What is scored; several, where tasks have others."""
        return " or ".join(self.metrics)

    @property
    def metric_in_words(self) -> str:
        """The same as people say it."""
        return " or ".join(map(in_words, self.metrics))

    @property
    def score(self) -> str:
        """`final`, `best` or `mean_last_k`, which is the same in all tasks."""
        return self.tasks[0].score

    @property
    def ranked(self) -> list[str]:
        """The federated ones among the methods that have scores in all of `common`."""
        return [method for method in self.complete if method not in self.outside]

    def of_methods(self, methods: Sequence[str]) -> np.ndarray:
        """The scores of some of the complete methods `[methods, tasks, seeds]`."""
        return self.scores[[self.complete.index(method) for method in methods]]


def analysed(tasks: Sequence[Task]) -> Analysis:
    """Analyse the tasks of a suite.

    Raises:
      DirectoryError: if they differ in the baseline, or in the score.
    """
    for field in ("baseline", "score"):
        values = sorted({getattr(task, field) for task in tasks})
        if len(values) > 1:
            reason = f"the tasks differ in their {field}: {', '.join(values)}"
            raise DirectoryError(f"{reason}; report them on their own")

    outside: dict[str, str] = {}
    for task in tasks:
        outside |= task.outside
    by_task = {task.name: _scores_of(task) for task in tasks}
    methods = _ordered(tasks, by_task, outside)
    pairs = {}
    for task in tasks:
        federated = {}
        for method in methods:
            if method in by_task[task.name] and method not in outside:
                federated[method] = by_task[task.name][method]
        pairs[task.name] = all_pairs(federated, larger_is_better(task.metric))

    common = _largest_table(tasks, outside)
    in_common = {task.name: by_task[task.name] for task in common}
    complete = []
    missing = {}
    for method in methods:
        if not any(method in task.methods for task in common):
            continue
        without = [name for name, scores in in_common.items() if method not in scores]
        if not without:
            complete.append(method)
        elif method not in outside:
            missing[method] = without

    runs = [scores[method] for scores in in_common.values() for method in complete]
    seeds = shared_seeds(*runs) if runs else []
    table = _table(complete, in_common, seeds)
    remarks = []
    if any(len(by_seed) > len(seeds) for by_seed in runs):
        remarks.append(FEW_IN_COMMON.format(number=len(seeds)))
    others = [task.name for task in tasks if task not in common]
    if others:
        compare = "compares" if len(others) == 1 else "compare"
        remarks.append(OTHER_METHODS.format(tasks=", ".join(others), compare=compare))
    rising = larger_is_better(common[0].metric)
    metrics = list(dict.fromkeys(task.metric for task in common))
    if not _on_one_scale(common):
        table = scaled(table, [larger_is_better(task.metric) for task in common])
        remarks.append(SCALED)
        rising = True
        metrics = ["scaled_score"]

    means = {}  # over the tasks, by method and seed
    for method, scores in zip(complete, table, strict=True):
        if method not in outside:
            means[method] = dict(zip(seeds, scores.mean(0).tolist(), strict=True))
    return Analysis(
        tasks=list(tasks),
        common=common,
        methods=methods,
        outside=outside,
        pairs=pairs,
        complete=complete,
        missing=missing,
        seeds=seeds,
        scores=table,
        larger_is_better=rising,
        metrics=metrics,
        remarks=remarks,
        across=all_pairs(means, rising),
    )


def as_variations(tasks: Sequence[Task]) -> list[Record]:
    """Return the runs of all tasks as rows of one `summary.csv`, in which the task varies.

    The score of runs that are lost is the worst that there is.
    """
    rows = []
    for task in tasks:
        for row in task.tables["summary"]:
            varied = {**row, "variant": f"task={task.name}"}
            if row.get("diverged"):
                varied[task.score] = worst(task.metric)
            rows.append(varied)
    return rows


def scaled(scores: np.ndarray, rising: Sequence[bool]) -> np.ndarray:
    """Return scores from 0, the worst finite one of a task, to 1, the best one.

    The ends are those of all runs of the task. So they stay as they are if the scores of two
    methods under one seed are exchanged, as a sign-flip test does.

    Args:
      scores: scores `[methods, tasks, seeds]`.
      rising: whether a larger score is better, by task.

    >>> scaled(np.array([[[1.0, 2.0]], [[np.inf, 3.0]]]), [False]).tolist()
    [[[1.0, 0.5]], [[0.0, 0.0]]]
    """
    result = np.zeros_like(scores)
    for index, larger in enumerate(rising):
        values = scores[:, index] if larger else -scores[:, index]
        finite = values[np.isfinite(values)]
        if len(finite) and finite.max() > finite.min():
            place = (values - finite.min()) / (finite.max() - finite.min())
            result[:, index] = np.where(np.isfinite(values), place, 0.0)
    return result


def _ordered(tasks: Sequence[Task], by_task: Scores, outside: Collection[str]) -> list[str]:
    """All methods: the baseline, then the best by mean rank; not federated ones at the end."""
    methods: dict[str, None] = {}  # in the order in which they appear
    for task in tasks:
        methods |= dict.fromkeys(task.methods)
    losses = np.full((len(methods), len(tasks)), np.inf)  # without a score: last
    for row, method in enumerate(methods):
        for column, task in enumerate(tasks):
            scores = by_task[task.name].get(method)
            if scores:
                mean = float(np.mean(list(scores.values())))
                losses[row, column] = as_loss(mean, larger_is_better(task.metric))
    mean_ranks = ranks(losses, larger_is_better=False).mean(-1)
    rank_of = dict(zip(methods, mean_ranks.tolist(), strict=True))

    def position(method: str) -> tuple[bool, bool, float]:
        return method != tasks[0].baseline, method in outside, rank_of[method]

    return sorted(methods, key=position)


def _largest_table(tasks: Sequence[Task], outside: Collection[str]) -> list[Task]:
    """Return the tasks over which means are taken: the largest table of methods × tasks.

    Of every task's federated methods, those are taken which make the largest table with the tasks
    that have all of them. So a task of other methods does not leave all others without means.
    """
    largest: list[Task] = []
    most = 0
    for task in tasks:
        methods = {*task.methods}.difference(outside)
        with_all = [other for other in tasks if methods <= {*other.methods}]
        size = len(methods) * len(with_all)
        if size > most:
            most = size
            largest = with_all
    return largest or list(tasks)


def _scores_of(task: Task) -> dict[str, dict[int, float]]:
    """The scores of a task by method and seed; methods without a score are not in it."""
    scores = {method: task.scores(method) for method in task.methods}
    return {method: by_seed for method, by_seed in scores.items() if by_seed}


def _table(methods: Sequence[str], by_task: Scores, seeds: Sequence[int]) -> np.ndarray:
    """Scores `[methods, tasks, seeds]` of methods that have them in all tasks."""
    table = np.empty((len(methods), len(by_task), len(seeds)))
    for row, method in enumerate(methods):
        for column, scores in enumerate(by_task.values()):
            table[row, column] = [scores[method][seed] for seed in seeds]
    return table


def _on_one_scale(tasks: Sequence[Task]) -> bool:
    """Whether scores of different tasks can be averaged: shares, all larger or smaller.

    Losses cannot: those of one task may be many times those of another, and infinite.
    """
    metrics = {task.metric for task in tasks}
    directions = {larger_is_better(metric) for metric in metrics}
    return all(map(is_share, metrics)) and len(directions) == 1

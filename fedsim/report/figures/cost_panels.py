"""Scores over what was spent so far: at rounds that all seeds have, or at times that they share."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fedsim.report.results import Row
from fedsim.report.series import Series, Track, series, tracks
from fedsim.study.cost_axes import WAYS, CostAxis
from fedsim.study.statistics import interval

TIMES = 80  # at which scores of an equal time are drawn


def course(
    axis: CostAxis, row: Row, rounds: pd.DataFrame, way: str
) -> tuple[np.ndarray, np.ndarray]:
    """What a method had spent, `[r]`, and its scores then, `[r, seeds]`; without the start.

    Args:
      axis: what is counted.
      row: of its table.
      rounds: the columns of `rounds.csv`.
      way: in which rows differ.
    """
    metric = str(row["metric"])
    spending = WAYS[way].cumulative_columns
    rows = rounds["method"] == row["method"]
    if row.get("variant") and "variant" in rounds:
        rows &= rounds["variant"] == row["variant"]
    table = pd.DataFrame(rounds[rows])
    track = _track_of(table, (metric, "test_loss", *spending), metric)
    if track is None:
        return np.zeros(0), np.zeros((0, 0))

    if axis.equal_time:
        spent, scores = _in_time(track, metric, spending[0])
    else:
        spent, scores = _by_round(track, metric, spending)
    return spent[spent > 0], scores[spent > 0]


def _track_of(table: pd.DataFrame, columns: tuple[str, ...], metric: str) -> Track | None:
    """The track of the rows of one method; None where the metric was not evaluated."""
    if not len(table):
        return None
    for track in tracks(table, columns):
        if metric in track.values:
            return track
    return None


def _by_round(track: Track, metric: str, spending: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """At rounds that all seeds have: the mean spent by then, `[r]`, and the scores, `[r, seeds]`.

    Args:
      track: of the method.
      metric: of the scores.
      spending: columns whose sum was spent.
    """
    rounds, scores = series(track, metric).common()
    spent = np.zeros(len(rounds))
    for column in spending:
        means = {}
        for number, values in zip(*series(track, column).common(), strict=True):
            means[number] = float(np.mean(values))
        spent += np.array([means[number] for number in rounds])
    return spent, scores


def _in_time(track: Track, metric: str, clock: str) -> tuple[np.ndarray, np.ndarray]:
    """At times until the first seed ends, `[t]`: the last score that every seed had, `[t, seeds]`.

    Args:
      track: of the method.
      metric: of the scores.
      clock: column of the times.
    """
    scores = series(track, metric)
    times = series(track, clock)
    steps = []  # times and scores by seed
    for seed in scores.seeds:
        x, y = _steps(scores, times, int(seed))
        if len(x):
            steps.append((x, y))
    if not steps:
        return np.zeros(0), np.zeros((0, 0))

    start = max(x[0] for x, _ in steps)
    end = min(x[-1] for x, _ in steps)
    grid = np.linspace(start, end, TIMES)
    last = []
    for x, y in steps:
        index = np.searchsorted(x, grid, "right") - 1
        last.append(y[np.maximum(index, 0)])
    return grid, np.array(last).T


def _steps(scores: Series, times: Series, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and scores of one seed, at rounds that have both."""
    score_rounds, values = scores.of(seed)
    time_rounds, clock = times.of(seed)
    _, of_scores, of_times = np.intersect1d(score_rounds, time_rounds, return_indices=True)
    return clock[of_times], values[of_scores]


def band(axis: CostAxis, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of a band, `[r]` each.

    In equal time that is Student's 95 % interval of the mean, else the range.

    Args:
      axis: what is counted.
      scores: `[r, seeds]`.
    """
    if not axis.equal_time:
        return scores.min(1), scores.max(1)
    ends = [interval(values) or (values.mean(), values.mean()) for values in scores]
    low, high = np.array(ends).T
    return low, high

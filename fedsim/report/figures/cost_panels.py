"""Scores over what was spent so far: at rounds that all seeds have, or at times that all of them share."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fedsim.report.results import Row
from fedsim.report.series import Series, Track, series, tracks
from fedsim.study.cost_axes import WAYS, Axis
from fedsim.study.statistics import interval

TIMES = 80  # at which scores of an equal time are drawn


def course(axis: Axis, row: Row, rounds: pd.DataFrame, way: str) -> tuple[np.ndarray, np.ndarray]:
    """What was spent `[r]`, and the scores then `[r, seeds]`; without the start.

    Args:
      axis: what is counted.
      row: of its table.
      rounds: the columns of `rounds.csv`.
      way: in which rows differ.
    """
    metric, grown = str(row["metric"]), WAYS[way].grown
    rows = rounds["method"] == row["method"]
    if row.get("variant") and "variant" in rounds:
        rows &= rounds["variant"] == row["variant"]
    table = pd.DataFrame(rounds[rows])
    for track in tracks(table, (metric, "test_loss", *grown)) if len(table) else ():
        if metric in track.values:
            x, scores = (
                _in_time(track, metric, grown[0]) if axis.equal else _by_round(track, metric, grown)
            )
            return x[x > 0], scores[x > 0]
    return np.zeros(0), np.zeros((0, 0))


def _by_round(track: Track, metric: str, grown: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """At rounds that all seeds have: what was spent until then, mean over the seeds, and the scores."""
    numbers, scores = series(track, metric).common()
    spent = [dict(zip(*series(track, name).common(), strict=True)) for name in grown]
    return np.array([sum(float(np.mean(of[r])) for of in spent) for r in numbers]), scores


def _in_time(track: Track, metric: str, clock: str) -> tuple[np.ndarray, np.ndarray]:
    """At times until the first seed ends: the last score that each of them had by then."""
    scores, times = series(track, metric), series(track, clock)
    by_seed = [_steps(scores, times, int(seed)) for seed in scores.seeds]
    by_seed = [(x, y) for x, y in by_seed if len(x)]
    if not by_seed:
        return np.zeros(0), np.zeros((0, 0))
    grid = np.linspace(max(x[0] for x, _ in by_seed), min(x[-1] for x, _ in by_seed), TIMES)
    last = [y[np.maximum(np.searchsorted(x, grid, "right") - 1, 0)] for x, y in by_seed]
    return grid, np.array(last).T


def _steps(scores: Series, times: Series, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and scores of one seed, at rounds that have both."""
    (rounds, values), (numbers, clock) = scores.of(seed), times.of(seed)
    _, one, other = np.intersect1d(rounds, numbers, return_indices=True)
    return clock[other], values[one]


def band(axis: Axis, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends `[r]` of scores `[r, seeds]`: Student's 95 % interval of the mean in equal time, else the range."""
    if not axis.equal:
        return scores.min(1), scores.max(1)
    ends = [interval(values) or (values.mean(), values.mean()) for values in scores]
    low, high = np.array(ends).T
    return low, high

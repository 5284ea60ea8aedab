"""The costs of scores: the rows of `bytes.csv` and `seconds.csv`, and which are on the front."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.cost_axes import DOWN, SECONDS, UP, WAYS, CostAxis
from fedsim.study.pairing import score_array, shared_seeds
from fedsim.study.statistics import interval, median_interval
from fedsim.study.summary import (
    Record,
    as_loss,
    distinct,
    grouped,
    larger_is_better,
    metric_of,
    values_of,
    variation_of,
    with_score,
    worst,
)
from fedsim.study.words import part_of, variation_in_words

PER_MESSAGE = {"bytes_up": UP, "bytes_down": DOWN}
"""column of `rounds.csv` -> the column of its mean per message"""


class Runs(NamedTuple):
    """The runs of a comparison that have a score.

    Attributes:
      summary: their rows of `summary.csv`, by method and variation.
      rounds: rows of `rounds.csv`, by method, variation and seed.
    """

    summary: Mapping[tuple[str, str], Sequence[Record]]
    rounds: Mapping[tuple[str, str, int], Sequence[Record]]

    def of(self, row: Record) -> Sequence[Record]:
        """Return the runs of a row, which has a method and a variation."""
        return self.summary[row["method"], variation_of(row)]

    def course(self, run: Record) -> Sequence[Record]:
        """Return the rounds of a run; none if nothing of it was evaluated."""
        return self.rounds.get((run["method"], variation_of(run), run["seed"]), ())


def runs_of(summary: Iterable[Record], rounds: Iterable[Record]) -> Runs:
    """Return the runs of a comparison.

    Args:
      rounds: rows of `rounds.csv`; none if they are not needed.
    """
    return Runs(
        summary=grouped(
            with_score(summary, "final"),
            key=lambda run: (run["method"], variation_of(run)),
        ),
        rounds=grouped(
            rounds,
            key=lambda row: (row["method"], variation_of(row), row["seed"]),
        ),
    )


def cost_rows(
    axis: CostAxis,
    summary: Sequence[Record],
    rounds: Iterable[Record],
    score: str,
    varied: Sequence[str] = (),
) -> list[Record]:
    """Return the rows of `bytes.csv` or `seconds.csv`: scores with what they cost.

    There are none if all rows cost the same; for bytes only if no run reached a target either.

    Rows are compared that differ in method alone, and in what a scenario chooses in order to spend
    less: codecs, or what decides how long a round is. A row is on the front if no other has a score
    at least as good for at most the same cost, and is better in one of the two. The interval of the
    median to the target is that of order statistics; a run that did not reach the target counts as
    ∞.
    """
    runs = runs_of(summary, rounds)
    has_target = any(run.get(axis.target) is not None for run in summary)
    rows = []
    for method_runs in runs.summary.values():
        courses = [runs.course(run) for run in method_runs]
        row = _row(axis, method_runs, courses, score, varied)
        if row is not None and has_target:
            row |= _to_target(axis, method_runs)
        if row is not None:
            rows.append(row)

    table = []
    for group in comparison_groups(axis, rows).values():
        way = differing_way(axis, group)
        if way:
            group = [{**row, "front": int(on_front(row, group, way))} for row in group]
        elif not has_target or axis.equal_time:
            continue
        if axis.equal_time:
            for row, by_seed in zip(group, equal_scores(group, runs), strict=True):
                row |= _in_time(by_seed)
        table += group
    return table


def comparison_groups(axis: CostAxis, rows: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the rows that are compared with each other, by what else varies."""
    compared = axis.compared_paths(map(variation_of, rows))

    def rest(row: Record) -> str:
        return part_of(variation_of(row), lambda path: path not in compared)

    return grouped(rows, key=rest)


def name_of(
    axis: CostAxis,
    row: Record,
    rows: Sequence[Record],
    words: Callable[[str], str] = variation_in_words,
) -> str:
    """Return the name of a row in its group: its method, its settings, or both.

    The method is left out if it is the same for all rows and some setting is not.
    """
    compared = axis.compared_paths(map(variation_of, rows))
    settings = part_of(variation_of(row), lambda path: path in compared)
    names = [words(setting) for setting in split_at_commas(settings)]
    if len(distinct(rows, "method")) > 1 or not names:
        names.insert(0, row["method"])
    return ", ".join(names)


def differing_way(axis: CostAxis, rows: Sequence[Record]) -> str:
    """Return the way in which rows differ, such as `up`, `down` or `both`; empty if they do not."""
    differing = [way for way in axis.ways if len({cost(row, way) for row in rows}) > 1]
    if len(differing) > 1:
        return "both"
    return differing[0] if differing else ""


def cost(row: Record, way: str) -> float:
    """Return the cost of a row, counted in one way."""
    return sum(row[name] for name in WAYS[way].columns)


def on_front(row: Record, rows: Sequence[Record], way: str) -> bool:
    """Return whether no other row is at least as good in score and cost, and better in one."""
    sign = 1 if larger_is_better(row["metric"]) else -1
    score = sign * row["mean"]
    spent = cost(row, way)
    for other in rows:
        other_score = sign * other["mean"]
        other_spent = cost(other, way)
        as_good = other_score >= score and other_spent <= spent
        if as_good and (other_score > score or other_spent < spent):
            return False
    return True


def front_of(rows: Sequence[Record], way: str) -> list[tuple[Record, float]]:
    """Return the rows of the front with their costs, the cheapest first."""
    front = [(row, cost(row, way)) for row in rows if row.get("front")]
    return sorted(front, key=lambda pair: pair[1])


def front_first(rows: Sequence[Record], way: str) -> list[Record]:
    """Return the rows of the front, then the others, each with the most expensive first.

    If all cost the same, which is the empty way, the best are first.
    """
    rising = larger_is_better(str(rows[0]["metric"]))

    def rank(row: Record) -> tuple[bool, float, float]:
        cheapness = -cost(row, way) if way else 0.0
        return not row.get("front"), cheapness, as_loss(row["mean"], rising)

    return sorted(rows, key=rank)


def reference_of(rows: Sequence[Record], baseline: str, way: str) -> Record:
    """Return the row that the others are measured against: the baseline's most expensive one.

    If the baseline has no row, it is the most expensive row of all.
    """
    candidates = [row for row in rows if row["method"] == baseline] or list(rows)
    # The first one if all cost the same.
    return max(candidates, key=lambda row: cost(row, way) if way else 0.0)


def equal_scores(rows: Sequence[Record], runs: Runs) -> list[dict[int, float]]:
    """Return the scores of every row at an equal time, by seed.

    The time is that at which the first of the rows' runs under the seed ends; those that diverged
    do not count. The score is the last value of the metric by then; for a run that diverged, it is
    the worst there is.
    """
    runs_by_seed = []  # one per row
    for row in rows:
        runs_by_seed.append({run["seed"]: run for run in runs.of(row) if runs.course(run)})

    scores: list[dict[int, float]] = [{} for _ in rows]
    for seed in shared_seeds(*runs_by_seed):
        courses = []
        for by_seed in runs_by_seed:
            run = by_seed[seed]
            courses.append(() if run.get("diverged") else runs.course(run))
        end = min((course[-1][SECONDS] for course in courses if course), default=math.inf)
        for row, by_seed, course in zip(rows, scores, courses, strict=True):
            values = values_of((one for one in course if one[SECONDS] <= end), row["metric"])
            by_seed[seed] = values[-1] if values else worst(row["metric"])
    return scores


def _in_time(by_seed: Mapping[int, float]) -> Record:
    """The columns of scores at an equal time."""
    scores = np.array(list(by_seed.values()))
    low, high = interval(scores) or (None, None)
    mean = float(scores.mean()) if len(scores) else None
    return {"in_time": mean, "in_time_low": low, "in_time_high": high}


def _row(
    axis: CostAxis,
    runs: Sequence[Record],
    courses: Sequence[Sequence[Record]],
    score: str,
    varied: Sequence[str],
) -> Record | None:
    """The row of one method under one variation; None if nothing was sent or scored."""
    spent = [columns for course in courses if (columns := _spent(axis, course))]
    scores = score_array(runs, score)
    if not spent or not len(scores):
        return None

    first = runs[0]
    row = {name: first[name] for name in ("method", "variant", *varied) if name in first}
    low, high = interval(scores) or (None, None)
    row |= {
        "metric": metric_of(runs),
        "score": score,
        "seeds": len(scores),
        "mean": float(scores.mean()),
        "ci_low": low,
        "ci_high": high,
    }
    for name in spent[0]:
        row[name] = float(np.mean(values_of(spent, name)))
    return row


def _spent(axis: CostAxis, course: Sequence[Record]) -> dict[str, float]:
    """What a run spent to its end, and per message if it is bytes; empty if no client was sampled.

    If the fleet leaves clients out, it is per message that counts, which has to pay for those that
    are lost.
    """
    sampled = sum(row.get("clients_sampled") or 0 for row in course)
    reported = sum(row.get("clients_reported") or 0 for row in course)
    if not sampled:
        return {}
    leaves_out = any("clients_late" in row for row in course)
    messages = reported if leaves_out and reported else sampled

    last = course[-1]
    spent = {}
    for way in axis.ways:
        for name in WAYS[way].cumulative_columns:
            spent[name] = float(last[name])
    for name, column in PER_MESSAGE.items():
        if name in spent:
            spent[column] = spent[name] / messages
    return spent


def _to_target(axis: CostAxis, runs: Sequence[Record]) -> Record:
    """How many runs reached the target, and the median of what they spent by then, with its ends.

    A run that did not reach it counts as ∞.
    """
    values = values_of(runs, axis.target)
    spent = [*values, *[math.inf] * (len(runs) - len(values))]
    median, low, high = median_interval(spent)
    return {"reached": len(values), axis.target: median, "target_low": low, "target_high": high}

"""The rows of `bytes.csv` and `seconds.csv` in sentences."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedsim.study.cost_axes import TIME, WAYS, Axis, leads, timed
from fedsim.study.costs import (
    cost,
    courses_of,
    direction,
    equal_scores,
    groups,
    name_of,
    reference_of,
    runs_of,
    who_of,
)
from fedsim.study.standings import seed_scores
from fedsim.study.statistics import Paired, paired
from fedsim.study.summary import Record, is_share, larger_is_better
from fedsim.study.words import variation

LEAST = 1.05  # times fewer seconds that are worth a sentence
Scores = Mapping[int, float]
"""scores by seed"""


class Group(NamedTuple):
    """Rows that are compared with each other.

    Attributes:
      axis: what is counted.
      rows: of its table.
      reference: the one that the others are measured by.
      way: in which they differ.
      name: of a row.
    """

    axis: Axis
    rows: Sequence[Record]
    reference: Record
    way: str
    name: Callable[[Record], str]

    @property
    def metric(self) -> str:
        """In words."""
        return str(self.reference["metric"]).replace("_", " ")

    def text(self, value: float) -> str:
        """A score."""
        return f"{value:.3f}" if is_share(str(self.reference["metric"])) else f"{value:.3g}"


def cost_lines(
    axis: Axis,
    rows: Sequence[Record],
    summary: Sequence[Record],
    rounds: Iterable[Record],
    baseline: str,
    score: str,
    scenario: Mapping[str, Any] | None = None,
) -> list[str]:
    """The rows of `bytes.csv` or `seconds.csv` in sentences: what can be saved at the baseline's score, who is best in equal
    time, and who needs least to the target. Of seconds there are none where a second is a local step.

    Args:
      axis: what is counted.
      rows: of its table.
      summary: rows of `summary.csv`.
      rounds: rows of `rounds.csv`.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
      scenario: as in `run.json`, for the names of what varies.
    """
    if axis is TIME and (not rows or not timed(scenario)):
        return []
    runs, lines = runs_of(summary), []
    courses = courses_of(rounds) if axis.equal else {}
    for rest, part in groups(axis, rows).items():
        way, start = direction(axis, part), f"With {variation(rest, scenario)}: " if rest else ""
        if not way or len(part) < 2:
            continue
        name = partial(name_of, axis, rows=part, scenario=scenario)
        group = Group(axis, part, reference_of(part, baseline, way), way, name)
        sentences = []
        if axis.equal:
            sentences += _in_equal_time(group, equal_scores(part, runs, courses))
        if axis is TIME or leads(axis, scenario) or not timed(scenario):  # else clients that are left out send fewer
            sentences += _saved(group, {id(row): seed_scores(runs[who_of(row)], score) for row in part})
        sentences += _soonest(group)
        lines += [_behind(start, line) for line in sentences]
    return lines


def _behind(start: str, line: str) -> str:
    """A sentence behind what it holds for; a name that it begins with stays as it is."""
    lower = start and line.startswith(("None ", "To ", "In equal "))
    return f"{start}{line[0].lower()}{line[1:]}" if lower else start + line


def _tests(group: Group, one: Scores, other: Scores) -> Paired | None:
    """Scores under the same seeds; None where there are none, or no interval of their difference."""
    shared = sorted(one.keys() & other.keys())
    if not shared:
        return None
    values, others = (np.array([part[seed] for seed in shared]) for part in (one, other))
    tests = paired(values, others, larger_is_better(str(group.reference["metric"])))
    return None if tests.ci_low is None or tests.ci_high is None else tests


def _saved(group: Group, scores: Mapping[int, Scores]) -> list[str]:
    """The row that costs least among those that keep the reference's score, in a sentence.

    That is: its mean is not worse than the interval of the reference's, and the interval of their paired difference does
    not leave out 0 on the worse side.
    """
    reference, way, rising = group.reference, group.way, larger_is_better(str(group.reference["metric"]))
    cheaper, level = [row for row in group.rows if cost(row, way) < cost(reference, way)], []
    for row in cheaper:
        tests = _tests(group, scores[id(row)], scores[id(reference)])
        if tests is None or tests.ci_low is None or tests.ci_high is None or reference["ci_low"] is None:
            continue
        high, room = tests.ci_high, row["mean"] - reference["ci_low"]
        if not rising:
            high, room = -tests.ci_low, reference["ci_high"] - row["mean"]
        if high >= 0 and room >= 0:
            level.append((row, tests))
    many, single = group.axis.verb
    words = WAYS[way].words + "," * ("," in WAYS[way].words)
    name, mean = group.name(reference), group.text(reference["mean"])
    if not level and group.axis.equal:
        return []
    if not level:
        few = f"None of the {len(cheaper)} that {many}" if len(cheaper) > 1 else f"None that {single}"
        return [f"{few} fewer {words} than {name} keeps its {group.metric}, {mean}."]
    row, tests = min(level, key=lambda one: cost(one[0], way))
    if group.axis.equal and cost(reference, way) < LEAST * cost(row, way):
        return []
    return [
        f"{group.name(row)} {single} {_times(reference, row, way)} times fewer {words} than {name} "
        f"at {group.metric} {group.text(row['mean'])} against {mean} ({_difference(tests)})."
    ]


def _difference(tests: Paired) -> str:
    return f"{tests.difference:+.3g}, 95 % {tests.ci_low:+.3g} to {tests.ci_high:+.3g}"


def _times(more: Record, less: Record, way: str) -> str:
    """How many times as much one row costs as another; where both ways count, each of them as well."""
    ratio = lambda one: f"{cost(more, one) / cost(less, one):.3g}" if cost(less, one) else "without bound"
    return f"{ratio(way)} (up {ratio('up')}, down {ratio('down')})" if way == "both" else ratio(way)


def _in_equal_time(group: Group, scores: Sequence[Scores]) -> list[str]:
    """Which row is best when the first of them ends."""
    sign = 1 if larger_is_better(str(group.reference["metric"])) else -1
    known = [(row, part) for row, part in zip(group.rows, scores, strict=True) if row.get("in_time") is not None]
    if len(known) < 2:
        return []
    best, of_best = max(known, key=lambda one: sign * one[0]["in_time"])
    others = [(row, part) for row, part in known if row is not best]
    reference = group.reference if best is not group.reference else max(others, key=lambda o: sign * o[0]["in_time"])[0]
    row, of_other = next(((row, part) for row, part in others if row is reference), others[0])
    tests = _tests(group, of_best, of_other)
    sure = f" ({_difference(tests)})" if tests else ""
    who, value = group.name(best), group.text(best["in_time"])
    return [
        f"In equal time, until the first run of a seed ends, {who} comes furthest, to {group.metric} {value}; "
        f"{group.name(row)}: {group.text(row['in_time'])}{sure}."
    ]


def _soonest(group: Group) -> list[str]:
    """Which row reaches the target at the least cost in the median."""
    axis, reference = group.axis, group.reference
    known = [row for row in group.rows if row.get(axis.target) is not None]
    first = min(known, key=lambda row: row[axis.target], default=None)
    if first is None or not math.isfinite(first[axis.target]):
        return []
    noun, name = axis.noun, group.name(first)
    least = f"{axis.amount(first[axis.target])}{_ends(axis, first)}"
    if first is reference:
        return [f"To the target none takes fewer {noun} than {name}: {least} in the median."]
    other = reference[axis.target]
    reached = f"reached by {reference['reached']}"
    against = f"{axis.amount(other)}{_ends(axis, reference)}" if math.isfinite(other) else reached
    return [f"To the target {name} takes fewest {noun}, {least} in the median; {group.name(reference)}: {against}."]


def _ends(axis: Axis, row: Record) -> str:
    low, high = row["target_low"], row["target_high"]
    if low is None:
        return ""
    ends = f"{axis.amount(low)} to {axis.amount(high)}" if math.isfinite(high) else f"from {axis.amount(low)} on"
    return f" (95 % {ends})"

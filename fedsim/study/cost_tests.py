"""What is tested of scores beside what they cost: every kind of claim over all that a page could make of it."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedsim.study.cost_axes import TIME, Axis, leads, timed
from fedsim.study.costs import Courses, cost, direction, equal_scores, groups, name_of, reference_of, runs_of, who_of
from fedsim.study.margin import margin_of
from fedsim.study.standings import seed_scores
from fedsim.study.statistics import Paired, at_least, differ, differences, holm, paired
from fedsim.study.summary import Record, larger_is_better

Scores = Mapping[int, float]
"""scores by seed"""


class Group(NamedTuple):
    """Rows that are compared with each other.

    Attributes:
      axis: what is counted.
      rest: what varies beside what is compared, as a label.
      rows: of its table.
      place: of the row in `rows` that the others are measured by.
      way: in which they differ.
      margin: by how much a score may be less than the reference's and be the same.
      scores: of every row.
      in_time: of every row at an equal time; none where they are not compared so.
      spent: until the target by every row, without bound where it was not reached; none where there is no target.
      name: of a row.
    """

    axis: Axis
    rest: str
    rows: Sequence[Record]
    place: int
    way: str
    margin: float
    scores: Sequence[Scores]
    in_time: Sequence[Scores]
    spent: Sequence[Scores]
    name: Callable[[Record], str]

    @property
    def reference(self) -> Record:
        """The row that the others are measured by."""
        return self.rows[self.place]

    @property
    def others(self) -> list[int]:
        """Places of the other rows."""
        return [place for place in range(len(self.rows)) if place != self.place]

    @property
    def cheaper(self) -> list[int]:
        """Places of the rows that cost less than the reference."""
        most = cost(self.reference, self.way)
        return [place for place in self.others if cost(self.rows[place], self.way) < most]


class Beside(NamedTuple):
    """A row of a group beside its reference.

    Attributes:
      group: number of the group.
      place: of the row.
      numbers: their paired difference; None where they share no seed.
      lean: which way they differ: above 0 where the row has more; of what is not finite by the seeds alone.
      p: of the test, at first as it is, then adjusted after Holm; None where nothing can be tested.
      test: what tells this test from others: that of the same runs is the same.
    """

    group: int
    place: int
    numbers: Paired | None
    lean: float
    p: float | None
    test: Hashable


def cost_groups(
    tables: Mapping[Axis, Sequence[Record]],
    summary: Sequence[Record],
    courses: Courses,
    baseline: str,
    score: str,
    scenario: Mapping[str, Any] | None,
) -> list[Group]:
    """All groups of a page of two or more rows that differ in what they cost, of all axes that sentences are made of."""
    runs = runs_of(summary)
    made = []
    for axis, rows in tables.items():
        if axis is TIME and not timed(scenario):
            continue
        for rest, part in groups(axis, rows).items():
            way = direction(axis, part)
            if not way or len(part) < 2:
                continue
            reference = reference_of(part, baseline, way)
            of_row = [runs[who_of(row)] for row in part]
            group = Group(
                axis=axis,
                rest=rest,
                rows=part,
                place=next(place for place, row in enumerate(part) if row is reference),
                way=way,
                margin=margin_of(scenario, str(reference["metric"]), reference["mean"]),
                scores=[seed_scores(some, score) for some in of_row],
                in_time=equal_scores(part, runs, courses) if axis.equal else [],
                spent=[_spent(some, axis) for some in of_row] if reference.get(axis.target) is not None else [],
                name=partial(name_of, axis, rows=part, scenario=scenario),
            )
            made.append(group)
    return made


def tells_savings(axis: Axis, scenario: Mapping[str, Any] | None) -> bool:
    """Whether what can be saved is told: not of bytes where clients that are left out send fewer."""
    return axis is TIME or leads(axis, scenario) or not timed(scenario)


def same_scores(page: Sequence[Group], scenario: Mapping[str, Any] | None) -> list[Beside]:
    """Rows that cost less than the reference: whether their score is at most the margin less.

    Twice the one-sided p by Student's t, so that it is below 5 % where the 95 % interval ends above -margin; after Holm
    over all such rows of the page.
    """
    made = []
    for number, group in enumerate(page):
        if tells_savings(group.axis, scenario):
            gains = {place: _gain(group, place) for place in group.cheaper}
            made += [
                _beside(number, group, place, group.scores, 2 * at_least(d, -group.margin))
                for place, d in gains.items()
            ]
    return _adjusted(made)


def nothing_kept(page: Sequence[Group], scenario: Mapping[str, Any] | None) -> dict[int, float]:
    """Whether all rows of a group that cost less than the reference score less: p by number, after Holm over the groups.

    All of them do where the least sure one does.
    """
    p_values = {}
    for number, group in enumerate(page):
        if tells_savings(group.axis, scenario) and group.cheaper:
            p_values[number] = max(min(1.0, 2 * at_least(-_gain(group, place), 0.0)) for place in group.cheaper)
    adjusted = holm(list(p_values.values()))
    return {number: p for number, p in zip(p_values, adjusted, strict=True) if p is not None}


def against_reference(page: Sequence[Group], scores: Callable[[Group], Sequence[Scores]]) -> list[Beside]:
    """Every row of the page beside the reference of its group: the exact test, after Holm over all of them.

    Args:
      page: its groups.
      scores: what is compared; none of groups of which nothing is.
    """
    made = []
    for number, group in enumerate(page):
        values = scores(group)
        for place in group.others if values else []:
            one, other = _shared(values[place], values[group.place])
            made.append(_beside(number, group, place, values, differ(one, other) if len(one) else None))
    return _adjusted(made)


def _spent(runs: Sequence[Record], axis: Axis) -> dict[int, float]:
    """What runs spent until the target, by seed."""
    return {run["seed"]: float("inf") if run.get(axis.target) is None else float(run[axis.target]) for run in runs}


def _gain(group: Group, place: int) -> np.ndarray:
    """By how much a row is better than the reference, `[seeds]`."""
    one, other = _shared(group.scores[place], group.scores[group.place])
    d = differences(one, other)
    return d if larger_is_better(str(group.reference["metric"])) else -d


def _shared(one: Scores, other: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Scores under the seeds that both have, `[seeds]` each."""
    seeds = sorted(one.keys() & other.keys())
    return np.array([one[seed] for seed in seeds], float), np.array([other[seed] for seed in seeds], float)


def _beside(number: int, group: Group, place: int, values: Sequence[Scores], p: float | None) -> Beside:
    one, other = _shared(values[place], values[group.place])
    d = differences(one, other)
    lean = d if np.isfinite(d).all() else np.sign(d)
    rising = larger_is_better(str(group.reference["metric"]))
    return Beside(
        group=number,
        place=place,
        numbers=paired(one, other, rising) if len(one) else None,
        lean=float(lean.sum()),
        p=None if p is None else min(1.0, p),
        test=(frozenset(values[place].items()), frozenset(values[group.place].items())),
    )


def _adjusted(made: Sequence[Beside]) -> list[Beside]:
    """The same with p adjusted over all of them."""
    p_values = holm([one.p for one in made], [one.test for one in made])
    return [one._replace(p=p) for one, p in zip(made, p_values, strict=True)]

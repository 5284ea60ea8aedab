"""What is tested of scores beside what they cost: every kind of claim over all that a page could
make of it.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedsim.study.cost_axes import AXES, TIME, Axis, leads, timed
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
from fedsim.study.findings import Findings
from fedsim.study.margin import margin_of
from fedsim.study.pairing import SURE
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
      spent: until the target by every row, without bound where it was not reached; none where there
        is no target.
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
    def metric(self) -> str:
        """What is scored."""
        return str(self.reference["metric"])

    @property
    def rising(self) -> bool:
        """Whether more of the score is better."""
        return larger_is_better(self.metric)

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
    """A row of a group beside its reference. Gains are turned: above 0 the row is better, whatever
    is compared.

    Attributes:
      group: number of the group.
      place: of the row.
      numbers: their paired difference as it is; None where they share no seed.
      gain: the mean difference, turned; None where it is no number.
      gain_ends: its 95 % interval, turned; None where there is none.
      lean: which way they differ: above 0 where the row is better; of what is not finite by the
        seeds alone.
      p: of the test, at first as it is, then adjusted after Holm; None where nothing can be tested.
      test: what tells this test from others: that of the same runs is the same.
    """

    group: int
    place: int
    numbers: Paired | None
    gain: float | None
    gain_ends: tuple[float, float] | None
    lean: float
    p: float | None
    test: Hashable

    @property
    def sure(self) -> bool:
        """Whether its test is below 5 % after Holm."""
        return self.p is not None and self.p < SURE


def cost_groups(found: Findings) -> list[Group]:
    """All groups of a page of two or more rows that differ in what they cost, of all axes that
    sentences are made of.
    """
    counted = {axis: found.rows(axis.table) for axis in AXES if found.rows(axis.table)}
    courses = courses_of(found.rows("rounds")) if any(axis.equal for axis in counted) else {}
    runs = runs_of(found.rows("summary"))
    made = []
    for axis, rows in counted.items():
        if axis is TIME and not timed(found.scenario):
            continue
        for rest, part in groups(axis, rows).items():
            way = direction(axis, part)
            if not way or len(part) < 2:
                continue
            reference = reference_of(part, found.baseline, way)
            of_row = [runs[who_of(row)] for row in part]
            group = Group(
                axis=axis,
                rest=rest,
                rows=part,
                place=next(place for place, row in enumerate(part) if row is reference),
                way=way,
                margin=margin_of(found.scenario, str(reference["metric"]), reference["mean"]),
                scores=[seed_scores(some, found.score) for some in of_row],
                in_time=equal_scores(part, runs, courses) if axis.equal else [],
                spent=[_spent(some, axis) for some in of_row]
                if reference.get(axis.target) is not None
                else [],
                name=partial(name_of, axis, rows=part, words=found.words),
            )
            made.append(group)
    return made


def tells_savings(axis: Axis, scenario: Mapping[str, Any] | None) -> bool:
    """Whether what can be saved is told: not of bytes where clients that are left out send
    fewer.
    """
    return axis is TIME or leads(axis, scenario) or not timed(scenario)


def same_scores(page: Sequence[Group], scenario: Mapping[str, Any] | None) -> list[Beside]:
    """Rows that cost less than the reference: whether their score is at most the margin less.

    Twice the one-sided p by Student's t, so that it is below 5 % where the 95 % interval ends above
    -margin; after Holm over all such rows of the page.
    """
    made = []
    for number, group in enumerate(page):
        if tells_savings(group.axis, scenario):
            for place in group.cheaper:
                p = 2 * at_least(_gains(group, place), -group.margin)
                made.append(_beside(number, group, place, group.scores, group.rising, p))
    return _adjusted(made)


def nothing_kept(page: Sequence[Group], scenario: Mapping[str, Any] | None) -> dict[int, float]:
    """Whether all rows of a group that cost less than the reference score less: p by number, after
    Holm over the groups.

    All of them do where the least sure one does.
    """
    p_values = {}
    for number, group in enumerate(page):
        if tells_savings(group.axis, scenario) and group.cheaper:
            p_values[number] = max(
                min(1.0, 2 * at_least(-_gains(group, place), 0.0)) for place in group.cheaper
            )
    adjusted = holm(list(p_values.values()))
    return {number: p for number, p in zip(p_values, adjusted, strict=True) if p is not None}


def further_in_time(page: Sequence[Group]) -> list[Beside]:
    """Every row of the page beside the reference of its group at an equal time: the exact test,
    after Holm over all of them.
    """
    return _against_reference(page, lambda group: group.in_time, lambda group: group.rising)


def sooner(page: Sequence[Group]) -> list[Beside]:
    """The same of what was spent to the target, of which less is better."""
    return _against_reference(page, lambda group: group.spent, lambda group: False)


def _against_reference(
    page: Sequence[Group],
    scores: Callable[[Group], Sequence[Scores]],
    rising: Callable[[Group], bool],
) -> list[Beside]:
    """Every row beside the reference of its group: the exact test, after Holm over all of them.

    Args:
      page: its groups.
      scores: what is compared; none of groups of which nothing is.
      rising: whether more of it is better.
    """
    made = []
    for number, group in enumerate(page):
        values = scores(group)
        for place in group.others if values else []:
            one, other = _shared(values[place], values[group.place])
            p = differ(one, other) if len(one) else None
            made.append(_beside(number, group, place, values, rising(group), p))
    return _adjusted(made)


def _spent(runs: Sequence[Record], axis: Axis) -> dict[int, float]:
    """What runs spent until the target, by seed."""
    return {
        run["seed"]: float("inf") if run.get(axis.target) is None else float(run[axis.target])
        for run in runs
    }


def _gains(group: Group, place: int) -> np.ndarray:
    """By how much a row is better than the reference, `[seeds]`."""
    d = differences(*_shared(group.scores[place], group.scores[group.place]))
    return d if group.rising else -d


def _shared(one: Scores, other: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Scores under the seeds that both have, `[seeds]` each."""
    seeds = sorted(one.keys() & other.keys())
    return np.array([one[seed] for seed in seeds], float), np.array(
        [other[seed] for seed in seeds], float
    )


def _beside(
    number: int, group: Group, place: int, values: Sequence[Scores], rising: bool, p: float | None
) -> Beside:
    """A row beside the reference; here the sign is turned."""
    one, other = _shared(values[place], values[group.place])
    numbers = paired(one, other, rising) if len(one) else None
    sign = 1 if rising else -1
    d = sign * differences(one, other)
    lean = d if np.isfinite(d).all() else np.sign(d)
    gain = gain_ends = None
    if numbers is not None and numbers.difference is not None:
        gain = sign * numbers.difference
    if numbers is not None and numbers.ci_low is not None and numbers.ci_high is not None:
        low, high = numbers.ci_low, numbers.ci_high
        gain_ends = (low, high) if rising else (-high, -low)
    return Beside(
        group=number,
        place=place,
        numbers=numbers,
        gain=gain,
        gain_ends=gain_ends,
        lean=float(lean.sum()),
        p=None if p is None else min(1.0, p),
        test=(frozenset(values[place].items()), frozenset(values[group.place].items())),
    )


def _adjusted(made: Sequence[Beside]) -> list[Beside]:
    """The same with p adjusted over all of them."""
    p_values = holm([one.p for one in made], [one.test for one in made])
    return [one._replace(p=p) for one, p in zip(made, p_values, strict=True)]

"""Tests of scores and their costs, each adjusted over all claims of its kind on a page.

A page has groups of rows that are compared with each other. In every group the other rows are
compared with a reference, the most expensive row of the baseline.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedsim.study.cost_axes import AXES, TIME, CostAxis, is_about_cost, timed
from fedsim.study.costs import (
    Runs,
    comparison_groups,
    cost,
    differing_way,
    equal_scores,
    name_of,
    reference_of,
    runs_of,
)
from fedsim.study.findings import Findings
from fedsim.study.margin import margin_of
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.standings import seed_scores, shared_scores
from fedsim.study.statistics import Paired, differences, holm, p_different, p_mean_above, paired
from fedsim.study.summary import Record, larger_is_better

Scores = Mapping[int, float]
"""scores by seed"""


class Group(NamedTuple):
    """Rows that are compared with each other.

    Attributes:
      axis: what is counted.
      rest: what varies apart from what is compared, as a label.
      rows: the rows, of the axis's table.
      reference_index: the index of the row that the others are compared with.
      way: the way in which they differ.
      margin: by how much a score may be worse than the reference's and still count as the same.
      scores: the scores of every row.
      in_time: the scores of every row at an equal time; empty if they are not compared so.
      spent: what every row spent to reach the target, infinite if it did not; empty if there is no
        target.
      name: returns the name of a row.
    """

    axis: CostAxis
    rest: str
    rows: Sequence[Record]
    reference_index: int
    way: str
    margin: float
    scores: Sequence[Scores]
    in_time: Sequence[Scores]
    spent: Sequence[Scores]
    name: Callable[[Record], str]

    @property
    def reference(self) -> Record:
        """The row that the others are compared with."""
        return self.rows[self.reference_index]

    @property
    def metric(self) -> str:
        """The metric that is scored."""
        return str(self.reference["metric"])

    @property
    def rising(self) -> bool:
        """Whether a larger score is better."""
        return larger_is_better(self.metric)

    @property
    def others(self) -> list[int]:
        """Indices of the other rows."""
        indices = list(range(len(self.rows)))
        indices.remove(self.reference_index)
        return indices

    @property
    def cheaper(self) -> list[int]:
        """Indices of the rows that cost less than the reference."""
        limit = cost(self.reference, self.way)
        cheaper = []
        for index in self.others:
            if cost(self.rows[index], self.way) < limit:
                cheaper.append(index)
        return cheaper


class RowTest(NamedTuple):
    """A test of a row of a group against its reference.

    Gains are positive if the row is better, whatever is compared.

    Attributes:
      group: the index of the group.
      row: the index of the row in it.
      numbers: the paired difference of the row to the reference; None if they share no seed.
      gain: the mean gain; None if it is not a number.
      gain_ends: its 95 % interval; None if there is none.
      lean: positive if the row is better, negative if it is worse; by the seeds alone if a
        difference is infinite.
      p: the p-value, first as it is, then after Holm; None if nothing could be tested.
      test: equal for tests of the same scores.
    """

    group: int
    row: int
    numbers: Paired | None
    gain: float | None
    gain_ends: tuple[float, float] | None
    lean: float
    p: float | None
    test: Hashable

    @property
    def significant(self) -> bool:
        """Whether its p-value is below 5 % after Holm."""
        return self.p is not None and self.p < SIGNIFICANCE_LEVEL

    def reversed(self) -> "RowTest":
        """Return the same test from the reference's view: its difference to the row."""
        numbers = self.numbers
        if numbers is not None:
            numbers = _negated(numbers)
        return self._replace(numbers=numbers, gain=None, gain_ends=None, lean=-self.lean)


def _negated(numbers: Paired) -> Paired:
    """A difference with the opposite sign."""
    if numbers.difference is None:
        return numbers
    numbers = numbers._replace(difference=-numbers.difference)
    if numbers.ci_low is None or numbers.ci_high is None:
        return numbers
    return numbers._replace(ci_low=-numbers.ci_high, ci_high=-numbers.ci_low)


def cost_groups(findings: Findings) -> list[Group]:
    """Return all groups of a page that have two or more rows, and differ in what these cost.

    Seconds have none if a second of the virtual clock is a local step.
    """
    # Scores at an equal time need every round, and the others none.
    rounds: Sequence[Record] = ()
    if any(axis.equal_time and findings.rows(axis.table) for axis in AXES):
        rounds = findings.rows("rounds")
    runs = runs_of(findings.rows("summary"), rounds)

    page = []
    for axis in AXES:
        if axis is TIME and not timed(findings.scenario):
            continue
        for rest, rows in comparison_groups(axis, findings.rows(axis.table)).items():
            way = differing_way(axis, rows)
            if way and len(rows) > 1:
                page.append(_group(axis, rest, rows, way, runs, findings))
    return page


def _group(
    axis: CostAxis,
    rest: str,
    rows: Sequence[Record],
    way: str,
    runs: Runs,
    findings: Findings,
) -> Group:
    reference = reference_of(rows, findings.baseline, way)
    margin = margin_of(findings.scenario, str(reference["metric"]), reference["mean"])
    has_target = reference.get(axis.target) is not None

    reference_index = 0
    scores = []
    spent = []
    for index, row in enumerate(rows):
        row_runs = runs.of(row)
        scores.append(seed_scores(row_runs, findings.score))
        if has_target:
            spent.append(_spent(row_runs, axis))
        if row is reference:  # an equal row may be before it
            reference_index = index

    in_time = []
    if axis.equal_time:
        in_time = equal_scores(rows, runs)
    return Group(
        axis=axis,
        rest=rest,
        rows=rows,
        reference_index=reference_index,
        way=way,
        margin=margin,
        scores=scores,
        in_time=in_time,
        spent=spent,
        name=partial(name_of, axis, rows=rows, words=findings.words),
    )


def _spent(runs: Sequence[Record], axis: CostAxis) -> dict[int, float]:
    """What runs spent to reach the target, by seed; infinite if they did not."""
    spent = {}
    for run in runs:
        value = run.get(axis.target)
        if value is None:
            value = math.inf
        spent[run["seed"]] = float(value)
    return spent


def tells_savings(axis: CostAxis, scenario: Mapping[str, Any] | None) -> bool:
    """Return whether savings are reported.

    Savings of bytes are not if a fleet leaves clients out, which then send fewer.
    """
    return axis is TIME or is_about_cost(axis, scenario) or not timed(scenario)


def same_scores(page: Sequence[Group], scenario: Mapping[str, Any] | None) -> list[RowTest]:
    """Test whether rows that cost less than the reference score at most the margin less.

    The p-value is twice the one-sided one of Student's t, so that it is below 5 % if the 95 %
    interval ends above -margin. Holm's adjustment runs over all such rows of the page.
    """
    tests = []
    for number, group in enumerate(page):
        if not tells_savings(group.axis, scenario):
            continue
        for index in group.cheaper:
            p = 2 * p_mean_above(_gains(group, index), -group.margin)
            tests.append(_row_test(number, group, index, group.scores, group.rising, p))
    return _adjusted(tests)


def nothing_kept(page: Sequence[Group], scenario: Mapping[str, Any] | None) -> dict[int, float]:
    """Test whether all rows of a group that cost less than the reference score less.

    They do if the row with the largest p-value does. Holm's adjustment runs over the groups.

    Returns:
      p-values by the index of the group.
    """
    p_values = {}
    for number, group in enumerate(page):
        if not tells_savings(group.axis, scenario) or not group.cheaper:
            continue
        row_p_values = []
        for index in group.cheaper:
            p = 2 * p_mean_above(-_gains(group, index), 0.0)
            row_p_values.append(min(1.0, p))
        p_values[number] = max(row_p_values)

    adjusted = {}
    for number, p in zip(p_values, holm(list(p_values.values())), strict=True):
        if p is not None:
            adjusted[number] = p
    return adjusted


def further_in_time(page: Sequence[Group]) -> list[RowTest]:
    """Test whether rows score differently than the reference at an equal time."""
    return _against_reference(
        page,
        values_of=lambda group: group.in_time,
        rising=lambda group: group.rising,
    )


def sooner(page: Sequence[Group]) -> list[RowTest]:
    """Test whether rows spend another amount than the reference to reach the target."""
    return _against_reference(
        page,
        values_of=lambda group: group.spent,
        rising=lambda group: False,
    )


def _against_reference(
    page: Sequence[Group],
    values_of: Callable[[Group], Sequence[Scores]],
    rising: Callable[[Group], bool],
) -> list[RowTest]:
    """The exact tests of every row against its reference, after Holm over all of them.

    Args:
      page: the groups.
      values_of: returns what is compared in a group, by row; empty if nothing is.
      rising: returns whether a larger value is better.
    """
    tests = []
    for number, group in enumerate(page):
        values = values_of(group)
        if not values:
            continue
        for index in group.others:
            one, other = shared_scores(values[index], values[group.reference_index])
            p = None
            if len(one):
                p = p_different(one, other)
            tests.append(_row_test(number, group, index, values, rising(group), p))
    return _adjusted(tests)


def _gains(group: Group, index: int) -> np.ndarray:
    """How much better a row scores than the reference `[seeds]`."""
    scores, reference_scores = shared_scores(
        group.scores[index], group.scores[group.reference_index]
    )
    d = differences(scores, reference_scores)
    return d if group.rising else -d


def _row_test(
    number: int, group: Group, index: int, values: Sequence[Scores], rising: bool, p: float | None
) -> RowTest:
    """A row compared with the reference.

    Args:
      number: the index of the group.
      group: the group.
      index: the index of the row.
      values: what is compared, by row.
      rising: whether a larger value is better.
      p: the p-value before Holm's adjustment.
    """
    if p is not None:
        p = min(1.0, p)
    of_row = values[index]
    of_reference = values[group.reference_index]
    one, other = shared_scores(of_row, of_reference)
    numbers = None
    if len(one):
        numbers = paired(one, other, rising)

    sign = 1 if rising else -1
    gain = None
    gain_ends = None
    if numbers is not None and numbers.difference is not None:
        gain = sign * numbers.difference
    if numbers is not None and numbers.ci_low is not None and numbers.ci_high is not None:
        low = numbers.ci_low
        high = numbers.ci_high
        gain_ends = (low, high) if rising else (-high, -low)

    d = sign * differences(one, other)
    if not np.isfinite(d).all():
        d = np.sign(d)  # each seed counts as one
    return RowTest(
        group=number,
        row=index,
        numbers=numbers,
        gain=gain,
        gain_ends=gain_ends,
        lean=float(d.sum()),
        p=p,
        test=(frozenset(of_row.items()), frozenset(of_reference.items())),
    )


def _adjusted(tests: Sequence[RowTest]) -> list[RowTest]:
    """Tests with p-values after Holm over all of them."""
    p_values = [test.p for test in tests]
    scores = [test.test for test in tests]
    adjusted = []
    for test, p in zip(tests, holm(p_values, scores), strict=True):
        adjusted.append(test._replace(p=p))
    return adjusted

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
from fedsim.study.pairing import SIGNIFICANCE_LEVEL, seed_scores, shared_scores
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

    Attributes:
      row: the index of the row.
      numbers: the paired difference of the row to the reference; None if they share no seed.
      best_gain: the upper end of the 95 % interval of how much better the row is, or its mean if
        there is no interval; None if it is not a number.
      lean: positive if the row is better, negative if it is worse; by the seeds alone if a
        difference is infinite.
      p: the p-value, first as it is, then after Holm; None if nothing could be tested.
      test: equal for tests of the same scores.
    """

    row: int
    numbers: Paired | None
    best_gain: float | None
    lean: float
    p: float | None
    test: Hashable

    @property
    def significant(self) -> bool:
        """Whether its p-value is below 5 % after Holm."""
        return self.p is not None and self.p < SIGNIFICANCE_LEVEL

    @property
    def is_better(self) -> bool:
        """Whether the row is significantly better."""
        return self.significant and self.lean > 0

    @property
    def may_be_level(self) -> bool:
        """Whether the row may be as good as the reference."""
        return self.best_gain is not None and self.best_gain >= 0


class Tests(NamedTuple):
    """The tests of a group, adjusted over the whole page; by the index of the row that is tested.

    Attributes:
      same: whether a row that costs less has the same score as the reference.
      worse: the p-value of all such rows scoring less; None if it was not tested.
      in_time: whether a row has another score at an equal time.
      sooner: whether a row spends another amount to reach the target.
    """

    same: Mapping[int, RowTest]
    worse: float | None
    in_time: Mapping[int, RowTest]
    sooner: Mapping[int, RowTest]


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


def tests_of(page: Sequence[Group], scenario: Mapping[str, Any] | None) -> list[Tests]:
    """Return the tests of every group of a page, each kind adjusted over all groups.

    Args:
      page: the groups.
      scenario: the scenario, as in `run.json`.
    """
    parts = [
        _adjusted([_same(group, scenario) for group in page]),
        _worse(page, scenario),
        _adjusted([_against_reference(group, group.in_time, group.rising) for group in page]),
        _adjusted([_against_reference(group, group.spent, False) for group in page]),
    ]
    return [Tests(*of_group) for of_group in zip(*parts, strict=True)]


def _same(group: Group, scenario: Mapping[str, Any] | None) -> list[RowTest]:
    """Test whether rows that cost less than the reference score at most the margin less.

    The p-value is twice the one-sided one of Student's t, so that it is below 5 % if the 95 %
    interval ends above -margin.
    """
    if not tells_savings(group.axis, scenario):
        return []
    tests = []
    for index in group.cheaper:
        p = 2 * p_mean_above(_gains(group, index), -group.margin)
        tests.append(_row_test(group, index, group.scores, group.rising, p))
    return tests


def _worse(page: Sequence[Group], scenario: Mapping[str, Any] | None) -> list[float | None]:
    """Test whether all rows of a group that cost less than the reference score less.

    They do if the row with the largest p-value does. Holm's adjustment runs over the groups.
    """
    p_values: list[float | None] = []
    for group in page:
        p = None
        if tells_savings(group.axis, scenario) and group.cheaper:
            p = min(1.0, max(2 * p_mean_above(-_gains(group, i), 0.0) for i in group.cheaper))
        p_values.append(p)
    return holm(p_values)


def _against_reference(group: Group, values: Sequence[Scores], rising: bool) -> list[RowTest]:
    """The exact tests of every row against the reference; none if there are no values.

    Args:
      group: the group.
      values: what is compared, by row.
      rising: whether a larger value is better.
    """
    if not values:
        return []
    tests = []
    for index in group.others:
        one, other = shared_scores(values[index], values[group.reference_index])
        p = p_different(one, other) if len(one) else None
        tests.append(_row_test(group, index, values, rising, p))
    return tests


def _gains(group: Group, index: int) -> np.ndarray:
    """How much better a row scores than the reference `[seeds]`."""
    scores, reference_scores = shared_scores(
        group.scores[index], group.scores[group.reference_index]
    )
    d = differences(scores, reference_scores)
    return d if group.rising else -d


def _row_test(
    group: Group, index: int, values: Sequence[Scores], rising: bool, p: float | None
) -> RowTest:
    """A row compared with the reference.

    Args:
      group: the group.
      index: the index of the row.
      values: what is compared, by row.
      rising: whether a larger value is better.
      p: the p-value before Holm's adjustment.
    """
    of_row = values[index]
    of_reference = values[group.reference_index]
    one, other = shared_scores(of_row, of_reference)
    numbers = paired(one, other, rising) if len(one) else None

    best_gain = None
    if numbers is not None and numbers.difference is not None:
        ends = [numbers.ci_low, numbers.ci_high]
        gains = [end if rising else -end for end in ends if end is not None]
        best_gain = max(gains, default=numbers.difference if rising else -numbers.difference)

    d = differences(one, other) if rising else -differences(one, other)
    if not np.isfinite(d).all():
        d = np.sign(d)  # each seed counts as one
    return RowTest(
        row=index,
        numbers=numbers,
        best_gain=best_gain,
        lean=float(d.sum()),
        p=None if p is None else min(1.0, p),
        test=(frozenset(of_row.items()), frozenset(of_reference.items())),
    )


def _adjusted(groups: Sequence[Sequence[RowTest]]) -> list[dict[int, RowTest]]:
    """Tests by group and row, with p-values after Holm over all of them."""
    every = [test for tests in groups for test in tests]
    p_values = iter(holm([test.p for test in every], [test.test for test in every]))
    adjusted = []
    for tests in groups:
        adjusted.append({test.row: test._replace(p=next(p_values)) for test in tests})
    return adjusted

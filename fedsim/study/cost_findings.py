"""What costs less at the same score, and who is better in equal time: sentences about costs.

In every group of rows of `bytes.csv` or `seconds.csv`, the others are compared with a reference,
the most expensive row of the baseline. Holm's adjustment runs over all groups of a page.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.claims import IN_TIME, SAME_SCORE, Claim, Finding
from fedsim.study.cost_axes import AXES, TIME, WAYS, CostAxis, is_about_cost, timed
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
from fedsim.study.pairing import SIGNIFICANCE_LEVEL, seed_scores, shared_scores
from fedsim.study.statistics import differences, holm, p_different, p_mean_above, paired
from fedsim.study.summary import Record, in_words, is_share, larger_is_better
from fedsim.study.words import difference_in_words

MIN_SAVING = 1.05  # how many times less is worth a sentence
MARGIN = 0.01  # of scores between 0 and 1; of others, as a fraction of the baseline's mean

SAME = "{row} {takes} {times} times fewer {counted} than {other}, at the same {metric}"
NONE_SHOWN = "No saving in {counted} is shown at the {metric} of {other}"
BEST_OF_CHEAPER = "{row}, {times} times fewer: {scores}"
LESS_THAN = "; less than {margin:.3g} worse, p = {p:.2g} after Holm"
SOONER = "In equal time, {row} beats {other}: {metric} {score}"
NONE_SOONER = "In equal time, none clearly beats {other}"
WHEN_FIRST_ENDS = "{scores}, when the first run of each seed ends; p = {p:.2g} after Holm"
SCORES = "{metric} {score} against {other_score}, difference {difference}"


class Group(NamedTuple):
    """Rows that are compared with each other.

    Attributes:
      rest: what varies apart from what is compared, as a label.
    """

    axis: CostAxis
    rest: str
    rows: Sequence[Record]
    reference: Record
    way: str

    @property
    def metric(self) -> str:
        """The metric that is scored."""
        return str(self.reference["metric"])

    @property
    def cheaper(self) -> list[Record]:
        """The rows that cost less than the reference."""
        limit = cost(self.reference, self.way)
        return [row for row in self.rows if cost(row, self.way) < limit]


class RowTest(NamedTuple):
    """A test of a row of a group against the reference.

    Attributes:
      column: the mean score that was tested, `mean` or `in_time`.
      scores: the row's scores by seed.
      reference_scores: those of the reference.
      p: the p-value, first as it is, then after Holm; None if they share no seed.
    """

    group: Group
    row: Record
    column: str
    scores: Mapping[int, float]
    reference_scores: Mapping[int, float]
    p: float | None

    @property
    def what(self) -> Hashable:
        """Equal for tests of the same scores."""
        return frozenset(self.scores.items()), frozenset(self.reference_scores.items())

    @property
    def is_better(self) -> bool:
        """Whether the row is the better one, however certain that is."""
        d = differences(*shared_scores(self.scores, self.reference_scores))
        if not np.isfinite(d).all():
            d = np.sign(d)  # each seed counts as one
        return bool((d.sum() > 0) if larger_is_better(self.group.metric) else (d.sum() < 0))

    @property
    def difference(self) -> str:
        """The difference of the two scores, in words."""
        one, other = shared_scores(self.scores, self.reference_scores)
        if len(one):
            numbers = paired(one, other, larger_is_better(self.group.metric))
            if numbers.difference is not None:
                return difference_in_words(numbers.difference, numbers.ci_low, numbers.ci_high)
        return "without a finite value"

    @property
    def is_significant(self) -> bool:
        """Whether its p-value is below 5 % after Holm."""
        return self.p is not None and self.p < SIGNIFICANCE_LEVEL


def margin_of(scenario: Mapping[str, Any] | None, metric: str, baseline: float) -> float:
    """Return how much worse a score may be and still count as the same: `compare.margin`.

    The default is 0.01 for scores between 0 and 1, and 1 % of the baseline's mean for others.
    """
    margin = ((scenario or {}).get("compare") or {}).get("margin")
    if margin is not None:
        return float(margin)
    return MARGIN if is_share(metric) else MARGIN * abs(baseline)


def cost_findings(axis: CostAxis, findings: Findings) -> list[Finding]:
    """Return what is found about costs where the comparison asks, the most important first.

    It is who is best in equal time, and what can be saved at the score of the baseline. There is
    nothing about seconds if a second is a local step.
    """
    # Scores at an equal time need every round, and the others none.
    needs_rounds = any(one.equal_time and findings.rows(one.table) for one in AXES)
    runs = runs_of(findings.rows("summary"), findings.rows("rounds") if needs_rounds else ())
    groups = _groups(findings)
    same_tests = _adjusted(test for group in groups for test in _same_tests(group, runs, findings))
    time_tests = _adjusted(test for group in groups for test in _time_tests(group, runs))

    found: list[Finding] = []
    asked = set(split_at_commas(findings.asked))
    for group in groups:
        if group.axis is not axis or not set(split_at_commas(group.rest)) <= asked:
            continue
        in_time = _in_equal_time([test for test in time_tests if test.group is group], findings)
        saved = _saved([test for test in same_tests if test.group is group], findings)
        where = findings.words(group.rest)
        found += [part._replace(where=where) for part in (in_time, saved) if part is not None]
    return found


def _groups(findings: Findings) -> list[Group]:
    """All groups of a page that have two or more rows, and differ in what these cost."""
    groups = []
    for axis in AXES:
        if axis is TIME and not timed(findings.scenario):
            continue
        for rest, rows in comparison_groups(axis, findings.rows(axis.table)).items():
            way = differing_way(axis, rows)
            if way and len(rows) > 1:
                reference = reference_of(rows, findings.baseline, way)
                groups.append(Group(axis, rest, rows, reference, way))
    return groups


def _same_tests(group: Group, runs: Runs, findings: Findings) -> list[RowTest]:
    """Test whether rows that cost less than the reference score at most the margin less.

    The p-value is twice the one-sided one of Student's t, so that it is below 5 % if the 95 %
    interval ends above -margin. Bytes are not tested if a fleet leaves clients out, which then send
    fewer.
    """
    scenario = findings.scenario
    if group.axis is not TIME and timed(scenario) and not is_about_cost(group.axis, scenario):
        return []
    margin = margin_of(scenario, group.metric, group.reference["mean"])
    reference_scores = seed_scores(runs.of(group.reference), findings.score)
    tests = []
    for row in group.cheaper:
        scores = seed_scores(runs.of(row), findings.score)
        d = differences(*shared_scores(scores, reference_scores))
        gains = d if larger_is_better(group.metric) else -d
        p = min(1.0, 2 * p_mean_above(gains, -margin))
        tests.append(RowTest(group, row, "mean", scores, reference_scores, p))
    return tests


def _time_tests(group: Group, runs: Runs) -> list[RowTest]:
    """The exact tests of scores at an equal time, of every row against the reference."""
    if not group.axis.equal_time:
        return []
    by_row = list(zip(group.rows, equal_scores(group.rows, runs), strict=True))
    reference_scores = next(scores for row, scores in by_row if row is group.reference)
    tests = []
    for row, scores in by_row:
        if row is group.reference:
            continue
        p = p_different(*shared_scores(scores, reference_scores))
        tests.append(RowTest(group, row, "in_time", scores, reference_scores, p))
    return tests


def _adjusted(tests: Iterable[RowTest]) -> list[RowTest]:
    """Tests with p-values after Holm over all of them."""
    tests = list(tests)
    p_values = holm([test.p for test in tests], [test.what for test in tests])
    return [test._replace(p=p) for test, p in zip(tests, p_values, strict=True)]


def _saved(tests: Sequence[RowTest], findings: Findings) -> Finding | None:
    """What can be saved at the score of the reference; None if nothing costs less.

    It is about the cheapest row of those with the same score, or else the best one that is cheaper.
    """
    if not tests:
        return None
    group = tests[0].group
    fields = {
        "takes": group.axis.verb,
        "counted": WAYS[group.way].words.partition(",")[0],
        "other": _name(group, group.reference, findings),
        "metric": in_words(group.metric),
    }
    same = [test for test in tests if test.is_significant]
    if not same:
        if group.axis.equal_time:
            return None
        sign = 1 if larger_is_better(group.metric) else -1
        best = max(tests, key=lambda test: sign * test.row["mean"])
        numbers = BEST_OF_CHEAPER.format(
            row=_name(group, best.row, findings),
            times=f"{_times_fewer(best):.3g}",
            scores=_scores(best, findings),
        )
        return Finding(NONE_SHOWN.format(**fields), numbers)

    cheapest = min(same, key=lambda test: cost(test.row, group.way))
    times = _times_fewer(cheapest)
    if group.axis.equal_time and times < MIN_SAVING:
        return None
    name = _name(group, cheapest.row, findings)
    margin = margin_of(findings.scenario, group.metric, group.reference["mean"])
    numbers = _scores(cheapest, findings) + LESS_THAN.format(margin=margin, p=cheapest.p)
    return Finding(
        text=SAME.format(**fields, row=name, times=f"{times:.3g}"),
        numbers=numbers,
        claims=[Claim(SAME_SCORE, name, fields["other"], group.rest, cheapest.p)],
        begins_with_name=True,
        main_number=(f"fewer {group.axis.noun}", f"{times:.3g} times"),
    )


def _in_equal_time(tests: Sequence[RowTest], findings: Findings) -> Finding | None:
    """Whether a row is better than the reference at an equal time; None if that is unknown."""
    scored = [test for test in tests if test.p is not None]
    if not scored:
        return None
    group = scored[0].group
    sign = 1 if larger_is_better(group.metric) else -1
    best = max(scored, key=lambda test: sign * test.row["in_time"])
    name = _name(group, best.row, findings)
    other = _name(group, group.reference, findings)
    numbers = WHEN_FIRST_ENDS.format(scores=_scores(best, findings), p=best.p)
    if not (best.is_significant and best.is_better):
        return Finding(NONE_SOONER.format(other=other), f"{name}: {numbers}")
    metric = in_words(group.metric)
    score = findings.score_text(best.row["in_time"])
    return Finding(
        text=SOONER.format(row=name, other=other, metric=metric, score=score),
        numbers=numbers,
        claims=[Claim(IN_TIME, name, other, group.rest, best.p)],
        main_number=(metric, score),
    )


def _name(group: Group, row: Record, findings: Findings) -> str:
    return name_of(group.axis, row, group.rows, findings.words)


def _times_fewer(test: RowTest) -> float:
    """How many times as much the reference costs."""
    group = test.group
    spent = cost(test.row, group.way)
    return cost(group.reference, group.way) / spent if spent else math.inf


def _scores(test: RowTest, findings: Findings) -> str:
    """The scores of a row and of the reference, and their difference."""
    return SCORES.format(
        metric=in_words(test.group.metric),
        score=findings.score_text(test.row[test.column]),
        other_score=findings.score_text(test.group.reference[test.column]),
        difference=test.difference,
    )

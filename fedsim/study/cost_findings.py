"""What `bytes.csv` and `seconds.csv` say: what costs less, and at which score."""

import math
from collections.abc import Sequence

from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.claims import IN_TIME, NONE_KEEPS, SAME_SCORE, SOONER, Claim, Finding
from fedsim.study.cost_axes import WAYS, CostAxis
from fedsim.study.cost_tests import Group, RowTest, Tests, cost_groups, tells_savings, tests_of
from fedsim.study.costs import cost
from fedsim.study.findings import Findings
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import Record, in_words
from fedsim.study.words import count, difference_in_words

MIN_SAVING = 1.05  # how many times less is worth a sentence

SAME = "{row} {takes} {times} times fewer {counted} than {other}, at the same {metric}"
NONE_KEEPS_IT = "None that {takes} fewer {counted} keeps the {metric} of {other}"
NONE_SHOWN = "None that {takes} fewer {counted} is shown to keep {other}'s {metric}"
CHEAPER = "{row}, {times} times fewer: {scores}"
SCORES = "{metric} {score} against {other_score}, difference {difference}"
LESS_THAN = "; less than {margin:.3g} worse, p = {p:.2g} after Holm"
WORSE = "; p = {p:.2g} after Holm"

SOONER_SCORE = "In equal time, {row} beats {other}: {metric} {score}"
NONE_FURTHER = "In equal time, none clearly beats {other}"
WHEN_FIRST_ENDS = ", when the first run of each seed ends"

FEWEST = "{row} reaches the target with fewer {noun} than {other}"
NONE_FEWER = "None clearly reaches the target with fewer {noun} than {other}"
MEDIANS = "median of {row} {least}, of {other} {most}; {certainty}"
NOT_REACHED = "reached in {reached} of {seeds}"


def cost_findings(axis: CostAxis, findings: Findings) -> list[Finding]:
    """Return what is found about costs where the comparison asks, the most important first.

    It is who is best in equal time, what can be saved at the score of the baseline, and who spends
    least to reach the target. There is nothing about seconds if a second is a local step.
    """
    page = cost_groups(findings)
    found: list[Finding] = []
    for group, tests in zip(page, tests_of(page, findings.scenario), strict=True):
        rest = split_at_commas(group.rest)
        if group.axis is not axis or not set(rest) <= set(split_at_commas(findings.asked)):
            continue
        parts = [_in_equal_time(group, tests, findings)]
        if tells_savings(axis, findings.scenario):
            parts.append(_saved(group, tests, findings))
        parts.append(_soonest(group, tests))
        where = findings.words(group.rest)
        found += [part._replace(where=where) for part in parts if part is not None]
    return found


def _saved(group: Group, tests: Tests, findings: Findings) -> Finding | None:
    """What can be saved at the score of the reference; None if nothing costs less.

    It is about the cheapest row of those with the same score, or else of all that may have it.
    """
    fields = {
        "takes": group.axis.verb[1],
        "counted": WAYS[group.way].words.partition(",")[0],
        "other": group.name(group.reference),
        "metric": in_words(group.metric),
    }
    same = _cheapest(group, [test for test in tests.same.values() if test.significant])
    if same is not None:
        row = group.rows[same.row]
        times = _times(group, row)
        if group.axis.equal_time and times < MIN_SAVING:
            return None
        text = SAME.format(**fields, row=group.name(row), times=f"{times:.3g}")
        numbers = _scores(group, same, findings)
        numbers += LESS_THAN.format(margin=group.margin, p=same.p)
        claim = _claim(SAME_SCORE, group, row, same.p)
        return Finding(text, numbers, [claim], begins_with_name=True)

    if not group.cheaper or group.axis.equal_time:
        return None
    maybe = _cheapest(group, [test for test in tests.same.values() if test.may_be_level])
    numbers = ""
    if maybe is not None:
        row = group.rows[maybe.row]
        scores = _scores(group, maybe, findings)
        times = f"{_times(group, row):.3g}"
        numbers = CHEAPER.format(row=group.name(row), times=times, scores=scores)
    if maybe is not None or tests.worse is None or tests.worse >= SIGNIFICANCE_LEVEL:
        return Finding(NONE_SHOWN.format(**fields), numbers)
    numbers = WORSE.format(p=tests.worse).removeprefix("; ")
    claim = Claim(NONE_KEEPS, "", fields["other"], group.rest, tests.worse)
    return Finding(NONE_KEEPS_IT.format(**fields), numbers, [claim])


def _cheapest(group: Group, tests: Sequence[RowTest]) -> RowTest | None:
    """The test of the row that costs least; None if there is no test."""
    return min(tests, key=lambda test: cost(group.rows[test.row], group.way), default=None)


def _times(group: Group, row: Record) -> float:
    """How many times as much the reference costs."""
    divisor = cost(row, group.way)
    return cost(group.reference, group.way) / divisor if divisor else math.inf


def _scores(group: Group, test: RowTest, findings: Findings, column: str = "mean") -> str:
    """The scores of a row and of the reference, and their difference."""
    difference = "without a finite value"
    numbers = test.numbers
    if numbers is not None and numbers.difference is not None:
        difference = difference_in_words(numbers.difference, numbers.ci_low, numbers.ci_high)
    return SCORES.format(
        metric=in_words(group.metric),
        score=findings.score_text(group.rows[test.row][column]),
        other_score=findings.score_text(group.reference[column]),
        difference=difference,
    )


def _in_equal_time(group: Group, tests: Tests, findings: Findings) -> Finding | None:
    """Whether a row is better than the reference at an equal time; None if that is unknown."""
    column = "in_time"
    scored = [test for test in tests.in_time.values() if group.rows[test.row][column] is not None]
    if not scored or group.reference[column] is None:
        return None
    sign = 1 if group.rising else -1
    best = max(scored, key=lambda test: sign * group.rows[test.row][column])
    row = group.rows[best.row]
    fields = {
        "row": group.name(row),
        "other": group.name(group.reference),
        "metric": in_words(group.metric),
        "score": findings.score_text(row[column]),
    }
    numbers = f"{_scores(group, best, findings, column)}{WHEN_FIRST_ENDS}; {_certainty(best)}"
    if not best.is_better:
        return Finding(NONE_FURTHER.format(**fields), f"{fields['row']}: {numbers}")
    claim = _claim(IN_TIME, group, row, best.p)
    return Finding(SOONER_SCORE.format(**fields), numbers, [claim])


def _soonest(group: Group, tests: Tests) -> Finding | None:
    """Whether a row spends less than the reference to reach the target; None if none reaches it."""
    target = group.axis.target
    reached = [
        test for test in tests.sooner.values() if math.isfinite(group.rows[test.row][target])
    ]
    if not reached:
        return None
    first = min(reached, key=lambda test: group.rows[test.row][target])
    row = group.rows[first.row]
    reference = group.reference
    fields = {
        "row": group.name(row),
        "noun": group.axis.noun,
        "other": group.name(reference),
    }
    most = NOT_REACHED.format(reached=reference["reached"], seeds=count(reference["seeds"], "seed"))
    if math.isfinite(reference[target]):
        most = group.axis.amount(reference[target])
    least = group.axis.amount(row[target])
    numbers = MEDIANS.format(**fields, least=least, most=most, certainty=_certainty(first))
    if not first.is_better:
        return Finding(NONE_FEWER.format(**fields), numbers)
    claim = _claim(SOONER, group, row, first.p)
    return Finding(FEWEST.format(**fields), numbers, [claim], begins_with_name=True)


def _certainty(test: RowTest) -> str:
    return "not significant" if test.p is None else f"p = {test.p:.2g} after Holm"


def _claim(kind: str, group: Group, row: Record, p: float | None) -> Claim:
    """A claim about a row against the reference."""
    return Claim(kind, group.name(row), group.name(group.reference), group.rest, p or 0.0)

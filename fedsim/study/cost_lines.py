"""Sentences from `bytes.csv` and `seconds.csv`: what costs less, and at which score."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedsim.study.claims import IN_TIME, NONE_KEEPS, SAME_SCORE, SOONER, Claim, Priority, Sentence
from fedsim.study.cost_axes import AXES, WAYS, CostAxis, is_about_cost
from fedsim.study.cost_tests import (
    Group,
    RowTest,
    cost_groups,
    further_in_time,
    nothing_kept,
    same_scores,
    sooner,
    tells_savings,
)
from fedsim.study.costs import cost
from fedsim.study.findings import Findings
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.statistics import Paired
from fedsim.study.summary import Record, in_words, is_share
from fedsim.study.words import count, difference_in_words, others_of

MIN_SAVING = 1.05  # how many times fewer seconds are worth a sentence

FEWER = "{row} {verb} {times} times fewer {counted} than {reference}"
SAME = (
    "{fewer} at {metric} {score}, against {other} "
    "({difference}; less than {margin:.3g} worse, p = {p:.2g} after Holm)."
)
UNSURE = "{fewer}; its {metric}, {score} against {other}, {doubt} ({difference})."
NO_DIFFERENCE = "no finite difference"
NO_INTERVAL = "has no interval to be judged by"
MAY_COST = "does not differ significantly: it may be up to {loss} worse"
SAME_UNDER_ALL = (
    "is the same under all {seeds} seeds, too few to show that it is less than {margin:.3g} worse"
)
BETTER_BY_INTERVAL = "is better by the 95 % interval, but not after Holm"

NONE_OF_SEVERAL = "None of the {count} that {verb}"
NONE_OF_ONE = "None that {verb}"
NOTHING_KEPT = (
    "{none} fewer {counted} than {reference} keeps its {metric}, {score} (p = {p:.2g} after Holm)."
)
NOTHING_SHOWN = (
    "{none} fewer {counted} than {reference} is shown to keep its {metric}, {score}, "
    "within {margin:.3g}."
)

FURTHEST = (
    "In equal time (until the first run of each seed ends), {row} gets furthest: "
    "{metric} {score}; {other}: {other_score} ({certainty})."
)
NONE_SOONER = (
    "To reach the target, no other needs fewer {noun} than {row}: "
    "a median of {least}, significantly fewer than {others}."
)
NONE_SOONER_UNSURE = (
    "To reach the target, no other needs fewer {noun} than {row}: "
    "a median of {least}, not significantly fewer than any other."
)
SOONEST = (
    "To reach the target, {row} needs the fewest {noun}: a median of {least}; "
    "{reference}: {against}, {certainty}."
)
NOT_REACHED = "reached in {reached} of {seeds}"
SIGNIFICANT = "p = {:.2g} after Holm"
NOT_SIGNIFICANT = "not significant"

# priority of a sentence about costs, if they are what the comparison is about -> if they are not
OTHER = {
    Priority.COSTS: Priority.OTHER_COSTS,
    Priority.SAVING: Priority.OTHER_SAVING,
    Priority.TARGET: Priority.OTHER_TARGET,
}


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


def cost_lines(findings: Findings) -> dict[CostAxis, list[Sentence]]:
    """Return the sentences about costs, by axis.

    They say who is best in equal time, what can be saved at the score of the baseline, and who
    spends least to reach the target. There are none about seconds if a second is a local step.
    """
    page = cost_groups(findings)
    same = same_scores(page, findings.scenario)
    worse = nothing_kept(page, findings.scenario)
    in_time = further_in_time(page)
    to_target = sooner(page)

    lines: dict[CostAxis, list[Sentence]] = {axis: [] for axis in AXES}
    for number, group in enumerate(page):
        tests = Tests(
            same=_of_group(number, same),
            worse=worse.get(number),
            in_time=_of_group(number, in_time),
            sooner=_of_group(number, to_target),
        )
        group_lines = _in_equal_time(group, tests)
        if tells_savings(group.axis, findings.scenario):
            group_lines += _saved(group, tests)
        group_lines += _soonest(group, tests)

        is_topic = is_about_cost(group.axis, findings.scenario)
        prefix = findings.prefix(group.rest)
        for line in group_lines:
            if not is_topic:
                line = line.with_priority(OTHER[line.priority])
            lines[group.axis].append(line.after(prefix))
    return lines


def _of_group(number: int, tests: Sequence[RowTest]) -> dict[int, RowTest]:
    """The tests of one group by the index of the row."""
    of_group = {}
    for test in tests:
        if test.group == number:
            of_group[test.row] = test
    return of_group


def _saved(group: Group, tests: Tests) -> list[Sentence]:
    """What can be saved: a sentence, or none.

    It is about the cheapest row among those with the same score as the reference, or else among
    those that may have it; or else it is that no row has.
    """
    same = [test for test in tests.same.values() if test.significant]
    maybe = [test for test in tests.same.values() if _may_be_level(test)]
    if not same and not maybe:
        if group.cheaper and not group.axis.equal_time:
            return [_none_keeps(group, tests)]
        return []

    cheapest = min(same or maybe, key=lambda test: cost(group.rows[test.row], group.way))
    if group.axis.equal_time and not _is_worth_it(group, cheapest):
        return []
    if same:
        return [_same(group, cheapest)]
    return [_unsure(group, cheapest)]


def _is_worth_it(group: Group, test: RowTest) -> bool:
    """Whether a row costs so much less than the reference that it is worth a sentence."""
    cheaper = cost(group.rows[test.row], group.way)
    return cost(group.reference, group.way) >= MIN_SAVING * cheaper


def _may_be_level(test: RowTest) -> bool:
    """Whether a row may be as good as the reference: its interval does not end below 0.

    If there is no interval, whether its mean is not below that of the reference.
    """
    if test.gain is None:
        return False
    if test.gain_ends is None:
        return test.gain >= 0
    _, highest = test.gain_ends
    return highest >= 0


def _same(group: Group, test: RowTest) -> Sentence:
    """A row costs less than the reference, and scores at most the margin less."""
    text = SAME.format(**_score_fields(group, test), margin=group.margin, p=test.p)
    claim = _claim(SAME_SCORE, group, group.rows[test.row], group.reference, test.p)
    return Sentence(text, Priority.SAVING, [claim], begins_with_name=True)


def _unsure(group: Group, test: RowTest) -> Sentence:
    """A row costs less than the reference; its score is not shown to be the same, or worse."""
    text = UNSURE.format(**_score_fields(group, test), doubt=_doubt(group, test))
    return Sentence(text, Priority.SAVING, begins_with_name=True)


def _score_fields(group: Group, test: RowTest) -> dict[str, str]:
    """The fields of a sentence about a row that costs less than the reference."""
    row = group.rows[test.row]
    reference = group.reference
    _, sends = group.axis.verb
    fewer = FEWER.format(
        row=group.name(row),
        verb=sends,
        times=_times(reference, row, group.way),
        counted=_counted(group),
        reference=group.name(reference),
    )
    return {
        "fewer": fewer,
        "metric": in_words(group.metric),
        "score": _score(group, row["mean"]),
        "other": _score(group, reference["mean"]),
        "difference": _difference(test.numbers),
    }


def _doubt(group: Group, test: RowTest) -> str:
    """Why a score does not count as the same."""
    if test.gain_ends is None or test.numbers is None:
        return NO_INTERVAL
    low, high = test.gain_ends
    if low == high:
        return SAME_UNDER_ALL.format(seeds=test.numbers.seeds, margin=group.margin)
    if low >= 0:
        return BETTER_BY_INTERVAL
    if is_share(group.metric):
        return MAY_COST.format(loss=f"{100 * -low:.3g} points")
    return MAY_COST.format(loss=f"{-low:.3g}")


def _none_keeps(group: Group, tests: Tests) -> Sentence:
    """No row that costs less than the reference keeps its score, or is shown to."""
    send, sends = group.axis.verb
    cheaper = len(group.cheaper)
    if cheaper > 1:
        none = NONE_OF_SEVERAL.format(count=cheaper, verb=send)
    else:
        none = NONE_OF_ONE.format(verb=sends)
    fields = {
        "none": none,
        "counted": _counted(group),
        "reference": group.name(group.reference),
        "metric": in_words(group.metric),
        "score": _score(group, group.reference["mean"]),
    }
    if tests.worse is None or tests.worse >= SIGNIFICANCE_LEVEL:
        return Sentence(NOTHING_SHOWN.format(**fields, margin=group.margin), Priority.SAVING)
    claim = Claim(NONE_KEEPS, "", group.name(group.reference), group.rest, tests.worse)
    return Sentence(NOTHING_KEPT.format(**fields, p=tests.worse), Priority.SAVING, [claim])


def _in_equal_time(group: Group, tests: Tests) -> list[Sentence]:
    """Which row is best at an equal time, and whether that is significant: a sentence, or none."""
    pair = _best_and_other(group)
    if pair is None:
        return []
    best, other = pair
    if best == group.reference_index:
        test = tests.in_time.get(other)
        if test is not None:
            test = test.reversed()
    else:
        test = tests.in_time.get(best)

    row = group.rows[best]
    other_row = group.rows[other]
    certainty, claims = _certainty(group, test, IN_TIME, row, other_row)
    if test is not None and test.numbers is not None:
        certainty = f"{_difference(test.numbers)}; {certainty}"
    text = FURTHEST.format(
        row=group.name(row),
        metric=in_words(group.metric),
        score=_score(group, row["in_time"]),
        other=group.name(other_row),
        other_score=_score(group, other_row["in_time"]),
        certainty=certainty,
    )
    return [Sentence(text, Priority.COSTS, claims)]


def _best_and_other(group: Group) -> tuple[int, int] | None:
    """The indices of the best row at an equal time, and of the row it is compared with.

    That is the reference, or the next best row if the reference is the best or has no score. None
    if fewer than two rows have a score.
    """
    scored = [index for index, row in enumerate(group.rows) if row.get("in_time") is not None]
    if len(scored) < 2 or not group.in_time:
        return None

    def gain(index: int) -> float:
        score = group.rows[index]["in_time"]
        return score if group.rising else -score

    best = max(scored, key=gain)
    if best != group.reference_index and group.reference_index in scored:
        return best, group.reference_index
    scored.remove(best)
    return best, max(scored, key=gain)


def _soonest(group: Group, tests: Tests) -> list[Sentence]:
    """Which row spends least to reach the target, and whether that is significant; or nothing."""
    target = group.axis.target
    finite = []
    for index, row in enumerate(group.rows):
        if row.get(target) is not None and math.isfinite(row[target]):
            finite.append(index)
    if not finite:
        return []
    first = min(finite, key=lambda index: group.rows[index][target])
    if first == group.reference_index:
        return [_reference_is_soonest(group, tests)]

    row = group.rows[first]
    reference = group.reference
    seeds = count(reference["seeds"], "seed")
    against = NOT_REACHED.format(reached=reference["reached"], seeds=seeds)
    if math.isfinite(reference[target]):
        against = _amount(group.axis, reference)
    certainty, claims = _certainty(group, tests.sooner.get(first), SOONER, row, reference)
    text = SOONEST.format(
        row=group.name(row),
        noun=group.axis.noun,
        least=_amount(group.axis, row),
        reference=group.name(reference),
        against=against,
        certainty=certainty,
    )
    return [Sentence(text, Priority.TARGET, claims)]


def _reference_is_soonest(group: Group, tests: Tests) -> Sentence:
    """No row spends less than the reference to reach the target, and how many spend more."""
    slower = [test for test in tests.sooner.values() if test.significant and test.lean < 0]
    template = NONE_SOONER if slower else NONE_SOONER_UNSURE
    text = template.format(
        row=group.name(group.reference),
        noun=group.axis.noun,
        least=_amount(group.axis, group.reference),
        others=others_of(len(slower), len(group.others)),
    )
    claims = []
    for test in slower:
        claims.append(_claim(SOONER, group, group.reference, group.rows[test.row], test.p))
    return Sentence(text, Priority.TARGET, claims)


def _certainty(
    group: Group, test: RowTest | None, kind: str, row: Record, other: Record
) -> tuple[str, list[Claim]]:
    """How sure it is that a row is better than another, in words, and as a claim.

    Args:
      group: the group of the rows.
      test: the test of the row against the other; None if there is none.
      kind: the kind of the claim.
      row: the row.
      other: the other row.
    """
    if test is None or not test.significant or test.lean <= 0:
        return NOT_SIGNIFICANT, []
    return SIGNIFICANT.format(test.p), [_claim(kind, group, row, other, test.p)]


def _claim(kind: str, group: Group, row: Record, other: Record, p: float | None) -> Claim:
    """A claim about a row against another."""
    return Claim(kind, group.name(row), group.name(other), group.rest, p or 0.0)


def _counted(group: Group) -> str:
    """What is counted, in the middle of a sentence."""
    words = WAYS[group.way].words
    if "," in words:
        return f"{words},"
    return words


def _score(group: Group, value: float) -> str:
    if is_share(group.metric):
        return f"{value:.3f}"
    return f"{value:z.3g}"


def _difference(numbers: Paired | None) -> str:
    """A difference with its 95 % interval, as far as these exist."""
    if numbers is None or numbers.difference is None:
        return NO_DIFFERENCE
    return difference_in_words(numbers.difference, numbers.ci_low, numbers.ci_high)


def _times(more: Record, less: Record, way: str) -> str:
    """How many times as much one row costs as another: `40`, or `2 (up 40, down 1)`."""
    if way != "both":
        return _ratio(more, less, way)
    up = _ratio(more, less, "up")
    down = _ratio(more, less, "down")
    return f"{_ratio(more, less, way)} (up {up}, down {down})"


def _ratio(more: Record, less: Record, way: str) -> str:
    divisor = cost(less, way)
    if not divisor:
        return "∞"
    return f"{cost(more, way) / divisor:.3g}"


def _amount(axis: CostAxis, row: Record) -> str:
    """The median of what was spent to reach the target, with its 95 % interval."""
    median = axis.amount(row[axis.target])
    low = row["target_low"]
    high = row["target_high"]
    if low is None:
        return median
    if math.isfinite(high):
        return f"{median} (95 % CI {axis.amount(low)} to {axis.amount(high)})"
    return f"{median} (95 % CI from {axis.amount(low)})"

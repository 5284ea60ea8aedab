"""The rows of `bytes.csv` and `seconds.csv` in sentences."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fedsim.study.claims import IN_TIME, NONE_KEEPS, SAME_SCORE, SOONER, Claim, Sentence, Weight
from fedsim.study.cost_axes import AXES, WAYS, Axis, leads
from fedsim.study.cost_tests import (
    Beside,
    Group,
    cost_groups,
    further_in_time,
    nothing_kept,
    same_scores,
    sooner,
    tells_savings,
)
from fedsim.study.costs import cost
from fedsim.study.findings import Findings
from fedsim.study.pairing import SURE
from fedsim.study.statistics import Paired
from fedsim.study.summary import Record, in_words, is_share

LEAST = 1.05  # times fewer seconds that are worth a sentence

FEWER = "{row} {verb} {times} times fewer {counted} than {reference}"
SAME = (
    "{fewer} at {metric} {score} against {other} "
    "({difference}; not {margin:.3g} worse, p = {p:.2g} after Holm)."
)
UNSURE = "{fewer}; its {metric}, {score} against {other}, {doubt} ({difference})."
NONE_DOES = "None of the {count} that {verb}"
THE_ONE_DOES_NOT = "None that {verb}"
NOTHING_KEPT = (
    "{none} fewer {counted} than {reference} keeps its {metric}, {score} (p = {p:.2g} after Holm)."
)
NOTHING_SHOWN = (
    "{none} fewer {counted} than {reference} is shown to keep its {metric}, {score}, "
    "within {margin:.3g}."
)
FURTHEST = (
    "In equal time, until the first run of a seed ends, {row} comes furthest, to {metric} {score}; "
    "{other}: {other_score} ({apart}{sure})."
)
NONE_SOONER = (
    "To the target none takes fewer {noun} than {row}: {least} in the median, "
    "surely fewer than {sure} of {others}."
)
SOONEST = "To the target {row} takes fewest {noun}, {least} in the median; {reference}: {against}, {sure}."
SURELY = "p = {:.2g} after Holm"
NOT_SURE = "which is not sure"

OTHER = {  # weight of what the comparison is about -> of other costs
    Weight.COSTS: Weight.OTHER_COSTS,
    Weight.SAVING: Weight.OTHER_SAVING,
    Weight.TARGET: Weight.OTHER_TARGET,
}


class Tested(NamedTuple):
    """The tests of a group, each adjusted over the whole page, by the place of the row that is
    beside the reference.

    Attributes:
      same: whether a row that costs less scores the same.
      worse: the p of all of these scoring less; None where it is not asked.
      in_time: whether a row is at another score in equal time.
      sooner: whether a row needs another amount to the target.
    """

    same: Mapping[int, Beside]
    worse: float | None
    in_time: Mapping[int, Beside]
    sooner: Mapping[int, Beside]


def cost_lines(found: Findings) -> dict[Axis, list[Sentence]]:
    """The tables of costs in sentences: what can be saved at the baseline's score, who is best in
    equal time, and who needs least to the target. Of seconds there are none where a second is a
    local step.

    Args:
      found: what the comparison came to; Holm's adjustment runs over all tables of costs that it
        has.
    """
    page = cost_groups(found)
    same = same_scores(page, found.scenario)
    worse = nothing_kept(page, found.scenario)
    in_time = further_in_time(page)
    least = sooner(page)
    lines: dict[Axis, list[Sentence]] = {axis: [] for axis in AXES}
    for number, group in enumerate(page):
        parts = [
            {one.place: one for one in tests if one.group == number}
            for tests in (same, in_time, least)
        ]
        tested = Tested(parts[0], worse.get(number), parts[1], parts[2])
        leading = leads(group.axis, found.scenario)
        for line in _sentences(group, tested, tells_savings(group.axis, found.scenario)):
            weighed = line if leading else Sentence(line, OTHER[line.weight], line.claims)
            named = not line.startswith(("None ", "To ", "In equal "))
            lines[group.axis].append(weighed.behind(found.start_of(group.rest), named))
    return lines


def _sentences(group: Group, tested: Tested, savings: bool) -> Iterator[Sentence]:
    """All about one group.

    Args:
      group: of rows that are compared.
      tested: its tests.
      savings: whether what can be saved is told.
    """
    yield from _in_equal_time(group, tested)
    if savings:
        yield from _saved(group, tested)
    yield from _soonest(group, tested)


def _saved(group: Group, tested: Tested) -> Iterator[Sentence]:
    """The row that costs least among those that surely keep the reference's score; else one that
    may; else that none does.
    """
    spends = lambda one: cost(group.rows[one.place], group.way)
    same = [one for one in tested.same.values() if one.sure]
    level = [one for one in tested.same.values() if _may_be_level(one)]
    if same or level:
        one = min(same or level, key=spends)
        if not group.axis.equal or _is_worth_it(group, one):
            yield _same(group, one) if same else _unsure(group, one)
    elif group.cheaper and not group.axis.equal:
        yield _none_keeps(group, tested)


def _is_worth_it(group: Group, one: Beside) -> bool:
    """Whether a row costs so much less that it is worth a sentence."""
    return cost(group.reference, group.way) >= LEAST * cost(group.rows[one.place], group.way)


def _same(group: Group, one: Beside) -> Sentence:
    """A row that costs less and surely scores at most the margin less."""
    text = SAME.format(**_compared(group, one), margin=group.margin, p=one.p)
    claim = _claim(SAME_SCORE, group, group.rows[one.place], group.reference, one.p)
    return Sentence(text, Weight.SAVING, [claim])


def _claim(kind: str, group: Group, row: Record, beside: Record, p: float | None) -> Claim:
    """What is claimed of a row beside another."""
    return Claim(kind, group.name(row), group.name(beside), group.rest, p or 0.0)


def _unsure(group: Group, one: Beside) -> Sentence:
    """A row that costs less, and whose score is neither surely the same nor clearly worse."""
    return Sentence(UNSURE.format(**_compared(group, one), doubt=_doubt(group, one)), Weight.SAVING)


def _none_keeps(group: Group, tested: Tested) -> Sentence:
    """That no row that costs less keeps the reference's score, or is shown to."""
    many, single = group.axis.verb
    count = len(group.cheaper)
    none = THE_ONE_DOES_NOT.format(verb=single)
    if count > 1:
        none = NONE_DOES.format(count=count, verb=many)
    told = {
        "none": none,
        "counted": _counted(group),
        "reference": group.name(group.reference),
        "metric": in_words(group.metric),
        "score": _text(group, group.reference["mean"]),
    }
    if tested.worse is not None and tested.worse < SURE:
        claim = Claim(NONE_KEEPS, "", group.name(group.reference), group.rest, tested.worse)
        return Sentence(NOTHING_KEPT.format(**told, p=tested.worse), Weight.SAVING, [claim])
    return Sentence(NOTHING_SHOWN.format(**told, margin=group.margin), Weight.SAVING)


def _compared(group: Group, one: Beside) -> dict[str, str]:
    """A row that costs less beside the reference: `top_k sends 40 times fewer bytes up than dense`,
    and both scores.
    """
    row, reference = group.rows[one.place], group.reference
    fewer = FEWER.format(
        row=group.name(row),
        verb=group.axis.verb[1],
        times=_times(reference, row, group.way),
        counted=_counted(group),
        reference=group.name(reference),
    )
    return {
        "fewer": fewer,
        "metric": in_words(group.metric),
        "score": _text(group, row["mean"]),
        "other": _text(group, reference["mean"]),
        "difference": _difference(one.numbers),
    }


def _doubt(group: Group, one: Beside) -> str:
    """Why a score does not surely count as the same."""
    if one.gain_ends is None or one.numbers is None:
        return "cannot be told apart"
    low, high = one.gain_ends
    if low == high:
        seeds = one.numbers.seeds
        return f"is the same under all {seeds} seeds, too few to be sure of {group.margin:.3g}"
    if low >= 0:
        return "is better by its own 95 % interval, not after Holm"
    loss = f"{100 * -low:.3g} points" if is_share(group.metric) else f"{-low:.3g}"
    return f"cannot be told apart: it may cost up to {loss}"


def _may_be_level(one: Beside) -> bool:
    """Whether the interval of a gain does not end below 0; of one without an interval, likewise."""
    if one.gain is None:
        return False
    return (one.gain if one.gain_ends is None else one.gain_ends[1]) >= 0


def _counted(group: Group) -> str:
    """What is counted, as it stands in the middle of a sentence."""
    words = WAYS[group.way].words
    return f"{words}," if "," in words else words


def _text(group: Group, value: float) -> str:
    """A score."""
    return f"{value:.3f}" if is_share(group.metric) else f"{value:.3g}"


def _difference(numbers: Paired | None) -> str:
    if numbers is None or numbers.difference is None:
        return "no difference that is a number"
    # an interval of width 0 says nothing
    if numbers.ci_low is None or numbers.ci_low == numbers.ci_high:
        return f"{numbers.difference:+.3g}"
    return f"{numbers.difference:+.3g}, 95 % {numbers.ci_low:+.3g} to {numbers.ci_high:+.3g}"


def _times(more: Record, less: Record, way: str) -> str:
    """How many times as much one row costs as another; where both ways count, each of them as
    well.
    """
    ratio = lambda one: (
        f"{cost(more, one) / cost(less, one):.3g}" if cost(less, one) else "without bound"
    )
    return f"{ratio(way)} (up {ratio('up')}, down {ratio('down')})" if way == "both" else ratio(way)


def _in_equal_time(group: Group, tested: Tested) -> Iterator[Sentence]:
    """Which row is best when the first of them ends, and whether that is sure."""
    known = [place for place, row in enumerate(group.rows) if row.get("in_time") is not None]
    if len(known) < 2 or not group.in_time:
        return
    sign = 1 if group.rising else -1
    reached = lambda place: sign * group.rows[place]["in_time"]
    best = max(known, key=reached)
    leads_itself = best == group.place  # the reference is ahead, and stands beside the next one
    other = group.place
    if leads_itself or group.place not in known:
        other = max((place for place in known if place != best), key=reached)

    row, beside = group.rows[best], group.rows[other]
    test = tested.in_time.get(other if leads_itself else best)
    ahead = test is not None and (test.lean < 0 if leads_itself else test.lean > 0)
    sure, claims = _how_sure(group, test if ahead else None, IN_TIME, row, beside)
    apart = ""
    if test is not None and test.numbers is not None:
        apart = f"{_difference(_turned(test.numbers) if leads_itself else test.numbers)}; "
    text = FURTHEST.format(
        row=group.name(row),
        metric=in_words(group.metric),
        score=_text(group, row["in_time"]),
        other=group.name(beside),
        other_score=_text(group, beside["in_time"]),
        apart=apart,
        sure=sure,
    )
    yield Sentence(text, Weight.COSTS, claims)


def _turned(numbers: Paired) -> Paired:
    """The difference of a row to the reference as that of the reference to the row."""
    if numbers.difference is None:
        return numbers
    low, high = numbers.ci_low, numbers.ci_high
    ends = {} if low is None or high is None else {"ci_low": -high, "ci_high": -low}
    return numbers._replace(difference=-numbers.difference, **ends)


def _how_sure(
    group: Group, test: Beside | None, kind: str, row: Record, beside: Record
) -> tuple[str, list[Claim]]:
    """How sure it is that a row is before another, in words, and as a claim."""
    if test is None or test.p is None or not test.sure:
        return NOT_SURE, []
    return SURELY.format(test.p), [_claim(kind, group, row, beside, test.p)]


def _soonest(group: Group, tested: Tested) -> Iterator[Sentence]:
    """Which row reaches the target at the least cost in the median, and whether that is sure."""
    axis, reference = group.axis, group.reference
    known = [place for place, row in enumerate(group.rows) if row.get(axis.target) is not None]
    first = min(known, key=lambda place: group.rows[place][axis.target], default=None)
    if first is None or not math.isfinite(group.rows[first][axis.target]):
        return
    row = group.rows[first]
    told = {"row": group.name(row), "noun": axis.noun, "least": _amount(axis, row)}
    if first == group.place:
        after = [one for one in tested.sooner.values() if one.sure and one.lean < 0]
        claims = [_claim(SOONER, group, row, group.rows[one.place], one.p) for one in after]
        text = NONE_SOONER.format(**told, sure=len(after), others=len(group.others))
        yield Sentence(text, Weight.TARGET, claims)
        return

    arrives = math.isfinite(reference[axis.target])
    against = _amount(axis, reference) if arrives else f"reached by {reference['reached']}"
    test = tested.sooner.get(first)
    less = test if test and test.lean > 0 else None
    sure, claims = _how_sure(group, less, SOONER, row, reference)
    text = SOONEST.format(**told, reference=group.name(reference), against=against, sure=sure)
    yield Sentence(text, Weight.TARGET, claims)


def _amount(axis: Axis, row: Record) -> str:
    """The median of what was spent to the target, with its interval."""
    least, low, high = axis.amount(row[axis.target]), row["target_low"], row["target_high"]
    if low is None:
        return least
    ends = f"from {axis.amount(low)} on"
    if math.isfinite(high):
        ends = f"{axis.amount(low)} to {axis.amount(high)}"
    return f"{least} (95 % {ends})"

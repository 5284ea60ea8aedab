"""The rows of `bytes.csv` and `seconds.csv` in sentences."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.study.claims import IN_TIME, NONE_KEEPS, SAME_SCORE, SOONER, Claim, Sentence
from fedsim.study.cost_axes import AXES, WAYS, Axis
from fedsim.study.cost_tests import (
    Beside,
    Group,
    against_reference,
    cost_groups,
    nothing_kept,
    same_scores,
    tells_savings,
)
from fedsim.study.costs import cost, courses_of
from fedsim.study.pairing import SURE
from fedsim.study.statistics import Paired
from fedsim.study.summary import Record, in_words, is_share, larger_is_better
from fedsim.study.words import variation

LEAST = 1.05  # times fewer seconds that are worth a sentence


class Tested(NamedTuple):
    """The tests of a group, each adjusted over the whole page, by the place of the row that is beside the reference.

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


def cost_lines(
    axis: Axis,
    rows: Sequence[Record],
    summary: Sequence[Record],
    rounds: Iterable[Record],
    baseline: str,
    score: str,
    scenario: Mapping[str, Any] | None = None,
    tables: Mapping[str, Sequence[Record]] | None = None,
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
      scenario: as in `run.json`, for the names of what varies, and for `compare.margin`.
      tables: the rows of all tables of costs of the page, over which Holm's adjustment runs; left out: these alone.
    """
    known = {axis.table: rows, **(tables or {})}
    counted = {one: known[one.table] for one in AXES if known.get(one.table)}
    courses = courses_of(rounds) if any(one.equal for one in counted) else {}
    page = cost_groups(counted, summary, courses, baseline, score, scenario)
    same = same_scores(page, scenario)
    worse = nothing_kept(page, scenario)
    in_time = against_reference(page, lambda group: group.in_time)
    sooner = against_reference(page, lambda group: group.spent)
    lines = []
    for number, group in enumerate(page):
        if group.axis is not axis:
            continue
        parts = [{one.place: one for one in tests if one.group == number} for tests in (same, in_time, sooner)]
        tested = Tested(parts[0], worse.get(number), parts[1], parts[2])
        sentences = _in_equal_time(group, tested)
        if tells_savings(axis, scenario):
            sentences += _saved(group, tested)
        sentences += _soonest(group, tested)
        start = f"With {variation(group.rest, scenario)}: " if group.rest else ""
        lines += [_behind(start, line) for line in sentences]
    return lines


def _behind(start: str, line: Sentence) -> Sentence:
    """A sentence behind what it holds for; a name that it begins with stays as it is."""
    lower = start and line.startswith(("None ", "To ", "In equal "))
    text = f"{line[0].lower()}{line[1:]}" if lower else line
    return Sentence(f"{start}{text}", line.claims)


def _saved(group: Group, tested: Tested) -> list[Sentence]:
    """The row that costs least among those that surely keep the reference's score; else one that may; else that none does."""
    reference, axis = group.reference, group.axis
    spends = lambda one: cost(group.rows[one.place], group.way)
    same = [one for one in tested.same.values() if one.p is not None and one.p < SURE]
    if same:
        return _same(group, min(same, key=spends))
    level = [one for one in tested.same.values() if _may_be_level(group, one)]
    if level:
        return _unsure(group, min(level, key=spends))
    if axis.equal or not group.cheaper:
        return []
    many, single = axis.verb
    few = f"None of the {len(group.cheaper)} that {many}" if len(group.cheaper) > 1 else f"None that {single}"
    start = f"{few} fewer {_counted(group)} than {group.name(reference)}"
    kept = f"its {in_words(reference['metric'])}, {_text(group, reference['mean'])}"
    if tested.worse is not None and tested.worse < SURE:
        claim = Claim(NONE_KEEPS, "", group.name(reference), group.rest, tested.worse)
        return [Sentence(f"{start} keeps {kept} (p = {tested.worse:.2g} after Holm).", [claim])]
    return [Sentence(f"{start} is shown to keep {kept}, within {group.margin:.3g}.")]


def _same(group: Group, one: Beside) -> list[Sentence]:
    """A row that costs less and surely scores at most the margin less."""
    row, reference = group.rows[one.place], group.reference
    if group.axis.equal and cost(reference, group.way) < LEAST * cost(row, group.way):
        return []
    sure = f"not {group.margin:.3g} worse, p = {one.p:.2g} after Holm"
    text = f"{_fewer(group, row)} at {_scores(group, row)} ({_difference(one.numbers)}; {sure})."
    return [Sentence(text, [Claim(SAME_SCORE, group.name(row), group.name(reference), group.rest, one.p or 0.0)])]


def _unsure(group: Group, one: Beside) -> list[Sentence]:
    """A row that costs less, and whose score is neither surely the same nor clearly worse."""
    row, reference = group.rows[one.place], group.reference
    if group.axis.equal and cost(reference, group.way) < LEAST * cost(row, group.way):
        return []
    numbers = _difference(one.numbers)
    return [Sentence(f"{_fewer(group, row)}; its {_scores(group, row, ',')} {_doubt(group, one)} ({numbers}).")]


def _doubt(group: Group, one: Beside) -> str:
    """Why a score does not surely count as the same."""
    numbers = one.numbers
    if numbers is None or numbers.ci_low is None or numbers.ci_high is None:
        return "cannot be told apart"
    rising = larger_is_better(str(group.reference["metric"]))
    most = -numbers.ci_low if rising else numbers.ci_high
    if numbers.ci_low == numbers.ci_high:
        return f"is the same under all {numbers.seeds} seeds, too few to be sure of {group.margin:.3g}"
    if most <= 0:
        return "is better by its own 95 % interval, not after Holm"
    loss = f"{100 * most:.3g} points" if is_share(str(group.reference["metric"])) else f"{most:.3g}"
    return f"cannot be told apart: it may cost up to {loss}"


def _may_be_level(group: Group, one: Beside) -> bool:
    """Whether the interval of a difference does not leave out 0 on the worse side; of one without an interval, likewise."""
    numbers = one.numbers
    if numbers is None or numbers.difference is None:
        return False
    rising = larger_is_better(str(group.reference["metric"]))
    best = numbers.ci_high if rising else numbers.ci_low
    if best is None:
        best = numbers.difference
    return best >= 0 if rising else best <= 0


def _fewer(group: Group, row: Record) -> str:
    """What a row costs beside the reference: `top_k sends 40 times fewer bytes up than dense`."""
    single = group.axis.verb[1]
    times = _times(group.reference, row, group.way)
    return f"{group.name(row)} {single} {times} times fewer {_counted(group)} than {group.name(group.reference)}"


def _scores(group: Group, row: Record, comma: str = "") -> str:
    """The scores of a row and of the reference, between commas where they are the subject."""
    metric = in_words(group.reference["metric"])
    return f"{metric}{comma} {_text(group, row['mean'])} against {_text(group, group.reference['mean'])}{comma}"


def _counted(group: Group) -> str:
    """What is counted, as it stands in the middle of a sentence."""
    words = WAYS[group.way].words
    return f"{words}," if "," in words else words


def _text(group: Group, value: float) -> str:
    """A score."""
    return f"{value:.3f}" if is_share(str(group.reference["metric"])) else f"{value:.3g}"


def _difference(numbers: Paired | None) -> str:
    if numbers is None or numbers.difference is None:
        return "no difference that is a number"
    if numbers.ci_low is None or numbers.ci_low == numbers.ci_high:  # an interval of width 0 says nothing
        return f"{numbers.difference:+.3g}"
    return f"{numbers.difference:+.3g}, 95 % {numbers.ci_low:+.3g} to {numbers.ci_high:+.3g}"


def _times(more: Record, less: Record, way: str) -> str:
    """How many times as much one row costs as another; where both ways count, each of them as well."""
    ratio = lambda one: f"{cost(more, one) / cost(less, one):.3g}" if cost(less, one) else "without bound"
    return f"{ratio(way)} (up {ratio('up')}, down {ratio('down')})" if way == "both" else ratio(way)


def _in_equal_time(group: Group, tested: Tested) -> list[Sentence]:
    """Which row is best when the first of them ends, and whether that is sure."""
    sign = 1 if larger_is_better(str(group.reference["metric"])) else -1
    known = [place for place, row in enumerate(group.rows) if group.in_time and row.get("in_time") is not None]
    if len(known) < 2:
        return []
    reached = lambda place: sign * group.rows[place]["in_time"]
    best = max(known, key=reached)
    other = group.place
    if best == group.place or group.place not in known:
        other = max((place for place in known if place != best), key=reached)
    test = tested.in_time.get(other if best == group.place else best)
    row, beside = group.rows[best], group.rows[other]
    metric = in_words(group.reference["metric"])
    start = f"In equal time, until the first run of a seed ends, {group.name(row)} comes furthest, to {metric}"
    numbers = f"{_text(group, row['in_time'])}; {group.name(beside)}: {_text(group, beside['in_time'])}"
    ahead = test is not None and test.lean * sign * (-1 if best == group.place else 1) > 0
    sure, claims = _how_sure(group, test if ahead else None, IN_TIME, row, beside)
    apart = (
        "" if test is None or test.numbers is None else f"{_difference(_turned(test.numbers, best == group.place))}; "
    )
    return [Sentence(f"{start} {numbers} ({apart}{sure}).", claims)]


def _turned(numbers: Paired, turned: bool) -> Paired:
    """A difference as that of the reference to the row, where the reference comes first."""
    if not turned or numbers.difference is None:
        return numbers
    low, high = numbers.ci_low, numbers.ci_high
    ends = {} if low is None or high is None else {"ci_low": -high, "ci_high": -low}
    return numbers._replace(difference=-numbers.difference, **ends)


def _how_sure(group: Group, test: Beside | None, kind: str, row: Record, beside: Record) -> tuple[str, list[Claim]]:
    """How sure it is that a row is before another, in words, and as a claim."""
    if test is None or test.p is None or test.p >= SURE:
        return "which is not sure", []
    return f"p = {test.p:.2g} after Holm", [Claim(kind, group.name(row), group.name(beside), group.rest, test.p)]


def _soonest(group: Group, tested: Tested) -> list[Sentence]:
    """Which row reaches the target at the least cost in the median, and whether that is sure."""
    axis, reference = group.axis, group.reference
    known = [place for place, row in enumerate(group.rows) if row.get(axis.target) is not None]
    first = min(known, key=lambda place: group.rows[place][axis.target], default=None)
    if first is None or not math.isfinite(group.rows[first][axis.target]):
        return []
    row = group.rows[first]
    least = f"{axis.amount(row[axis.target])}{_ends(axis, row)}"
    if first == group.place:
        sure = [one for one in tested.sooner.values() if one.p is not None and one.p < SURE and one.lean > 0]
        name = group.name(row)
        claims = [Claim(SOONER, name, group.name(group.rows[one.place]), group.rest, one.p or 0.0) for one in sure]
        text = f"To the target none takes fewer {axis.noun} than {name}: {least} in the median"
        return [Sentence(f"{text}, surely fewer than {len(sure)} of {len(group.others)}.", claims)]
    other = reference[axis.target]
    against = f"reached by {reference['reached']}"
    if math.isfinite(other):
        against = f"{axis.amount(other)}{_ends(axis, reference)}"
    test = tested.sooner.get(first)
    sure, claims = _how_sure(group, test if test and test.lean < 0 else None, SOONER, row, reference)
    text = f"To the target {group.name(row)} takes fewest {axis.noun}, {least} in the median"
    return [Sentence(f"{text}; {group.name(reference)}: {against}, {sure}.", claims)]


def _ends(axis: Axis, row: Record) -> str:
    low, high = row["target_low"], row["target_high"]
    if low is None:
        return ""
    ends = f"{axis.amount(low)} to {axis.amount(high)}" if math.isfinite(high) else f"from {axis.amount(low)} on"
    return f" (95 % {ends})"

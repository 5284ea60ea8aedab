"""A search with rungs, followed: the best settings go on from each rung, and what that takes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedsim.study.cells import Cell
from fedsim.study.halving import Bracket, brackets_of
from fedsim.study.summary import Record, grouped, variation_of

SPENT = (
    "Each method's settings took {spent} rounds a seed: only the best went on after rounds "
    "{rungs}; all of them to the end would take {all}."
)


class RungScore(NamedTuple):
    """How a setting does at a rung.

    Attributes:
      lost: the seeds without a score: of runs that failed or diverged.
      mean: the score of the other seeds, the larger the better.
    """

    lost: int
    mean: float


def last_rounds(
    brackets: Sequence[Bracket],
    eta: int,
    play: Callable[[dict[int, int]], dict[int, RungScore]],
) -> dict[int, int]:
    """Play settings from rung to rung -> the round after which each of them ends, by cell.

    Nothing is played on to a last rung, which nobody has to wait for.

    Args:
      eta: one in so many goes on from a rung, and at least one.
      play: called with cells and the round until which each is to be played; returns their scores.

    >>> scores = {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}
    >>> bracket = Bracket([0, 1, 2, 3], [1, 2, 4])
    >>> last_rounds([bracket], 2, lambda until: {i: RungScore(0, scores[i]) for i in until})
    {0: 1, 1: 4, 2: 2, 3: 1}
    """
    ends: dict[int, int] = {}
    active = [bracket.cells for bracket in brackets]
    for rung in range(max(len(bracket.rungs) for bracket in brackets) - 1):
        until: dict[int, int] = {}
        waiting = [i for i, bracket in enumerate(brackets) if rung < len(bracket.rungs) - 1]
        for i in waiting:
            until |= dict.fromkeys(active[i], brackets[i].rungs[rung])
        ends |= until
        scores = play(until)
        for i in waiting:
            cells = active[i]
            active[i] = promoted(cells, [scores[cell] for cell in cells], len(cells) // eta)
    for bracket, cells in zip(brackets, active, strict=True):
        ends |= dict.fromkeys(cells, bracket.rungs[-1])
    return dict(sorted(ends.items()))


def planned_rounds(cells: Sequence[Cell], search: Any) -> list[int]:
    """Return the rounds of a run of every cell, were all equally good: they add up to the cost."""
    rounds = {i: cell.scenario.spec.rounds for i, cell in enumerate(cells)}
    brackets = brackets_of(cells, search)
    if brackets:
        equal = lambda until: dict.fromkeys(until, RungScore(0, 0.0))
        rounds |= last_rounds(brackets, search.eta, equal)
    return list(rounds.values())


def promoted(cells: Sequence[int], scores: Sequence[RungScore], most: int) -> list[int]:
    """Return the cells that go on from a rung, the best ones; of equal ones, the first.

    Cells that lost seeds come after all that did not.
    """
    ranks = range(len(cells))
    ranked = sorted(ranks, key=lambda i: (scores[i].lost, -scores[i].mean))
    return [cells[i] for i in sorted(ranked[: max(most, 1)])]


def spent_lines(tuning: Sequence[Record]) -> list[str]:
    """Return a sentence about the rounds that a search with rungs took; nothing for any other.

    >>> rungs = [1] * 8 + [2] * 4 + [4, 4, 8, 16]
    >>> print(*spent_lines([{"method": "m", "rung": rung} for rung in rungs]))
    Each method's settings took 48 rounds a seed: only the best went on after rounds 1, 2, 4, 8; \
all of them to the end would take 256.
    """
    tuning = [row for row in tuning if row.get("rung")]
    if not tuning:
        return []
    groups = grouped(tuning, key=lambda row: (row["method"], variation_of(row)))
    spent = [sum(int(row["rung"]) for row in rows) for rows in groups.values()]
    whole = [len(rows) * max(int(row["rung"]) for row in rows) for rows in groups.values()]
    rungs = sorted({int(row["rung"]) for row in tuning})
    text = ", ".join(map(str, rungs[:-1]))
    return [SPENT.format(spent=_span(spent), rungs=text, all=_span(whole))]


def _span(numbers: Sequence[int]) -> str:
    """A number, or the least and the largest of several."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

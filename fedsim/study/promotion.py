"""A search with rungs, followed: the best settings go on from each rung."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedsim.study.cells import Cell
from fedsim.study.halving import Bracket, brackets_of


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

"""A search with rungs: settings are played for a few rounds, the best of them go on.

Successive halving: Jamieson and Talwalkar 2016, Non-stochastic Best Arm Identification and
Hyperparameter Optimization, AISTATS. Hyperband: Li et al. 2018, Hyperband: A Novel Bandit-Based
Approach to Hyperparameter Optimization, JMLR 18.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedsim.errors import Problem, ScenarioError
from fedsim.study.cells import Cell
from fedsim.study.search import shuffled
from fedsim.study.summary import Record, grouped, variation_of

NOT_FITTING = (
    "{rungs} rungs do not fit {rounds} rounds, evaluated every {every}, with eta {eta}; "
    "write {most} or fewer"
)
NOT_FILLED = (
    "{rungs} rungs with eta {eta} are too many for {most} settings of a method; "
    "write {found} or fewer"
)
LENGTH_TUNED = "{path} is tuned, and a rung compares settings after as many rounds; remove one"
SPENT = (
    "Each method's settings were searched in {spent} trial-rounds a seed, with rungs after rounds "
    "{rungs}; playing all of them to the end takes {all}."
)


class Heat(NamedTuple):
    """Settings of a method, under one variation, that are compared with each other at rungs.

    Attributes:
      cells: the numbers of their cells in the grid.
      rungs: the rounds after which only the best go on; the last one ends the run.
      bracket: its number, from 0; None: there is only one.
    """

    cells: list[int]
    rungs: list[int]
    bracket: int | None = None


class RungScore(NamedTuple):
    """How a setting does at a rung.

    Attributes:
      lost: the seeds without a score: of runs that failed or diverged.
      mean: the score of the other seeds, the larger the better.
    """

    lost: int
    mean: float


# ------------------------------------------------------------------------------------- the plan


def heats_of(cells: Sequence[Cell], search: Any) -> list[Heat]:
    """Return the heats of a comparison; none where settings are played to the end.

    Args:
      cells: the cells of its grid.
      search: the section `compare.search`.

    Raises:
      ScenarioError: for rungs that do not fit the rounds or the settings.
    """
    if search.kind == "random":
        return []
    groups: dict[tuple[str, str], list[int]] = {}
    for number, cell in enumerate(cells):
        groups.setdefault((cell.method, cell.variant), []).append(number)
    tuned = [numbers for numbers in groups.values() if len(numbers) > 1]
    heats = []
    for numbers in tuned:
        first = cells[numbers[0]]
        _demand_equal_length(first)
        spec = first.scenario.spec
        for heat in brackets(search, len(numbers), spec.rounds, spec.evaluate.every):
            heats.append(heat._replace(cells=[numbers[i] for i in heat.cells]))

    found = max((len(heat.rungs) for heat in heats), default=1)
    if heats and found < (search.rungs or 1):
        most = max(map(len, tuned))
        values = {"rungs": search.rungs, "eta": search.eta, "most": most, "found": found}
        raise _refusal(NOT_FILLED.format(**values))
    return [heat for heat in heats if found > 1]


def brackets(search: Any, trials: int, rounds: int, every: int) -> list[Heat]:
    """Return the brackets of one method, whose `cells` are numbers of its trials.

    Those of hyperband spend about the same each: of n trials, bracket s, in which the first rung is
    after 1 / η^s of the rounds, has a share in proportion to η^s / (s + 1), as in Li et al. 2018.
    They have fewer rungs than `compare.search.rungs` if there are too few trials.

    Args:
      search: the section `compare.search`.
      trials: how many settings are tried.
      rounds: of a run.
      every: rounds between two evaluations.

    Raises:
      ScenarioError: for more rungs than fit the rounds.
    """
    most = most_rungs(rounds, search.eta, every)
    if search.rungs is not None and search.rungs > most:
        values = {"rungs": search.rungs, "rounds": rounds, "every": every, "eta": search.eta}
        raise _refusal(NOT_FITTING.format(**values, most=most))
    rungs = search.rungs or most
    while rungs > 1 and not _are_filled(search, rungs, trials):
        rungs -= 1
    if search.kind == "halving":
        return [Heat(list(range(trials)), rungs_of(rounds, search.eta, rungs, every))]

    heats = []
    order = shuffled(trials)
    for bracket, size in enumerate(_sizes(search, rungs, trials)):
        cells, order = sorted(order[:size]), order[size:]
        after = rungs_of(rounds, search.eta, rungs - bracket, every)
        heats.append(Heat(cells, after, bracket))
    return heats


def rungs_of(rounds: int, eta: int, rungs: int, every: int) -> list[int]:
    """Return the rounds of so many rungs; those before the last are rounded up to evaluated ones.

    >>> rungs_of(16, 2, 5, every=1), rungs_of(50, 3, 3, every=5)
    ([1, 2, 4, 8, 16], [10, 20, 50])
    """
    earlier = []
    for k in range(rungs - 1, 0, -1):
        evaluations = -(-rounds // (eta**k * every))
        earlier.append(evaluations * every)
    return [*earlier, rounds]


def most_rungs(rounds: int, eta: int, every: int) -> int:
    """Return how many rungs fit, with an evaluation of its own each.

    >>> most_rungs(16, 2, every=1), most_rungs(16, 2, every=5), most_rungs(1, 2, every=1)
    (5, 2, 1)
    """
    rungs = 1
    while rounds >= eta**rungs * every:
        rungs += 1
    return rungs


def _sizes(search: Any, rungs: int, trials: int) -> list[int]:
    """The trials of every bracket, that with the most rungs first."""
    if search.kind == "halving":
        return [trials]
    weights = [search.eta**s / (s + 1) for s in range(rungs - 1, -1, -1)]
    shares = [trials * weight / sum(weights) for weight in weights]
    sizes = [math.floor(share) for share in shares]
    # Largest remainders, the first of equal ones.
    by_remainder = sorted(range(rungs), key=lambda i: sizes[i] - shares[i])
    for i in by_remainder[: trials - sum(sizes)]:
        sizes[i] += 1
    return sizes


def _are_filled(search: Any, rungs: int, trials: int) -> bool:
    """Whether every bracket has a setting left for its last rung."""
    sizes = _sizes(search, rungs, trials)
    return all(size >= search.eta ** (rungs - 1 - bracket) for bracket, size in enumerate(sizes))


def _demand_equal_length(cell: Cell) -> None:
    """Refuse settings that decide how long a run is, or when it is evaluated."""
    for path in ("rounds", "evaluate.every"):
        if path in cell.tuned:
            raise _refusal(LENGTH_TUNED.format(path=path))


def _refusal(text: str) -> ScenarioError:
    return ScenarioError([Problem("", text)], "compare.search")


# ------------------------------------------------------------------------------------- the race


def race(
    heats: Sequence[Heat],
    eta: int,
    play: Callable[[dict[int, int]], dict[int, RungScore]],
) -> dict[int, int]:
    """Play settings from rung to rung -> the round after which each of them ends, by cell.

    Nothing is played on to a last rung, which nobody has to wait for.

    Args:
      heats: as `heats_of` gives them.
      eta: one in so many goes on from a rung, and at least one.
      play: called with cells and the round until which each is to be played; returns their scores.

    >>> scores = {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}
    >>> heat = Heat([0, 1, 2, 3], [1, 2, 4])
    >>> race([heat], 2, lambda until: {i: RungScore(0, scores[i]) for i in until})
    {0: 1, 1: 4, 2: 2, 3: 1}
    """
    ends: dict[int, int] = {}
    active = [heat.cells for heat in heats]
    for stage in range(max(len(heat.rungs) for heat in heats) - 1):
        waiting = [index for index, heat in enumerate(heats) if stage < len(heat.rungs) - 1]
        until = {}
        for index in waiting:
            until |= dict.fromkeys(active[index], heats[index].rungs[stage])
        ends |= until
        scores = play(until)
        for index in waiting:
            cells = active[index]
            active[index] = promoted(cells, [scores[i] for i in cells], len(cells) // eta)
    for heat, cells in zip(heats, active, strict=True):
        ends |= dict.fromkeys(cells, heat.rungs[-1])
    return dict(sorted(ends.items()))


def planned_rounds(cells: Sequence[Cell], search: Any) -> list[int]:
    """Return the rounds of a run of every cell, were all equally good: they add up to the cost.

    Args:
      cells: the cells of the grid.
      search: the section `compare.search`.
    """
    rounds = {i: cell.scenario.spec.rounds for i, cell in enumerate(cells)}
    heats = heats_of(cells, search)
    if heats:
        rounds |= race(heats, search.eta, lambda until: dict.fromkeys(until, RungScore(0, 0.0)))
    return list(rounds.values())


def promoted(cells: Sequence[int], scores: Sequence[RungScore], most: int) -> list[int]:
    """Return the cells that go on from a rung, the best ones; of equal ones, the first.

    Cells that lost seeds come after all that did not.

    Args:
      cells: the cells, in the order of the grid.
      scores: theirs.
      most: how many go on; at least one does.
    """
    ranks = range(len(cells))
    ranked = sorted(ranks, key=lambda i: (scores[i].lost, -scores[i].mean))
    return [cells[i] for i in sorted(ranked[: max(most, 1)])]


def spent_lines(tuning: Sequence[Record]) -> list[str]:
    """Return a sentence about the rounds that a search with rungs took; nothing for any other.

    Args:
      tuning: rows of `tuning.csv`.

    >>> rungs = [1] * 8 + [2] * 4 + [4, 4, 8, 16]
    >>> print(*spent_lines([{"method": "m", "rung": rung} for rung in rungs]))
    Each method's settings were searched in 48 trial-rounds a seed, with rungs after rounds \
1, 2, 4, 8, 16; playing all of them to the end takes 256.
    """
    tuning = [row for row in tuning if row.get("rung")]
    if not tuning:
        return []
    groups = grouped(tuning, key=lambda row: (row["method"], variation_of(row)))
    spent = [sum(int(row["rung"]) for row in rows) for rows in groups.values()]
    whole = [len(rows) * max(int(row["rung"]) for row in rows) for rows in groups.values()]
    rungs = sorted({int(row["rung"]) for row in tuning})
    text = ", ".join(map(str, rungs))
    return [SPENT.format(spent=_span(spent), rungs=text, all=_span(whole))]


def _span(numbers: Sequence[int]) -> str:
    """A number, or the least and the largest of several."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

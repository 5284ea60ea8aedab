"""A search with rungs, planned: who is compared with whom, and after which rounds.

Successive halving: Jamieson and Talwalkar 2016, Non-stochastic Best Arm Identification and
Hyperparameter Optimization, AISTATS. Hyperband: Li et al. 2018, Hyperband: A Novel Bandit-Based
Approach to Hyperparameter Optimization, JMLR 18.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from fedsim.errors import Problem, ScenarioError
from fedsim.study.cells import Cell
from fedsim.study.search import shuffled

NOT_FITTING = (
    "{rungs} rungs do not fit {rounds} rounds, evaluated every {every}, with eta {eta}; "
    "write {most} or fewer"
)
NOT_FILLED = (
    "{rungs} rungs with eta {eta} are too many for {most} settings of a method; "
    "write {found} or fewer"
)
LENGTH_TUNED = "{path} is tuned, and a rung compares settings after as many rounds; remove one"


class Bracket(NamedTuple):
    """Settings of a method, under one variation, that are compared with each other at rungs.

    Attributes:
      cells: the numbers of their cells in the grid.
      rungs: the rounds after which only the best go on; the last one ends the run.
      number: from 0; None: there is only one.
    """

    cells: list[int]
    rungs: list[int]
    number: int | None = None


def brackets_of(cells: Sequence[Cell], search: Any) -> list[Bracket]:
    """Return the brackets of a comparison; none where settings are played to the end.

    Raises:
      ScenarioError: for rungs that do not fit the rounds or the settings.
    """
    if search.kind == "random":
        return []
    groups: dict[tuple[str, str], list[int]] = {}
    for number, cell in enumerate(cells):
        groups.setdefault((cell.method, cell.variant), []).append(number)
    tuned = [numbers for numbers in groups.values() if len(numbers) > 1]

    found = []
    for numbers in tuned:
        first = cells[numbers[0]]
        _demand_equal_length(first)
        spec = first.scenario.spec
        for bracket in brackets(search, len(numbers), spec.rounds, spec.evaluate.every):
            found.append(bracket._replace(cells=[numbers[trial] for trial in bracket.cells]))

    most = max((len(bracket.rungs) for bracket in found), default=1)
    if found and most < (search.rungs or 1):
        _refuse(
            NOT_FILLED, rungs=search.rungs, eta=search.eta, most=max(map(len, tuned)), found=most
        )
    return found if most > 1 else []


def brackets(search: Any, trials: int, rounds: int, every: int) -> list[Bracket]:
    """Return the brackets of one method, whose `cells` are numbers of its trials.

    There is one with halving. Those of hyperband spend about the same each: of n trials, bracket s,
    in which the first rung is after 1 / η^s of the rounds, has a share in proportion to
    η^s / (s + 1), as in Li et al. 2018. There are fewer rungs than `compare.search.rungs` if there
    are too few trials.
    """
    most = most_rungs(rounds, search.eta, every)
    rungs = search.rungs or most
    if rungs > most:
        _refuse(NOT_FITTING, rungs=rungs, rounds=rounds, every=every, eta=search.eta, most=most)
    while rungs > 1 and not _are_filled(search, rungs, trials):
        rungs -= 1

    is_halving = search.kind == "halving"
    order = list(range(trials)) if is_halving else shuffled(trials)
    found = []
    for number, size in enumerate(_sizes(search, rungs, trials)):
        cells, order = sorted(order[:size]), order[size:]
        after = rungs_of(rounds, search.eta, rungs - number, every)
        found.append(Bracket(cells, after, None if is_halving else number))
    return found


def rungs_of(rounds: int, eta: int, rungs: int, every: int) -> list[int]:
    """Return the rounds of so many rungs; all but the last are rounded up to evaluated ones."""
    earlier = []
    for k in range(rungs - 1, 0, -1):
        evaluations = -(-rounds // (eta**k * every))
        earlier.append(evaluations * every)
    return [*earlier, rounds]


def most_rungs(rounds: int, eta: int, every: int) -> int:
    """Return how many rungs fit, with an evaluation of its own each."""
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
            _refuse(LENGTH_TUNED, path=path)


def _refuse(text: str, **values: Any) -> NoReturn:
    raise ScenarioError([Problem("", text.format(**values))], "compare.search")

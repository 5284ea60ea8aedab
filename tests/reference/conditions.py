"""Conditions of a comparison: who takes part, who has samples, what follows the rule."""

from typing import Any, NamedTuple

from reference import problems

R = 6
STEPS = (3, 1, 4, 2, 5, 2, 3, 1, 4)


class Condition(NamedTuple):
    """The condition under which a method is compared.

    Attributes:
      sizes: samples per client.
      cohort: the `cohort` section of the scenario.
      lr: η_g after the rule; None: 1, or that of the optimizer in the method's fragment.
      beta: the server momentum; None: none.
      momentum: the momentum of the clients' optimizer.
      carry: whether that optimizer keeps its state until the client's next round.
      uneven: whether local steps differ between clients.
      nesterov: whether the clients' optimizer looks ahead.
      decay: the weight decay on the clients.
    """

    sizes: tuple[int, ...] = problems.SIZES
    cohort: Any = "all"
    lr: float | None = None
    beta: float | None = None
    momentum: float = 0.0
    carry: bool = False
    uneven: bool = False
    nesterov: bool = False
    decay: float = 0.0


FULL = tuple(n for n in problems.SIZES if n)
LISTED = [
    [0, 1, 2, 3, 4],
    [1, 3, 5],
    [0, 1, 3, 4, 5],
    [0, 2, 4, 5],
    [1, 2, 3, 4, 5],
    [0, 1, 2, 4, 5],
]


def listed(sizes: tuple[int, ...], *, empty_too: bool = False) -> dict[str, Any]:
    """Cohorts by id of a federation in which six clients have samples.

    With `empty_too`, some rounds also name clients without samples, and the second names only such.
    """
    able, empty = [i for i, n in enumerate(sizes) if n], [i for i, n in enumerate(sizes) if not n]
    cohorts = [[able[k] for k in S] for S in LISTED]
    if empty_too:
        cohorts[1] = empty
        cohorts[3] = sorted(cohorts[3] + empty[1:])
    return {"kind": "listed", "rounds": cohorts}


HARD = Condition(cohort=listed(problems.SIZES), lr=0.5)
"""The condition of the fast tests."""
EMPTY = problems.SIZES
CONDITIONS = {
    "fast part": HARD,
    "full": Condition(FULL),
    "partial": Condition(FULL, listed(FULL)),
    "cyclic": Condition(FULL, {"kind": "cyclic", "size": 4}),
    "empty": Condition(EMPTY),
    "empty, cyclic": Condition(EMPTY, {"kind": "cyclic", "size": 5}),
    "empty, named": Condition(EMPTY, listed(EMPTY, empty_too=True)),
    "alone": Condition((8,)),
    "alone, others empty": Condition((0, 8, 0)),
    "server step": Condition(FULL, lr=0.5),
    "server momentum": Condition(EMPTY, listed(EMPTY), lr=0.5, beta=0.8),
    "client momentum": Condition(EMPTY, listed(EMPTY), momentum=0.6),
    "carried momentum": Condition(EMPTY, listed(EMPTY), momentum=0.6, carry=True),
    # by the short form of the optimizer, as most papers have it
    "momentum, weight decay": Condition(
        EMPTY, listed(EMPTY), momentum=0.6, uneven=True, nesterov=True, decay=0.2
    ),
    "uneven steps": Condition(EMPTY, listed(EMPTY), lr=0.5, uneven=True),
    "all together": Condition(
        EMPTY, listed(EMPTY, empty_too=True), lr=0.5, beta=0.8, momentum=0.6, uneven=True
    ),
}


def cohorts(condition: Condition) -> list[list[int]]:
    """The ids of every round, by the kind of the cohort."""
    able = [i for i, n in enumerate(condition.sizes) if n]
    if condition.cohort == "all":
        return [able] * R
    if condition.cohort["kind"] == "listed":
        rounds = condition.cohort["rounds"]
        return [rounds[r % len(rounds)] for r in range(R)]
    size = condition.cohort["size"]
    return [[able[(r * size + k) % len(able)] for k in range(size)] for r in range(R)]

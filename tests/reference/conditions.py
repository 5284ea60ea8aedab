"""Under what methods and rules are compared: who takes part, who has samples, what stands behind the rule."""

from typing import Any, NamedTuple

from reference import problems

R = 6
STEPS = (3, 1, 4, 2, 5, 2, 3, 1, 4)


class Condition(NamedTuple):
    """Under what a method is compared.

    Attributes:
      sizes: samples of every client.
      cohort: the section of fedsim.
      lr: η_g behind the rule; None: 1, or what the optimizer of the method's fragment has.
      beta: of server momentum; None: none.
      momentum: of the clients' optimizer.
      carry: whether that optimizer goes on where the client's last round ended.
      uneven: whether local steps differ between clients.
      nesterov: whether their optimizer looks ahead.
      decay: of their weights.
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


def listed(sizes: tuple[int, ...], *, others: bool = False) -> dict[str, Any]:
    """Cohorts by id of a federation with six clients that have samples; `others`: rounds name clients without any, too.

    With `others`, the second round names nobody else.
    """
    able, empty = [i for i, n in enumerate(sizes) if n], [i for i, n in enumerate(sizes) if not n]
    cohorts = [[able[k] for k in S] for S in LISTED]
    if others:
        cohorts[1] = empty
        cohorts[3] = sorted(cohorts[3] + empty[1:])
    return {"kind": "listed", "rounds": cohorts}


HARD = Condition(cohort=listed(problems.SIZES), lr=0.5)
"""The one of the fast part."""
EMPTY = problems.SIZES
SHORT = Condition(EMPTY, listed(EMPTY), momentum=0.6, uneven=True, nesterov=True, decay=0.2)
"""The client of most papers, in its short form."""
CONDITIONS = {
    "fast part": HARD,
    "full": Condition(FULL),
    "partial": Condition(FULL, listed(FULL)),
    "cyclic": Condition(FULL, {"kind": "cyclic", "size": 4}),
    "empty": Condition(EMPTY),
    "empty, cyclic": Condition(EMPTY, {"kind": "cyclic", "size": 5}),
    "empty, named": Condition(EMPTY, listed(EMPTY, others=True)),
    "alone": Condition((8,)),
    "alone, others empty": Condition((0, 8, 0)),
    "server step": Condition(FULL, lr=0.5),
    "server momentum": Condition(EMPTY, listed(EMPTY), lr=0.5, beta=0.8),
    "client momentum": Condition(EMPTY, listed(EMPTY), momentum=0.6),
    "carried momentum": Condition(EMPTY, listed(EMPTY), momentum=0.6, carry=True),
    "momentum, weight decay": SHORT,
    "uneven steps": Condition(EMPTY, listed(EMPTY), lr=0.5, uneven=True),
    "all together": Condition(
        EMPTY, listed(EMPTY, others=True), lr=0.5, beta=0.8, momentum=0.6, uneven=True
    ),
}


def cohorts(condition: Condition) -> list[list[int]]:
    """Ids of every round, as the names of the cohorts say."""
    able = [i for i, n in enumerate(condition.sizes) if n]
    if condition.cohort == "all":
        return [able] * R
    if condition.cohort["kind"] == "listed":
        rounds = condition.cohort["rounds"]
        return [rounds[r % len(rounds)] for r in range(R)]
    size = condition.cohort["size"]
    return [[able[(r * size + k) % len(able)] for k in range(size)] for r in range(R)]

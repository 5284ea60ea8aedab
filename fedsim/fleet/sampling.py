"""How a cohort draws clients, for those who count with it."""

from typing import Literal, NamedTuple


class Sampling(NamedTuple):
    """How a cohort draws clients, as far as an accountant must know it.

    Attributes:
      kind: `poisson`: every client by itself with probability `rate`; `all`: everybody;
        `uniform`: `size` clients, each set equally likely; `separated`: a client takes part at most
        `most` times, and in no two of `gap` consecutive rounds; `cyclic`: `size` clients in turn;
        `cyclic_poisson`: every client of a round's group by itself with probability `rate`.
      rate: probability of taking part.
      size: clients per round.
      gap: rounds from one that a client takes part in to the next at the earliest.
      most: rounds that a client takes part in at most; None: as many as `gap` allows.
      groups: groups that take turns.
    """

    kind: Literal["poisson", "all", "uniform", "separated", "cyclic", "cyclic_poisson"]
    rate: float = 1.0
    size: int = 1
    gap: int = 1
    most: int | None = None
    groups: int = 1

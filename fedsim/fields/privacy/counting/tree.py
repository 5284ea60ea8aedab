"""How much one client can move the noise of a tree: the largest sum of squared counts of nodes.

Every node that is complete has noise of its own, and sums the rounds below it. A client that takes
part in a set of rounds moves each node by as many of them as lie below it.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Partial(NamedTuple):
    """A client's rounds so far, as far as its later ones depend on them.

    Attributes:
      used: how many they are.
      wait: rounds that it still has to rest.
      total: Σ count² of the nodes so far.
    """

    used: int
    wait: int
    total: int


class TreeSensitivity:
    """sens² of a tree for any number of rounds.

    A client's rounds are placed from left to right, subtree by subtree. Of two ways to place them,
    one is dropped if the other has at least its total and waits no longer, with as many rounds; or
    with more of them, where their number is not limited.

    Attributes:
      gap: rounds between two of a client at least.
      most: its rounds at most; None: as many as `gap` allows.
      restart: rounds after which a new tree begins; None: never.
    """

    def __init__(self, gap: int, most: int | None, restart: int | None = None):
        self.gap = gap
        self.most = most
        self.restart = restart
        self._subtrees: dict[tuple[int, int], list[Partial]] = {}
        self._after_trees = [[Partial(0, 0, 0)]]  # after 0, 1, ... trees of `restart` rounds

    def after(self, rounds: int) -> int:
        """Return sens² of the first rounds."""
        if self.restart is None:
            finished = 0
            rest = rounds
        else:
            finished, rest = divmod(rounds, self.restart)
        while len(self._after_trees) <= finished:
            assert self.restart is not None
            partials = self._after_trees[-1]
            self._after_trees.append(self._extended(partials, heights(self.restart)))
        partials = self._extended(self._after_trees[finished], heights(rest))
        return max(partial.total for partial in partials)

    def _extended(self, partials: list[Partial], subtrees: Iterable[int]) -> list[Partial]:
        """Return the ways to go on through complete subtrees of these heights."""
        for height in subtrees:
            longer = []
            for before in partials:
                for inside in self._subtree(height, before.wait):
                    used = before.used + inside.used
                    if self.most is None or used <= self.most:
                        longer.append(Partial(used, inside.wait, before.total + inside.total))
            partials = self._best(longer)
        return partials

    def _subtree(self, height: int, wait: int) -> list[Partial]:
        """Return the ways to place a client's rounds in a subtree, which begins with a rest."""
        key = (height, wait)
        if key not in self._subtrees:
            self._subtrees[key] = self._new_subtree(height, wait)
        return self._subtrees[key]

    def _new_subtree(self, height: int, wait: int) -> list[Partial]:
        size = 1 << height
        if size <= self.gap:  # at most one round, the first that is allowed
            absent = Partial(0, max(wait - size, 0), 0)
            if wait >= size:
                return [absent]
            return self._best([absent, Partial(1, wait + self.gap - size, height + 1)])
        halves = self._extended([Partial(0, wait, 0)], [height - 1, height - 1])
        return self._best(
            [partial._replace(total=partial.total + partial.used**2) for partial in halves]
        )

    def _best(self, partials: list[Partial]) -> list[Partial]:
        """Return the partials that no other is as good as."""
        if self.most is None:
            return _staircase(partials)
        by_used: dict[int, list[Partial]] = {}
        for partial in partials:
            by_used.setdefault(partial.used, []).append(partial)
        kept = []
        for same in by_used.values():
            kept += _staircase(same)
        return kept


def _staircase(partials: list[Partial]) -> list[Partial]:
    """Return the partials than which no other has as many rounds, as short a wait and as much."""
    kept: list[Partial] = []
    for partial in sorted(partials, key=lambda p: (p.wait, -p.total, -p.used)):
        if all(other.total < partial.total or other.used < partial.used for other in kept):
            kept.append(partial)
    return kept


def heights(rounds: int) -> list[int]:
    """Return the heights of the complete subtrees that so many rounds end in, the largest first.

    >>> heights(10)
    [3, 1]
    """
    return [bit for bit in reversed(range(rounds.bit_length())) if rounds >> bit & 1]

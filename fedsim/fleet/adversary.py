"""Which clients the attacker controls."""

from typing import NamedTuple

import numpy as np

from fedsim.fleet.streams import Stream, generator


class Adversary(NamedTuple):
    """The clients that the attacker controls: fixed ones, or a number of drawn ones.

    Attributes:
      ids: ids of fixed clients; empty: clients are drawn.
      count: how many are drawn.
      redrawn: whether they are drawn anew in every round.
    """

    ids: tuple[int, ...] = ()
    count: int = 0
    redrawn: bool = False

    def mask(self, N: int, seed: int, round: int) -> np.ndarray:
        """Return which clients are controlled in a round `[N]`.

        It depends on seed and round alone, so that all methods meet the same attackers.

        Args:
          round: the round, from 1; matters only if clients are redrawn.
        """
        if self.ids:
            controlled = np.array(self.ids)
        elif self.redrawn:  # happens in every round: a permutation of all clients would cost more
            rng = generator(seed, Stream.MALICIOUS, round)
            controlled = rng.choice(N, self.count, replace=False, shuffle=False)
        else:
            controlled = generator(seed, Stream.MALICIOUS).permutation(N)[: self.count]
        mask = np.zeros(N, bool)
        mask[controlled] = True
        return mask

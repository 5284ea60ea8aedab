"""Which clients the attacker controls."""

from typing import NamedTuple

import numpy as np

from fedsim.fleet.streams import Stream, generator


class Adversary(NamedTuple):
    """Clients that the attacker controls: these, or so many that are drawn."""

    ids: tuple[int, ...] = ()
    count: int = 0
    redrawn: bool = False  # in every round, where they are drawn

    def mask(self, N: int, seed: int, round: int) -> np.ndarray:
        """Who is controlled in a round `[N]`; by seed and round alone, so that methods meet the same attackers.

        Args:
          N: clients.
          seed: of the run.
          round: from 1; of no account where they are drawn once.
        """
        mask = np.zeros(N, bool)
        if self.ids:
            mask[[*self.ids]] = True
        elif self.redrawn:  # in every round: a permutation of all would cost more
            mask[
                generator(seed, Stream.MALICIOUS, round).choice(
                    N, self.count, replace=False, shuffle=False
                )
            ] = True
        else:
            mask[generator(seed, Stream.MALICIOUS).permutation(N)[: self.count]] = True
        return mask

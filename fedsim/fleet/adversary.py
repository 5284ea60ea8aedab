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
        mask, rng = np.zeros(N, bool), generator(seed, Stream.MALICIOUS, round if self.redrawn else 0)
        few = self.redrawn and self.count < N  # a permutation of all costs more than a draw of some
        drawn = rng.choice(N, self.count, replace=False, shuffle=False) if few else rng.permutation(N)[: self.count]
        mask[[*self.ids] if self.ids else drawn] = True
        return mask

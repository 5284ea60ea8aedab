"""Parts of a federation that go on by themselves: each begins its next round when it can.

A round ends when the last of them has ended it. What a plan remembers is when each can begin.
"""

from typing import TYPE_CHECKING, Protocol

import numpy as np
from jaxtyping import Float

from fedsim.fleet.round_plan import RoundPlan

if TYPE_CHECKING:
    from fedsim.fleet.plan import Plan


class Waiting(Protocol):
    """Parts with clocks of their own; `name` is that of the array in a plan's state."""

    name: str

    def begin(self) -> Float[np.ndarray, " parts"]:
        """Return when each part can begin round 1."""
        ...

    def next_start(
        self, plan: "Plan", work: RoundPlan, ids: np.ndarray, begins: Float[np.ndarray, " parts"]
    ) -> Float[np.ndarray, " parts"]:
        """Return when each part can begin its next round, in virtual seconds.

        Args:
          work: the round, whose seconds are those of a server that waits for all.
          ids: clients that were drawn.
          begins: when each part begins the round.
        """
        ...

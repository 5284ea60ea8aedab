"""Who trains in a round, and how much."""

from typing import NamedTuple

import numpy as np

from fedsim.fleet.machines import RoundOutcome

State = dict[str, np.ndarray]
"""What a plan continues from after a round: small arrays by name, as in a commit."""


class RoundPlan(NamedTuple):
    """Who trains in a round, and how much.

    Arrays `[K]` have an entry for every client whose message counts, in the order of client ids.

    Attributes:
      round: the round, from 1.
      ids: client ids (int64).
      count: how often each client was drawn, or the factor on its weight.
      samples: training samples n_k.
      weight: n_k, or 0 for a client that takes no step.
      steps: planned local steps, one for each gradient where a method has several phases.
      lr: learning rate, one number or one per client.
      lr_sum: Σ of the learning rates of the planned steps that the scenario asks for.
      seconds: virtual duration of the round.
      start: version of the model that each client trains from: server steps taken before it was
        sent.
      draw: number that selects the random order of each client's batches.
      shift: classes that the clients' labels have moved on by.
      uncounted: clients that were drawn and whose messages do not count; None: there are none.
    """

    round: int
    ids: np.ndarray
    count: np.ndarray
    samples: np.ndarray
    weight: np.ndarray
    steps: np.ndarray
    lr: float | np.ndarray
    lr_sum: np.ndarray
    seconds: float
    start: np.ndarray
    draw: np.ndarray
    shift: int
    uncounted: "UncountedClients | None" = None

    @property
    def age(self) -> np.ndarray:
        """Server steps since each client's start model was sent `[K]`."""
        return self.round - 1 - self.start

    @property
    def receivers(self) -> np.ndarray:
        """The clients that get the model, whether or not their messages count `[m]`."""
        if self.uncounted is None:
            return self.ids
        return np.concatenate([self.ids, self.uncounted.ids[self.uncounted.reached]])

    @property
    def senders(self) -> np.ndarray:
        """The clients that send a message, whether or not it counts `[m]`."""
        if self.uncounted is None:
            return self.ids
        return np.concatenate([self.ids, self.uncounted.ids[self.uncounted.sent]])


class UncountedClients(NamedTuple):
    """Clients that a round drew and does not count; arrays `[m]` in the order of client ids.

    The columns are those of `RoundOutcome`; `steps` are the local steps done in vain.
    """

    ids: np.ndarray
    late: np.ndarray
    left: np.ndarray
    steps: np.ndarray
    reached: np.ndarray
    sent: np.ndarray


class Participants(NamedTuple):
    """Clients whose messages count in a round; columns of `RoundPlan` of the same names `[K]`."""

    ids: np.ndarray
    count: np.ndarray
    steps: np.ndarray
    start: np.ndarray
    draw: np.ndarray


def not_joined(ids: np.ndarray, outcome: RoundOutcome) -> UncountedClients:
    """Return the clients of a synchronous round whose messages do not count."""
    uncounted = ~outcome.joined
    return UncountedClients(
        ids=ids[uncounted],
        late=outcome.late[uncounted],
        left=outcome.left[uncounted],
        steps=outcome.wasted[uncounted],
        reached=outcome.reached[uncounted],
        sent=outcome.sent[uncounted],
    )

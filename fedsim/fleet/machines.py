"""One seed's machines, as a plan asks for them: all alike, unless a field brings others."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedsim.fleet.clients import Clients
from fedsim.fleet.clock import Cost, Speed, seconds


class RoundOutcome(NamedTuple):
    """What becomes of the clients that a round draws; arrays `[m]` in the order of the draw.

    Attributes:
      joined: whether the client's message counts.
      late: whether the round ends before the client does.
      left: whether the client leaves the round.
      steps: local steps that count; 0 where none do.
      wasted: local steps that do not count.
      reached: whether the client receives the model.
      sent: whether it sends a message, which may or may not count.
      seconds: duration of the round.
    """

    joined: Bool[np.ndarray, " m"]
    late: Bool[np.ndarray, " m"]
    left: Bool[np.ndarray, " m"]
    steps: Int[np.ndarray, " m"]
    wasted: Int[np.ndarray, " m"]
    reached: Bool[np.ndarray, " m"]
    sent: Bool[np.ndarray, " m"]
    seconds: float


class ClientOutcome(NamedTuple):
    """What becomes of one client between its start and the moment at which it is free again.

    Attributes:
      seconds: how long this takes.
      left: whether the client leaves, so that its message does not count.
      steps: local steps that it does before it leaves.
    """

    seconds: float
    left: bool = False
    steps: int = 0
    reached: bool = True
    sent: bool = True


class Machines:
    """Machines that are alike: a second a step, links without limits, always there and on time.

    Args:
      cost: what a round costs each of them.
      speed: how fast clients are, with the whole model.

    Attributes:
      speed: how fast each client is, with what it trains of the model.
      seconds: how long a round takes each client `[N]`.
      clocked: whether who can be reached depends on the virtual clock.
      selective: whether some messages that a round asks for may be missing.
      stays: probability that the message of a client that was reached counts; None: unknown.
    """

    clocked = False
    selective = False
    stays: float | None = 1.0

    def __init__(
        self,
        clients: Clients,
        cost: Cost,
        seed: int,
        speed: Speed = Speed(),  # noqa: B008 (immutable)
    ):
        self.clients = clients
        self.cost = cost
        self.seed = seed
        self.speed = speed._replace(step=speed.step * cost.work)
        self.seconds = seconds(cost, self.speed)

    @cached_property
    def idle(self) -> float:
        """Seconds of a round in which nobody can be reached: those of a median round."""
        return float(np.median(self.seconds)) if len(self.seconds) else 0.0

    def reachable(self, round: int, clock: float) -> Bool[np.ndarray, " N"] | None:
        """Return which clients can be reached when a round begins; None: all of them."""
        return None

    def reached_shares(self) -> Any:
        """Return the probability that a client can be reached, one number or one per client `[N]`.

        None: unknown, since clients are not reached independently, or not alike in all rounds.
        """
        return 1.0

    def round_outcome(self, round: int, ids: Int[np.ndarray, " m"]) -> RoundOutcome:
        """Return what becomes of the clients of a synchronous round, who all start at 0 seconds."""
        everybody = np.ones(len(ids), bool)
        return RoundOutcome(
            joined=everybody,
            late=~everybody,
            left=~everybody,
            steps=self.planned_steps(ids),
            wasted=np.zeros(len(ids), np.int64),
            reached=everybody,
            sent=everybody,
            seconds=float(self.seconds_of(ids).max(initial=0.0)),
        )

    def client_outcome(self, draw: int, client: int) -> ClientOutcome:
        """Return what becomes of a client that starts by itself.

        Args:
          draw: number of the draw of its batches; no client has the same one twice.
        """
        return ClientOutcome(float(self.seconds[client]))

    def planned_steps(self, ids: Any) -> Int[np.ndarray, " m"]:
        """Return the planned local steps of these clients."""
        return np.broadcast_to(self.cost.steps, self.clients.N)[ids]

    def seconds_of(self, ids: Any) -> Float[np.ndarray, " m"]:
        """Return how long a round takes these clients."""
        return np.broadcast_to(self.seconds, self.clients.N)[ids]

    def durations(self, ids: Any) -> tuple[Any, Any, Any]:
        """Return the seconds until these clients have the model, of a step, and of a message."""

        def of_clients(value: Any) -> Float[np.ndarray, " m"]:
            return np.broadcast_to(np.asarray(value, float), self.clients.N)[ids]

        latency = of_clients(self.speed.latency)
        down = latency + of_clients(self.cost.down) / of_clients(self.speed.down)
        step = of_clients(self.speed.step)
        up = latency + of_clients(self.cost.up) / of_clients(self.speed.up)
        return down, step, up

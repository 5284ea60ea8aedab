"""One seed's machines: who can be reached, how long clients take, who is late or leaves."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedsim.fleet.availability import Availability, Moment
from fedsim.fleet.clients import Clients
from fedsim.fleet.clock import Cost, Speed, seconds
from fedsim.fleet.stragglers import Stragglers, slowed
from fedsim.fleet.streams import Draws, Stream, generator

ROUNDING = 1e-12  # relative rounding error of a sum of seconds

# When a client leaves a round; in between, at this share of its training.
BEFORE = -1.0  # it receives the model
AFTER = 1.0  # it has sent its message
NEVER = np.inf


class Dropout(NamedTuple):
    """Probabilities that a client leaves a round; at most 1 together.

    Attributes:
      before: it leaves before it receives the model.
      during: it leaves during its training, at a uniformly drawn moment.
      after: it leaves after it has sent its message, which is lost.
    """

    before: float = 0.0
    during: float = 0.0
    after: float = 0.0


class Fleet(NamedTuple):
    """A scenario's machines, the same for all seeds.

    Attributes:
      speed: (clients, rng) -> seconds of a local step; None: one second.
      links: (clients, rng) -> `Rates`; None: infinitely fast.
      availability: which clients can be reached; None: all of them.
      dropout: how likely clients are to leave a round.
      deadline: seconds after which a round ends.
      partial: whether a client that would be late sends the steps that it has done in time.
      report_goal: the round ends when this many clients have reported; None: when all have.
      stragglers: how many clients are slow, and what becomes of their work.
    """

    speed: Callable[[Clients, np.random.Generator], Any] | None = None
    links: Callable[[Clients, np.random.Generator], Any] | None = None
    availability: Availability | None = None
    dropout: Dropout = Dropout()
    deadline: float = np.inf
    partial: bool = False
    report_goal: int | None = None
    stragglers: Stragglers = Stragglers()

    @property
    def selective(self) -> bool:
        """Whether some messages that a round asks for may be missing."""
        return bool(self.availability or any(self.dropout) or self.drops_slow)

    @property
    def complete(self) -> bool:
        """Whether all clients of a round do all of their work, and every message counts."""
        return not (any(self.dropout) or self.drops_slow or self.stragglers.share > 0)

    @property
    def drops_slow(self) -> bool:
        """Whether a round may leave clients out because they are slow."""
        drops_stragglers = self.stragglers.drop and self.stragglers.share > 0
        return bool(np.isfinite(self.deadline) or self.report_goal is not None or drops_stragglers)


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
      reached: whether it receives the model.
      sent: whether it sends a message, which may or may not count.
    """

    seconds: float
    left: bool = False
    steps: int = 0
    reached: bool = True
    sent: bool = True


class Course(NamedTuple):
    """How the round of each client would run if it did not end early; arrays `[m]`.

    Attributes:
      able: local steps that the client manages in the time of its planned ones.
      down: seconds until it has the model.
      step: seconds of one of these steps.
      up: seconds of its message.
      moment: when it leaves: BEFORE, a share of its training, AFTER, or NEVER.
    """

    able: Int[np.ndarray, " m"]
    down: Float[np.ndarray, " m"]
    step: Float[np.ndarray, " m"]
    up: Float[np.ndarray, " m"]
    moment: Float[np.ndarray, " m"]


def step_seconds(fleet: Fleet, clients: Clients, seed: int) -> Any:
    """Return the seconds of a local step of the whole model, one number or one per client `[N]`."""
    if fleet.speed is None:
        return 1.0
    return fleet.speed(clients, generator(seed, Stream.SPEED))


class Machines:
    """The machines of one seed; their random draws do not depend on the method.

    Args:
      fleet: the scenario's machines.
      clients: the federation's clients.
      cost: what a round costs each of them.
      seed: the run's seed.

    Attributes:
      speed: how fast each client is.
      seconds: how long a round takes each client `[N]`.
      clocked: whether availability depends on the virtual clock.
    """

    def __init__(self, fleet: Fleet, clients: Clients, cost: Cost, seed: int):
        self.fleet = fleet
        self.clients = clients
        self.cost = cost
        self.seed = seed

        step = step_seconds(fleet, clients, seed) * cost.work
        links = ()
        if fleet.links is not None:
            links = fleet.links(clients, generator(seed, Stream.LINKS))
        self.speed = Speed(step, *links)
        self.seconds = seconds(cost, self.speed)

        self.clocked = fleet.availability is not None and fleet.availability.clocked
        self._dropout_draws = Draws(seed, Stream.DROPOUT)

    @cached_property
    def idle(self) -> float:
        """Seconds of a round in which nobody can be reached: the deadline, or a median round."""
        if np.isfinite(self.fleet.deadline):
            return self.fleet.deadline
        return float(np.median(self.seconds)) if len(self.seconds) else 0.0

    def reachable(self, round: int, clock: float) -> Bool[np.ndarray, " N"] | None:
        """Return which clients can be reached when a round begins; None: all of them."""
        if self.fleet.availability is None:
            return None

        def uniform(r: int) -> Float[np.ndarray, " N"]:
            return generator(self.seed, Stream.AVAILABLE, r).random(self.clients.N)

        return self.fleet.availability.reached(self._fixed, Moment(round, clock, uniform))

    def reached_shares(self) -> Any:
        """Return the probability that a client can be reached, one number or one per client `[N]`.

        None: unknown, since clients are not reached independently, or not alike in all rounds.
        """
        availability = self.fleet.availability
        if availability is None:
            return 1.0
        if availability.share is None:
            return None
        return availability.share(self._fixed)

    @cached_property
    def _fixed(self) -> Any:
        """What availability draws once for a seed."""
        assert self.fleet.availability is not None
        rng = generator(self.seed, Stream.AVAILABILITY)
        return self.fleet.availability.begin(self.clients, rng)

    def round_outcome(self, round: int, ids: Int[np.ndarray, " m"]) -> RoundOutcome:
        """Return what becomes of the clients of a synchronous round, who all start at 0 seconds."""
        if self.fleet.complete:
            return self._complete_outcome(ids)

        # What each client would do if the round did not end before it.
        down, step, up = self._durations(ids)
        planned = self._planned_steps(ids)
        training = planned * step
        end = down + training + up

        # When some of them leave.
        moment = self._leaving(round, ids)
        leaves = np.isfinite(moment)
        leaves_after = moment == AFTER
        leaves_during = down + np.clip(moment, 0, 1) * training
        leaves_at = np.select([moment == BEFORE, leaves_after], [0.0, end], leaves_during)

        # Stragglers do fewer steps in the same time.
        able, step, dropped = self._slow_down(round, ids, planned, step)

        # With partial work, a client stops early enough to send its message in time.
        steps = able
        if self.fleet.partial and np.isfinite(self.fleet.deadline):
            available = np.maximum(self.fleet.deadline - down - up, 0)
            in_time = _full_steps(available, step, able)
            steps = np.where(self._is_in_time(end), able, in_time)
            end = np.where(steps < able, down + steps * step + up, end)

        # Whose messages count, and when the round ends.
        works = ~leaves & self._is_in_time(end) & ((steps > 0) | (able == 0))
        reports = works & ~dropped
        over_at = np.select([leaves, works], [leaves_at, end], np.inf)
        joined, length = self._end_of_round(ids, reports, over_at)

        # What the other clients have done until then.
        late = ~joined & ~leaves
        spent = np.where(leaves, leaves_at, length)
        done = _full_steps(np.maximum(spent - down, 0), step, able)
        # Without the model, a client takes no step, even where steps take no time.
        done = np.where((moment == BEFORE) | (spent < down), 0, done)
        wasted = np.where(leaves_after, able, done)
        arrived_in_vain = leaves_after | (late & works & (end <= length))
        return RoundOutcome(
            joined=joined,
            late=late,
            left=leaves,
            steps=np.where(joined, steps, 0),
            wasted=np.where(joined, 0, wasted),
            reached=moment >= 0,
            sent=joined | (~dropped & arrived_in_vain),
            seconds=length,
        )

    def _complete_outcome(self, ids: Int[np.ndarray, " m"]) -> RoundOutcome:
        """Return the outcome of a round in which nobody is late or leaves."""
        planned = self._planned_steps(ids)
        if self.fleet.links is None:
            end = np.broadcast_to(self.seconds, self.clients.N)[ids]
        else:  # `self.seconds` adds its terms in another order, and would round differently
            down, step, up = self._durations(ids)
            end = down + planned * step + up

        everybody = np.ones(len(ids), bool)
        nobody = np.zeros(len(ids), bool)
        _, length = self._end_of_round(ids, everybody, end)
        return RoundOutcome(
            joined=everybody,
            late=nobody,
            left=nobody,
            steps=planned,
            wasted=np.zeros(len(ids), np.int64),
            reached=everybody,
            sent=everybody,
            seconds=length,
        )

    def client_outcome(self, draw: int, client: int) -> ClientOutcome:
        """Return what becomes of a client that starts by itself.

        Args:
          draw: number of the draw of its batches; no client has the same one twice.
          client: the client's id.
        """
        if not any(self.fleet.dropout):
            return ClientOutcome(float(self.seconds[client]))

        ids = np.array([client])
        (moment,) = self._leaving(draw, ids)
        if moment == NEVER:
            return ClientOutcome(float(self.seconds[client]))

        (planned,) = self._planned_steps(ids).tolist()
        if moment == AFTER:
            return ClientOutcome(float(self.seconds[client]), left=True, steps=planned)

        (down,), (step,), _ = self._durations(ids)
        if moment == BEFORE:
            return ClientOutcome(0.0, left=True, reached=False, sent=False)

        training = moment * planned * step
        return ClientOutcome(
            seconds=float(down + training),
            left=True,
            steps=int(_full_steps(training, step, planned)),
            sent=False,
        )

    def course(self, round: int, ids: Int[np.ndarray, " m"]) -> Course:
        """Return how the round of each client would run if it did not end early."""
        down, step, up = self._durations(ids)
        able, step, _ = self._slow_down(round, ids, self._planned_steps(ids), step)
        return Course(able, down, step, up, self._leaving(round, ids))

    def _planned_steps(self, ids: Any) -> Int[np.ndarray, " m"]:
        """Return the planned local steps of these clients."""
        return np.broadcast_to(self.cost.steps, self.clients.N)[ids]

    def _durations(self, ids: Any) -> tuple[Any, Any, Any]:
        """Return the seconds until these clients have the model, of a step, and of a message."""

        def of_clients(value: Any) -> Float[np.ndarray, " m"]:
            return np.broadcast_to(np.asarray(value, float), self.clients.N)[ids]

        latency = of_clients(self.speed.latency)
        down = latency + of_clients(self.cost.down) / of_clients(self.speed.down)
        step = of_clients(self.speed.step)
        up = latency + of_clients(self.cost.up) / of_clients(self.speed.up)
        return down, step, up

    def _slow_down(
        self, round: int, ids: Any, planned: Any, step: Any
    ) -> tuple[Any, Any, Bool[np.ndarray, " m"]]:
        """Slow the stragglers down: they do fewer steps in the time of all planned ones.

        Returns:
          Steps that each client manages, seconds of one of them, and whether it is dropped for it.
        """
        parts = planned if self.cost.epochs is None else self.cost.epochs
        slow, able = slowed(self.fleet.stragglers, self.seed, round, ids, planned, parts)
        slower_step = step * (planned / np.maximum(able, 1))
        return able, slower_step, slow & self.fleet.stragglers.drop

    def _leaving(self, round: int, ids: Any) -> Float[np.ndarray, " m"]:
        """Draw when each client leaves: BEFORE, at a share of its training, AFTER, or NEVER."""
        before, during, after = self.fleet.dropout
        if before + during + after == 0:
            return np.full(len(ids), NEVER)

        draws = [self._dropout_draws.at(round, int(id)).random(2) for id in ids]
        u = np.array(draws).reshape(-1, 2)
        which = np.searchsorted(np.cumsum([before, during, after]), u[:, 0], "right")
        cases = [which == 0, which == 1, which == 2]
        return np.select(cases, [BEFORE, u[:, 1], AFTER], NEVER)

    def _end_of_round(
        self, ids: Any, reports: Any, end: Any
    ) -> tuple[Bool[np.ndarray, " m"], float]:
        """Return whose messages count, and when the round ends.

        It ends when as many messages as the goal have arrived, or else when all clients are done;
        at the latest at the deadline.
        """
        goal = self.fleet.report_goal
        deadline = self.fleet.deadline
        if goal is not None and reports.sum() >= goal:
            by_end = np.lexsort((ids, end))
            first = by_end[reports[by_end]][:goal]
            joined = np.zeros(len(ids), bool)
            joined[first] = True
            return joined, min(float(end[first[-1]]), deadline)

        if len(ids):
            return reports, min(float(end.max()), deadline)
        if self.fleet.availability is None:
            return reports, 0.0
        return reports, self.idle  # time passes, so that clients become reachable again

    def _is_in_time(self, end: Any) -> Any:
        """Return whether something ends by the deadline, but for rounding."""
        return end <= self.fleet.deadline * (1 + ROUNDING)


def _full_steps(available: Any, step: Any, limit: Any) -> Int[np.ndarray, " m"]:
    """Return how many local steps fit into the available seconds, at most `limit`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = np.where(step > 0, np.floor(available / step * (1 + ROUNDING)), np.inf)
    return np.minimum(fit, limit).astype(np.int64)

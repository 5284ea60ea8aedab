"""One seed's unequal machines: who can be reached, how long each takes, who is late or leaves."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedsim.fields.machines.availability import Availability, Moment
from fedsim.fields.machines.stragglers import Stragglers, slowed
from fedsim.fleet.clients import Clients
from fedsim.fleet.clock import Cost, Speed
from fedsim.fleet.machines import ClientOutcome, Machines, RoundOutcome
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
      partial: whether a client that would be late sends the steps that it has done in time.
      report_goal: the round ends when this many clients have reported; None: when all have.
      energy: joules of a local step and of a byte, of all clients or by device; None: uncounted.
    """

    speed: Callable[[Clients, np.random.Generator], Any] | None = None
    links: Callable[[Clients, np.random.Generator], Any] | None = None
    availability: Availability | None = None
    dropout: Dropout = Dropout()
    deadline: float = np.inf
    partial: bool = False
    report_goal: int | None = None
    stragglers: Stragglers = Stragglers()
    energy: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether all machines are alike, and do all of their work."""
        return self._replace(energy=None) == Fleet()

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


class UnequalMachines(Machines):
    """The machines of one seed; their random draws do not depend on the method."""

    def __init__(self, fleet: Fleet, clients: Clients, cost: Cost, seed: int):
        step = 1.0
        if fleet.speed is not None:
            step = fleet.speed(clients, generator(seed, Stream.SPEED))
        links = ()
        if fleet.links is not None:
            links = fleet.links(clients, generator(seed, Stream.LINKS))
        super().__init__(clients, cost, seed, Speed(step, *links))

        self.fleet = fleet
        self.clocked = fleet.availability is not None and fleet.availability.clocked
        self.selective = fleet.selective
        self.stays = None if fleet.drops_slow else max(1 - sum(fleet.dropout), 0)
        self._dropout_draws = Draws(seed, Stream.DROPOUT)

    @cached_property
    def idle(self) -> float:
        """Seconds of a round in which nobody can be reached: the deadline, or a median round."""
        if np.isfinite(self.fleet.deadline):
            return self.fleet.deadline
        return super().idle

    def reachable(self, round: int, clock: float) -> Bool[np.ndarray, " N"] | None:
        """Return which clients can be reached, as `Machines`."""
        if self.fleet.availability is None:
            return None

        def uniform(r: int) -> Float[np.ndarray, " N"]:
            return generator(self.seed, Stream.AVAILABLE, r).random(self.clients.N)

        return self.fleet.availability.reached(self._fixed, Moment(round, clock, uniform))

    def reached_shares(self) -> Any:
        """Return the probability that a client can be reached, as `Machines`."""
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
        """Return what becomes of the clients of a synchronous round, as `Machines`."""
        if self.fleet.complete:
            return self._complete_outcome(round, ids)

        # What each client would do if the round did not end before it.
        down, step, up = self.durations(ids)
        planned = self.planned_steps(ids)
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

    def _complete_outcome(self, round: int, ids: Int[np.ndarray, " m"]) -> RoundOutcome:
        """Return the outcome of a round in which nobody is late or leaves."""
        end = self.seconds_of(ids)
        if self.fleet.links is not None:  # `self.seconds` adds its terms in another order
            down, step, up = self.durations(ids)
            end = down + self.planned_steps(ids) * step + up
        _, length = self._end_of_round(ids, np.ones(len(ids), bool), end)
        return super().round_outcome(round, ids)._replace(seconds=length)

    def client_outcome(self, draw: int, client: int) -> ClientOutcome:
        """Return what becomes of a client that starts by itself, as `Machines`."""
        in_time = super().client_outcome(draw, client)
        if not any(self.fleet.dropout):
            return in_time

        ids = np.array([client])
        (moment,) = self._leaving(draw, ids)
        if moment == NEVER:
            return in_time

        (planned,) = self.planned_steps(ids).tolist()
        if moment == AFTER:
            return in_time._replace(left=True, steps=planned)

        (down,), (step,), _ = self.durations(ids)
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
        down, step, up = self.durations(ids)
        able, step, _ = self._slow_down(round, ids, self.planned_steps(ids), step)
        return Course(able, down, step, up, self._leaving(round, ids))

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

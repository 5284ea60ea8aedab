"""The clients of one seed as machines: who can be reached, how long each takes, who is too late or leaves."""

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


class Dropout(NamedTuple):
    """Probabilities that a client of a round leaves it; at most 1 together."""

    before: float = 0.0  # it gets the model
    during: float = 0.0  # its training, at a moment drawn uniform
    after: float = 0.0  # it has sent its message, which is lost


class Fleet(NamedTuple):
    """A scenario's machines, the same for all seeds."""

    speed: Callable[[Clients, np.random.Generator], Any] | None = (
        None  # None: a second for a local step
    )
    links: Callable[[Clients, np.random.Generator], Any] | None = None  # None: infinitely fast
    availability: Availability | None = None  # None: everybody can be reached
    dropout: Dropout = Dropout()
    deadline: float = np.inf  # seconds after which a round ends
    partial: bool = False  # whether a client that would be late sends what it has done in time
    keep: int | None = None  # the round ends when so many have reported; None: when all have
    stragglers: Stragglers = Stragglers()

    @property
    def selective(self) -> bool:
        """Whether clients that a round would have may be missing."""
        return bool(self.availability or any(self.dropout) or self.drops_slow)

    @property
    def complete(self) -> bool:
        """Whether all clients of a round do all of their work, and every message counts."""
        return not (any(self.dropout) or self.drops_slow or self.stragglers.share > 0)

    @property
    def drops_slow(self) -> bool:
        """Whether a round may leave clients out because they are slow."""
        dropped = self.stragglers.drop and self.stragglers.share > 0
        return bool(np.isfinite(self.deadline) or self.keep is not None or dropped)


class RoundOutcome(NamedTuple):
    """What became of the clients that a round drew; arrays `[m]` in their order.

    Attributes:
      joined: whether the message counts.
      late: whether the round ended before the client.
      left: whether the client left the round.
      steps: local steps that count, 0 where none do.
      wasted: local steps that do not.
      reached: whether the model was sent.
      sent: whether a message was sent, which counts or not.
      seconds: of the round.
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
    """What one client does between the moment at which it starts and the one at which it is free again."""

    seconds: float
    left: bool = False  # whether it leaves, and its message does not count
    steps: int = 0  # local steps that it does then
    reached: bool = True  # whether it gets the model
    sent: bool = True  # whether it sends a message, which counts or not


class Machines:
    """Draws of a seed, which no method changes.

    Args:
      fleet: of the scenario.
      clients: of the federation.
      cost: what a round costs each of them.
      seed: of the run.

    Attributes:
      seconds: that a client's round takes `[N]`.
      clocked: whether who can be reached depends on the virtual clock.
    """

    def __init__(self, fleet: Fleet, clients: Clients, cost: Cost, seed: int):
        self.fleet, self.clients, self.cost, self.seed = fleet, clients, cost, seed
        step = 1.0 if fleet.speed is None else fleet.speed(clients, generator(seed, Stream.SPEED))
        links = () if fleet.links is None else fleet.links(clients, generator(seed, Stream.LINKS))
        self.speed = Speed(step, *links)
        self.seconds = seconds(cost, self.speed)
        self.clocked = fleet.availability is not None and fleet.availability.clocked
        self._draws = Draws(seed, Stream.DROPOUT)

    @cached_property
    def idle(self) -> float:
        """Seconds of a round in which nobody can be reached: the deadline, else those of a client in the middle."""
        if np.isfinite(self.fleet.deadline):
            return self.fleet.deadline
        return float(np.median(self.seconds)) if len(self.seconds) else 0.0

    def reachable(self, round: int, clock: float) -> Bool[np.ndarray, " N"] | None:
        """Who can be reached when a round begins; None: everybody."""
        if self.fleet.availability is None:
            return None
        uniform = lambda r: generator(self.seed, Stream.AVAILABLE, r).random(self.clients.N)
        return self.fleet.availability.reached(self._fixed, Moment(round, clock, uniform))

    def reached_shares(self) -> Any:
        """Probability of every client of being reached, of each by itself and in every round the same; None: unknown."""
        availability = self.fleet.availability
        if availability is None:
            return 1.0
        return None if availability.share is None else availability.share(self._fixed)

    @cached_property
    def _fixed(self) -> Any:
        assert self.fleet.availability is not None
        return self.fleet.availability.begin(
            self.clients, generator(self.seed, Stream.AVAILABILITY)
        )

    def round_outcome(self, round: int, ids: Int[np.ndarray, " m"]) -> RoundOutcome:
        """What becomes of the clients of a synchronous round: they start together, at 0 seconds."""
        if self.fleet.complete:
            return self._complete(ids)
        down, step, up = self._times(ids)
        planned, moment = (
            np.broadcast_to(self.cost.steps, self.clients.N)[ids],
            self._leaving(round, ids),
        )
        training = planned * step
        end = down + training + up
        planned, step, dropped = self._slowed(round, ids, planned, step)
        gone, lost = (
            np.isfinite(moment),
            moment >= 1,
        )  # `before` is at −1, `during` in [0, 1), `after` at 1
        leave = np.where(
            moment < 0,
            0.0,
            np.where(lost, end, down + np.minimum(np.maximum(moment, 0), 1) * training),
        )
        steps = planned.copy()
        if self.fleet.partial and np.isfinite(self.fleet.deadline):
            room = np.maximum(self.fleet.deadline - down - up, 0)
            done = np.where(self._in_time(end), planned, _whole_steps(room, step, planned))
            steps, end = done, np.where(done < planned, down + done * step + up, end)
        works = ~gone & self._in_time(end) & ((steps > 0) | (planned == 0))
        reports = works & ~dropped
        joined, length = self._closed(
            ids, reports, np.where(gone, leave, np.where(works, end, np.inf))
        )
        late = ~joined & ~gone
        spent = np.where(gone, leave, length)
        wasted = np.where(
            gone & lost, planned, _whole_steps(np.maximum(spent - down, 0), step, planned)
        )
        return RoundOutcome(
            joined=joined,
            late=late,
            left=gone,
            steps=np.where(joined, steps, 0),
            wasted=np.where(joined, 0, wasted),
            reached=moment >= 0,
            sent=joined | ~dropped & (lost & gone | late & (end <= length)),
            seconds=length,
        )

    def _complete(self, ids: Int[np.ndarray, " m"]) -> RoundOutcome:
        """`fates` where nobody is late or leaves."""
        everyone, nobody = np.ones(len(ids), bool), np.zeros(len(ids), bool)
        planned = np.broadcast_to(self.cost.steps, self.clients.N)[ids]
        if self.fleet.links is None:  # with links, `seconds` adds in another order than `fates`
            end = np.broadcast_to(self.seconds, self.clients.N)[ids]
        else:
            down, step, up = self._times(ids)
            end = down + planned * step + up
        _, length = self._closed(ids, everyone, end)
        none = np.zeros(len(ids), np.int64)
        return RoundOutcome(everyone, nobody, nobody, planned, none, everyone, everyone, length)

    def client_outcome(self, draw: int, client: int) -> ClientOutcome:
        """What becomes of a client that starts by itself; `draw`: of its batches, which it never has twice."""
        if not any(self.fleet.dropout):
            return ClientOutcome(float(self.seconds[client]))
        one = np.array([client])
        (moment,) = self._leaving(draw, one)
        if np.isinf(moment):
            return ClientOutcome(float(self.seconds[client]))
        (down,), (step,), _ = self._times(one)
        planned = int(np.broadcast_to(self.cost.steps, self.clients.N)[client])
        if moment >= 1:
            return ClientOutcome(float(self.seconds[client]), True, planned)
        spent = max(moment, 0.0) * planned * step
        seconds_ = 0.0 if moment < 0 else float(down + spent)
        return ClientOutcome(
            seconds_, True, int(_whole_steps(spent, step, planned)), bool(moment >= 0), False
        )

    def _slowed(
        self, round: int, ids: Any, planned: Any, step: Any
    ) -> tuple[Any, Any, Bool[np.ndarray, " m"]]:
        """Steps and their seconds where some clients are stragglers, who take the time of all that was planned, and whether
        each is left out for it.
        """
        parts = planned if self.cost.epochs is None else self.cost.epochs
        slow, able = slowed(self.fleet.stragglers, self.seed, round, ids, planned, parts)
        return able, step * (planned / np.maximum(able, 1)), slow & self.fleet.stragglers.drop

    def course(
        self, round: int, ids: Int[np.ndarray, " m"]
    ) -> tuple[Any, Any, Any, Any, Float[np.ndarray, " m"]]:
        """Steps that each is able to do, seconds down, of a step, and up, and when each leaves (see `_leaving`)."""
        down, step, up = self._times(ids)
        able, step, _ = self._slowed(
            round, ids, np.broadcast_to(self.cost.steps, self.clients.N)[ids], step
        )
        return able, down, step, up, self._leaving(round, ids)

    def _closed(self, ids: Any, reports: Any, end: Any) -> tuple[Bool[np.ndarray, " m"], float]:
        """(whose messages count, when the round ends): with the last of those that are kept, or of all, or the deadline."""
        keep, deadline = self.fleet.keep, self.fleet.deadline
        if keep is not None and reports.sum() >= keep:
            order = np.lexsort((ids, end))
            first = order[reports[order]][:keep]
            joined = np.zeros(len(ids), bool)
            joined[first] = True
            return joined, min(float(end[first[-1]]), deadline)
        if not len(ids):  # the clock goes on, so that somebody can be reached again
            return reports, 0.0 if self.fleet.availability is None else self.idle
        return reports, min(float(end.max()), deadline)

    def _in_time(self, end: Any) -> Any:
        """Whether something ends by the deadline, but for rounding."""
        return end <= self.fleet.deadline * (1 + 1e-12)

    def _times(self, ids: Any) -> tuple[Any, Any, Any]:
        """Seconds down, of a step, and up, of some clients."""
        of = lambda value: np.broadcast_to(np.asarray(value, float), self.clients.N)[ids]
        cost, speed = self.cost, self.speed
        return (
            of(speed.latency) + of(cost.down) / of(speed.down),
            of(speed.step),
            of(speed.latency) + of(cost.up) / of(speed.up),
        )

    def _leaving(self, round: int, ids: Any) -> Float[np.ndarray, " m"]:
        """When each leaves: −1 before the model comes, in [0, 1) that share of the training, 1 after the message, ∞ never."""
        before, during, after = self.fleet.dropout
        if before + during + after == 0:
            return np.full(len(ids), np.inf)
        u = np.array([self._draws.at(round, int(id)).random(2) for id in ids]).reshape(-1, 2)
        which = np.searchsorted(np.cumsum([before, during, after]), u[:, 0], "right")
        return np.select([which == 0, which == 1, which == 2], [-1.0, u[:, 1], 1.0], np.inf)


def _whole_steps(seconds_: Any, step: Any, most: Any) -> Int[np.ndarray, " m"]:
    """Local steps that fit into so many seconds, at most those that were planned."""
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = np.where(step > 0, np.floor(seconds_ / step * (1 + 1e-12)), np.inf)
    return np.minimum(fit, most).astype(np.int64)

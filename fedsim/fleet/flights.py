"""Asynchronous clients: an event heap on the host decides who trains when, from which model, one event at a time.

A flight is one client's training, from the moment at which it is given a model to the one at which its message arrives, or
it leaves.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedsim.fleet.machines import Machines
from fedsim.fleet.timetables import Timetable

PATIENCE = 1000  # draws in which everybody is in flight already, before somebody else is taken
LOST = 1000  # flights one after another that bring no message, before the server steps with those that it has
ROUNDING = 1e-12  # of a sum of seconds, by which a message may miss the end of a window
State = dict[str, np.ndarray]
"""What a plan goes on from after a round: small arrays by name, as a commit holds them."""

Mask = np.ndarray
"""Of clients `[N]`."""


class Flight(NamedTuple):
    """A client that trains; flights are ordered by when they end, and then by when they started."""

    finish: float  # virtual seconds since the start of the run
    order: int  # of its start among all starts, from 0
    client: int
    version: int  # server steps before it was given the model
    draw: int  # of its batches: 1 + version, or more where it started from this version before


class Flights:
    """The flights of a run, as they are after a step of the server.

    Args:
      machines: of the clients: who can be reached when, how long each takes, and who leaves.
      draw: (number of a draw, from 1; who can be reached, None: everybody) -> clients in the order in which they start.
      spare: (number of a draw, clients that could start) -> one of them, where draws name none for long.
      known: clients that a draw may ever name `[n]`.
      twice: whether a client may start while it is in flight.
      timetable: of the server: when it steps, and when the next clients start.
      state: as `state` gave it; left out: of the start of the run, at which nobody is in flight.
    """

    def __init__(
        self,
        machines: Machines,
        draw: Callable[[int, Mask | None], np.ndarray],
        spare: Callable[[int, np.ndarray], int],
        known: np.ndarray,
        twice: bool,
        timetable: Timetable,
        state: State,
    ):
        self.machines, self.draw, self.spare, self.known = machines, draw, spare, known
        self.twice, self.timetable = twice, timetable
        columns = zip(
            *(state[name].tolist() for name in ("order", "client", "version", "draw")), strict=True
        )
        self.heap = [
            Flight(finish, *rest)
            for finish, rest in zip(state["finish"].tolist(), columns, strict=True)
        ]
        heapq.heapify(self.heap)
        self.clients = {flight.client for flight in self.heap}
        self.clock, self.queue = float(state["clock"]), deque(state["queue"].tolist())
        self.started, self.draws = map(int, state["counts"])
        self.drawn = dict(state["drawn"].tolist())

    def state(self) -> State:
        """Small arrays from which the flights go on."""
        flights = sorted(self.heap)
        whole = np.array([flight[1:] for flight in flights], np.int64).reshape(-1, 4)
        return {
            "finish": np.array([flight.finish for flight in flights], np.float64),
            **dict(zip(("order", "client", "version", "draw"), whole.T, strict=True)),
            "queue": np.array(self.queue, np.int64),
            "clock": np.array(self.clock),
            "counts": np.array([self.started, self.draws], np.int64),
            "drawn": np.array(sorted(self.drawn.items()), np.int64).reshape(-1, 2),
        }

    def fill(self, version: int) -> None:
        """Clients start now for all free places, from a version of the model; a place stays free where none can."""
        places = self.timetable.concurrency - len(self.heap)
        if not places:
            return
        reachable = self.machines.reachable(version + 1, self.clock)
        if reachable is not None:
            places = min(places, self._able(reachable))
        for _ in range(places):
            self._start(self._next(reachable), version)

    def flush(self, version: int) -> tuple[list[Flight], list[Flight]]:
        """The next step of a server that has taken `version` steps -> (flights of its buffer, flights that left until then).

        A step that nobody can reach, or for which all leave, is taken with the messages that are there.
        """
        ended: list[Flight] = []
        left: list[Flight] = []
        buffer, waits, window = self.timetable.buffer, self.timetable.waits, self.timetable.window
        until, lost = (version + 1) * window if window else math.inf, 0
        while (
            self.heap
            and len(ended) < buffer
            and lost < LOST
            and self.heap[0].finish <= until * (1 + ROUNDING)
        ):
            flight = heapq.heappop(self.heap)
            self.clock = flight.finish
            self.clients.discard(flight.client)
            leaves = self.machines.client_outcome(flight.draw, flight.client).left
            (left if leaves else ended).append(flight)
            lost = lost + 1 if leaves else 0
            if (
                not waits and len(ended) < buffer
            ):  # whose message fills the buffer, makes room for the next version
                self.fill(version)
        if window:
            self.clock = until
        elif not ended and not left:  # the clock goes on, so that somebody can be reached again
            self.clock += self.machines.idle
        self.drawn = {client: draw for client, draw in self.drawn.items() if draw > version + 1}
        self.fill(version + 1)
        return ended, left

    def _start(self, client: int, version: int) -> None:
        draw = max(version + 1, self.drawn.get(client, 0) + 1)
        self.drawn[client] = draw
        finish = self.clock + self.machines.client_outcome(draw, client).seconds
        heapq.heappush(self.heap, Flight(finish, self.started, client, version, draw))
        self.clients.add(client)
        self.started += 1

    def _able(self, reachable: Mask) -> int:
        """How many can start, of those that can be reached; one that may start twice can fill any number of places."""
        count = int(np.count_nonzero(reachable[self.known]))
        if self.twice:
            return self.timetable.concurrency if count else 0
        return count - sum(bool(reachable[client]) for client in self.clients)

    def _next(self, reachable: Mask | None) -> int:
        """Who starts next, of those that can be reached."""
        for _ in range(PATIENCE):
            while self.queue:
                client = self.queue.popleft()
                if (self.twice or client not in self.clients) and (
                    reachable is None or reachable[client]
                ):
                    return client
            self.draws += 1
            self.queue.extend(self.draw(self.draws, reachable).tolist())
        able = self.known if reachable is None else self.known[reachable[self.known]]
        return self.spare(
            self.draws, able if self.twice else np.setdiff1d(able, list(self.clients))
        )


def nobody() -> State:
    """The state in which a run starts."""
    none = np.zeros(0, np.int64)
    return {
        "finish": np.zeros(0),
        **dict.fromkeys(("order", "client", "version", "draw", "queue"), none),
        "clock": np.array(0.0),
        "counts": np.zeros(2, np.int64),
        "drawn": np.zeros((0, 2), np.int64),
    }

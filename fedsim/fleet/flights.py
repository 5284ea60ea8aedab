"""Asynchronous clients: an event heap on the host decides who trains when, from which model, one event at a time.

A flight is one client's training, from the moment at which it is given a model to the one at which its message arrives.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedsim.fleet.timetables import Timetable

PATIENCE = 1000  # draws in which everybody is in flight already, before somebody else is taken
ROUNDING = 1e-12  # of a sum of seconds, by which a message may miss the end of a window
State = dict[str, np.ndarray]
"""What a plan goes on from after a round: small arrays by name, as a commit holds them."""


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
      seconds: that each client's training takes `[N]`.
      draw: number of a draw, from 1 -> clients in the order in which they start.
      spare: (number of a draw, clients in flight) -> a client that is not, where draws name none for long.
      twice: whether a client may start while it is in flight.
      timetable: of the server: when it steps, and when the next clients start.
      state: as `state` gave it; left out: of the start of the run, at which nobody is in flight.
    """

    def __init__(
        self,
        seconds: np.ndarray,
        draw: Callable[[int], np.ndarray],
        spare: Callable[[int, set[int]], int],
        twice: bool,
        timetable: Timetable,
        state: State,
    ):
        self.seconds, self.draw, self.spare, self.twice, self.timetable = seconds, draw, spare, twice, timetable
        columns = zip(*(state[name].tolist() for name in ("order", "client", "version", "draw")), strict=True)
        self.heap = [Flight(finish, *rest) for finish, rest in zip(state["finish"].tolist(), columns, strict=True)]
        heapq.heapify(self.heap)
        self.clients = {flight.client for flight in self.heap}
        self.clock, self.queue = float(state["clock"]), deque(state["queue"].tolist())
        self.started, self.draws = map(int, state["counts"])
        self.drawn = dict(state["drawn"].tolist())

    def state(self) -> State:
        """Small arrays from which the flights go on."""
        finish, order, client, version, draw = zip(*sorted(self.heap), strict=True)
        integers = {"order": order, "client": client, "version": version, "draw": draw, "queue": tuple(self.queue)}
        return {
            "finish": np.array(finish, np.float64),
            **{name: np.array(values, np.int64) for name, values in integers.items()},
            "clock": np.array(self.clock),
            "counts": np.array([self.started, self.draws], np.int64),
            "drawn": np.array(sorted(self.drawn.items()), np.int64).reshape(-1, 2),
        }

    def start(self, version: int) -> None:
        """The next client starts now, from a version of the model."""
        client = self._next()
        draw = max(version + 1, self.drawn.get(client, 0) + 1)
        self.drawn[client] = draw
        finish = self.clock + float(self.seconds[client])
        heapq.heappush(self.heap, Flight(finish, self.started, client, version, draw))
        self.clients.add(client)
        self.started += 1

    def fill(self, version: int) -> None:
        """Clients start now for all free places, from a version of the model."""
        while len(self.heap) < self.timetable.concurrency:
            self.start(version)

    def flush(self, version: int) -> list[Flight]:
        """The next step of a server that has taken `version` steps -> the flights of its buffer, in the order they end."""
        ended: list[Flight] = []
        buffer, waits, window = self.timetable.buffer, self.timetable.waits, self.timetable.window
        until = (version + 1) * window if window else math.inf
        while self.heap and len(ended) < buffer and self.heap[0].finish <= until * (1 + ROUNDING):
            flight = heapq.heappop(self.heap)
            self.clock = flight.finish
            self.clients.discard(flight.client)
            ended.append(flight)
            if not waits and len(ended) < buffer:  # whose message fills the buffer, makes room for the next version
                self.fill(version)
        if window:
            self.clock = until
        self.drawn = {client: draw for client, draw in self.drawn.items() if draw > version + 1}
        self.fill(version + 1)
        return ended

    def _next(self) -> int:
        for _ in range(PATIENCE):
            while self.queue:
                client = self.queue.popleft()
                if self.twice or client not in self.clients:
                    return client
            self.draws += 1
            self.queue.extend(self.draw(self.draws).tolist())
        return self.spare(self.draws, self.clients)


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

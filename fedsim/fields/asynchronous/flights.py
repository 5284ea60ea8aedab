"""Asynchronous clients: an event heap on the host decides who trains when, and from which model.

A flight is one client's training, from the moment at which the client is given a model to the
moment at which its message arrives, or the client leaves.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedsim.fleet.machines import Machines
from fedsim.fleet.round_plan import State
from fedsim.fleet.timetables import Timetable

PATIENCE = 1000  # draws of clients that are all in flight already, before a spare one is taken
LOST = 1000  # flights in a row without a message, before the server steps with what it has
ROUNDING = 1e-12  # relative rounding error of a sum of seconds, by which a message may be late

INTEGER_COLUMNS = ("order", "client", "version", "draw")  # of a flight

Mask = np.ndarray
"""A mask of clients `[N]`."""


class Flight(NamedTuple):
    """A client that trains.

    Flights are sorted by when they end, and then by when they started.

    Attributes:
      finish: virtual seconds since the start of the run.
      order: number of its start among all starts, from 0.
      version: server steps before the client was given the model.
      draw: number of the random draw of its batches: 1 + version, or more where the client has
        started from this version before.
    """

    finish: float
    order: int
    client: int
    version: int
    draw: int


class Flights:
    """The flights of a run after a step of the server.

    Args:
      machines: the clients' machines: who can be reached, how long each takes, and who leaves.
      draw: (number of the draw, from 1; who can be reached, None: all) -> clients in the order in
        which they start.
      spare: (number of the draw, clients that could start) -> one of them, for when many draws in a
        row yield nobody that can start.
      drawable: ids of the clients that a draw may yield `[n]`.
      twice: whether a client may start while it is in flight.
      state: the state to continue from, as `state` returns it; `nobody()` at the start of a run.
    """

    def __init__(
        self,
        machines: Machines,
        draw: Callable[[int, Mask | None], np.ndarray],
        spare: Callable[[int, np.ndarray], int],
        drawable: np.ndarray,
        twice: bool,
        timetable: Timetable,
        state: State,
    ):
        self.machines = machines
        self.draw = draw
        self.spare = spare
        self.drawable = drawable
        self.twice = twice
        self.timetable = timetable

        columns = [state[name].tolist() for name in ("finish", *INTEGER_COLUMNS)]
        self.heap = [Flight(*row) for row in zip(*columns, strict=True)]
        heapq.heapify(self.heap)
        self.clients = {flight.client for flight in self.heap}

        self.clock = float(state["clock"])
        self.queue = deque(state["queue"].tolist())
        self.starts, self.draws = map(int, state["counts"])
        self.last_draw = dict(state["drawn"].tolist())  # number of a client's last draw of batches

    def state(self) -> State:
        """Return small arrays from which the flights can continue."""
        flights = sorted(self.heap)
        integers = np.array([flight[1:] for flight in flights], np.int64).reshape(-1, 4)
        return {
            "finish": np.array([flight.finish for flight in flights], np.float64),
            **dict(zip(INTEGER_COLUMNS, integers.T, strict=True)),
            "queue": np.array(self.queue, np.int64),
            "clock": np.array(self.clock),
            "counts": np.array([self.starts, self.draws], np.int64),
            "drawn": np.array(sorted(self.last_draw.items()), np.int64).reshape(-1, 2),
        }

    def fill(self, version: int) -> None:
        """Start clients now, from this model version, until as many train as the timetable says.

        Fewer train where too few clients can start.
        """
        free = self.timetable.concurrency - len(self.heap)
        if not free:
            return
        reachable = self.machines.reachable(version + 1, self.clock)
        if reachable is not None:
            free = min(free, self._count_able(reachable))
        for _ in range(free):
            self._start(self._next_client(reachable), version)

    def flush(self, version: int) -> tuple[list[Flight], list[Flight]]:
        """Play until the next step of a server that has taken `version` steps.

        If no client can be reached, or all leave, the server steps with the messages it has.

        Returns:
          The flights whose messages are in the buffer, and the flights of clients that left.
        """
        ended: list[Flight] = []
        left: list[Flight] = []
        lost_in_a_row = 0

        window = self.timetable.window
        window_end = (version + 1) * window if window else math.inf
        latest = window_end * (1 + ROUNDING)

        while (
            self.heap
            and len(ended) < self.timetable.buffer
            and lost_in_a_row < LOST
            and self.heap[0].finish <= latest
        ):
            flight = heapq.heappop(self.heap)
            self.clock = flight.finish
            self.clients.discard(flight.client)

            if self.machines.client_outcome(flight.draw, flight.client).left:
                left.append(flight)
                lost_in_a_row += 1
            else:
                ended.append(flight)
                lost_in_a_row = 0

            # The client whose message fills the buffer is replaced after the step, from the new
            # model.
            if not self.timetable.waits and len(ended) < self.timetable.buffer:
                self.fill(version)

        if window:
            self.clock = window_end
        elif not ended and not left:
            self.clock += self.machines.idle  # time passes, so that clients become reachable again

        new_version = version + 1
        self.last_draw = {
            client: draw for client, draw in self.last_draw.items() if draw > new_version
        }
        self.fill(new_version)
        return ended, left

    def _start(self, client: int, version: int) -> None:
        """Let a client start now from a model version."""
        draw = max(version + 1, self.last_draw.get(client, 0) + 1)
        self.last_draw[client] = draw
        finish = self.clock + self.machines.client_outcome(draw, client).seconds
        heapq.heappush(self.heap, Flight(finish, self.starts, client, version, draw))
        self.clients.add(client)
        self.starts += 1

    def _count_able(self, reachable: Mask) -> int:
        """Return how many starts the reachable clients allow."""
        count = int(np.count_nonzero(reachable[self.drawable]))
        if self.twice:  # one client alone can start any number of times
            return self.timetable.concurrency if count else 0
        in_flight = sum(bool(reachable[client]) for client in self.clients)
        return count - in_flight

    def _next_client(self, reachable: Mask | None) -> int:
        for _ in range(PATIENCE):
            while self.queue:
                client = self.queue.popleft()
                is_free = self.twice or client not in self.clients
                if is_free and (reachable is None or reachable[client]):
                    return client
            self.draws += 1
            self.queue.extend(self.draw(self.draws, reachable).tolist())

        able = self.drawable
        if reachable is not None:
            able = able[reachable[able]]
        if not self.twice:
            able = np.setdiff1d(able, list(self.clients))
        return self.spare(self.draws, able)


def nobody() -> State:
    """Return the state at the start of a run, when nobody is in flight."""
    none = np.zeros(0, np.int64)
    return {
        "finish": np.zeros(0),
        **dict.fromkeys((*INTEGER_COLUMNS, "queue"), none),
        "clock": np.array(0.0),
        "counts": np.zeros(2, np.int64),
        "drawn": np.zeros((0, 2), np.int64),
    }

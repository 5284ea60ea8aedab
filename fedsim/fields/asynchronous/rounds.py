"""The rounds of an asynchronous server: each is a step, on the messages that arrived for it."""

from typing import TYPE_CHECKING

import numpy as np

from fedsim.fields.asynchronous.flights import Flight, Flights, nobody
from fedsim.fleet.round_plan import Participants, RoundPlan, State, UncountedClients
from fedsim.fleet.selection import Drawn
from fedsim.fleet.streams import Stream, generator
from fedsim.fleet.timelines import JOINED, LEFT, MAX_ROWS, Timeline

if TYPE_CHECKING:
    from fedsim.fleet.plan import Plan

FLIGHTS_PER_ROW = 4  # of the picture, about
FLYING = "in flight"


def begin(plan: "Plan") -> State:
    """Return the state before the first step."""
    flights = _flights(plan, nobody())
    flights.fill(0)
    return flights.state()


def plan_round(plan: "Plan", r: int, state: State) -> tuple[RoundPlan, State]:
    """Plan step r of the server -> the round, and the state after it."""
    ended, left, flights = flights_of(plan, r, state)
    ids, start, draw = _columns(ended)

    # The learning rate comes with the model, so it is that of the version each started from.
    versions, version_index = np.unique(start, return_inverse=True)
    lr_by_version = np.array([plan.local.lr(int(version) + 1) for version in versions])
    lr = lr_by_version[version_index]  # [K]

    participants = Participants(
        ids=ids, count=np.ones(len(ids), int), steps=plan.steps[ids], start=start, draw=draw
    )
    seconds = flights.clock - float(state["clock"])
    work = plan.work_in(r, participants, lr, seconds)
    if left:
        work = work._replace(uncounted=_left_the_server(plan, left))
    return work, flights.state()


def flights_of(plan: "Plan", r: int, state: State) -> tuple[list[Flight], list[Flight], Flights]:
    """Play step r of the server.

    Returns:
      The flights in its buffer, those that left before the step, and all flights after it.
    """
    flights = _flights(plan, state)
    ended, left = flights.flush(r - 1)
    return ended, left, flights


def versions_in_flight(state: State) -> list[int]:
    """Return the model versions of clients in flight, rising."""
    return np.unique(state["version"]).tolist()


def _flights(plan: "Plan", state: State) -> Flights:
    """Return the flights of a server in a state."""

    def draw(number: int, reachable: np.ndarray | None) -> np.ndarray:
        population = plan.population
        if reachable is not None and not plan.cohort.ordered:
            population = population.subset(reachable[plan.eligible])
        rng = generator(plan.seed, Stream.COHORT, number)
        drawn = plan.cohort.draw(population, number, rng)
        return drawn.ids if isinstance(drawn, Drawn) else drawn

    def spare(number: int, free: np.ndarray) -> int:
        return int(generator(plan.seed, Stream.SPARE, number).choice(free))

    listed = np.array(plan.cohort.names, np.int64)
    is_listed = len(listed) > 0
    return Flights(
        machines=plan.machines,
        draw=draw,
        spare=spare,
        drawable=listed if is_listed else plan.eligible,
        twice=is_listed,
        timetable=plan.timetable,
        state=state,
    )


def _left_the_server(plan: "Plan", flights: list[Flight]) -> UncountedClients:
    ids, _, draws = _columns(flights)
    outcomes = [
        plan.machines.client_outcome(draw, client)
        for draw, client in zip(draws.tolist(), ids.tolist(), strict=True)
    ]
    left = np.array([outcome.left for outcome in outcomes])
    return UncountedClients(
        ids=ids,
        late=~left,
        left=left,
        steps=np.array([outcome.steps for outcome in outcomes]),
        reached=np.array([outcome.reached for outcome in outcomes]),
        sent=np.array([outcome.sent for outcome in outcomes]),
    )


def _columns(flights: list[Flight]) -> np.ndarray:
    """Return clients, model versions and draws of flights `[3, K]`, by client and then by start."""
    ordered = sorted(flights, key=lambda flight: (flight.client, flight.order))
    rows = [(flight.client, flight.version, flight.draw) for flight in ordered]
    return np.array(rows, np.int64).reshape(-1, 3).T


def timeline(plan: "Plan") -> Timeline:
    """Return the first flights; those that are still in flight at the end are cut off there."""
    ended: list[Flight] = []
    left: list[Flight] = []
    steps_at: list[float] = []  # when the server steps with each of `ended`
    flights: Flights | None = None
    state = plan.begin()
    enough = FLIGHTS_PER_ROW * plan.timetable.concurrency
    for r in range(1, min(plan.rounds, enough) + 1):
        arrived, gone, flights = flights_of(plan, r, state)
        state = flights.state()
        ended += arrived
        left += gone
        steps_at += [flights.clock] * len(arrived)
        if len(ended) >= enough:
            break
    assert flights is not None
    flying = sorted(flights.heap)

    shown = [*ended, *left, *flying]
    client = np.array([flight.client for flight in shown], np.int64)
    finish = np.array([flight.finish for flight in shown])
    outcomes = [plan.machines.client_outcome(flight.draw, flight.client) for flight in shown]
    sent = np.array([outcome.sent for outcome in outcomes])
    down, _, up = plan.machines.durations(client)

    begins = finish - np.array([outcome.seconds for outcome in outcomes])
    trains = begins + down
    sends = finish - np.where(sent, up, 0)
    ends = np.minimum(finish, flights.clock)
    closes = [*steps_at, *[flight.finish for flight in left], *[np.nan] * len(flying)]
    labels = [JOINED] * len(ended) + [LEFT] * len(left) + [FLYING] * len(flying)

    order = np.array([flight.order for flight in shown])
    rows = _assigned_rows(begins, finish, order)
    clients = Timeline(
        place=rows,
        client=client,
        begins=np.maximum(begins, 0),
        trains=np.minimum(trains, ends),
        sends=np.minimum(sends, ends),
        ends=ends,
        closes=np.array(closes),
        outcome=np.array(labels),
    )
    return clients.rows((rows < MAX_ROWS) & (begins < flights.clock))


def _assigned_rows(begins: np.ndarray, ends: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Assign flights to rows of a picture, so that the flights of a row do not overlap `[m]`.

    In their order, each flight takes the row that has been free for longest, or a new row.
    """
    free_since: list[float] = []  # by row
    rows = np.zeros(len(begins), np.int64)
    for i in np.argsort(order):
        begin = float(begins[i])
        end = float(ends[i])
        latest = begin + 1e-9 * max(end, 1.0)
        free = [row for row, since in enumerate(free_since) if since <= latest]
        if free:
            rows[i] = min(free, key=lambda row: (free_since[row], row))
            free_since[rows[i]] = end
        else:
            rows[i] = len(free_since)
            free_since.append(end)
    return rows

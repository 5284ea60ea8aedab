"""The rounds of an asynchronous server: each is a step, on the messages that arrived for it."""

from typing import TYPE_CHECKING

import numpy as np

from fedsim.fleet.flights import Flight, Flights, State, nobody
from fedsim.fleet.round_plan import Participants, RoundPlan, UncountedClients
from fedsim.fleet.selection import Drawn
from fedsim.fleet.streams import Stream, generator

if TYPE_CHECKING:
    from fedsim.fleet.plan import Plan


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


def versions_in_flight(plan: "Plan", state: State) -> list[int]:
    """Return the model versions of clients in flight, rising; none of a synchronous server."""
    if not plan.timetable.asynchronous:
        return []
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
    """Return the clients that left."""
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

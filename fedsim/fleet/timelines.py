"""What clients do when, for a picture: in the first round, or in the first flights."""

from typing import NamedTuple

import numpy as np

from fedsim.fleet import asynchronous
from fedsim.fleet.flights import Flight, Flights
from fedsim.fleet.machines import AFTER, BEFORE, Fleet
from fedsim.fleet.plan import Plan
from fedsim.fleet.planner import Planner

MAX_ROWS = 60  # of the picture: clients of a round, or clients that train at a time
FLIGHTS_PER_ROW = 4  # of an asynchronous server, about

JOINED = "joined"
PARTIAL = "partial"
LATE = "late"
SURPLUS = "over-selected"
LEFT = "left"
FLYING = "in flight"


class Timeline(NamedTuple):
    """Clients that train; arrays `[m]`, in seconds since the start of the run.

    Attributes:
      place: row of the picture, from 0; a row of an asynchronous server has one flight after
        another.
      client: id of the client.
      begins: when the client is sent the model.
      trains: when it has received it.
      sends: when its training ends.
      ends: when its message arrives, it leaves, or the round ends without it.
      closes: when the server steps, with the message or without it.
      outcome: `joined`, `partial` (fewer steps, in time), `late`, `over-selected`, `left`, or
        `in flight`.
    """

    place: np.ndarray
    client: np.ndarray
    begins: np.ndarray
    trains: np.ndarray
    sends: np.ndarray
    ends: np.ndarray
    closes: np.ndarray
    outcome: np.ndarray

    def rows(self, selected: np.ndarray) -> "Timeline":
        """Return the selected entries, given as a mask or as positions."""
        return Timeline(*(column[selected] for column in self))


def timeline(plan: Plan) -> Timeline | None:
    """Return what happens first in a run; None if times do not differ, or nobody is drawn."""
    if plan.timetable.asynchronous:
        return _first_flights(plan)
    if plan.machines.fleet == Fleet():
        return None

    work = Planner(plan).round(1)
    ids = work.ids
    if work.uncounted is not None:
        ids = np.concatenate([ids, work.uncounted.ids])
    return _first_round(plan, np.sort(ids)) if len(ids) else None


def _first_round(plan: Plan, ids: np.ndarray) -> Timeline:
    """Return the clients of round 1, in the order in which they would end."""
    machines = plan.machines
    outcome = machines.round_outcome(1, ids)
    course = machines.course(1, ids)

    # When each would end if neither it nor the round stopped it.
    steps = np.where(outcome.joined, outcome.steps, course.able)
    sends = course.down + steps * course.step
    arrives = sends + course.up

    # When each ends.
    leaves_during = course.down + np.clip(course.moment, 0, 1) * (sends - course.down)
    cases = [course.moment == BEFORE, course.moment >= AFTER]
    leaves = np.select(cases, [0.0, arrives], leaves_during)
    cut_off = np.minimum(arrives, outcome.seconds)
    ends = np.select([outcome.left, outcome.late], [leaves, cut_off], arrives)

    # What becomes of each.
    goal = machines.fleet.report_goal
    ended_by_count = (
        goal is not None
        and outcome.joined.sum() == goal
        and outcome.seconds < machines.fleet.deadline
    )
    partial = outcome.joined & (outcome.steps < plan.steps[ids])
    label = np.select(
        [outcome.left, partial, outcome.joined],
        [LEFT, PARTIAL, JOINED],
        SURPLUS if ended_by_count else LATE,
    )

    clients = Timeline(
        place=np.zeros(len(ids), np.int64),  # known when the rows are chosen
        client=ids,
        begins=np.zeros(len(ids)),
        trains=np.minimum(course.down, ends),
        sends=np.minimum(sends, ends),
        ends=ends,
        closes=np.full(len(ids), outcome.seconds),
        outcome=label,
    )
    by_end = np.lexsort((ids, arrives))
    if len(by_end) > MAX_ROWS:
        evenly = np.linspace(0, len(by_end) - 1, MAX_ROWS).round().astype(int)
        by_end = by_end[evenly]
    return clients.rows(by_end)._replace(place=np.arange(len(by_end)))


def _first_flights(plan: Plan) -> Timeline:
    """Return the first flights; those that are still in flight at the end are cut off there."""
    ended: list[Flight] = []
    left: list[Flight] = []
    steps_at: list[float] = []  # when the server steps with each of `ended`
    flights: Flights | None = None
    state = plan.begin()
    enough = FLIGHTS_PER_ROW * plan.timetable.concurrency
    for r in range(1, min(plan.rounds, enough) + 1):
        arrived, gone, flights = asynchronous.flights_of(plan, r, state)
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
    course = plan.machines.course(1, client)

    begins = finish - np.array([outcome.seconds for outcome in outcomes])
    trains = begins + course.down
    sends = finish - np.where(sent, course.up, 0)
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

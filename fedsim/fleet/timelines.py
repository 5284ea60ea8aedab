"""What the clients of one round do when, for a picture: of a synchronous server its first round, of another its first flights."""

from typing import NamedTuple

import numpy as np

from fedsim.fleet.machines import Fleet
from fedsim.fleet.plan import Plan
from fedsim.fleet.planner import Planner

MOST = 60  # clients of a round, or places of an asynchronous server, that are shown
STARTS = 4  # flights of each place, about
JOINED, PARTIAL, LATE, SURPLUS, LEFT, FLYING = (
    "joined",
    "partial",
    "late",
    "over-selected",
    "left",
    "in flight",
)


class Timeline(NamedTuple):
    """Arrays `[m]`; seconds since the start of the run.

    Attributes:
      place: row of the picture, from 0; a place of an asynchronous server has one flight after another.
      client: that trains there.
      begins: when it is sent the model.
      trains: when it has it.
      sends: when its training has ended.
      ends: when its message has arrived; or when it leaves, or the round ends without it.
      closes: when the server steps with it, or without it.
      outcome: `joined`, `partial` (fewer steps, in time), `late`, `over-selected`, `left`, or `in flight`.
    """

    place: np.ndarray
    client: np.ndarray
    begins: np.ndarray
    trains: np.ndarray
    sends: np.ndarray
    ends: np.ndarray
    closes: np.ndarray
    outcome: np.ndarray


def timeline(plan: Plan) -> Timeline | None:
    """What happens first in a run; None where nothing makes times differ, or nobody can be reached."""
    if plan.timetable.asynchronous:
        return _flights(plan)
    if plan.machines.fleet == Fleet():
        return None
    work = Planner(plan).round(1)
    ids = np.sort(
        np.concatenate([work.ids, [] if work.others is None else work.others.ids]).astype(np.int64)
    )
    return _of_round(plan, ids) if len(ids) else None


def _of_round(plan: Plan, ids: np.ndarray) -> Timeline:
    """The clients of round 1, in the order in which they end."""
    machines = plan.machines
    fates, (able, down, step, up, moment) = machines.round_outcome(1, ids), machines.course(1, ids)
    sends = down + np.where(fates.joined, fates.steps, able) * step
    whole = sends + up
    leaves = np.where(
        moment < 0, 0.0, np.where(moment >= 1, whole, down + np.clip(moment, 0, 1) * (sends - down))
    )
    ends = np.where(
        fates.left, leaves, np.where(fates.late, np.minimum(whole, fates.seconds), whole)
    )
    keep = machines.fleet.keep
    full = (
        keep is not None and fates.joined.sum() == keep and fates.seconds < machines.fleet.deadline
    )
    cases = [fates.left, fates.joined & (fates.steps < plan.steps[ids]), fates.joined]
    outcome = np.select(cases, [LEFT, PARTIAL, JOINED], SURPLUS if full else LATE)
    order = np.lexsort((ids, whole))
    if len(order) > MOST:
        order = order[np.linspace(0, len(order) - 1, MOST).round().astype(int)]
    columns = (
        ids,
        0 * ends,
        np.minimum(down, ends),
        np.minimum(sends, ends),
        ends,
        0 * ends + fates.seconds,
        outcome,
    )
    return Timeline(np.arange(len(order)), *(column[order] for column in columns))


def _flights(plan: Plan) -> Timeline:
    """The first flights, those in flight at the end cut off there."""
    state, ended, left, closes, r = plan.begin(), [], [], [], 1
    most = STARTS * plan.timetable.concurrency
    while True:
        buffer, gone, flights = plan.flights_of(r, state)
        state = flights.state()
        ended, left, closes, r = (
            ended + buffer,
            left + gone,
            closes + [flights.clock] * len(buffer),
            r + 1,
        )
        if len(ended) >= most or r > min(plan.rounds, most):
            break
    flying = sorted(flights.heap)
    shown = ended + left + flying
    client = np.array([flight.client for flight in shown], np.int64)
    finish = np.array([flight.finish for flight in shown])
    trips = [plan.machines.client_outcome(flight.draw, flight.client) for flight in shown]
    _, down, _, up, _ = plan.machines.course(1, client)
    begins = finish - np.array([trip.seconds for trip in trips])
    trains, sends = begins + down, finish - np.where([trip.sent for trip in trips], up, 0)
    outcome = np.array([JOINED] * len(ended) + [LEFT] * len(left) + [FLYING] * len(flying))
    end = np.minimum(finish, flights.clock)
    closes = np.array([*closes, *[flight.finish for flight in left], *[np.nan] * len(flying)])
    columns = (
        client,
        np.maximum(begins, 0),
        np.minimum(trains, end),
        np.minimum(sends, end),
        end,
        closes,
        outcome,
    )
    place = _places(begins, finish, np.array([flight.order for flight in shown]))
    drawn = (place < MOST) & (begins < flights.clock)
    return Timeline(place[drawn], *(column[drawn] for column in columns))


def _places(begins: np.ndarray, ends: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Rows in which flights lie one after another: each takes that which is free for longest, or a new one."""
    free: list[float] = []
    place = np.zeros(len(begins), np.int64)
    for i in np.argsort(order):
        begin, end = float(begins[i]), float(ends[i])
        room = [p for p, before in enumerate(free) if before <= begin + 1e-9 * max(end, 1.0)]
        if room:
            place[i] = min(room, key=lambda p: (free[p], p))
            free[place[i]] = end
        else:
            place[i] = len(free)
            free.append(end)
    return place

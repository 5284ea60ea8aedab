"""What clients do when, for a picture: in the first round, or in the first flights."""

from typing import NamedTuple

import numpy as np

from fedsim.fleet.machines import AFTER, BEFORE, Fleet
from fedsim.fleet.plan import Plan
from fedsim.fleet.planner import Planner

MAX_ROWS = 60  # of the picture: clients of a round, or clients that train at a time

JOINED = "joined"
PARTIAL = "partial"
LATE = "late"
SURPLUS = "over-selected"
LEFT = "left"


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
    if plan.timetable.steps is not None:
        return plan.timetable.steps.timeline(plan)
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

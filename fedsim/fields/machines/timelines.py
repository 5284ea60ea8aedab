"""The first round of a run, for a picture, and the table of it: `machines.csv`."""

import math

import numpy as np

from fedsim.disk.tables import Record
from fedsim.engine.meters import Meter
from fedsim.fields.machines.machines import AFTER, BEFORE, UnequalMachines
from fedsim.fleet import Plan, Planner
from fedsim.fleet.timelines import JOINED, LEFT, MAX_ROWS, Timeline

PARTIAL = "partial"
LATE = "late"
SURPLUS = "over-selected"


class FirstRound(Meter):
    """Says what clients do first."""

    def __init__(self, plan: Plan):
        self.plan = plan

    def tables(self) -> dict[str, Record]:
        """Return the table; a message in flight has no step of the server yet."""
        shown = timeline(self.plan)
        if shown is None:
            return {}
        table: Record = {name: column.tolist() for name, column in shown._asdict().items()}
        table["client"] = self.plan.federation.client_names[shown.client].tolist()
        table["closes"] = [None if math.isnan(seconds) else seconds for seconds in table["closes"]]
        return {"machines": table}


def timeline(plan: Plan) -> Timeline | None:
    """Return what happens first in a run; None if times do not differ, or nobody is drawn."""
    if plan.timetable.steps is not None:
        return plan.timetable.steps.timeline(plan)
    if not isinstance(plan.machines, UnequalMachines):
        return None

    work = Planner(plan).round(1)
    ids = work.ids
    if work.uncounted is not None:
        ids = np.concatenate([ids, work.uncounted.ids])
    return _first_round(plan.machines, np.sort(ids)) if len(ids) else None


def _first_round(machines: UnequalMachines, ids: np.ndarray) -> Timeline:
    """Return the clients of round 1, in the order in which they would end."""
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
    partial = outcome.joined & (outcome.steps < machines.planned_steps(ids))
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

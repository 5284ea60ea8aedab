"""What clients do and when follows plans and flights that are worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from by_hand import plan_of, speed_of
from conftest import own_kinds_of

from fedsim.fields.machines.links import Rates
from fedsim.fields.machines.machines import Dropout
from fedsim.fields.machines.timelines import timeline
from fedsim.fleet import Plan

STEPS, STEP, DOWN, UP = 4, np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2.0, 5.0  # seconds


ALL = own_kinds_of("cohort")["listed"]([list(range(6))])


def flying(speed, rounds=5) -> Plan:
    """Two clients at a time, a step each, of a server that steps with two messages."""
    timetable = own_kinds_of("timetable")["fedbuff"](buffer=2, concurrency=2)
    return plan_of(ALL, {"speed": speed_of(speed)}, timetable, sizes=[20] * 6, rounds=rounds)


def plan_with(**fleet) -> Plan:
    """Six clients in a round: a second down, and 4 steps, and a second up."""
    links = lambda clients, rng: Rates(DOWN, UP)
    fleet = {"speed": speed_of(STEP), "links": links, **fleet}
    return plan_of(ALL, fleet, sizes=[20] * 6, steps=STEPS, down=2, up=5)


def of(plan: Plan) -> dict[int, dict]:
    """The rows of a timeline by client."""
    first = timeline(plan)
    assert first is not None
    rows = pd.DataFrame(first._asdict()).to_dict("records")
    return {row["client"]: row for row in rows}


def test_nothing_is_shown_where_times_do_not_differ():
    assert timeline(plan_of(own_kinds_of("cohort")["all"]())) is None


# what a fleet does -> its keys, the outcomes, when messages are sent and clients end, and the round
ROUNDS: dict[str, tuple] = {
    "waits for the longest": (
        {}, ["joined"] * 6, [5, 9, 13, 17, 21, 25], [6, 10, 14, 18, 22, 26], 26,
    ),
    "cuts off who is late at the deadline": (
        {"deadline": 15.0}, ["joined"] * 3 + ["late"] * 3,
        [5, 9, 13, 15, 15, 15], [6, 10, 14, 15, 15, 15], 15,
    ),
    "takes the steps for which there is time, 3, 2 and 2": (
        {"deadline": 15.0, "partial": True}, ["joined"] * 3 + ["partial"] * 3,
        [5, 9, 13, 13, 11, 13], [6, 10, 14, 14, 12, 14], 14,
    ),
    "does not need more than two": (
        {"report_goal": 2}, ["joined"] * 2 + ["over-selected"] * 4,
        [5, 9, 10, 10, 10, 10], [6, 10, 10, 10, 10, 10], 10,
    ),
    "needs more than are in time": (
        {"report_goal": 5, "deadline": 15.0}, ["joined"] * 3 + ["late"] * 3,
        [5, 9, 13, 15, 15, 15], [6, 10, 14, 15, 15, 15], 15,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_is_that_worked_out_by_hand(name):
    fleet, outcomes, sends, ends, closes = ROUNDS[name]
    rows = of(plan_with(**fleet))
    column = lambda name: [rows[client][name] for client in range(6)]
    assert (column("outcome"), column("sends"), column("ends")) == (outcomes, sends, ends)
    assert column("begins") == [0] * 6 and column("trains") == [1] * 6
    assert column("closes") == [closes] * 6
    by_end = sorted(range(6), key=lambda client: ends[client])
    assert [rows[client]["place"] for client in by_end] == list(range(6))


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_who_leaves_is_there_until_then(when):
    rows = of(plan_with(dropout=Dropout(**{when: 1.0})))
    for client, row in rows.items():
        whole = 1 + STEPS * STEP[client]
        assert row["outcome"] == "left"
        assert row["trains"] <= row["sends"] <= row["ends"] <= row["closes"]
        if when == "before":
            assert row["trains"] == row["ends"] == 0
        elif when == "during":
            assert 1 <= row["sends"] == row["ends"] < whole
        else:
            assert row["ends"] == whole + 1


def test_flights_are_those_of_the_plan():
    """Two at a time, of 3 and of 2 seconds: who reports makes room for the next."""
    plan = flying(speed=[3.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    first = timeline(plan)
    assert first is not None
    rows = sorted(
        zip(*(column.tolist() for column in first), strict=True), key=lambda row: (row[2], row[1])
    )
    #       place client begins trains sends ends closes outcome
    assert rows[:4] == [
        (0, 0, 0.0, 0.0, 3.0, 3.0, 3.0, "joined"),
        (1, 1, 0.0, 0.0, 2.0, 2.0, 3.0, "joined"),
        (1, 2, 2.0, 2.0, 4.0, 4.0, 5.0, "joined"),
        (0, 3, 3.0, 3.0, 5.0, 5.0, 5.0, "joined"),
    ]
    state, closes = plan.begin(), []
    for r in range(1, 5):
        work, state = plan.round(r, state)
        closes += [float(state["clock"])] * len(work.ids)
    joined = first.closes[first.outcome == "joined"]
    assert joined.tolist() == closes[: len(joined)]
    for place in (0, 1):  # one after another, without a break
        mine = np.flatnonzero(first.place == place)
        assert (first.begins[mine][1:] == first.ends[mine][:-1]).all()


def test_a_flight_that_does_not_end_is_cut_off():
    speed = [90.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    rows = of(flying(speed=speed, rounds=2))
    assert rows[0]["outcome"] == "in flight"
    assert np.isnan(rows[0]["closes"])
    assert rows[0]["ends"] == 8.0

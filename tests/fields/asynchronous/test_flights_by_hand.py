"""Flights of asynchronous clients, worked out by hand."""

import numpy as np
import pytest
from by_hand import plan_of, speed_of
from conftest import own_kinds_of

from fedsim.fields.asynchronous import flights
from fedsim.fields.asynchronous import rounds as asynchronous
from fedsim.fields.asynchronous.flights import Flights, nobody
from fedsim.fleet import Planner
from fedsim.fleet.machines import ClientOutcome
from fedsim.fleet.timetables import Timetable

TIMES = [1.0, 2.0, 3.0, 5.0]  # seconds of clients 0 to 3
# name -> (kind, its parameters, rounds: whose messages, from which version of the model, and
# seconds; versions that clients in flight have after the last of them)
STEPS: dict[str, tuple] = {
    "sync": (
        "sync", {}, [([0, 1, 2, 3], [0, 0, 0, 0], 5.0), ([0, 1, 2, 3], [1, 1, 1, 1], 5.0)], [],
    ),
    # starts: 0 1 2 at 0 s, 3 at 1 s, 0 at 2 s, 1 and 2 at 3 s, 0 at 5 s; ends: 0 at 1, 1 at 2 | 2
    # and 0 at 3 | 1 at 5, 3 at 6
    "fedbuff": (
        "fedbuff",
        {"buffer": 2, "concurrency": 3},
        [([0, 1], [0, 0], 2.0), ([0, 2], [1, 0], 1.0), ([1, 3], [1, 0], 3.0)],
        [2, 3],
    ),
    # nobody starts before the step: 3 and 0 at 2 s, 1 and 2 at 3 s
    "fedbuff: flush": (
        "fedbuff",
        {"buffer": 2, "concurrency": 3, "restart": "flush"},
        [([0, 1], [0, 0], 2.0), ([0, 2], [1, 0], 1.0), ([1, 2], [2, 2], 3.0)],
        [1, 3],
    ),
    "fedasync": (
        "fedasync",
        {"concurrency": 2},
        [([0], [0], 1.0), ([1], [0], 1.0), ([2], [1], 2.0)],
        [2, 3],
    ),
    # steps at 2, 4, 6 and 8 s; a message that comes at the moment of a step is in time
    "semi_sync": (
        "semi_sync",
        {"seconds": 2.0, "concurrency": 3},
        [
            ([0, 1], [0, 0], 2.0), ([0, 2], [1, 0], 2.0),
            ([1], [2], 2.0), ([0, 2, 3], [3, 2, 1], 2.0),
        ],
        [4],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_server_steps_at_the_times_worked_out_by_hand(name):
    kind, parameters, steps, flown = STEPS[name]
    timetable = own_kinds_of("timetable")[kind](**parameters)
    cohort = own_kinds_of("cohort")["all"]()
    planner = Planner(plan_of(cohort, {"speed": speed_of(TIMES)}, timetable, sizes=(1, 1, 1, 1)))
    for r, (ids, start, seconds) in enumerate(steps, 1):
        work = planner.round(r)
        planner.complete(work, {})
        assert (work.ids.tolist(), work.start.tolist(), work.seconds) == (ids, start, seconds)
        assert work.age.tolist() == [r - 1 - version for version in start]
        assert work.uncounted is None
    if timetable.asynchronous:
        assert asynchronous.versions_in_flight(planner.state) == flown


class Leavers:
    """Machines of which some never send: each takes a second."""

    idle = 7.0

    def __init__(self, *leaving: int):
        self.leaving = leaving

    def client_outcome(self, draw: int, client: int) -> ClientOutcome:
        return ClientOutcome(1.0, left=client in self.leaving)

    def reachable(self, round: int, clock: float) -> None:
        return None


class Gates(Leavers):
    """Machines of which some can be reached."""

    def __init__(self, *there: int):
        super().__init__()
        self.there = there

    def reachable(self, round: int, clock: float) -> np.ndarray:
        return np.isin(np.arange(4), self.there)


@pytest.mark.parametrize(
    ("why", "machines", "reported", "gone", "clock"),
    [
        ("two leave, but not in a row", Leavers(1), [0, 0, 0], [1, 1], 5.0),
        ("two leave in a row", Leavers(0, 1), [], [0, 1], 2.0),
        ("nobody can be reached, and time passes", Gates(), [], [], 7.0),
    ],
)
def test_a_server_gives_up_only_where_nobody_reports(
    why, machines, reported, gone, clock, monkeypatch
):
    """The first step of a server that waits for three messages of two clients in turn."""
    monkeypatch.setattr(flights, "LOST", 2)
    turns = lambda number, reachable: np.array([0, 1])
    never = lambda number, free: int(free[0])
    some = Flights(machines, turns, never, np.arange(2), False, Timetable(3, 1), nobody())
    some.fill(0)
    ended, left = some.flush(0)
    assert [flight.client for flight in ended] == reported, why
    assert ([flight.client for flight in left], some.clock) == (gone, clock), why


@pytest.mark.parametrize(
    ("machines", "twice", "free", "started"),
    [
        # three places; draws name client 0 alone
        (Leavers(), False, [[1, 2, 3], [2, 3]], [0, 1, 2]),
        (Gates(0, 2), False, [[2]], [0, 2]),
        (Gates(1, 3), False, [[1, 3], [3]], [1, 3]),
        (Gates(), True, [], []),
        (Leavers(), True, [], [0, 0, 0]),
        (Gates(1, 2), True, [[1, 2], [1, 2], [1, 2]], [1, 1, 1]),
    ],
)
def test_another_client_starts_where_no_drawn_client_can(
    machines, twice, free, started, monkeypatch
):
    monkeypatch.setattr(flights, "PATIENCE", 3)
    asked = []

    def spare(number: int, able: np.ndarray) -> int:
        asked.append(able.tolist())
        return int(able[0])

    first = lambda number, reachable: np.array([0])
    some = Flights(machines, first, spare, np.arange(4), twice, Timetable(1, 3), nobody())
    some.fill(0)
    by_order = sorted(some.heap, key=lambda flight: flight.order)
    assert [flight.client for flight in by_order] == started
    assert asked == free


def test_every_schedule_has_a_case():
    assert {case[0] for case in STEPS.values()} == set(own_kinds_of("timetable"))

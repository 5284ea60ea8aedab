"""Who trains when under an asynchronous server, and who is drawn by losses: the host's half."""

import heapq
import itertools

import by_hand
import numpy as np
import pytest
from by_hand import speed_of
from conftest import oracle

import fedsim
from fedsim.errors import ScenarioError
from fedsim.fields.asynchronous import rounds as asynchronous
from fedsim.fleet import Plan, Planner, Timetable, selection
from fedsim.fleet.clock import Cost, Speed, seconds
from fedsim.fleet.streams import Stream, generator

CASES = oracle("systems")
SIMULATED = [case for case in CASES if case["fn"] == "async_sim"]


def stepping(buffer: int, concurrency: int) -> Timetable:
    return Timetable(buffer, concurrency, steps=asynchronous)


ALL = selection.listed([list(range(6))])


def plan_of(timetable, cohort=ALL, times=(1.0,) * 6) -> Plan:
    """Of six clients who take these seconds."""
    return by_hand.plan_of(cohort, {"speed": speed_of(times)}, timetable, sizes=[20] * 6)


def played(plan, rounds, planner=None) -> list:
    planner = planner or Planner(plan)
    works = []
    for r in range(planner.completed + 1, rounds + 1):
        works.append(planner.round(r))
        planner.complete(works[-1], {})
    return works


@pytest.mark.parametrize("case", SIMULATED, ids=lambda case: case["name"])
def test_flights_match_an_independent_simulation(case):
    p, log = case["params"], case["expected"]["log"]
    timetable = stepping(p["buffer"], p["concurrency"])
    plan = plan_of(timetable, times=case["inputs"]["times"])
    works, clock = played(plan, p["flushes"]), 0.0
    assert len(works) == len(log) == 5
    for work, want in zip(works, log, strict=True):
        clock += work.seconds
        updates = sorted(want["updates"], key=lambda u: (u["client"], u["version"]))
        assert clock == pytest.approx(want["time"], rel=case["rtol"])
        assert work.round == want["version"]
        assert work.ids.tolist() == [u["client"] for u in updates]
        assert work.start.tolist() == [u["version"] for u in updates]
        assert work.age.tolist() == [u["staleness"] for u in updates]
        assert work.lr.tolist() == [1 / (u["version"] + 1) for u in updates]


def test_a_client_takes_as_long_as_its_links_and_steps():
    case = next(case for case in CASES if case["fn"] == "client_time")
    p = case["params"]
    columns = {
        name: np.array([client[name] for client in p["clients"]]) for name in p["clients"][0]
    }
    cost = Cost(np.full(12, p["local_steps"]), p["down_bytes"], p["up_bytes"])
    speed = Speed(columns["sec_per_step"], columns["down_bw"], columns["up_bw"])
    np.testing.assert_allclose(seconds(cost, speed), case["expected"]["seconds"], rtol=case["rtol"])


def naive(times, concurrency, buffer, flushes, cohorts):
    """Start the clients of the cohorts' draws in turn, except those in flight.

    Returns (client, version) of every buffer.
    """
    heap, busy, version, log = [], set(), 0, []
    queue, numbers = itertools.chain.from_iterable(cohorts), itertools.count()

    def start(time):
        client = next(client for client in queue if client not in busy)
        heapq.heappush(heap, (time + times[client], next(numbers), client, version))
        busy.add(client)

    for _ in range(concurrency):
        start(0.0)
    ended = []
    while len(log) < flushes:
        time, _, client, given = heapq.heappop(heap)
        busy.remove(client)
        ended.append((client, given))
        if len(ended) == buffer:
            version += 1
            log.append(sorted(ended))
            ended = []
        start(time)
    return log


def test_the_next_drawn_client_that_is_idle_starts():
    times, cohort = [1.5, 0.5, 4.0, 2.0, 0.25, 3.0], selection.uniform(2)
    plan = plan_of(stepping(3, 4), cohort, times)
    draw = lambda q: cohort.draw(plan.population, q, generator(3, Stream.COHORT, q)).tolist()
    works = played(plan, 30)
    pairs = lambda one, other: list(zip(one.tolist(), other.tolist(), strict=True))
    flown = [pairs(work.ids, work.start) for work in works]
    assert flown == naive(times, 4, 3, 30, map(draw, itertools.count(1)))
    draws = [pair for work in works for pair in pairs(work.ids, work.draw)]
    assert len(set(draws)) == len(draws) == 90  # nobody trains on the same batches twice
    behind = np.concatenate([work.draw - work.start for work in works])
    assert behind.min() >= 1 and behind.max() > 1


def test_clients_that_are_never_drawn_start_in_the_end():
    """Everybody may train at once, and the draws name a single client."""
    one = selection.Cohort(lambda population, r, rng: population.ids[:1], lambda N: 1)
    works = played(plan_of(stepping(2, 6), one, [1, 2, 3, 4, 5, 6]), 8)
    assert {i for work in works for i in work.ids.tolist()} == set(range(6))


def test_a_planner_resumes_from_its_commit():
    plan = plan_of(stepping(2, 4), selection.uniform(3), [1, 2.5, 3, 1, 4, 7])
    whole, part = played(plan, 12), Planner(plan)
    first = played(plan, 5, part)
    part.round(6)
    part.round(7)  # drawn ahead, and not part of the commit
    again = Planner(plan)
    again.restore(part.arrays(), 5)
    same = lambda a, b: all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert all(map(same, [*first, *played(plan, 12, again)], whole))
    assert asynchronous.versions_in_flight(again.state)


def test_a_survey_has_the_plan_of_all_rounds():
    plan = plan_of(stepping(2, 3), selection.uniform(3), [1, 2, 3, 1, 4, 9])
    rounds = [work.ids.tolist() for work in plan.survey.rounds()]
    assert rounds == [work.ids.tolist() for work in played(plan, 9)]
    assert plan.survey.max_versions == 3  # of as many clients in flight
    assert plan.survey.members.tolist() == sorted({*itertools.chain(*rounds)})
    assert plan.nominal == 2
    assert Planner(plan_of(Timetable())).arrays() == {} and not plan.pure


def test_a_cohort_by_losses_is_drawn_once_they_are_known():
    plan = plan_of(Timetable(), selection.power_of_choice(2, 6))
    planner = Planner(plan)
    assert planner.ready(1) and not planner.ready(2)
    planner.complete(planner.round(1), {"loss": np.array([1.5, 0.5])})
    assert planner.ready(2)
    again = Planner(plan)
    again.restore(planner.arrays(), 1)
    assert again.round(2).ids.tolist() == planner.round(2).ids.tolist() == [2, 3]
    survey = list(plan.survey.rounds())
    assert [len(work.ids) for work in survey] == [2] * 9 and len(plan.survey.members) == 6


def test_a_buffer_that_the_clients_in_flight_cannot_fill_is_refused():
    schedule = {"kind": "fedbuff", "buffer": 3, "concurrency": 2, "restart": "flush"}
    data = {"kind": "gaussian_blobs", "samples": 60, "clients": 6}
    with pytest.raises(ScenarioError, match=r"(?s)schedule: .*needs 3 clients"):
        fedsim.run({"name": "s", "rounds": 2, "data": data, "schedule": schedule})

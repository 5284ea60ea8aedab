"""Every cohort, schedule, availability, speed and link once, worked out by hand."""

import math

import numpy as np
import pytest
from by_hand import COHORTS, Numbers, plan_of, registered, speed_of

from fedsim.fields.asynchronous import flights
from fedsim.fields.asynchronous import rounds as asynchronous
from fedsim.fields.asynchronous.flights import Flights, nobody
from fedsim.fleet import (
    Adversary,
    Clients,
    Drawn,
    Dropout,
    Fleet,
    Planner,
    Population,
    Rates,
    clock,
)
from fedsim.fleet.availability import Moment
from fedsim.fleet.machines import ClientOutcome, Machines
from fedsim.fleet.sampling import Sampling
from fedsim.fleet.selection import SKETCH_SIZE
from fedsim.fleet.timetables import Timetable

nan, inf = math.nan, math.inf

# ------------------------------------------------------------------------------------------ cohorts

IDS, SAMPLES = [1, 2, 4, 6, 8, 9, 11], [3, 1, 4, 1, 5, 9, 2]
SECONDS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 3.0]


def population(ids=IDS, samples=SAMPLES, **columns) -> Population:
    """Clients that can be drawn, and what is known of them."""
    known = {name: np.array(column) for name, column in columns.items()}
    return Population(np.array(ids), np.array(samples), **known)


def sketches(*numbers: float) -> np.ndarray:
    """Updates that differ by these numbers in one coordinate."""
    return np.outer(numbers, np.eye(SKETCH_SIZE)[0]) + np.eye(SKETCH_SIZE)[1]


# name -> (kind, its parameters, population, round, who is drawn: each set that may be)
DRAWN: dict[str, tuple] = {
    "all": ("all", {}, population(), 1, [IDS]),
    "uniform: no more than there are": ("uniform", {"size": 9}, population(), 1, [IDS]),
    "uniform: so many": ("uniform", {"size": 1}, population([4, 6], [1, 9]), 1, [[4], [6]]),
    "poisson: everybody": ("poisson", {"rate": 1.0}, population(), 1, [IDS]),
    "weighted: with replacement": ("weighted", {"size": 2}, population([4], [7]), 1, [[4, 4]]),
    "cyclic: the first": ("cyclic", {"size": 3}, population(), 1, [[1, 2, 4]]),
    "cyclic: over the end": ("cyclic", {"size": 3}, population(), 3, [[1, 2, 11]]),
    "listed: again from the first": (
        "listed", {"rounds": [[2, 9], [4]]}, population(), 3, [[2, 9]],
    ),
    "power_of_choice: the unknown, then large losses, ties to the lower id": (
        "power_of_choice",
        {"size": 4, "candidates": 7},
        population(loss=[0.5, 2.0, nan, 0.7, 0.1, inf, 0.7]),
        1,
        [[2, 4, 6, 11]],
    ),
    "power_of_choice: who was not finite comes last": (
        "power_of_choice",
        {"size": 1, "candidates": 2},
        population([1, 2], [1, 1], loss=[inf, 0.0]),
        1,
        [[2]],
    ),
    # s = 0.8 v / 10 + 0.2 / 3 = (0.7067, 0.1467, 0.1467): the first is certain, the others have
    # 1/2 each
    "importance: by norm": (
        "importance",
        {"size": 2, "by": "norm", "floor": 0.2},
        population([1, 2, 4], [1, 1, 1], norm=[8.0, 1.0, 1.0]),
        1,
        [[1, 2], [1, 4]],
    ),
    # n · loss = (4, 4, 0): s = 0.5 · (1/2, 1/2, 0) + 0.5 / 3
    "importance: by loss": (
        "importance",
        {"size": 3, "by": "loss", "floor": 0.5},
        population([1, 2, 4], [1, 4, 1], loss=[4.0, 1.0, inf]),
        1,
        [[1, 2, 4]],
    ),
    # utilities n · loss = (2, 3, 1) → (1/2, 1, 0); the second is 10 times slower than T = 1
    "oort: slow clients lose": (
        "oort",
        {"size": 1, "explore": 0.0, "least": 0.0, "cutoff": 1.0, "clip": 1.0},
        population(
            [1, 2, 4], [2, 3, 1],
            loss=[1.0, 1.0, 1.0], drawn=[1, 1, 1], last=[1, 1, 1], seconds=[1.0, 10.0, 1.0],
        ),
        1,
        [[1]],
    ),
    "oort: of two, half are new": (
        "oort",
        {"size": 2, "explore": 0.5, "cutoff": 1.0},
        population(
            [1, 2, 4], [2, 3, 1],
            loss=[1.0, 1.0, nan], drawn=[1, 1, 0], last=[1, 1, 0], seconds=[1.0, 1.0, 1.0],
        ),
        1,
        [[2, 4]],
    ),
    # 16 balls in urns of 8: the first client's eight balls fill an urn
    "clustered: a client with half of the samples is always drawn": (
        "clustered",
        {"size": 2},
        population([1, 2, 4, 6], [2, 4, 1, 1]),
        1,
        [[1, 2], [2, 4], [2, 6]],
    ),
    # four clients with equally many samples, two pairs of similar ones: one of each pair
    "clustered: by similarity": (
        "clustered",
        {"size": 2, "by": "similarity"},
        population([1, 2, 4, 6], [1, 1, 1, 1], sketch=sketches(5, -5, 5, -5)),
        1,
        [[1, 2], [1, 6], [2, 4], [4, 6]],
    ),
    # of 0, 1 and 9 the middle one is nearest to all, then the far one
    "divfl: who stands for the others": (
        "divfl",
        {"size": 2, "candidates": 3},
        population([1, 2, 4], [1, 1, 1], sketch=sketches(0, 1, 9)),
        1,
        [[2, 4]],
    ),
    "divfl: new clients first, then of equal ones the first": (
        "divfl",
        {"size": 2, "candidates": 3},
        population([1, 2, 4], [1, 1, 1], sketch=sketches(0, nan, 9)),
        1,
        [[1, 2]],
    ),
    "fedcs: who is done in time": (
        "fedcs", {"seconds": 3.0, "candidates": 7}, population(seconds=SECONDS), 1, [[1, 2, 4, 11]],
    ),
    "fedcs: of those the fastest": (
        "fedcs",
        {"seconds": 3.0, "candidates": 7, "size": 3},
        population(seconds=SECONDS),
        1,
        [[1, 2, 4]],
    ),
    "least_participated: who was drawn at most once": (
        "least_participated",
        {"size": 5},
        population(drawn=[2, 1, 0, 1, 3, 1, 1], last=[5, 2, 0, 4, 5, 1, 3]),
        9,
        [[2, 4, 6, 9, 11]],
    ),
    # in round 9: who came in round 6 or before, or never, and less than three times
    "separated: who has rested": (
        "separated",
        {"size": 5, "gap": 3, "most": 3},
        population(drawn=[2, 1, 0, 3, 3, 1, 1], last=[7, 6, 0, 4, 5, 8, 3]),
        9,
        [[2, 4, 11]],
    ),
    "separated: some of them": (
        "separated",
        {"size": 1, "gap": 3},
        population(drawn=[2, 1, 1, 3, 3, 1, 1], last=[7, 6, 7, 4, 7, 8, 8]),
        9,
        [[2], [6]],
    ),
    "separated: nobody in the first rounds after all came": (
        "separated",
        {"size": 9, "gap": 3},
        population(drawn=[1] * 7, last=[1] * 7),
        3,
        [[]],
    ),
    # 1 and 4 are 1 mod 3, 2 8 and 11 are 2 mod 3, 6 and 9 are 0 mod 3
    "cyclic_poisson: the group of a round": (
        "cyclic_poisson", {"groups": 3, "rate": 1.0}, population(), 5, [[2, 8, 11]],
    ),
    "cyclic_poisson: the next": (
        "cyclic_poisson", {"groups": 3, "rate": 1.0}, population(), 6, [[6, 9]],
    ),
    # by seconds 1 2 4 | 11 6 | 8 9
    "tifl: the slowest tier": (
        "tifl",
        {"size": 5, "tiers": 3, "weights": [0.0, 0.0, 1.0]},
        population(seconds=SECONDS),
        1,
        [[8, 9]],
    ),
    "tifl: the middle tier": (
        "tifl",
        {"size": 5, "tiers": 3, "weights": [0.0, 2.0, 0.0]},
        population(seconds=SECONDS),
        1,
        [[6, 11]],
    ),
    # class 0 has 1 4 6 9, class 1 has 2 8 11: the order is 1 2 4 8 6 11 9
    "round_robin_by_class": (
        "round_robin_by_class",
        {"size": 3},
        population(labels=[[2, 1], [0, 1], [4, 0], [1, 0], [2, 3], [9, 0], [0, 2]]),
        2,
        [[6, 8, 11]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_a_cohort_draws_the_clients_worked_out_by_hand(name):
    kind, parameters, known, round, allowed = DRAWN[name]
    made, seen = registered("cohort")[kind](**parameters), set()
    for seed in range(40):
        drawn = made.draw(known, round, np.random.default_rng(seed))
        ids = drawn.ids if isinstance(drawn, Drawn) else drawn
        seen.add(tuple(sorted(ids.tolist())))
    assert seen == set(map(tuple, allowed))


def test_clients_drawn_by_importance_are_weighted_by_the_inverse_probability():
    made = registered("cohort")["importance"](size=2, by="norm", floor=0.2)
    drawn = made.draw(
        population([1, 2, 4], [1, 1, 1], norm=[8.0, 1.0, 1.0]), 1, np.random.default_rng(0)
    )
    assert sorted(zip(drawn.ids.tolist(), drawn.factor.round(12).tolist(), strict=True))[0] == (
        1,
        1.0,
    )
    assert drawn.factor.max() == pytest.approx(2.0)


def test_a_poisson_cohort_draws_clients_whose_number_is_below_the_rate():
    drawn = registered("cohort")["poisson"](rate=0.25).draw(
        population([4, 6, 8], [1, 1, 1]), 1, Numbers([0.2, 0.25, 0.1])
    )
    assert drawn.tolist() == [4, 8]


def test_oort_draws_diverged_clients_last():
    """A client whose loss was not finite is drawn only when nobody else is left."""
    known = population(
        [1, 2, 4],
        [1, 1, 1],
        loss=[inf, 1.0, inf],
        drawn=[1, 1, 1],
        last=[1, 1, 1],
        seconds=[1.0] * 3,
    )
    made = registered("cohort")["oort"](size=2, cutoff=1.0)
    drawn = {
        tuple(sorted(made.draw(known, 1, np.random.default_rng(seed)).tolist()))
        for seed in range(20)
    }
    assert drawn == {(1, 2), (2, 4)}


def test_of_a_group_those_take_part_whose_number_is_below_the_rate():
    made = registered("cohort")["cyclic_poisson"](groups=2, rate=0.25)
    draws = [
        made.draw(population([4, 6, 8, 9], [1] * 4), round, Numbers([0.2, 0.25, 0.1, 0.1]))
        for round in (1, 2)
    ]
    assert [drawn.tolist() for drawn in draws] == [[9], [4, 8]]


# cohort -> what an accountant knows of it
SAMPLINGS: dict[str, tuple] = {
    "all": ({}, Sampling("all")),
    "poisson": ({"rate": 0.25}, Sampling("poisson", rate=0.25)),
    "uniform": ({"size": 3}, Sampling("uniform", size=3)),
    "cyclic": ({"size": 3}, Sampling("cyclic", size=3)),
    "separated": (
        {"size": 3, "gap": 4, "most": 2}, Sampling("separated", size=3, gap=4, most=2),
    ),
    "cyclic_poisson": (
        {"groups": 4, "rate": 0.25}, Sampling("cyclic_poisson", rate=0.25, groups=4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COHORTS)
def test_a_cohort_tells_how_it_samples_or_that_no_accountant_knows(name):
    kind, parameters = COHORTS[name]
    parameters, sampling = SAMPLINGS.get(kind, (parameters, None))
    assert registered("cohort")[kind](**parameters).sampling == sampling


# name -> (its parameters, mean number of draws per round of three clients with 1, 2 and 5 samples)
SHARES: dict[str, tuple] = {
    "all": ({}, [1.0, 1.0, 1.0]),
    "uniform": ({"size": 2}, [2 / 3, 2 / 3, 2 / 3]),
    "poisson": ({"rate": 0.25}, [0.25, 0.25, 0.25]),
    "weighted": ({"size": 2}, [0.25, 0.5, 1.25]),
    "cyclic": ({"size": 2}, [2 / 3, 2 / 3, 2 / 3]),
    "listed": ({"rounds": [[0, 1], [0], [0, 0, 1]]}, [4 / 3, 2 / 3, 0.0]),
    "importance": ({"size": 2}, [1.0, 1.0, 1.0]),
    "clustered": ({"size": 2}, [0.25, 0.5, 1.25]),
    "fedcs": ({"seconds": 2.0, "candidates": 2}, [2 / 3, 2 / 3, 0.0]),
    "least_participated": ({"size": 1}, [1 / 3, 1 / 3, 1 / 3]),
    "separated": ({"size": 2, "gap": 2}, [1 / 2, 1 / 2, 1 / 2]),
    "cyclic_poisson": ({"groups": 2, "rate": 0.5}, [1 / 4, 1 / 4, 1 / 4]),
    "tifl": ({"size": 1, "tiers": 2, "weights": [3.0, 1.0]}, [3 / 8, 3 / 8, 1 / 4]),
    "round_robin_by_class": ({"size": 1}, [1 / 3, 1 / 3, 1 / 3]),
}


def test_expected_messages_are_fewer_where_clients_leave():
    fleet = Fleet(
        dropout=Dropout(0.125, 0.25, 0.125),
        availability=registered("availability")["bernoulli"](rate=0.5),
    )
    shares = plan_of(registered("cohort")["poisson"](rate=0.5), fleet, sizes=(1, 0, 2)).shares
    assert shares is not None and shares.tolist() == [0.125, 0.0, 0.125]


UNKNOWN = {
    "power_of_choice": {},
    "oort": {},
    "divfl": {},
    "importance": {"unbiased": False},
    "fedcs": {"size": 1},
}


@pytest.mark.parametrize("kind", SHARES)
def test_a_cohort_knows_how_often_it_draws_each_client(kind):
    parameters, expected = SHARES[kind]
    made = registered("cohort")[kind](**parameters)
    share = made.share(population([0, 1, 2], [1, 2, 5], seconds=[1.0, 2.0, 3.0]))
    assert np.broadcast_to(share, 3).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_cohort_whose_draws_depend_on_reports_does_not_know_how_often(kind):
    assert registered("cohort")[kind](**UNKNOWN[kind]).share is None


# ---------------------------------------------------------------------------------------- schedules

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
    timetable = registered("timetable")[kind](**parameters)
    cohort = registered("cohort")["all"]()
    planner = Planner(plan_of(cohort, Fleet(speed=speed_of(TIMES)), timetable, sizes=(1, 1, 1, 1)))
    for r, (ids, start, seconds) in enumerate(steps, 1):
        work = planner.round(r)
        planner.complete(work, {})
        assert (work.ids.tolist(), work.start.tolist(), work.seconds) == (ids, start, seconds)
        assert work.age.tolist() == [r - 1 - version for version in start]
        assert work.uncounted is None
    assert asynchronous.versions_in_flight(planner.plan, planner.state) == flown


@pytest.mark.parametrize(
    ("kind", "parameters", "factors"),
    [
        ("fedbuff", {}, [1.0, 2**-0.5, 0.5]),
        ("semi_sync", {"staleness": "hinge", "slope": 2.0, "threshold": 1}, [1.0, 1.0, 1 / 5]),
    ],
)
def test_messages_are_discounted_by_their_age(kind, parameters, factors):
    discount = registered("timetable")[kind](**parameters).discount
    assert discount(np.array([0, 1, 3])).tolist() == pytest.approx(factors)


def test_the_server_mixes_in_less_of_an_older_model():
    mixing = registered("timetable")["fedasync"](alpha=0.6).mixing
    assert mixing(np.array([0, 3])).tolist() == pytest.approx([0.6, 0.3])


class Leavers:
    """Machines of which some never send: each takes a second."""

    idle = 7.0

    def __init__(self, *leaving: int):
        self.leaving = leaving

    def client_outcome(self, draw: int, client: int) -> ClientOutcome:
        return ClientOutcome(1.0, left=client in self.leaving)

    def reachable(self, round: int, clock: float) -> None:
        return None


def step(leaving: tuple[int, ...], buffer: int) -> tuple[list[int], list[int], float]:
    """The first step of a server of two clients in turn -> (who reported, who left, the clock)."""
    turns = lambda number, reachable: np.array([0, 1])
    never = lambda number, free: int(free[0])
    some = Flights(
        Leavers(*leaving), turns, never, np.arange(2), False, Timetable(buffer, 1), nobody()
    )  # type: ignore[arg-type]
    some.fill(0)
    ended, left = some.flush(0)
    return [flight.client for flight in ended], [flight.client for flight in left], some.clock


def test_a_server_gives_up_only_after_clients_leave_in_a_row(monkeypatch):
    monkeypatch.setattr(flights, "LOST", 2)
    assert step((1,), 3) == ([0, 0, 0], [1, 1], 5.0)  # two leave, but not in a row
    assert step((0, 1), 3) == ([], [0, 1], 2.0)


class Gates(Leavers):
    """Machines of which some can be reached."""

    def __init__(self, *there: int):
        super().__init__()
        self.there = there

    def reachable(self, round: int, clock: float) -> np.ndarray:
        return np.isin(np.arange(4), self.there)


@pytest.mark.parametrize(
    ("machines", "twice", "free", "started"),
    [
        (
            Leavers(),
            False,
            [[1, 2, 3], [2, 3]],
            [0, 1, 2],
        ),  # three places; draws name client 0 alone
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
    assert [
        flight.client for flight in sorted(some.heap, key=lambda flight: flight.order)
    ] == started
    assert asked == free


def test_malicious_clients_are_redrawn_every_round_only_if_asked():
    everybody, plans = registered("cohort")["all"](), []
    for redrawn in (True, False):
        plans.append(plan_of(everybody, adversary=Adversary(count=2, redrawn=redrawn)))
    changing, fixed = ([plan.malicious_in(r).tolist() for r in (1, 2, 2, 3, 1)] for plan in plans)
    mask = plans[0].conditions.adversary.mask
    masks = [mask(6, plans[0].seed, r).tolist() for r in (1, 2, 2, 3, 1)]
    assert changing == masks and len(set(map(tuple, masks))) > 1
    assert fixed == [plans[1].malicious.tolist()] * 5


# ------------------------------------------------------------------------------------- availability

LABELS = np.array([[2, 0, 0], [0, 1, 1], [0, 0, 4]])  # of three clients, by class
CLIENTS = Clients(np.array([1, 2, 4]), lambda: LABELS)
# name -> (kind, its parameters, what is drawn once, (round, seconds, numbers of that round), who
# can be reached)
REACHED: dict[str, tuple] = {
    "always": ("always", {}, (), (1, 0.0, [0.0, 0.5, 0.999]), [1, 1, 1]),
    "bernoulli": ("bernoulli", {"rate": 0.5}, (), (1, 0.0, [0.1, 0.5, 0.9]), [1, 0, 0]),
    # a third can be reached at the start: clients 0 and 1 of these; then 0.8 of them stay and 0.1
    # of the others come
    "markov": (
        "markov",
        {"leave": 0.2, "come": 0.1},
        (),
        (1, 0.0, {0: [0.1, 0.3, 0.4], 1: [0.85, 0.75, 0.05]}),
        [0, 1, 1],
    ),
    # a quarter into the day of 4 s: the best hour of zone 0, the worst of zone 2, zone 1 in between
    "diurnal": (
        "diurnal",
        {"low": 0.1, "high": 0.9, "period": 4.0, "zones": 4},
        ([0, 1, 2],),
        (1, 1.0, [0.89, 0.51, 0.09]),
        [1, 0, 1],
    ),
    "label_dependent: smallest label 0, 1 and 2 of 2": (
        "label_dependent",
        {"strength": 1.0},
        (),
        (1, 0.0, [0.0, 0.4, 0.9]),
        [0, 1, 1],
    ),
    "label_dependent: 1, 2 and 1 of 3 labels": (
        "label_dependent",
        {"by": "fewest", "strength": 0.5},
        (),
        (1, 0.0, [0.66, 0.83, 0.67]),
        [1, 1, 0],
    ),
    # (1 + 1) / 4 lies between the labels 1 and 2 of 2 of client 1 alone
    "label_dependent: cycle": (
        "label_dependent",
        {"by": "cycle", "strength": 1.0, "period": 4},
        (),
        (1, 0.0, [0.5, 0.5, 0.5]),
        [0, 1, 0],
    ),
    "size_dependent": (
        "size_dependent", {"exponent": 1.0}, (), (1, 0.0, [0.24, 0.51, 0.99]), [1, 0, 1],
    ),
    "size_dependent: the smaller the better": (
        "size_dependent",
        {"exponent": -1.0},
        (),
        (1, 0.0, [0.99, 0.49, 0.26]),
        [1, 1, 0],
    ),
    # e^0, e^−1 and e^−2 of the largest
    "lognormal": (
        "lognormal", {"sigma": 1.0}, ([2.0, 1.0, 0.0],), (1, 0.0, [0.99, 0.36, 0.14]), [1, 1, 0],
    ),
    # 0.4 sin(2π · 1/4) + 0.5 = 0.9
    "lognormal: a wave": (
        "lognormal",
        {"sigma": 0.0, "period": 5},
        ([0.0, 0.0, 0.0],),
        (6, 0.0, [0.89, 0.91, 0.5]),
        [1, 0, 1],
    ),
    # 5 s are 1 s after the trace began again, at its last end
    "trace": ("trace", {"path": "on.csv", "period": 4.0}, (), (1, 5.0, []), [1, 0, 1]),
}  # fmt: skip
ON = "client,start,end\n0,0,2\n1,0,1\n1,2,4\n2,1,2\n"


@pytest.mark.parametrize("name", REACHED)
def test_availability_is_that_worked_out_by_hand(name, tmp_path, monkeypatch):
    kind, parameters, once, (round, seconds, numbers), expected = REACHED[name]
    (tmp_path / "on.csv").write_text(ON)
    monkeypatch.chdir(tmp_path)
    made = registered("availability")[kind](**parameters)
    fixed = made.begin(CLIENTS, Numbers(*once))
    uniform = lambda r: np.array(numbers[r] if isinstance(numbers, dict) else numbers)
    assert made.reached(fixed, Moment(round, seconds, uniform)).astype(int).tolist() == expected


def test_a_label_cycle_leaves_out_clients_with_only_earlier_or_later_labels():
    labels = np.array(
        [[0, 3, 0, 0], [0, 0, 3, 0], [0, 0, 0, 3], [0, 0, 0, 0]]
    )  # 1, 2, 3 of 3, and none
    made = registered("availability")["label_dependent"](by="cycle", strength=1.0, period=3)
    fixed = made.begin(Clients(labels.sum(1), lambda: labels), Numbers())
    there = lambda round: (
        made.reached(fixed, Moment(round, 0.0, lambda r: np.zeros(4))).astype(int).tolist()
    )
    assert [there(round) for round in (3, 1, 2)] == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]


# --------------------------------------------------------------------------------- speeds and links

DEVICES = "client,up,down,latency,seconds_per_step\n0,10,100,0.5,2\n1,20,200,0,1\n"
LOG2 = math.log(2)
SPEEDS: dict[str, tuple] = {
    "constant": ({"seconds": 0.25}, (), [0.25, 0.25, 0.25]),
    "uniform": ({"low": 1.0, "high": 3.0}, ([0.0, 0.5, 0.75],), [1.0, 2.0, 2.5]),
    "lognormal": ({"median": 2.0, "sigma": 0.5}, ([0.0, 2 * LOG2, -2 * LOG2],), [2.0, 4.0, 1.0]),
    "pareto": ({"least": 2.0, "shape": 0.5}, ([0.0, 0.5, 0.75],), [2.0, 8.0, 32.0]),
    "classes": (
        {"seconds": [1.0, 5.0], "shares": [3.0, 1.0]},
        ([0.7, 0.75, 0.9],),
        [1.0, 5.0, 5.0],
    ),
    "trace": ({"path": "devices.csv"}, (), [2.0, 1.0, 2.0]),
}
# down, up and latency
LINKS: dict[str, tuple] = {
    "constant": ({"up": 5.0, "latency": 0.5}, (), ([inf] * 3, [5.0] * 3, [0.5] * 3)),
    "lognormal": (
        {"up": 10.0, "down": 100.0, "sigma": 0.5},
        ([0.0, 2 * LOG2, -2 * LOG2],),
        ([100.0, 200.0, 50.0], [10.0, 20.0, 5.0], [0.0] * 3),
    ),
    "trace": (
        {"path": "devices.csv"},
        (),
        ([100.0, 200.0, 100.0], [10.0, 20.0, 10.0], [0.5, 0.0, 0.5]),
    ),
}


@pytest.fixture
def devices(tmp_path, monkeypatch):
    (tmp_path / "devices.csv").write_text(DEVICES)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("kind", SPEEDS)
def test_a_local_step_takes_the_time_worked_out_by_hand(kind):
    parameters, once, expected = SPEEDS[kind]
    seconds = registered("speed")[kind](**parameters)(CLIENTS, Numbers(*once))
    assert seconds.tolist() == pytest.approx(expected)


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("kind", LINKS)
def test_a_link_has_the_rates_worked_out_by_hand(kind):
    parameters, once, expected = LINKS[kind]
    rates = registered("link")[kind](**parameters)(CLIENTS, Numbers(*once))
    for rate, wanted in zip(rates, expected, strict=True):
        assert np.broadcast_to(rate, 3).tolist() == pytest.approx(wanted)


def test_a_clients_round_is_download_steps_and_upload():
    """10 bytes at 5 and at 2 a second, 3 steps of half a second, 20 bytes at 40 and at 10 a second.

    Latency is a quarter of a second each way.
    """
    cost = clock.Cost(np.array([3, 3]), down=10, up=20)
    speed = clock.Speed(
        step=0.5, down=np.array([5.0, 2.0]), up=np.array([40.0, 10.0]), latency=0.25
    )
    assert clock.seconds(cost, speed).tolist() == [2 + 1.5 + 0.5 + 0.5, 5 + 1.5 + 2 + 0.5]


# --------------------------------------------------------------------------------- those that leave

# when it leaves: before the model comes, half-way through the training, after its message ->
# (joined, steps that count, steps in vain, whether it got the model, whether it sent a message,
# seconds of a round of it alone); 1 s down, 4 s, 2 s up
FATES: dict[str, tuple] = {
    "never": ((0.0, 0.0, 0.0), [0.9, 0.5], (True, 4, 0, True, True, 7.0)),
    "before": ((0.5, 0.0, 0.0), [0.4, 0.5], (False, 0, 0, False, False, 0.0)),
    "during": ((0.0, 0.5, 0.0), [0.4, 0.5], (False, 0, 2, True, False, 3.0)),
    "during, not": ((0.0, 0.5, 0.0), [0.6, 0.5], (True, 4, 0, True, True, 7.0)),
    "after": ((0.0, 0.5, 0.5), [0.6, 0.5], (False, 0, 4, True, True, 7.0)),
}


@pytest.mark.parametrize("name", FATES)
def test_a_client_that_leaves_has_the_outcome_worked_out_by_hand(name, monkeypatch):
    dropout, numbers, expected = FATES[name]
    links = lambda clients, rng: Rates(down=10.0, up=10.0)
    fleet = Fleet(speed=speed_of([1.0]), links=links, dropout=Dropout(*dropout), deadline=100.0)
    machines = Machines(
        fleet,
        Clients(np.array([5]), lambda: np.zeros((1, 0), int)),
        clock.Cost(np.array([4]), 10, 20),
        0,
    )
    monkeypatch.setattr(machines._dropout_draws, "at", lambda round, client: Numbers(numbers))
    together = machines.round_outcome(1, np.array([0]))
    columns = [together.joined, together.steps, together.wasted, together.reached, together.sent]
    assert (*(column[0] for column in columns), together.seconds) == expected
    alone = machines.client_outcome(1, 0)  # the same, of a client that starts by itself
    joined, _, wasted, reached, sent, length = expected
    assert (alone.left, alone.seconds) == (not joined, length)
    assert (alone.reached, alone.sent) == (reached, sent)
    assert alone.steps == (0 if joined else wasted)


@pytest.mark.parametrize(
    ("dropout", "deadline", "wasted"),
    [
        (Dropout(before=1.0), np.inf, [0, 0]),
        (Dropout(during=1.0), np.inf, [4, 4]),  # no time passes between its steps
        (Dropout(), 1.5, [0, 0]),  # the first is in time, the second has not received the model
    ],
)
def test_steps_that_take_no_time_still_wait_for_the_model(dropout, deadline, wasted):
    """The first client receives the model after 1 s, the second after 2 s; steps take 0 s."""
    links = lambda clients, rng: Rates(down=np.array([10.0, 5.0]), up=np.inf)
    fleet = Fleet(speed=speed_of([0.0, 0.0]), links=links, dropout=dropout, deadline=deadline)
    machines = Machines(
        fleet,
        Clients(np.array([5, 5]), lambda: np.zeros((2, 0), int)),
        clock.Cost(np.array([4, 4]), 10, 20),
        0,
    )
    outcome = machines.round_outcome(1, np.array([0, 1]))
    assert outcome.wasted.tolist() == wasted
    if any(dropout):
        alone = [machines.client_outcome(1, client) for client in (0, 1)]
        assert [client.steps for client in alone] == wasted
        assert [client.reached for client in alone] == outcome.reached.tolist()


# ----------------------------------------------------------------------------------------- coverage

CASES = {
    "cohort": {case[0] for case in DRAWN.values()},
    "timetable": {case[0] for case in STEPS.values()},
    "availability": {case[0] for case in REACHED.values()},
    "speed": set(SPEEDS),
    "link": set(LINKS),
}


@pytest.mark.parametrize("family", CASES)
def test_every_kind_has_a_case(family):
    assert CASES[family] == set(registered(family))


def test_every_cohort_has_a_case_with_or_without_known_shares():
    assert {*SHARES, *UNKNOWN} == CASES["cohort"]


def test_every_cohort_is_tried_with_every_schedule():
    assert {kind for kind, _ in COHORTS.values()} == CASES["cohort"]

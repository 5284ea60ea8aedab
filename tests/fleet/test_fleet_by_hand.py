"""Every cohort once, worked out by hand."""

import math

import numpy as np
import pytest
from by_hand import COHORTS, Numbers, plan_of
from conftest import own_kinds_of

from fedsim.fleet import Adversary, Drawn, Population
from fedsim.fleet.sampling import Sampling
from fedsim.fleet.selection import SKETCH_SIZE

nan, inf = math.nan, math.inf

IDS, SAMPLES = [1, 2, 4, 6, 8, 9, 11], [3, 1, 4, 1, 5, 9, 2]
SECONDS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 3.0]


def population(ids=IDS, samples=SAMPLES, **columns) -> Population:
    """Clients that can be drawn, and what is known of them."""
    known = {name: np.array(column) for name, column in columns.items()}
    return Population(np.array(ids), np.array(samples), **known)


# name -> (kind, its parameters, population, round, who is drawn: each set that may be);
# others are in test_importance, test_similar_clients and test_selection
DRAWN: dict[str, tuple] = {
    "all": ("all", {}, population(), 1, [IDS]),
    "uniform: no more than there are": ("uniform", {"size": 9}, population(), 1, [IDS]),
    "uniform: so many": ("uniform", {"size": 1}, population([4, 6], [1, 9]), 1, [[4], [6]]),
    "poisson: everybody": ("poisson", {"rate": 1.0}, population(), 1, [IDS]),
    "weighted: with replacement": ("weighted", {"size": 2}, population([4], [7]), 1, [[4, 4]]),
    "cyclic: the first": ("cyclic", {"size": 3}, population(), 1, [[1, 2, 4]]),
    "cyclic: over the end": ("cyclic", {"size": 3}, population(), 3, [[1, 2, 11]]),
    "listed: starting over": ("listed", {"rounds": [[2, 9], [4]]}, population(), 3, [[2, 9]]),
    "power_of_choice: the unknown, then large losses, ties to the lower id": (
        "power_of_choice", {"size": 4, "candidates": 7},
        population(loss=[0.5, 2.0, nan, 0.7, 0.1, inf, 0.7]), 1, [[2, 4, 6, 11]],
    ),
    "power_of_choice: who was not finite comes last": (
        "power_of_choice", {"size": 1, "candidates": 2},
        population([1, 2], [1, 1], loss=[inf, 0.0]), 1, [[2]],
    ),
    "oort: whose loss was not finite only when nobody else is left": (
        "oort", {"size": 2, "cutoff": 1.0},
        population([1, 2, 4], [1] * 3, loss=[inf, 1.0, inf], drawn=[1] * 3, last=[1] * 3,
                   seconds=[1.0] * 3), 1, [[1, 2], [2, 4]],
    ),
    "divfl: new clients first, then of equal ones the first": (
        "divfl", {"size": 2, "candidates": 3},
        population([1, 2, 4], [1] * 3, sketch=np.outer([0, nan, 9], np.ones(SKETCH_SIZE))), 1,
        [[1, 2]],
    ),
    "fedcs: who is done in time": (
        "fedcs", {"seconds": 3.0, "candidates": 7}, population(seconds=SECONDS), 1, [[1, 2, 4, 11]],
    ),
    "fedcs: of those the fastest": (
        "fedcs", {"seconds": 3.0, "candidates": 7, "size": 3}, population(seconds=SECONDS), 1,
        [[1, 2, 4]],
    ),
    "least_participated: who was drawn at most once": (
        "least_participated", {"size": 5},
        population(drawn=[2, 1, 0, 1, 3, 1, 1], last=[5, 2, 0, 4, 5, 1, 3]), 9, [[2, 4, 6, 9, 11]],
    ),
    # in round 9: who came in round 6 or before, or never, and less than three times
    "separated: who has rested": (
        "separated", {"size": 5, "gap": 3, "most": 3},
        population(drawn=[2, 1, 0, 3, 3, 1, 1], last=[7, 6, 0, 4, 5, 8, 3]), 9, [[2, 4, 11]],
    ),
    "separated: some of them": (
        "separated", {"size": 1, "gap": 3},
        population(drawn=[2, 1, 1, 3, 3, 1, 1], last=[7, 6, 7, 4, 7, 8, 8]), 9, [[2], [6]],
    ),
    "separated: nobody in the first rounds after all came": (
        "separated", {"size": 9, "gap": 3}, population(drawn=[1] * 7, last=[1] * 7), 3, [[]],
    ),
    # 1 and 4 are 1 mod 3, 2 8 and 11 are 2 mod 3, 6 and 9 are 0 mod 3
    "cyclic_poisson: the group of a round": (
        "cyclic_poisson", {"groups": 3, "rate": 1.0}, population(), 5, [[2, 8, 11]],
    ),
    "cyclic_poisson: the next": (
        "cyclic_poisson", {"groups": 3, "rate": 1.0}, population(), 6, [[6, 9]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_a_cohort_draws_the_clients_worked_out_by_hand(name):
    kind, parameters, known, round, allowed = DRAWN[name]
    made, seen = own_kinds_of("cohort")[kind](**parameters), set()
    for seed in range(40):
        drawn = made.draw(known, round, np.random.default_rng(seed))
        ids = drawn.ids if isinstance(drawn, Drawn) else drawn
        seen.add(tuple(sorted(ids.tolist())))
    assert seen == set(map(tuple, allowed))


@pytest.mark.parametrize(
    ("kind", "parameters", "size"),
    [
        ("all", {}, 20),
        ("uniform", {"size": 4}, 4),
        ("poisson", {"rate": 0.3}, 6),
        ("poisson", {"rate": 0.01}, 1),
        ("weighted", {"size": 50}, 50),
        ("cyclic", {"size": 8}, 8),
        ("listed", {"rounds": [[7, 5], [6, 6, 9]]}, 3),
    ],
)
def test_the_nominal_cohort_of_twenty_clients(kind, parameters, size):
    assert own_kinds_of("cohort")[kind](**parameters).nominal(20) == size


def test_those_take_part_whose_number_is_below_the_rate():
    kinds, draws = own_kinds_of("cohort"), [0.2, 0.25, 0.1, 0.1]
    clients = population([4, 6, 8, 9], [1] * 4)
    drawn = kinds["poisson"](rate=0.25).draw(clients, 1, Numbers(draws))
    assert drawn.tolist() == [4, 8, 9]

    by_group = kinds["cyclic_poisson"](groups=2, rate=0.25)
    drawn = [by_group.draw(clients, round, Numbers(draws)).tolist() for round in (1, 2)]
    assert drawn == [[9], [4, 8]]


# cohort -> what an accountant knows of it
SAMPLINGS: dict[str, tuple] = {
    "all": ({}, Sampling("all")),
    "poisson": ({"rate": 0.25}, Sampling("poisson", rate=0.25)),
    "uniform": ({"size": 3}, Sampling("uniform", size=3)),
    "cyclic": ({"size": 3}, Sampling("cyclic", size=3)),
    "separated": ({"size": 3, "gap": 4, "most": 2}, Sampling("separated", size=3, gap=4, most=2)),
    "cyclic_poisson": (
        {"groups": 4, "rate": 0.25}, Sampling("cyclic_poisson", rate=0.25, groups=4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COHORTS)
def test_a_cohort_tells_how_it_samples_or_that_no_accountant_knows(name):
    kind, parameters = COHORTS[name]
    parameters, sampling = SAMPLINGS.get(kind, (parameters, None))
    assert own_kinds_of("cohort")[kind](**parameters).sampling == sampling


def test_a_cohort_whose_draws_depend_on_reports_does_not_know_how_often():
    candidates = {"size": 3, "candidates": 3}
    unknown = {"power_of_choice": candidates, "oort": {}, "divfl": {}, "fedcs": candidates}
    for kind, parameters in {**unknown, "importance": {"unbiased": False}}.items():
        assert own_kinds_of("cohort")[kind](**parameters).share is None, kind


def test_malicious_clients_are_redrawn_every_round_only_if_asked():
    everybody, plans = own_kinds_of("cohort")["all"](), []
    for redrawn in (True, False):
        plans.append(plan_of(everybody, adversary=Adversary(count=2, redrawn=redrawn)))
    changing, fixed = ([plan.malicious_in(r).tolist() for r in (1, 2, 2, 3, 1)] for plan in plans)
    mask = plans[0].conditions.adversary.mask
    masks = [mask(6, plans[0].seed, r).tolist() for r in (1, 2, 2, 3, 1)]
    assert changing == masks and len(set(map(tuple, masks))) > 1
    assert fixed == [plans[1].malicious.tolist()] * 5


def test_every_cohort_is_drawn_and_tried_with_every_schedule():
    in_other_files = {"importance", "clustered", "tifl", "round_robin_by_class"}
    drawn = {case[0] for case in DRAWN.values()}
    assert drawn | in_other_files == set(own_kinds_of("cohort"))
    assert {kind for kind, _ in COHORTS.values()} == set(own_kinds_of("cohort"))

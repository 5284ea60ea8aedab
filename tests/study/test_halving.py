"""A search with rungs: who is played how long, and what that costs."""

import pytest
from test_tuning import SCENARIO

from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.scenario.sections import Search
from fedsim.study.grid import design_of
from fedsim.study.halving import Bracket, brackets, brackets_of
from fedsim.study.promotion import RungScore, last_rounds, planned_rounds, promoted

DRAWN = {"tune": {"client.lr": "log(1e-3, 1)"}, "budget": 16}


def designed(**compare):
    """A comparison of fedavg with itself, as its section `compare` says."""
    section = {"methods": ["fedavg"], **compare}
    return design_of(read({**SCENARIO, "rounds": 16, "compare": section}))


def spent(brackets, eta, score=float):
    """(trial-rounds of all brackets, rounds by cell), of trials that resume, scored by number."""
    played = {}
    paid = 0

    def play(until):
        nonlocal paid
        for cell, rounds in until.items():
            paid += rounds - played.get(cell, 0)
            played[cell] = rounds
        return {cell: RungScore(0, score(cell)) for cell in until}

    ends = last_rounds(brackets, eta, play)
    play(ends)
    return paid, ends


def test_sixteen_trials_by_halves_over_sixteen_rounds_spend_48_trial_rounds_and_not_256():
    (bracket,) = brackets(Search(kind="halving"), trials=16, rounds=16, every=1)
    assert bracket.rungs == [1, 2, 4, 8, 16]
    paid, ends = spent([bracket], eta=2)
    assert paid == 16 * 1 + 8 * 1 + 4 * 2 + 2 * 4 + 1 * 8 == 48
    assert sum(ends.values()) == 48
    assert [ends[trial] for trial in (0, 7, 8, 12, 14, 15)] == [1, 1, 2, 4, 8, 16]
    one_rung = Bracket(bracket.cells, [16])
    assert spent([one_rung], eta=2)[0] == 256


def test_the_brackets_of_hyperband_are_those_of_li_et_al():
    # Table 1 of Li et al. 2018: R = 81, η = 3.
    found = brackets(Search(kind="hyperband", eta=3), trials=143, rounds=81, every=1)
    assert [(len(bracket.cells), bracket.rungs) for bracket in found] == [
        (81, [1, 3, 9, 27, 81]),
        (34, [3, 9, 27, 81]),
        (15, [9, 27, 81]),
        (8, [27, 81]),
        (5, [81]),
    ]
    assert [bracket.number for bracket in found] == [0, 1, 2, 3, 4]
    assert sorted(cell for bracket in found for cell in bracket.cells) == list(range(143))
    # About 405 each were settings to start again at every rung; those that resume pay less.
    assert [spent([bracket], eta=3)[0] for bracket in found] == [297, 276, 279, 324, 405]


def test_a_small_budget_has_fewer_brackets_each_with_a_setting_for_the_last_round():
    found = brackets(Search(kind="hyperband"), trials=16, rounds=16, every=1)
    sizes = [(len(bracket.cells), bracket.rungs) for bracket in found]
    assert sizes == [(6, [4, 8, 16]), (5, [8, 16]), (5, [16])]


@pytest.mark.parametrize(
    ("why", "trials", "rounds", "every", "more", "rungs"),
    [
        ("few settings", 5, 16, 1, {}, [4, 8, 16]),
        ("few rounds", 16, 5, 1, {}, [2, 3, 5]),
        ("rungs are evaluated rounds", 16, 50, 5, {}, [10, 15, 25, 50]),
        ("a larger step", 16, 16, 1, {"eta": 4}, [1, 4, 16]),
        ("as many as asked for", 16, 16, 1, {"rungs": 2}, [8, 16]),
        ("a single setting", 1, 16, 1, {}, [16]),
    ],
)
def test_rungs_fit_the_rounds_and_the_settings(why, trials, rounds, every, more, rungs):
    (bracket,) = brackets(Search(kind="halving", **more), trials, rounds, every)
    assert bracket.rungs == rungs, why


@pytest.mark.parametrize(
    ("why", "scores", "go_on"),
    [
        ("the best", [(0, 0.1), (0, 0.3), (0, 0.2), (0, 0.4)], [1, 3]),
        ("the first of ties", [(0, 0.2), (0, 0.2), (0, 0.2), (0, 0.1)], [0, 1]),
        ("what lost a seed comes last", [(1, 0.9), (0, -5.0), (2, 1.0), (0, -6.0)], [1, 3]),
        ("unless nothing else is there", [(2, 0.0), (1, 0.1), (1, 0.2), (2, 0.0)], [1, 2]),
    ],
)
def test_the_best_go_on_from_a_rung(why, scores, go_on):
    assert promoted([0, 1, 2, 3], [RungScore(*score) for score in scores], 2) == go_on, why


def test_each_method_and_variation_has_brackets_of_its_own_and_the_same_cost():
    search = {"kind": "halving"}
    methods = ["fedavg", "fedprox(mu=log(1e-3, 1))", {"method": "median", "label": "m"}]
    design = designed(methods=methods, vary={"client.epochs": [1, 2]}, search=search, **DRAWN)
    section = design.scenario.spec.compare.search
    found = brackets_of(design.cells, section)
    assert [len(bracket.cells) for bracket in found] == [16] * 6
    for bracket in found:
        cells = [design.cells[i] for i in bracket.cells]
        assert len({(cell.method, cell.variant) for cell in cells}) == 1
    assert sum(planned_rounds(design.cells, section)) == 6 * 48

    # A method that is not tuned is played to the end.
    own = {"method": "fedavg", "tune": {"client.lr": [0.1, 0.2, 0.3, 0.4]}}
    design = designed(methods=["median", own], search=search)
    assert planned_rounds(design.cells, section) == [16, 16, 8, 4, 4]


def test_random_search_is_a_search_with_one_rung():
    plain = designed(**DRAWN)
    assert brackets_of(plain.cells, plain.scenario.spec.compare.search) == []
    assert "search" not in plain.scenario.resolved()["compare"]
    for kind in ("halving", "hyperband"):
        design = designed(**DRAWN, search={"kind": kind, "rungs": 1})
        assert brackets_of(design.cells, design.scenario.spec.compare.search) == []
        assert [cell.key_columns for cell in design.cells] == [c.key_columns for c in plain.cells]


@pytest.mark.parametrize(
    ("why", "compare", "text"),
    [
        ("nothing is tuned", {"search": {"kind": "halving"}}, "nothing is tuned"),
        ("eta below two", {**DRAWN, "search": {"kind": "halving", "eta": 1}}, "search.eta: "),
        ("rungs of random", {**DRAWN, "search": {"rungs": 3}}, "random has no rungs"),
        (
            "more rungs than rounds",
            {**DRAWN, "search": {"kind": "halving", "rungs": 6}},
            "6 rungs do not fit 16 rounds, evaluated every 1, with eta 2; write 5 or fewer",
        ),
        (
            "more rungs than settings",
            {**DRAWN, "budget": 8, "search": {"kind": "halving", "rungs": 5}},
            "5 rungs with eta 2 are too many for 8 settings of a method; write 4 or fewer",
        ),
        (
            "rounds are tuned",
            {"tune": {"rounds": [4, 8]}, "search": {"kind": "halving"}},
            "rounds is tuned, and a rung compares",
        ),
    ],
)
def test_a_search_that_cannot_be_is_refused_in_one_line(why, compare, text):
    with pytest.raises(ScenarioError) as refusal:
        designed(**compare)
    assert text in str(refusal.value), why
    assert "compare.search" in str(refusal.value)
    assert "\n" not in str(refusal.value)

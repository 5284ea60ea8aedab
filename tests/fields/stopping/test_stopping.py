"""Runs that end early: when, and that nothing else of them differs."""

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim import ScenarioError
from fedsim.fields.stopping import field
from fedsim.fields.stopping.keys import Stop
from fedsim.fields.stopping.meter import Stopping
from fedsim.scenario import read

BLOBS = {"kind": "gaussian_blobs", "samples": 240, "classes": 3, "clients": 6, "validation": 0.2}
OWN = {**BLOBS, "client_test": 0.3}
BASE = {
    "name": "stopped",
    "data": BLOBS,
    "rounds": 9,
    "cohort": {"kind": "uniform", "size": 3},
    "client": {"lr": 0.1, "batch": 16},
    "evaluate": {"every": 2},
}
AT_4 = {"metric": "test_accuracy", "target": 0.0, "after": 3}


def rows_of(values):
    return [
        {"round": 2 * i, "validation_loss": value, "bytes_up": 10 * i, "bytes_down": 5 * i}
        for i, value in enumerate(values)
    ]


# losses by round 0, 2, 4 ... ; the section; the round that is the last one
ENDS = [
    ("two rows in a row without a lower loss", [3, 2, 2, 2, 1], {"patience": 2}, 6),
    ("a lower loss starts the count again", [3, 2, 2, 1, 1, 1], {"patience": 2}, 10),
    ("gains below delta add up", [3, 2.5, 2.2, 1.9, 1.9, 1.9], {"patience": 2, "delta": 1}, 4),
    ("none before `after`", [3, 3, 3, 3, 3], {"patience": 1, "after": 5}, 6),
    ("round 0 is never the last one", [0.5, 0.4], {"target": 1.0}, 2),
    ("a target is reached by a smaller loss", [3, 2, 0.9], {"target": 1.0}, 4),
    ("bytes are those of both ways", [3, 3, 3], {"at_most": {"bytes": 30}}, 4),
    ("a loss that is no number is no progress", [3, np.nan, np.nan], {"patience": 2}, 4),
    ("never", [3, 2, 1], {"patience": 1}, None),
]


@pytest.mark.parametrize(
    ("losses", "section", "last"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS]
)
def test_a_run_ends_at_the_first_row_where_a_condition_holds(losses, section, last):
    stopping = Stopping(Stop.model_validate(section), "validation_loss")
    ends = [row["round"] for row in rows_of(losses) if stopping.ends_with(row)]
    assert (ends or [None])[0] == last


def test_energy_is_a_budget_where_it_is_counted():
    stopping = Stopping(Stop.model_validate({"at_most": {"joules": 5.0}}), "validation_loss")
    rows = [{"round": round, "joules": 2.0 * round} for round in range(5)]
    assert [row["round"] for row in rows if stopping.ends_with(row)] == [3, 4]
    with pytest.raises(ScenarioError, match=r"stop.at_most.joules: nobody counts them"):
        stopping.ends_with({"round": 5})


LIKE = {
    "plain": {},
    "noise of a fixed multiplier": {
        "privacy": {"clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-5},
        "cohort": {"kind": "poisson", "rate": 0.5},
    },
    "asynchronous": {"schedule": {"kind": "fedbuff", "concurrency": 3, "buffer": 2}},
    "graph": {"topology": "ring", "cohort": None},
    "several models": {"method": "ifca", "data": OWN, "evaluate": {"every": 2, "personal": True}},
    "personal models": {"method": "ditto", "data": OWN, "evaluate": {"every": 2, "personal": True}},
}


@pytest.mark.long
@pytest.mark.parametrize("name", LIKE)
def test_a_run_that_stops_equals_one_with_as_many_rounds(name):
    scenario = {key: value for key, value in {**BASE, **LIKE[name]}.items() if value is not None}
    stopped = fedsim.run({**scenario, "stop": AT_4})
    planned = fedsim.run({**scenario, "rounds": 4})
    pd.testing.assert_frame_equal(stopped.rounds, planned.rounds, check_exact=True)
    pd.testing.assert_frame_equal(stopped.clients, planned.clients, check_exact=True)
    assert stopped.summary["stopped"].tolist() == [4] and stopped.status == "done"
    summary = stopped.summary.drop(columns="stopped")
    pd.testing.assert_frame_equal(summary, planned.summary, check_exact=True)
    if stopped.summary["metric"][0] is not None:
        np.testing.assert_equal(stopped.model(), planned.model())


def test_a_run_that_was_interrupted_stops_where_it_would_have(tmp_path):
    scenario = {**BASE, "stop": {"patience": 2, "delta": 0.05}}
    direct = fedsim.run(scenario)
    assert direct.summary["stopped"].tolist() == [6]
    fedsim.run({**scenario, "rounds": 3}, out=tmp_path / "run")
    resumed = fedsim.run(scenario, out=tmp_path / "run", resume=True)
    pd.testing.assert_frame_equal(resumed.rounds, direct.rounds)
    again = fedsim.run({**scenario, "rounds": 20}, out=tmp_path / "run", resume=True)
    assert again.summary["stopped"].tolist() == direct.summary["stopped"].tolist()


def test_the_best_model_is_the_result():
    scenario = {**BASE, "client": {"lr": 2.0, "batch": 16}, "evaluate": {"every": 1}}
    best = fedsim.run({**scenario, "stop": {"patience": 4, "restore": "best"}})
    row = best.summary.iloc[0]
    scores = best.rounds.set_index("round")["validation_accuracy"]
    assert row["restored"] == scores.idxmax()
    then = fedsim.run({**scenario, "rounds": int(row["restored"])})
    np.testing.assert_equal(best.model(), then.model())
    assert row["final"] == then.summary["final"][0]


SPENT = {
    "bytes": lambda row: row["bytes_up"] + row["bytes_down"],
    "virtual_seconds": lambda row: row["virtual_seconds"],
}
FURTHER = {
    "bytes of a graph, at both ends of an edge": (LIKE["graph"], "bytes", 13_000.0),
    "seconds of a graph": (LIKE["graph"], "virtual_seconds", 7.0),
    "bytes of an asynchronous run": (LIKE["asynchronous"], "bytes", 2_000.0),
    "seconds of an asynchronous run": (LIKE["asynchronous"], "virtual_seconds", 7.0),
}
BUDGETS = [pytest.param({}, "bytes", 900.0, id="a synchronous run")]
BUDGETS += [pytest.param(*case, id=why, marks=pytest.mark.long) for why, case in FURTHER.items()]


@pytest.mark.parametrize(("sections", "name", "limit"), BUDGETS)
def test_a_budget_ends_a_run_with_the_first_row_that_has_spent_it(sections, name, limit):
    scenario = {key: value for key, value in {**BASE, **sections}.items() if value is not None}
    ended = fedsim.run({**scenario, "stop": {"at_most": {name: limit}}})
    *before, last = [SPENT[name](row) for _, row in ended.rounds.iterrows()]
    assert before[-1] < limit <= last
    assert ended.summary["stopped"].tolist() == [ended.rounds["round"].iloc[-1]]


@pytest.mark.long
def test_without_an_accuracy_the_loss_decides():
    data = {"kind": "linear_regression", "clients": 6, "validation": 0.2}
    ended = fedsim.run({**BASE, "data": data, "stop": {"patience": 1, "delta": 100.0}})
    assert ended.summary["stopped"].tolist() == [2]
    assert ended.scenario["stop"]["metric"] == "validation_loss"


NEAR = "no column of rounds.csv here; did you mean 'validation_accuracy'"
# a section; what is refused, in one line
WRONG = [
    ({"patience": 3, "metric": "validation_acuracy"}, f"validation_acuracy is {NEAR}"),
    ({"patience": 3, "metric": "client_loss_mean"}, "stop.metric: client_loss_mean is no column"),
    ({"patience": 3, "metric": "mean/kept"}, "stop.metric: mean/kept is no column"),
    ({"metric": "test_loss"}, "never ends a run; write patience, target or at_most"),
    ({"at_most": {}}, "has no limit; write bytes, virtual_seconds, epsilon or joules"),
    ({"at_most": {"epsilon": 1.0}}, "needs privacy, and there is none"),
    ({"at_most": {"joules": 1.0}}, "at_most.joules: needs fleet.energy, and there is none"),
    ({"patience": 0}, "stop.patience"),
]


@pytest.mark.parametrize(("section", "told"), WRONG)
def test_a_section_that_cannot_end_a_run_is_refused(section, told):
    with pytest.raises(ScenarioError, match=told) as refusal:
        fedsim.run({**BASE, "rounds": 2, "stop": section})
    assert "\n" not in str(refusal.value)


def test_validation_samples_are_asked_for():
    data = {**BLOBS, "validation": 0.0}
    with pytest.raises(ScenarioError, match=r"write data.validation: 0.1, or stop.metric: test_ac"):
        fedsim.run({**BASE, "data": data, "stop": {"patience": 3}})


def test_a_check_says_that_noise_is_made_for_rounds_that_may_not_be_played():
    privacy = {"clip": 1.0, "epsilon": 8.0, "delta": 1e-3}
    scenario = {**BASE, "privacy": privacy, "stop": AT_4}
    scenario["cohort"] = {"kind": "poisson", "rate": 0.5}
    (note,) = field.FIELD.notes(read(scenario).spec)
    assert "after all 9 rounds; a run that stop ends early spends less" in note
    fixed = {"clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-3}
    assert field.FIELD.notes(read({**scenario, "privacy": fixed}).spec) == []


def test_a_run_that_diverged_has_no_score_whatever_its_best_round_was():
    client = {"lr": 1e30, "batch": 16}
    stop = {"patience": 20, "restore": "best"}
    diverged = fedsim.run({**BASE, "client": client, "server": ["mean"], "stop": stop})
    assert diverged.status == "diverged" and diverged.summary["final"].isna().all()

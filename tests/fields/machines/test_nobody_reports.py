"""Rounds in which nobody, one client or everybody reports, for every cohort and schedule."""

import numpy as np
import pytest
from by_hand import COHORTS, SCHEDULES, plan_of
from conftest import own_kinds_of

import fedsim
from fedsim.fields.machines.availability import Availability
from fedsim.fields.machines.machines import Dropout
from fedsim.fleet import Cohort, Planner
from fedsim.fleet.selection import HISTORY, SKETCH_SIZE
from fedsim.installed import fields

ROUNDS = 4


def reached(*clients: int) -> Availability:
    """Only these clients are reachable, in every round."""
    return Availability(
        lambda known, rng: np.isin(np.arange(known.N), clients), lambda fixed, moment: fixed
    )


REPORT = {
    "nobody, for all leave": ({"dropout": Dropout(during=1.0)}, 0),
    "nobody, for none can be reached": ({"availability": reached()}, 0),
    "one": ({"availability": reached(1)}, 1),
    "all": ({}, 6),
}


def cohort_of(name: str) -> Cohort:
    kind, own = COHORTS[name]
    return own_kinds_of("cohort")[kind](**own)


def reports(planner: Planner, work) -> dict[str, np.ndarray]:
    """What the clients of a round report: numbers that grow with their ids."""
    values = 1.0 + work.ids
    whole = {"loss": values, "norm": values, "sketch": np.outer(values, np.ones(SKETCH_SIZE))}
    return {name: whole[name] for name in planner.feedback}


def test_every_schedule_has_a_case():
    assert set(SCHEDULES) == set(own_kinds_of("timetable"))


def refused(cohort: str, schedule: str) -> bool:
    """Whether a cohort needs the previous round, which an asynchronous server does not have."""
    made = cohort_of(cohort)
    return schedule != "sync" and bool(made.feedback or HISTORY in made.needs)


PAIRS = [(cohort, schedule) for cohort in COHORTS for schedule in SCHEDULES]


@pytest.mark.parametrize(("cohort", "schedule"), [pair for pair in PAIRS if not refused(*pair)])
def test_a_plan_continues_whoever_reports(cohort, schedule, monkeypatch):
    if "asynchronous" in fields():
        monkeypatch.setattr("fedsim.fields.asynchronous.flights.LOST", 9)
    for who, (fleet, most) in REPORT.items():
        timetable = own_kinds_of("timetable")[schedule](**SCHEDULES[schedule])
        planner = Planner(plan_of(cohort_of(cohort), fleet=fleet, timetable=timetable))
        reporting = set()
        for r in range(1, ROUNDS + 1):
            work = planner.round(r)
            reporting |= set(work.ids.tolist())
            planner.complete(work, reports(planner, work))
        assert reporting <= set(range(6)) and len(reporting) <= most, who
        assert bool(reporting) == bool(most), who
        for table in planner.feedback.values():
            known = {client for client in range(6) if not np.isnan(table[client]).any()}
            assert known == reporting, who


@pytest.mark.long
@pytest.mark.parametrize("cohort", [name for name in COHORTS if cohort_of(name).feedback])
@pytest.mark.parametrize("dropout", [1.0, 0.6])
def test_a_run_continues_whoever_reports(cohort, dropout):
    """The device's half: a round that nobody reports has no rows."""
    kind, own = COHORTS[cohort]
    written = {
        "name": "nobody",
        "rounds": 3,
        "data": {"kind": "gaussian_blobs", "samples": 60, "clients": 6},
        "cohort": {"kind": kind, **own},
        "fleet": {"dropout": dropout},
    }
    assert fedsim.run(written).status == ("not_run" if dropout == 1.0 else "done")

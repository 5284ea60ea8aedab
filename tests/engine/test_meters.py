"""Meters: what counts between rows, what a checkpoint stores of it, and how one ends a run."""

import math

import numpy as np
import pytest

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.engine.loop import events
from fedsim.engine.meters import Meter, Since
from fedsim.scenario import read

DATA = {"kind": "gaussian_blobs", "samples": 60, "clients": 4}


class StopAfter(Meter):
    """Ends a run after a round, and says how many rounds it has counted."""

    stored = ("counted", "seen")
    may_end = True

    def __init__(self, last: int):
        self.last = last
        self.counted = 0
        self.seen = np.zeros(4, np.int64)

    def after(self, dispatched, since):
        self.counted += 1
        self.seen[dispatched.cohort.ids] += 1

    def ending(self, dispatched):
        return ("stopped", "enough") if dispatched.cohort.round == self.last else None

    def row(self, round, since):
        return {"counted": self.counted}


@pytest.fixture(scope="module")
def ended():
    """A run of ten rounds with one more meter, and its rows."""
    scenario = read({"name": "s", "data": DATA, "rounds": 10, "evaluate": {"every": 5}})
    with numerics(scenario):
        experiment = build(scenario)
        run = experiment.run(0)
        run.meters.append(StopAfter(7))
        rows = [row for _, row in events([run], experiment.program)]  # no moment for a commit
        return run, rows


def test_a_meter_has_its_columns_and_ends_a_run_with_its_reason(ended):
    run, rows = ended
    counted = [(row.values["round"], row.values["counted"]) for row in rows]
    assert counted == [(0, 0), (5, 5), (7, 7)]
    assert (run.status, run.reason) == ("stopped", "round 7: enough")


def test_a_checkpoint_stores_what_a_meter_names(ended):
    run, _ = ended
    snapshot = run.snapshot(portable=True)
    assert snapshot.values["counted"] == 7 and snapshot.arrays["seen"].tolist() == [7] * 4
    fresh = StopAfter(7)
    fresh.restore(snapshot)
    assert (fresh.counted, fresh.seen.tolist()) == (7, [7] * 4)


def test_integers_are_summed_between_rows_and_other_values_are_the_last():
    since = Since()
    since.report({"kept": np.int32(2), "skipped": np.bool_(True), "bound": np.float32(0.5)})
    since.report({"kept": 3, "skipped": False, "bound": math.nan, "nothing": None})
    assert since.columns == {"kept": 5, "skipped": 1, "bound": None, "nothing": None}
    since.add(loss=1.5)
    since.add(loss=0.25, seen=2)
    again = Since.restored(since.state())
    assert (again["loss"], again["seen"], again["absent"]) == (1.75, 2, 0)
    assert again.columns == since.columns


def test_a_prolonged_run_counts_on_apart_from_what_it_stored(ended):
    run, _ = ended
    snapshot = run.snapshot(portable=True)
    done = {"status": "done", "open_since": {"a": 1, "info": {}}}
    run.restore(snapshot._replace(values={**snapshot.values, **done}))
    run.since.add(a=1)
    assert (run.since["a"], run.open_since["a"]) == (2, 1)

"""Forks of runs that ended early."""

import pandas as pd
import pytest

import fedsim

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quickly_compiled")]

SCENARIO = {
    "name": "stopped",
    "data": {"kind": "gaussian_blobs", "samples": 240, "classes": 3, "clients": 6},
    "rounds": 9,
    "evaluate": {"every": 2},
}
AT_4 = {"metric": "test_accuracy", "target": 0.0, "after": 3}


def test_a_fork_of_a_run_that_stopped_goes_on(tmp_path):
    stopped = fedsim.run({**SCENARIO, "stop": AT_4}, out=tmp_path / "run")
    assert stopped.rounds["round"].tolist() == [0, 2, 4]
    later = fedsim.fork(tmp_path / "run", round=4, out=tmp_path / "later", edits="stop.after=7")
    assert later.summary["stopped"].tolist() == [8]
    never = fedsim.fork(tmp_path / "run", round=4, out=tmp_path / "never", edits="stop=null")
    pd.testing.assert_frame_equal(never.rounds, fedsim.run(SCENARIO).rounds)

"""Personal methods and parts of the model: the same bytes after a kill, in blocks, on devices.

And how much memory ten thousand models of the clients' own take.
"""

import functools
import json
import os
import subprocess
import sys

import pytest
from conftest import TESTS, if_whole, some
from workloads import PERSONAL, digest, run

import fedsim

pytestmark = pytest.mark.long


class Killed(Exception):
    """What ends a run without a word to anybody."""


def kill_after_a_commit(experiment, seed, row):
    if row.values["round"] == 2:
        raise Killed


@functools.cache
def whole(name):
    """The hash of an undisturbed run."""
    return digest(run(name))


@if_whole
@pytest.mark.parametrize("name", PERSONAL)
def test_a_kill_and_blocks_change_no_byte(name, tmp_path):
    edits = ["numerics.block=3", "checkpoint.rounds=1"]
    with pytest.raises(Killed):
        run(name, edits=edits, out=tmp_path / "run", watch=kill_after_a_commit)
    resumed = run(name, edits=edits, out=tmp_path / "run", resume=True)
    assert digest(resumed) == whole(name)
    assert fedsim.verify(tmp_path / "run").equal


@if_whole
def test_four_devices_change_no_byte():
    names = some(PERSONAL, 4)
    script = [sys.executable, str(TESTS / "workloads.py"), "2", *names]
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run(script, capture_output=True, text=True, env={**os.environ, **flags})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {name: whole(name) for name in names}


MANY = """
from fedsim.machine import memory_peak
import fedsim
result = fedsim.run({
    "name": "many",
    "rounds": 2,
    "data": {"kind": "gaussian_blobs", "samples": 40000, "shape": [100], "clients": 10000,
             "client_test": 0.25},
    "model": {"kind": "mlp", "hidden": [64]},
    "client": {"kind": "ditto", "batch": 4, "steps": 1, "personal_steps": 1},
    "cohort": {"kind": "cyclic", "size": 5000},
    "evaluate": {"every": 2},
})
assert result.clients["personal_accuracy"].notna().sum() == 10000
print(memory_peak())
"""


@if_whole
def test_ten_thousand_own_models_fit_in_two_gigabytes():
    """Each has 7,114 numbers, and each client takes part and is scored."""
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 10_000 * 7_114 * 4 < int(done.stdout) < 2e9

"""Personal methods and parts of the model: the same bytes after a kill and in blocks.

On other devices, they are tried with all workloads. And how much memory ten thousand models of the
clients' own take.
"""

import subprocess
import sys

import pytest
from conftest import if_whole
from unchanged import run_of_same_bytes
from workloads import PERSONAL, WORKLOADS

pytestmark = [pytest.mark.long, pytest.mark.optimised]


@if_whole
@pytest.mark.parametrize("name", [*PERSONAL, "ranks"])
def test_a_kill_and_blocks_change_no_byte(name, tmp_path):
    run_of_same_bytes({"name": name, **WORKLOADS[name]}, tmp_path, cut=2)


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

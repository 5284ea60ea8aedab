"""The same bytes on any number of devices, cores and processes; and devices that do not exist."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TESTS, WHOLE, if_whole, some
from workloads import WORKLOADS, digest, run

import fedsim
from fedsim.errors import DeviceError

pytestmark = [pytest.mark.long, pytest.mark.optimised]

FEDSIM = Path(sys.executable).parent / "fedsim"


def digests_of(names: list[str], *edits: str) -> dict[str, str]:
    """The hashes of workloads in this process."""
    return {name: digest(run(name, edits)) for name in names}


def elsewhere(cores: int, devices: int, names: list[str], *edits: str) -> dict[str, str]:
    """The hashes of workloads in another process."""
    script = [sys.executable, str(TESTS / "workloads.py"), str(cores), *names, *edits]
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    done = subprocess.run(script, capture_output=True, text=True, env={**os.environ, **flags})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("cores", "devices"), [(1, 2), (2, 4)] if WHOLE else [(1, 2)])
def test_cores_and_devices_change_no_byte(cores, devices):
    names = some(WORKLOADS, 64, start=2)
    fewer = [] if WHOLE else ["rounds=2"]
    assert elsewhere(cores, devices, names, *fewer) == digests_of(names, *fewer)


@if_whole
def test_devices_change_no_byte_where_each_holds_only_its_clients_samples():
    names = some(["fedbuff", "scaffold", "mime"], 3)
    assert elsewhere(2, 3, names, "data.resident_mb=0") == digests_of(names)


WAYS = {  # to keep a run's state, its samples and its calls -> edits, and arguments of the run
    "commits, samples on the host": (["checkpoint.rounds=2", "data.resident_mb=0"], {}),
    "client memory on the disk, a call for the whole round": (
        ["checkpoint.resident_mb=0"], {"calls": 1},
    ),
    "calls for parts of a round": ([], {"calls": 3}),
}  # fmt: skip
KINDS = ("full_batch", "scaffold", "median", "mime", "fedbuff", "power_of_choice", "graph")


@pytest.mark.parametrize("name", KINDS)
def test_how_a_run_is_kept_changes_no_byte(name, tmp_path):
    expected = digest(run(name))
    for way, (edits, arguments) in WAYS.items():
        assert digest(run(name, edits=edits, out=tmp_path / way, **arguments)) == expected, way


def test_a_missing_device_is_named():
    answers = {"gpu": "no gpu here", "cpu:7": "there are 1 devices", "the fast one": "write a kind"}
    for asked, answer in answers.items():
        with pytest.raises(DeviceError, match=answer):
            fedsim.run({"name": "a", "rounds": 0, "data": "digits"}, device=asked)


def start(process: int, port: int, out: Path, root: Path) -> subprocess.Popen:
    """One of two processes of a run."""
    options = f"--coordinator 127.0.0.1:{port} --processes 2 --process {process} --no-pictures"
    edits = "--set numerics.threads=4 --set checkpoint.rounds=1 --set rounds=2"
    words = [*options.split(), *edits.split(), "--out", str(out)]
    command = [FEDSIM, "run", root / "scenarios/iid.yaml", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_two_processes_give_the_bytes_of_one(root, tmp_path):
    port = free_port()
    pair = [start(i, port, tmp_path / "two", root) for i in (0, 1)]
    for process in pair:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0
        assert errors == ""

    edits = ["numerics.threads=4", "rounds=2"]
    alone = fedsim.run(root / "scenarios/iid.yaml", edits=edits, out=tmp_path / "one")
    assert alone.status == "done"
    tables = ["rounds.csv", "clients.csv", "partition.csv", "summary.csv"]
    for name in [*tables, "model.fedavg.0.safetensors"]:
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()

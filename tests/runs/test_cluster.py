"""Comparisons on a dask cluster: workers on loopback that are lost, refused or interrupted."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from click.testing import CliRunner
from conftest import ROOT, TESTS, if_whole
from directories import leftovers
from test_compare import SCENARIO, bits
from test_readme import block

import fedsim
from fedsim.cli import cli
from fedsim.errors import LostError, ProcessError
from fedsim.runs.cluster import Cluster, connected
from fedsim.runs.filenames import RunFiles
from fedsim.runs.terms import Terms, differing, environment_of

pytestmark = pytest.mark.optimised

needs_dask = pytest.mark.skipif(
    not importlib.util.find_spec("distributed"), reason="needs dask: the extra `cluster`"
)
METHODS = "scaffold,krum(f=3),fragile"  # Krum's cohort is too small
# Of the page: scheduler, worker, comparison.
LINES = block((ROOT / "docs/comparing.md").read_text(), "cluster").splitlines()
ON = LINES[2].split()[-2:]
PLUGIN = TESTS / "plugins" / "fragile.py"


def on(address: str) -> list[str]:
    return [word.replace("HOST:8786", address) for word in ON]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ----------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "on", ["dask://", "dask://host", "tcp://host:8786", "dask://host:99999", "dask://a b:1"]
)
def test_a_malformed_address_is_refused(on):
    with pytest.raises(ProcessError, match="write dask://HOST:PORT"), connected(on):
        pass


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    remedy = pytest.raises(ProcessError, match=r"pip install 'fedsim-jax\[cluster\]'")
    with remedy, connected("dask://127.0.0.1:8786"):
        pass


@needs_dask
def test_a_missing_scheduler_is_one_line_and_leaves_no_files(tmp_path):
    on = f"dask://127.0.0.1:{free_port()}"
    line = r"no dask scheduler answers \(.*Connection refused\)"
    with pytest.raises(ProcessError, match=line) as refused:
        fedsim.compare(SCENARIO, "fedavg,median", out=tmp_path / "out", on=on)
    assert refused.value.exit_code == 2
    assert not (tmp_path / "out").exists()


@needs_dask
def test_a_worker_lost_while_terms_are_compared_is_reported_as_lost():
    from distributed.comm import CommClosedError

    client = SimpleNamespace(
        wait_for_workers=lambda *_, **__: None,
        nthreads=lambda: {"tcp://a": 1, "tcp://b": 1},
        run=lambda *_, **__: {"tcp://a": "", "tcp://b": CommClosedError("closed")},
    )
    with pytest.raises(LostError, match=r"worker tcp://b is gone \(closed\)") as lost:
        Cluster(client, "on", Terms(None, "", 4, None, (), {}, {}), RunFiles(Path(), {}))
    assert lost.value.exit_code == 1


def test_jobs_and_on_together_are_refused():
    words = ["compare", "s.yaml", "--jobs", "2", "--on", "dask://127.0.0.1:8786"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2 and "--jobs is for this machine and --on for others" in done.output


def test_differences_between_machines_are_named(tmp_path):
    """Versions, links of a user's own, and data."""
    (tmp_path / "w.csv").write_text("a,y\n1,0\n")
    expected = {**environment_of(jax.devices(), []), "jax": "0.0.1", "rule mine": "f00"}
    missing, other = str(tmp_path / "v.csv"), str(tmp_path / "w.csv")
    terms = Terms(None, str(tmp_path), 4, None, (), expected, {missing: "f00", other: "f00"})
    version, link, *data = differing(terms, jax.devices())
    assert version == f"jax is {jax.__version__} there, 0.0.1 here"
    ways = "put it into a file, and enable that with --plugin FILE"
    assert link == f"rule mine is not known there; {ways}"
    put = "there; put them where every worker reads them"
    assert data == [f"data '{missing}' are missing {put}", f"data '{other}' differ {put}"]


# ----------------------------------------------------------------------------------- a real cluster


def dask(line: str, *more: str, **environment: str) -> subprocess.Popen:
    """A process that the README starts by this line."""
    words = line.removeprefix(".venv/bin/").split()
    command = [sys.executable, "-m", *words, "--no-dashboard", *more]
    known = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(
        command, env=known, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def worker(address: str, place: Path, **environment: str) -> subprocess.Popen:
    more = "--no-nanny", "--local-directory", str(place)
    return dask(LINES[1].replace("HOST:8786", address), *more, **{"NPROC": "1", **environment})


@pytest.fixture
def cluster(tmp_path):
    """A scheduler -> (its address, its workers, to which a test adds)."""
    port = free_port()
    address, processes = f"127.0.0.1:{port}", []
    processes.append(dask(LINES[0].replace("8786", str(port)), "--host", "127.0.0.1"))
    try:
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def command(folder: Path, out: str, *words: str) -> list[str]:
    (folder / "s.yaml").write_text(json.dumps(SCENARIO))
    options = ["--methods", METHODS, "--plugin", str(PLUGIN), "--out", out]
    options += ["--quiet", "--no-pictures", *words]
    return [sys.executable, "-m", "fedsim.cli", "compare", "s.yaml", *options]


def compared(folder: Path, out: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(command(folder, out, *words), cwd=folder, capture_output=True, text=True)


def until(condition, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """Processes that train runs for a worker."""
    pids = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"fedsim.runs.remote" in words and str(pid).encode() in words:
            pids.append(int(file.parent.name))
    return pids


@if_whole
@needs_dask
@pytest.mark.long
def test_a_worker_that_is_killed_changes_no_byte(tmp_path, cluster):
    address, processes = cluster
    processes += [worker(address, tmp_path / name) for name in ("one", "two")]
    process = subprocess.Popen(
        command(tmp_path, "far", *on(address)), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    until(lambda: list(tmp_path.glob("far/checkpoints/*/state-*")) or process.poll() is not None)
    until(lambda: children(processes[1].pid) or process.poll() is not None)
    assert process.poll() is None
    processes[1].kill()
    until(lambda: not children(processes[1].pid), 10)
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == 5 and errors.count("\n") == 2, errors  # a warning and the reason
    assert "krum(f=3) failed on a worker" in errors and "Traceback" not in errors
    assert compared(tmp_path, "near").returncode == 5
    assert bits(tmp_path / "far") == bits(tmp_path / "near") and leftovers(tmp_path / "far") == []


@needs_dask
@pytest.mark.long
def test_a_worker_with_other_numerics_is_refused(tmp_path, cluster):
    address, processes = cluster
    processes.append(worker(address, tmp_path / "one", XLA_FLAGS="--xla_cpu_enable_fast_math=true"))
    done = compared(tmp_path, "far", *on(address))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not (tmp_path / "far").exists()
    assert "xla_flags is --xla_cpu_enable_fast_math=true there" in done.stderr

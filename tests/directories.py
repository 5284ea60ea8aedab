"""Run directories to break: tiny scenarios, what has to be equal, and the command in processes of its own."""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import yaml

import fedsim
from fedsim.disk.checkpoint import decode

TABLES = ("rounds.csv", "clients.csv", "partition.csv", "summary.csv")


def tiny(resident_mb: float = 256.0, **sections) -> dict:
    """Three rounds, two seeds, a commit after every round, also between evaluations; clients remember variates."""
    return {
        "name": "tiny",
        "rounds": 3,
        "seeds": [0, 1],
        "method": "scaffold",
        "data": {"kind": "digits", "clients": 12},
        "model": "logistic",
        "cohort": {"kind": "uniform", "size": 4},
        "client": {"lr": 0.1, "batch": 16, "epochs": 1},
        "evaluate": {"every": 2},
        "checkpoint": {"rounds": 1, "resident_mb": resident_mb},
        **sections,
    }


def bits(folder: Path) -> dict[str, str]:
    """SHA-256 of everything in a run directory that two equal runs share, by name."""
    models = sorted(path.name for path in folder.glob("model.*"))
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in (*TABLES, *models)
    }


def leftovers(folder: Path) -> list[str]:
    """Files that no run may leave behind."""
    return [
        path.name
        for path in folder.rglob("*")
        if path.name == ".lock" or path.name.endswith(".tmp")
    ]


def whole(folder: Path, expected: dict[str, str]) -> None:
    """Demand a finished run with these bits, commits that could be gone on from, and nothing else lying about."""
    assert bits(folder) == expected
    assert leftovers(folder) == []
    assert all(len(list(seed.glob("state-*"))) <= 2 for seed in folder.glob("checkpoints/*"))
    for newest in {
        path.parent: path for path in sorted(folder.glob("checkpoints/*/state-*.ckpt"))
    }.values():
        log, text = (
            decode(newest.read_bytes()).values["log"],
            (newest.parent / "log.jsonl").read_bytes(),
        )
        assert (log["length"], log["sha256"]) == (len(text), hashlib.sha256(text).hexdigest())


def played(scenario: dict, folder: Path, **options) -> dict[str, str]:
    """The bits of a run that nothing disturbed."""
    fedsim.run(scenario, out=folder, **options)
    return bits(folder)


def written(scenario: dict, path: Path) -> Path:
    """The scenario as a file."""
    path.write_text(yaml.safe_dump(scenario, sort_keys=False))
    return path


def command(scenario: Path, out: Path, *words: str) -> list[str]:
    """`fedsim run` as the words of a process."""
    return [
        sys.executable,
        "-m",
        "fedsim.cli",
        "run",
        str(scenario),
        "--out",
        str(out),
        "--quiet",
        "--no-pictures",
        *words,
    ]


def started(scenario: Path, out: Path, *words: str, **options) -> subprocess.Popen:
    """`fedsim run` on its way."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(scenario, out, *words), stdout=pipe, stderr=pipe, text=True, **options
    )


def finished(scenario: Path, out: Path, *words: str, **options) -> subprocess.CompletedProcess:
    """`fedsim run` to its end."""
    return subprocess.run(command(scenario, out, *words), capture_output=True, text=True, **options)


def commits(out: Path) -> set[str]:
    """The commits that are there now."""
    return {str(path.relative_to(out)) for path in out.glob("checkpoints/*/state-*.ckpt")}


def wait_for_commit(
    process: subprocess.Popen, out: Path, beside: set[str], seconds: float = 60
) -> bool:
    """Wait until a commit appears that was not there before -> whether one did before the process ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if commits(out) - beside:
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.005)
    raise AssertionError(f"no commit within {seconds} s")

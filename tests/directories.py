"""Run directories to break: tiny scenarios, what must be equal, and the command in a process."""

import hashlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

import fedsim
from fedsim.disk.checkpoint import decode
from fedsim.runs import directory

TABLES = ("rounds.csv", "clients.csv", "partition.csv", "summary.csv")


def tiny(resident_mb: float = 256.0, **sections) -> dict:
    """Three rounds, two seeds, a commit after every round; clients have memory (SCAFFOLD)."""
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
    """SHA-256 by name of the files that are equal in the directories of two equal runs."""
    names = (*TABLES, *sorted(path.name for path in folder.glob("model.*")))
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def contents(folder: Path) -> dict[str, bytes]:
    """All files in a folder, by their paths in it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def rehashed(folder: Path, **changes: Any) -> None:
    """Write the record of a run again, changed, with hashes that fit its files."""
    record = directory.read_record(folder)
    directory.write_record(folder, {**record, **changes, "files": directory.hashes(folder)})


def leftovers(folder: Path) -> list[str]:
    """The files that no run may leave behind."""
    names = [path.name for path in folder.rglob("*")]
    return [name for name in names if name == ".lock" or name.endswith(".tmp")]


def whole(folder: Path, expected: dict[str, str]) -> None:
    """Assert that a run finished with these bits, with valid commits and no leftovers."""
    assert bits(folder) == expected
    assert leftovers(folder) == []
    assert all(len(list(seed.glob("state-*"))) <= 2 for seed in folder.glob("checkpoints/*"))
    commits_in_order = sorted(folder.glob("checkpoints/*/state-*.ckpt"))
    for newest in {path.parent: path for path in commits_in_order}.values():
        log = decode(newest.read_bytes()).values["log"]
        text = (newest.parent / "log.jsonl").read_bytes()
        assert (log["length"], log["sha256"]) == (len(text), hashlib.sha256(text).hexdigest())


def played(scenario: dict, folder: Path, **options) -> dict[str, str]:
    """Run undisturbed; return the bits."""
    fedsim.run(scenario, out=folder, **options)
    return bits(folder)


def written(scenario: dict, path: Path) -> Path:
    """Write the scenario to a file."""
    path.write_text(yaml.safe_dump(scenario, sort_keys=False))
    return path


def command(scenario: Path, out: Path, *words: str) -> list[str]:
    """The command line of `fedsim run`."""
    run = [sys.executable, "-m", "fedsim.cli", "run", str(scenario), "--out", str(out)]
    return [*run, "--quiet", "--no-pictures", *words]


def started(scenario: Path, out: Path, *words: str, **options) -> subprocess.Popen:
    """Start `fedsim run`."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(scenario, out, *words), stdout=pipe, stderr=pipe, text=True, **options
    )


def finished(scenario: Path, out: Path, *words: str, **options) -> subprocess.CompletedProcess:
    """Run `fedsim run` to its end."""
    return subprocess.run(command(scenario, out, *words), capture_output=True, text=True, **options)


def commits(out: Path) -> set[str]:
    """The current commits."""
    return {str(path.relative_to(out)) for path in out.glob("checkpoints/*/state-*.ckpt")}


def wait_for_commit(
    process: subprocess.Popen, out: Path, earlier: set[str], seconds: float = 60
) -> bool:
    """Wait for a commit that is not among the earlier ones; False if the process ends before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if commits(out) - earlier:
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.005)
    raise AssertionError(f"no commit within {seconds} s")


def files_of(path: Path) -> dict:
    """Tables and models of a run directory, as bytes, and the arrays of its last commits."""
    files = {
        file.name: file.read_bytes()
        for file in [*path.glob("model*"), *path.glob("*.csv")]
        if file.stem != "timing"
    }
    for folder in sorted((path / "checkpoints").iterdir()):
        last_commit = sorted(folder.glob("state-*.ckpt"))[-1]
        arrays = decode(last_commit.read_bytes()).arrays
        assert any(name.startswith("plan.") for name in arrays)
        files[folder.name] = {name: leaf.tobytes() for name, leaf in arrays.items()}
    assert files.keys() > {*TABLES}
    return files

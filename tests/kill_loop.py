"""Kill runs with SIGKILL at random times and resume them: they end with the same bytes."""

import random
import time
from pathlib import Path
from typing import NamedTuple

from directories import commits, finished, started, tiny, wait_for_commit, whole

CNN = {"kind": "cnn", "channels": [4, 8], "hidden": 16}
UNIFORM = [{"kind": "mean", "weights": "uniform"}]
DIANA = {"kind": "diana", "alpha": 0.1, "codec": {"kind": "rand_k", "density": 0.1}}
FEEDBACK = {"kind": "error_feedback", "codec": {"kind": "top_k", "density": 0.1}}
SPEEDS = {"speed": {"kind": "lognormal", "sigma": 0.5}, "dropout": 0.1}
ADAM = ["mean", {"kind": "adam", "lr": 0.01}]
SCENARIOS = {
    "fedavg_cnn": {"method": None, "model": CNN, "server": ADAM, "rounds": 60},
    "full_batch": {
        "method": None,
        "model": {"kind": "mlp", "hidden": [16]},
        "client": {"batch": "full", "steps": 2},
    },
    "scaffold": {"rounds": 150},
    "median": {"method": None, "server": ["median"], "wire": [{"kind": "gaussian", "std": 0.1}]},
    "fedbuff": {
        "method": None,
        "fleet": SPEEDS,
        "schedule": {"kind": "fedbuff", "buffer": 4, "concurrency": 8},
        "server": UNIFORM,
    },
    "oort_diana": {
        "method": None,
        "fleet": SPEEDS,
        "cohort": {"kind": "oort", "size": 4},
        "wire": [DIANA],
        "server": UNIFORM,
    },
    "divfl_error_feedback": {
        "method": None,
        "cohort": {"kind": "divfl", "size": 4, "candidates": 8},
        "broadcast": ["cast"],
        "wire": [FEEDBACK],
    },
    "private": {
        "method": None,
        "cohort": {"kind": "cyclic", "size": 4},
        "privacy": {
            "clip": {"kind": "adaptive", "count_std": 1.0},
            "noise_multiplier": 1.0,
            "delta": 1e-5,
            "mechanism": {"kind": "banded", "bands": 2},
        },
    },
    "dp_sgd": {
        "method": None,
        "client": {"batch": 4, "dp_sgd": {"clip": 0.5, "noise_multiplier": 1.0}},
        "rounds": 60,
    },
    "ring": {"method": "exact_diffusion", "cohort": None, "topology": "ring"},
    "edges": {
        "method": None,
        "topology": {
            "kind": "hierarchical",
            "groups": 3,
            "edge_rounds": 2,
            "outer": ["mean", {"kind": "fedadam", "lr": 0.01}],
        },
    },
    "ditto": {"method": "ditto"},
    "fedpac": {
        "method": "fedpac",
        "model": {"kind": "mlp", "hidden": [16]},
        "checkpoint": {"rounds": 1},
    },
    "resnet": {"method": None, "model": {"kind": "resnet", "depth": 8}, "rounds": 20},
}


class Tally(NamedTuple):
    """What happened to one scenario."""

    runs: int
    kills: int
    starting: int  # of them, before anything was committed by that process
    seconds: float


def scenario(name: str, rounds: int | None = None) -> dict:
    """The scenario; memory of clients in a file."""
    merged = tiny(0.0, **{"rounds": 150, **SCENARIOS[name]})
    kept = {key: value for key, value in merged.items() if value is not None}
    return kept | ({"rounds": rounds} if rounds else {})


def kill_loop(
    written_: Path,
    folder: Path,
    expected: dict,
    kills: int,
    rng: random.Random,
    start=0.2,
    span=1.0,
    soon=4.0,
) -> Tally:
    """Run, kill, resume ... until so many kills happened and the last run has ended.

    Args:
      written_: the scenario's file.
      folder: for run directories.
      expected: the bits.
      kills: how many.
      rng: of the moments.
      start: share of kills that may come at any time, startup included; others follow a commit.
      span: longest time in seconds between that commit and the kill.
      soon: longest time between the start of a process and a kill that may come at any time.
    """
    began, runs, done, starting = time.monotonic(), 0, 0, 0
    while done < kills:
        out, runs = folder / str(runs), runs + 1
        while True:
            beside = commits(out)
            process = started(written_, out, "--resume")
            if done >= kills:
                said = process.communicate()[1]
                assert process.returncode == 0, said
                break
            early = rng.random() < start
            if early or wait_for_commit(process, out, beside):
                time.sleep(rng.uniform(0, soon) if early else rng.uniform(0, span))
            process.kill()
            said = process.communicate()[1]
            if process.returncode == 0:
                break
            assert process.returncode == -9, said
            done, starting = done + 1, starting + (commits(out) <= beside)
        assert finished(written_, out, "--resume").returncode == 0
        whole(out, expected)
    return Tally(runs, done, starting, time.monotonic() - began)

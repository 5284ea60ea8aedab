"""Rows 4 and 9: runs are killed, or their commits are damaged."""

import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from damage import killed_run, trials
from directories import bits, commits, finished, started, tiny, wait_for_commit, whole, written

from trust.table import Figure

CNN = {"kind": "cnn", "channels": [4, 8], "hidden": 16}
UNIFORM = [{"kind": "mean", "weights": "uniform"}]
DIANA = {"kind": "diana", "alpha": 0.1, "codec": {"kind": "rand_k", "density": 0.1}}
FEEDBACK = {"kind": "error_feedback", "codec": {"kind": "top_k", "density": 0.1}}
SPEEDS = {"speed": {"kind": "lognormal", "sigma": 0.5}, "dropout": 0.1}
ADAM = ["mean", {"kind": "adam", "lr": 0.01}]
MLP = {"kind": "mlp", "hidden": [16]}
BUFFERED = {"kind": "fedbuff", "buffer": 4, "concurrency": 8}
PRIVATE = {
    "clip": {"kind": "adaptive", "count_std": 1.0},
    "noise_multiplier": 1.0,
    "delta": 1e-5,
    "mechanism": {"kind": "banded", "bands": 2},
}
NOISY = {"batch": 4, "dp_sgd": {"clip": 0.5, "noise_multiplier": 1.0}}
OUTER = ["mean", "fedadam(lr=0.01)"]
EDGES = {"kind": "hierarchical", "groups": 3, "edge_rounds": 2, "outer": OUTER}
FEDAVG = {"method": None}  # that of `tiny` is scaffold
SCENARIOS = {
    "fedavg_cnn": {**FEDAVG, "model": CNN, "server": ADAM, "rounds": 60},
    "full_batch": {**FEDAVG, "model": MLP, "client": {"batch": "full", "steps": 2}},
    "scaffold": {"rounds": 150},
    "median": {**FEDAVG, "server": ["median"], "wire": [{"kind": "gaussian", "std": 0.1}]},
    "fedbuff": {**FEDAVG, "fleet": SPEEDS, "schedule": BUFFERED, "server": UNIFORM},
    "oort_diana": {
        **FEDAVG,
        "fleet": SPEEDS,
        "cohort": "oort(size=4)",
        "wire": [DIANA],
        "server": UNIFORM,
    },
    "divfl_error_feedback": {
        **FEDAVG,
        "cohort": {"kind": "divfl", "size": 4, "candidates": 8},
        "broadcast": ["cast"],
        "wire": [FEEDBACK],
    },
    "private": {**FEDAVG, "cohort": {"kind": "cyclic", "size": 4}, "privacy": PRIVATE},
    "dp_sgd": {**FEDAVG, "client": NOISY, "rounds": 60},
    "ring": {"method": "exact_diffusion", "cohort": None, "topology": "ring"},
    "edges": {**FEDAVG, "topology": EDGES},
    "ditto": {"method": "ditto"},
    "fedpac": {"method": "fedpac", "model": MLP, "checkpoint": {"rounds": 1}},
    "resnet": {**FEDAVG, "model": {"kind": "resnet", "depth": 8}, "rounds": 20},
}
# Of the kills, so many may come at any time, startup included; the others follow a commit.
AT_ANY_TIME = 0.2
SECONDS_AFTER_COMMIT = 1.0  # at most
SECONDS_AFTER_START = 4.0  # at most


class Tally(NamedTuple):
    """What happened to one scenario."""

    runs: int
    kills: int
    starting: int  # of them, before anything was committed by that process


def scenario(name: str, rounds: int | None) -> dict:
    """The scenario; memory of clients in a file."""
    merged = tiny(0.0, **{"rounds": 150, **SCENARIOS[name]})
    kept = {key: value for key, value in merged.items() if value is not None}
    return kept | ({"rounds": rounds} if rounds else {})


def killed(quick: bool) -> Figure:
    """Kill runs at random times."""
    names = ["full_batch"] if quick else list(SCENARIOS)
    tallies = []
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            file = written(scenario(name, 60 if quick else None), Path(place) / "scenario.yaml")
            assert finished(file, Path(place) / "whole").returncode == 0
            expected = bits(Path(place) / "whole")
            tally = kill_loop(file, Path(place), expected, 3 if quick else 25, random.Random(4))
        tallies.append(tally)
        print(f"  {name}: {tally}", flush=True)
    runs, kills, starting = map(sum, zip(*tallies, strict=True))
    text = (
        f"{kills} SIGKILLs at random times over {runs} runs of {', '.join(names)} "
        f"({starting} before the first commit of that process): "
        "all ended with equal bytes, no row lost or doubled"
    )
    return Figure(text, quick or kills >= 300)


def kill_loop(file: Path, folder: Path, expected: dict, kills: int, rng: random.Random) -> Tally:
    """Run, kill, resume ... until so many kills happened and the last run has ended.

    Args:
      file: the scenario's file.
      folder: for run directories.
      expected: the bits.
      kills: how many.
      rng: of the moments.
    """
    runs, done, starting = 0, 0, 0
    while done < kills:
        out, runs = folder / str(runs), runs + 1
        while True:
            beside = commits(out)
            process = started(file, out, "--resume")
            if done >= kills:
                said = process.communicate()[1]
                assert process.returncode == 0, said
                break
            early = rng.random() < AT_ANY_TIME
            if early or wait_for_commit(process, out, beside):
                time.sleep(rng.uniform(0, SECONDS_AFTER_START if early else SECONDS_AFTER_COMMIT))
            process.kill()
            said = process.communicate()[1]
            if process.returncode == 0:
                break
            assert process.returncode == -9, said
            done, starting = done + 1, starting + (commits(out) <= beside)
        assert finished(file, out, "--resume").returncode == 0
        whole(out, expected)
    return Tally(runs, done, starting)


def damaged(quick: bool) -> Figure:
    """Flip, cut, splice and exchange the files of a killed run, and resume it."""
    count, began = 30 if quick else 10_000, time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        template, scratch = Path(place) / "template", Path(place) / "copy"
        expected = killed_run(template)
        seen = Counter(came for _, came in trials(template, expected, scratch, 9, count))
    print(f"  {time.monotonic() - began:.0f} s", flush=True)
    text = (
        f"{count:,} damaged: {seen['refused']:,} refused, {seen['equal, warned']:,} resumed from "
        f"the commit before to equal bytes, {seen['equal']:,} harmless (equal bytes), "
        "0 silently different"
    )
    return Figure(text, seen.total() == count)

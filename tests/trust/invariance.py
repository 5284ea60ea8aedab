"""Row 2: a run's bytes do not depend on the process or the layout."""

import hashlib
import json
import random
import tempfile
from pathlib import Path

import companions
import jax
import numpy as np
import workloads

from trust import in_process
from trust.table import Figure

# Workloads of the matrix: methods and rules; schedules; codecs with memory; cohorts with feedback;
# private runs; personal models; larger models.
CELLS = (
    *("full_batch", "scaffold", "median", "mime"),
    *("fedbuff", "semi_sync"),
    *("codec", "diana"),
    *("oort", "divfl"),
    *("private", "dp_sgd"),
    "ditto",
    *("transformer", "resnet", "lora"),
)
PROCESSES = ((1, 1), (2, 1), (1, 2), (2, 4))  # cores, devices
SAME = ("round", "bytes_up", "bytes_down", "virtual_seconds", "test_loss", "test_accuracy")
EDITS = {
    "block": [f"numerics.block={n}" for n in (3, 5, 7, 10)],
    "samples": ["data.resident_mb=0"],
    "memory": ["checkpoint.resident_mb=0"],
    "metrics": [
        *("evaluate.diagnostics=true", "evaluate.last=1"),
        *("evaluate.every=2", "evaluate.every=5"),
    ],
    "company": ["seeds=[0, 3]", "seeds=[5, 0, 9]", "seeds=2"],
    "commits": ["checkpoint.rounds=1", "checkpoint.rounds=4"],
}


def elsewhere(code: str, cores: int, devices: int, hash_seed: int, *words: str) -> dict | list:
    """Run code in a process with so many cores and devices; return the JSON that it prints."""
    return in_process(
        f"import os; os.sched_setaffinity(0, range({cores}))\n{code}",
        *words,
        PYTHONHASHSEED=str(hash_seed),
        XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}",
    )


def digest(result, seed: int = 0) -> str:
    """Hash the final parameters of a seed, its clients' table, and the last row of its rounds."""
    hasher = hashlib.sha256()
    for leaf in jax.tree.leaves(result.model(seed=seed)):
        hasher.update(np.asarray(leaf).tobytes())
    last = result.rounds[result.rounds["seed"] == seed].iloc[-1]
    hasher.update(repr([float(last[name]) for name in SAME]).encode())
    clients = result.clients[result.clients["seed"] == seed].reset_index(drop=True)
    hasher.update(clients.to_csv(index=False).encode())
    return hasher.hexdigest()


def cell(rng: random.Random) -> dict:
    """Draw a cell of the matrix."""
    edits = [rng.choice(EDITS[name]) for name in EDITS if rng.random() < 0.4]
    return {
        "name": rng.choice(CELLS),
        "edits": edits,
        "calls": rng.choice([None, 1, 2, 3, 50]),
        "pack": rng.choice([None, rng.randrange(1000)]),
        "x64": rng.random() < 0.25,
        "out": rng.random() < 0.3,
    }


def packed(seed: int):
    """Return a packer that puts clients onto lanes at random."""

    def pack(steps, lanes):
        order = np.random.default_rng(seed).permutation(np.flatnonzero(steps))
        return [[int(slot) for slot in order[i::lanes]] for i in range(lanes)]

    return pack


def played(asked: dict) -> str:
    """Run a cell; return its digest."""
    options = {"calls": asked["calls"]} if asked["calls"] else {}
    if asked["pack"] is not None:
        options["pack"] = packed(asked["pack"])
    with tempfile.TemporaryDirectory() as folder, jax.enable_x64(asked["x64"]):
        if asked["out"]:
            options |= {"out": Path(folder) / "run", "pictures": False}
        return digest(workloads.run(asked["name"], asked["edits"], **options))


def layouts(quick: bool) -> Figure:
    """Run random cells, a share of them in each kind of process; and runs beside others."""
    rng, count = random.Random(2), 8 if quick else 200
    cells = [cell(rng) for _ in range(count)]
    expected = {name: digest(workloads.run(name)) for name in CELLS}
    code = "import sys, json\nfrom trust.invariance import played\n"
    code += "print(json.dumps([played(cell) for cell in json.loads(sys.argv[1])]))"
    wrong = []
    for number, (cores, devices) in enumerate(PROCESSES):
        share = cells[number :: len(PROCESSES)]
        digests = elsewhere(code, cores, devices, number, json.dumps(share))
        pairs = zip(share, digests, strict=True)
        different = [cell for cell, found in pairs if found != expected[cell["name"]]]
        wrong += different
        where = f"{cores} cores, {devices} devices"
        print(f"  {where}: {len(share)} cells, {different} differ", flush=True)
    axes = list(companions.AXES)[: 1 if quick else None]
    beside = {}
    for axis in axes:
        with tempfile.TemporaryDirectory() as folder:
            if ways := companions.differing(axis, Path(folder)):
                beside[axis] = ways
    equal = count - len(wrong)
    text = (
        f"{equal} of {count} random cells of {len(CELLS)} workloads equal ({', '.join(CELLS)}; "
        "1 or 2 cores with threads recorded, 1, 2 or 4 devices, blocks, calls per round, packing, "
        "samples and client memory on the host or in a file, metrics, further seeds, commits, "
        f"x64 of the host); {len(axes) - len(beside)} of {len(axes)} axes of comparisons equal "
        f"({', '.join(axes)}; alone, beside larger and smaller runs, with 2 processes, added later)"
    )
    if beside:
        text += f": {beside}"
    return Figure(text, not wrong and not beside and (quick or count >= 200))

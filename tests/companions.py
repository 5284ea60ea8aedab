"""Whether a run has the same bytes beside any other: a module for tests and row 2 of TRUST.md."""

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fedsim
from fedsim.runs.filenames import label_of

# Written widths let cells share a program wherever that is possible at all.
SCENARIO = {
    "name": "beside",
    "rounds": 2,
    "seeds": 2,
    "data": {"kind": "digits", "clients": 12, "partition": {"kind": "dirichlet", "alpha": 0.3}},
    "model": {"kind": "mlp", "hidden": [16]},
    "cohort": {"kind": "uniform", "size": 6},
    "client": {"lr": 0.1, "batch": 16, "epochs": 2},
    "numerics": {"lanes": 2, "block": 3, "threads": 4},
}
SKEWED = {"kind": "dirichlet", "alpha": 0.3}
BUFFERED = {"kind": "fedbuff", "buffer": 3, "concurrency": 6}
# axis -> (path, a value, and other ones that take more and less)
AXES: dict[str, tuple[str, list[Any]]] = {
    "batch": ("client.batch", [16, "full", 8]),
    "epochs": ("client.epochs", [2, 4, 1]),
    "steps": ("client.steps", [4, 9, 2]),
    "cohort": ("cohort.size", [6, 11, 2]),
    "draws": ("cohort", [{"kind": "poisson", "rate": 0.5}, "all", {"kind": "cyclic", "size": 2}]),
    "model": ("model.hidden", [[16], [32], [8]]),
    "rule": ("server", [["mean"], [{"kind": "krum", "f": 1}], ["median"]]),
    "method": ("methods", ["fedavg", "scaffold", "fedadam(lr=0.05)"]),
    "optimizer": ("client.optimizer", ["sgd", "adam"]),
    "dtype": ("numerics.dtype", ["float32", "float64"]),
    "clients": ("data.clients", [12, 24, 6]),
    "partition": ("data.partition", [SKEWED, {"kind": "iid"}, {"kind": "shards"}]),
    "test set": ("data.test", [0.2, 0.5, 0.1]),
    "schedule": ("schedule", [{"kind": "sync"}, {**BUFFERED, "buffer": 5}, BUFFERED]),
    "rounds": ("rounds", [2, 4, 1]),
    "evaluation": ("evaluate.every", [2, 3, 1]),
    "diagnostics": ("evaluate.diagnostics", [False, True]),
    "samples": ("data.resident_mb", [1, 100, 0]),
}


def differing(axis: str, folder: Path, most: int | None = None) -> list[str]:
    """Compare values of an axis, at most so many -> the ways in which a file of a run differs.

    Each value alone is what the others have to equal: all values beside one another, in two
    processes, and the first value added to the others, which have ended.
    """
    path, values = AXES[axis]
    values = values[:most]
    expected = {}
    for number, value in enumerate(values):
        expected |= _compared(folder / f"alone-{number}", path, [value])

    others = values[1:]
    _compared(folder / "later", path, others)
    found = {
        "beside": _compared(folder / "beside", path, values),
        "two processes": _compared(folder / "jobs", path, values, jobs=2),
        "added later": _compared(folder / "later", path, [*others, values[0]], resume=True),
    }
    return [way for way, files in found.items() if files != expected]


def _compared(out: Path, path: str, values: Sequence[Any], **options: Any) -> dict[str, Any]:
    """Compare methods, or the values of a path -> what `_files_of` returns, by configuration."""
    methods = ["fedavg"]
    vary = {path: values}
    if path == "methods":
        methods, vary = list(values), {}
    comparison = fedsim.compare(SCENARIO, methods, vary=vary, out=out, pictures=False, **options)
    assert comparison.status == "done"
    cells = [outcome.cell.key_columns for outcome in comparison.outcomes]
    return {label_of(who): _files_of(out, who) for who in cells}


def _files_of(out: Path, who: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of what the runs of a configuration have in the files of a comparison."""
    files = {}
    for table in ("rounds", "clients", "partition", "summary"):
        rows = []
        with (out / f"{table}.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                if _is_of(row, who):  # columns that only others fill are empty
                    rows.append({name: value for name, value in row.items() if value})
        assert rows
        files[table] = hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    name = json.loads((out / "run.json").read_text())["names"][label_of(who)]
    for seed in (0, 1):
        model = out / f"model.{name}.{seed}.safetensors"
        files[model.name] = hashlib.sha256(model.read_bytes()).hexdigest()
    return files


def _is_of(row: Mapping[str, str], who: Mapping[str, Any]) -> bool:
    """Whether a row of a table is of a configuration; that of a partition names no method."""
    return all(
        row.get(name, who[name]) == who[name] for name in ("method", "variant") if name in who
    )

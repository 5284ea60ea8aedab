"""Rows 18 and 21: the record of a run is complete, and tables read back as they were written."""

import csv
import math
import re
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fedsim
from fedsim.disk import tables as frames
from trust.table import Figure

BASE = {
    "name": "tables",
    "rounds": 4,
    "seeds": [0, 3],
    "data": {
        "kind": "digits",
        "clients": 20,
        "partition": {"kind": "dirichlet", "alpha": 0.2},
        "validation": 0.1,
    },
    "cohort": {"kind": "uniform", "size": 5},
    "client": {"lr": 0.1, "batch": 16, "epochs": 1},
    "evaluate": {"diagnostics": True, "target": 0.5},
}
METHODS = ["fedavg", "fedprox(mu=0.1)", "trimmed_mean(trim=1)", "krum(f=1)"]
RECORDED = {
    "status", "scenario", "method", "hashes.scenario", "hashes.data", "hashes.partition",
    "hashes.start", "lanes", "block", "environment.fedsim", "environment.jax", "environment.jaxlib",
    "environment.numpy", "environment.optax", "environment.backend", "environment.device",
    "environment.machine", "environment.instructions", "environment.threads",
    "environment.xla_flags", "surroundings.python", "surroundings.pandas", "surroundings.platform",
    "surroundings.cores", "surroundings.flags", "surroundings.command", "scenario.seeds",
    "scenario.numerics.dtype", "scenario.numerics.lanes", "started", "wall_seconds", "files",
    "sha256",
}  # fmt: skip
CLOCK = re.compile(r"\b(19|20)\d\d-\d\d-\d\d|\b\d\d:\d\d:\d\d\b|\b1[6-9]\d{8}(\.\d+)?\b")


def tables() -> Iterator[tuple[str, list[dict], list[str], str]]:
    """Yield every kind of table, of a run and of comparisons: name, rows, columns, text."""
    compared = {"methods": METHODS, "vary": {"client.lr": [0.05, 0.1]}}
    tuned = {"methods": METHODS[:2], "tune": {"client.lr": [0.05, 0.1]}}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = {
            "run": fedsim.run(BASE, out=folder / "run", pictures=False),
            "compare": fedsim.compare(BASE, out=folder / "compare", pictures=False, **compared),
            "tune": fedsim.compare(BASE, out=folder / "tune", pictures=False, **tuned),
        }
        for kind, result in made.items():
            for file in sorted((folder / kind).glob("*.csv")):
                order = (
                    result.order(file.stem) if hasattr(result, "order") else frames_of(file.stem)
                )
                rows = list(frames.unstacked(result.records[file.stem]))
                yield (
                    f"{kind}/{file.name}",
                    rows,
                    frames.columns(result.records[file.stem], order),
                    file.read_text(),
                )


def frames_of(name: str) -> tuple[str, ...]:
    """Columns of a run's table."""
    return getattr(frames, name.upper())


def differing(rows: list[dict], columns: list[str], text: str) -> tuple[int, int]:
    """Count a table's cells, and those that csv, pandas or its `round_trip` read wrongly."""
    lines = list(csv.reader(text.splitlines(keepends=True)))
    ways: list[list[list[Any]]] = [lines[1:]]
    for options in ({}, {"float_precision": "round_trip"}):
        with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
            file.write(text)
            file.flush()
            ways.append(pd.read_csv(file.name, **options).astype(object).values.tolist())
    cells = wrong = 0
    assert lines[0] == columns and all(len(way) == len(rows) for way in ways)
    for n, row in enumerate(rows):
        for k, name in enumerate(columns):
            cells += len(ways)
            wrong += sum(not same(row.get(name), way[n][k]) for way in ways)
    return cells, wrong


def same(written: Any, read: Any) -> bool:
    """Whether a cell is what was written: a bit-equal float (any NaN), number, text or nothing."""
    missing = read == "" or (isinstance(read, float) and math.isnan(read))
    if written is None:
        return missing
    if isinstance(written, float) and math.isnan(written):
        return math.isnan(float(read)) if read != "" else False
    if isinstance(written, float):
        return struct.pack("<d", float(read)) == struct.pack("<d", written)
    if isinstance(written, str):
        return missing if written == "" else read == frames.inert(written)
    return not missing and float(read) == written


def odd_floats(count: int) -> list[dict]:
    """Draw doubles of any bit pattern, after some extremes."""
    drawn = np.random.default_rng(21).integers(0, 2**64, count, np.uint64).view(np.float64)
    edges = [
        0.0,
        -0.0,
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        math.inf,
        -math.inf,
        math.nan,
        0.1,
        1e16,
    ]
    return [{"value": float(value)} for value in [*edges, *drawn]]


def round_trip(quick: bool) -> Figure:
    """Check tables of a run, of a comparison over variations and of a tuned one, and odd floats."""
    cells = wrong = 0
    counts = {name: differing(rows, columns, text) for name, rows, columns, text in tables()}
    for name, (many, bad) in counts.items():
        cells += many
        wrong += bad
        print(f"  {name}: {many} cells, {bad} differ", flush=True)
    odd = odd_floats(1000 if quick else 100_000)
    many, bad = differing(odd, ["value"], frames.to_csv(odd, ["value"]))
    text = (
        f"{len(counts)} tables, {cells:,} cells read by the csv module, pandas {pd.__version__}, "
        f"and pandas with round_trip: {wrong} differ; {len(odd):,} doubles of any bits "
        f"(denormal, infinite, -0): {bad} of {many:,} differ"
    )
    return Figure(text, wrong == bad == 0)


def recorded(quick: bool) -> Figure:
    """Compare the same run with itself, some seconds apart."""
    del quick
    with tempfile.TemporaryDirectory() as place:
        outs = [Path(place) / name for name in ("one", "other")]
        for out in outs:
            fedsim.run(BASE, out=out, pictures=False)
            time.sleep(1.1)
        record = fedsim.runs.directory.read_record(outs[0]) or {}
        missing = [path for path in sorted(RECORDED) if not _has(record, path)]
        results = [
            p for p in sorted(outs[0].iterdir()) if p.suffix in (".csv", ".safetensors", ".yaml")
        ]
        results = [p for p in results if p.stem != "timing"]
        changed = [p.name for p in results if p.read_bytes() != (outs[1] / p.name).read_bytes()]
        clocks = [p.name for p in results if p.suffix == ".csv" and CLOCK.search(p.read_text())]
        equal = fedsim.diff(*outs).equal
    which = f" (missing: {missing})" if missing else ""
    text = (
        f"{len(RECORDED) - len(missing)} of {len(RECORDED)} fields in run.json{which}; "
        f"{len(results)} result files of two runs: {len(changed)} differ, "
        f"{len(clocks)} hold a time of day; fedsim.diff: {'equal' if equal else 'different'}"
    )
    return Figure(text, not missing and not changed and not clocks and bool(equal))


def _has(record: dict, path: str) -> bool:
    value: Any = record
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True

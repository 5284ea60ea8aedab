"""What `fedsim bench` writes: `bench.csv`, and `bench.json` with the machine it was measured on."""

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import jax

from fedsim.bench.rules import bench_rules
from fedsim.bench.workload import bench
from fedsim.disk import files, tables
from fedsim.disk.tables import Record
from fedsim.errors import DirectoryError
from fedsim.runs.environment import numerical, surroundings
from fedsim.scenario import read
from fedsim.scenario.shipped import shipped

OVER = {"least": min, "most": max, "compile_seconds": max, "peak_bytes": min}  # several passes; of the rest the median


def measured(
    scenarios: Sequence[str], edits: tuple[str, ...], out: Path, say: Callable[[str], None], times: int = 1
) -> list[Record]:
    """Measure scenarios (none: those of `scenarios/bench`, and the rules) -> records, also written to a folder.

    Args:
      scenarios: files.
      edits: as of `--set`.
      out: the folder.
      say: called with what is measured next.
      times: measure everything so often and give medians.

    Raises:
      ScenarioError: for a scenario that cannot run as written.
      DirectoryError: when the folder cannot be written.
    """
    files.make_folder(out)
    chosen = scenarios or [str(file) for name, file in shipped().items() if name.startswith("bench/")]
    if not chosen:
        raise DirectoryError("scenarios/bench: does not come with this installation; name a scenario")
    runs = []
    for _ in range(times):
        runs.append([record for path in chosen for record in bench(read(path, edits), say)])
        if not scenarios:
            runs[-1] += bench_rules(say)
    records = [_median(same) for same in zip(*runs, strict=True)]
    files.write(out / "bench.csv", tables.to_csv(records, tables.BENCH))
    machine = {"environment": numerical(jax.devices()), "surroundings": surroundings(jax.devices())}
    files.write(out / "bench.json", json.dumps({"records": records, **machine}, indent=2) + "\n")
    return records


def _median(records: Sequence[Record]) -> Record:
    """Of one measurement made several times: medians, the range over all of them, and what is no number as it is.

    Compiling counts the first time, and so does memory: later ones find the programs, and the memory of other workloads.
    """
    done = {}
    for name, value in records[0].items():
        values = [record[name] for record in records]
        of = OVER.get(name, statistics.median)
        done[name] = of(values) if isinstance(value, int | float) else value
    return done

"""What `fedsim bench` writes: `bench.csv`, and `bench.json` with the machine it was measured on."""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import jax

from fedsim.bench.codecs import bench_codecs
from fedsim.bench.rules import bench_rules
from fedsim.bench.workload import bench
from fedsim.disk import files, tables
from fedsim.disk.tables import Record
from fedsim.errors import DirectoryError
from fedsim.runs.environment import numerical, surroundings
from fedsim.scenario import read
from fedsim.scenario.shipped import shipped

OVER = {
    "least": min,
    "most": max,
    "compile_seconds": max,
    "peak_bytes": min,
}  # several passes; of the rest the median


def measured(
    what: Sequence[str],
    edits: tuple[str, ...],
    out: Path,
    say: Callable[[str], None],
    times: int = 1,
) -> list[Record]:
    """Measure scenarios, rules and codecs -> records, also written to a folder.

    Args:
      what: files of scenarios, `rules`, `codecs`; none: the scenarios of `scenarios/bench`, and the rules.
      edits: as of `--set`.
      out: the folder.
      say: called with what is measured next.
      times: measure everything so often and give medians.

    Raises:
      ScenarioError: for a scenario that cannot run as written.
      DirectoryError: when the folder cannot be written.
    """
    files.make_folder(out)
    ours = {name: str(file) for name, file in shipped().items() if name.startswith("bench/")}
    if not ours and (not what or "codecs" in what):
        raise DirectoryError(
            "scenarios/bench: does not come with this installation; name a scenario"
        )
    chosen = what or [*ours.values(), "rules"]
    runs = [
        [record for one in chosen for record in _records(one, edits, ours, say)]
        for _ in range(times)
    ]
    records = [_median(same) for same in zip(*runs, strict=True)]
    files.write(out / "bench.csv", tables.to_csv(records, tables.BENCH))
    machine = {"environment": numerical(jax.devices()), "surroundings": surroundings(jax.devices())}
    files.write(out / "bench.json", json.dumps({"records": records, **machine}, indent=2) + "\n")
    return records


def _records(
    one: str, edits: tuple[str, ...], ours: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[Record]:
    """Of a scenario, of the rules or of the codecs."""
    if one == "rules":
        return bench_rules(say)
    if one == "codecs":
        return bench_codecs(read(ours["bench/w1"], edits), say)
    return bench(read(one, edits), say)


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

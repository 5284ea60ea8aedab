"""What `fedsim doctor --bench` writes: `bench.csv`, and `bench.json` with the machine it ran on."""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from fedsim.disk import files
from fedsim.disk.tables import Record, to_csv
from fedsim.errors import DirectoryError
from fedsim.runs.directory import open_output_folder
from fedsim.runs.environment import numerical, surroundings
from fedsim.scenario import read
from fedsim.scenario.shipped import shipped
from fedsim.tools.bench.codecs import bench_codecs
from fedsim.tools.bench.columns import TABLES
from fedsim.tools.bench.growth import bench_growth
from fedsim.tools.bench.peer_rounds import bench_rounds, players
from fedsim.tools.bench.peers import Peer
from fedsim.tools.bench.rules import bench_rules
from fedsim.tools.bench.timing import Announce
from fedsim.tools.bench.workload import bench

TABLE = "bench.csv"
RECORDS = "bench.json"

# column -> how several measurements become one; for all other numbers, the median.
#
# Compiling counts the first time, and so does memory: later measurements find the programs
# compiled, and the memory of other workloads in use.
COMBINED: dict[str, Callable[[Sequence[Any]], Any]] = {
    "least": min,
    "most": max,
    "compile_seconds": max,
    "peak_bytes": min,
}


def measured(
    workloads: Sequence[str],
    edits: tuple[str, ...],
    out: Path,
    say: Announce,
    times: int = 1,
    peers: Sequence[Peer] = (),
    force: bool = False,
) -> list[Record]:
    """Measure scenarios, rules, codecs and growth, and write the records to a folder.

    Args:
      workloads: files of scenarios, `rules`, `codecs`, `growth`; empty: W1 to W3 of
        `scenarios/bench`, and the rules.
      edits: edits as of `--set`.
      out: the folder.
      say: called with what is measured next.
      times: how often everything is measured, of which the medians count.
      peers: other libraries that do the same.
      force: replace earlier records in the folder.

    Returns:
      The records.

    Raises:
      ScenarioError: for a scenario that cannot run as written.
      DirectoryError: when the folder cannot be written, or earlier records may not be replaced.
      LockedError: when another process is writing there.
    """
    with open_output_folder(out, (TABLE, RECORDS), force):
        records = _medians(workloads, edits, say, times, peers)
        devices = jax.devices()
        machine = {"environment": numerical(devices), "surroundings": surroundings(devices)}
        files.write(out / TABLE, to_csv(records, TABLES[TABLE]))
        files.write(out / RECORDS, json.dumps({"records": records, **machine}, indent=2) + "\n")
    return records


def _medians(
    workloads: Sequence[str],
    edits: tuple[str, ...],
    say: Announce,
    times: int,
    peers: Sequence[Peer],
) -> list[Record]:
    """Measure so many times -> the records, of medians."""
    ours = {name: str(file) for name, file in shipped().items() if name.startswith("bench/w")}
    if not ours and (not workloads or "codecs" in workloads):
        text = "scenarios/bench: does not come with this installation; name a scenario"
        raise DirectoryError(text)

    chosen = workloads or [*ours.values(), "rules"]
    passes = []
    for _ in range(times):
        records: list[Record] = []
        for name in chosen:
            records += _records(name, edits, ours, say, peers)
        passes.append(records)
    return [_median(same) for same in zip(*passes, strict=True)]


def _records(
    name: str,
    edits: tuple[str, ...],
    ours: Mapping[str, str],
    announce: Announce,
    peers: Sequence[Peer],
) -> Iterator[Record]:
    """The records of the rules, of the codecs, of growth or of a scenario's file."""
    if name == "rules":
        return bench_rules(announce, peers=peers)
    if name == "codecs":
        return bench_codecs(read(ours["bench/w1"], edits), announce, peers=peers)
    if name == "growth":
        return bench_growth(announce)
    return _scenario_records(name, edits, announce, peers)


def _scenario_records(
    name: str, edits: tuple[str, ...], announce: Announce, peers: Sequence[Peer]
) -> Iterator[Record]:
    """The records of a scenario's rounds, then those of the peers."""
    scenario = read(name, edits)
    playing = players(scenario, name, peers)
    yield from bench(scenario, announce)
    if playing:
        yield from bench_rounds(name, edits, playing, announce)


def _median(records: Sequence[Record]) -> Record:
    """One record for several of the same measurement; what is not a number is that of the first."""
    combined = {}
    for column, value in records[0].items():
        combined[column] = value
        if isinstance(value, int | float):
            combine = COMBINED.get(column, statistics.median)
            combined[column] = combine([record[column] for record in records])
    return combined

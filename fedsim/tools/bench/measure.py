"""What `fedsim doctor --bench` writes: `bench.csv`, and `bench.json` with the machine it ran on."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax

from fedsim.disk import files
from fedsim.disk.tables import Record, to_csv
from fedsim.errors import DirectoryError
from fedsim.runs.directory import open_output_folder
from fedsim.runs.environment import numerical, surroundings
from fedsim.scenario import read
from fedsim.scenario.shipped import shipped
from fedsim.tools.bench.columns import TABLES
from fedsim.tools.bench.peer_rounds import bench_rounds, players
from fedsim.tools.bench.peers import Peer
from fedsim.tools.bench.rules import bench_rules
from fedsim.tools.bench.timing import Announce
from fedsim.tools.bench.workload import bench

TABLE = "bench.csv"
RECORDS = "bench.json"


def measured(
    workloads: Sequence[str],
    edits: tuple[str, ...],
    out: Path,
    say: Announce,
    peers: Sequence[Peer] = (),
    force: bool = False,
) -> list[Record]:
    """Measure scenarios and rules, and write the records to a folder.

    Args:
      workloads: files of scenarios, and `rules`; empty: W1 to W3 of `scenarios/bench`, and the
        rules.
    """
    with open_output_folder(out, (TABLE, RECORDS), force):
        records: list[Record] = []
        for name in workloads or [*_own_scenarios(), "rules"]:
            if name == "rules":
                records += bench_rules(say, peers=peers)
            else:
                records += _scenario_records(name, edits, say, peers)
        devices = jax.devices()
        machine = {"environment": numerical(devices), "surroundings": surroundings(devices)}
        files.write(out / TABLE, to_csv(records, TABLES[TABLE]))
        files.write(out / RECORDS, json.dumps({"records": records, **machine}, indent=2) + "\n")
    return records


def _own_scenarios() -> list[str]:
    """The files of W1 to W3."""
    own = [str(file) for name, file in shipped().items() if name.startswith("bench/w")]
    if not own:
        text = "scenarios/bench: does not come with this installation; name a scenario"
        raise DirectoryError(text)
    return own


def _scenario_records(
    name: str, edits: tuple[str, ...], announce: Announce, peers: Sequence[Peer]
) -> Iterator[Record]:
    """The records of a scenario's rounds, then those of the peers."""
    scenario = read(name, edits)
    playing = players(scenario, name, peers)
    yield from bench(scenario, announce)
    if playing:
        yield from bench_rounds(name, edits, playing, announce)

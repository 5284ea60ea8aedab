"""What `fedsim bench` writes: `bench.csv`, and `bench.json` with the machine it was measured on."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import jax

import fedsim
from fedsim.report import files, frames
from fedsim.report.environment import numerical, surroundings
from fedsim.report.files import DirectoryError
from fedsim.report.frames import Record
from fedsim.scenario import read
from fedsim.study.bench import bench
from fedsim.study.rules import bench_rules


def measured(scenarios: Sequence[str], edits: tuple[str, ...], out: Path, say: Callable[[str], None]) -> list[Record]:
    """Measure scenarios (none: those of `scenarios/bench`, and the rules) -> records, also written to a folder.

    Raises:
      ScenarioError: for a scenario that cannot run as written.
      DirectoryError: when the folder cannot be written.
    """
    files.make_folder(out)
    chosen = scenarios or shipped("bench")
    records = [record for path in chosen for record in bench(read(path, edits), say)]
    if not scenarios:
        records += bench_rules(say)
    files.write(out / "bench.csv", frames.to_csv(records, frames.BENCH))
    where = {"environment": numerical(jax.devices()), "surroundings": surroundings(jax.devices())}
    files.write(out / "bench.json", json.dumps({"records": records, **where}, indent=2) + "\n")
    return records


def shipped(folder: str) -> list[str]:
    """The scenarios of a folder that come with fedsim, installed or in its project.

    Raises:
      DirectoryError: when they are not there.
    """
    package = Path(fedsim.__file__).parent
    for place in (package / "shipped", package.parent / "scenarios"):
        found = sorted(map(str, (place / folder).glob("*.yaml")))
        if found:
            return found
    raise DirectoryError(f"scenarios/{folder}: does not come with this installation; name a scenario")

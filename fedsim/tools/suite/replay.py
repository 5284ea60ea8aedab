"""Runs of a comparison replayed from its record: `fedsim verify` leaves them out.

A comparison has many runs, so some of them are chosen by who calls this.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsim.assemble.experiment import numerics
from fedsim.errors import CheckpointError, ScenarioError
from fedsim.runs import directory
from fedsim.runs.ended import MissingError, read_again
from fedsim.runs.filenames import label_of, run_files_of
from fedsim.runs.given import NOTHING_GIVEN
from fedsim.runs.replay import recorded_run, replayed
from fedsim.runs.sweep import build_cell, cached_partition
from fedsim.runs.verify import SAME_BITS, Checks, demand_environment
from fedsim.study.grid import design_of


def replay_cells(
    path: Path,
    runs: Sequence[Mapping[str, Any]],
    made: Checks,
    data_roots: Iterable[str | os.PathLike[str]],
    device: str | None,
    whole: bool,
) -> None:
    """Replay runs of a comparison, and compare rows, states and models bit by bit.

    Args:
      runs: the first columns of the rows of each of these runs, with its seed.
    """
    record = directory.sound_record(path)
    with made.check("scenario", "can be read again"):
        scenario = read_again(path, record, NOTHING_GIVEN, data_roots, "verify")
    threads = record["environment"]["threads"]
    within = numerics(scenario, threads, device)
    with within as devices, made.check("environment", "is the recorded one"):
        demand_environment(record, devices)
    with made.check("methods", "can be read again"):
        try:
            cells = {label_of(cell.key_columns): cell for cell in design_of(scenario).cells}
        except ScenarioError as error:
            lines = [f"{line}; give its file with --plugin" for line in str(error).splitlines()]
            raise MissingError("\n".join(lines)) from None

    partition = cached_partition()
    for who in runs:
        label = label_of(who)
        with made.check(f"{label}, seed {who['seed']}", SAME_BITS, ends=False) as problems:
            cell = cells.get(label)
            if cell is None or cell.scenario.hash() != record["hashes"]["cells"].get(label):
                raise CheckpointError("the recorded scenario has no such run")
            # A search with rungs ends most runs early.
            planned = (record.get("planned") or {}).get(label, {})
            cell = cell._replace(until=planned.get("rounds"))
            with numerics(cell.scenario, threads, device) as devices:
                try:
                    experiment, expected = build_cell(cell, devices, partition, NOTHING_GIVEN)
                except OSError as error:
                    raise MissingError(str(error)) from None
                recorded = recorded_run(run_files_of(path, record), expected, who)
                for rounds, differing in replayed(recorded, experiment, whole):
                    problems += [f"{rounds}: {problem}" for problem in differing]

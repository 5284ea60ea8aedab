"""Runs of a comparison replayed from its record: `fedsim verify` leaves them out.

A comparison has many runs, so some of them are chosen by who calls this.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from fedsim.assemble.experiment import numerics
from fedsim.errors import CheckpointError, DataError, ScenarioError
from fedsim.runs.filenames import label_of, run_files_of
from fedsim.runs.record import identity
from fedsim.runs.replay import recorded_run, replayed
from fedsim.runs.sweep import Partitioner, build_cell, cached_partition
from fedsim.runs.verify import (
    Check,
    Missing,
    Request,
    check_of,
    of_environment,
    read_again,
)
from fedsim.study.cells import Cell
from fedsim.study.grid import design_of


def replay_cells(
    request: Request, record: dict[str, Any], runs: Sequence[Mapping[str, Any]]
) -> Generator[Check]:
    """Replay runs of a comparison, and compare rows, states and models bit by bit.

    Args:
      request: what is verified; its files have been compared with their hashes.
      record: the comparison's record.
      runs: the first columns of the rows of each of these runs, with its seed.
    """
    scenario, problems = read_again(request, record)
    yield check_of("scenario", problems, "can be read again")
    if scenario is None:
        return
    try:
        cells = {label_of(cell.key_columns): cell for cell in design_of(scenario).cells}
    except ScenarioError as error:
        lines = [f"{line}; give its file with --plugin" for line in str(error).splitlines()]
        yield check_of("methods", Missing(lines), "")
        return

    threads = record["environment"].get("threads")
    partition = cached_partition()
    for who in runs:
        label = label_of(who)
        name = f"{label}, seed {who['seed']}"
        cell = cells.get(label)
        if cell is None or cell.scenario.hash() != record["hashes"]["cells"].get(label):
            yield check_of(name, ["the recorded scenario has no such run"], "")
            continue
        with numerics(cell.scenario, threads, request.device) as devices:
            problems = of_environment(record, devices)
            if problems:
                yield check_of("environment", problems, "")
                return
            try:
                yield from _replay(request, record, cell, who, devices, partition)
            except (CheckpointError, DataError, ScenarioError) as error:
                yield check_of(name, str(error).splitlines(), "")
            except OSError as error:
                yield check_of(name, Missing(str(error).splitlines()), "")


def _replay(
    request: Request,
    record: dict[str, Any],
    cell: Cell,
    who: Mapping[str, Any],
    devices: list[Any],
    partition: Partitioner,
) -> Iterator[Check]:
    """Replay a run (inside `numerics`) -> its checks.

    Args:
      request: what is verified.
      record: the comparison's record.
      cell: the run's cell.
      who: the first columns of its rows.
      devices: the devices to compute on.
      partition: makes the federation.
    """
    experiment, expected = build_cell(cell, devices, partition, request.given)
    recorded = recorded_run(
        run_files_of(request.path, record), who, identity(expected, who["seed"])
    )
    for rounds, problems in replayed(recorded, experiment, request.whole, forked=False):
        name = f"{label_of(who)}, seed {who['seed']}, {rounds}"
        yield check_of(name, problems, "replayed with the same bits")

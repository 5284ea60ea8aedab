"""`fedsim fork --unlearn`: a run's model without some of its clients, in several ways, with costs.

The reference is retraining: the run again from its start, without the clients. All ways have the
data, the start model and the seeds of the original, so that they are compared seed by seed.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.assemble import Experiment
from fedsim.disk import files, tables
from fedsim.disk.tables import Record
from fedsim.errors import CheckpointError, DirectoryError
from fedsim.runs import directory
from fedsim.runs.ended import ended_run
from fedsim.runs.given import Given
from fedsim.runs.lock import LOCK, held
from fedsim.tools.unlearn.columns import DIFFERENCES, TABLES, UNLEARNING
from fedsim.tools.unlearn.federaser import Calibration, unsupported
from fedsim.tools.unlearn.forgetting import differences_of, scored
from fedsim.tools.unlearn.ways import (
    FEDERASER,
    ORIGINAL,
    RETRAIN,
    WAYS,
    Seed,
    Task,
    made_of_seed,
    retrained,
    seeds_of,
)

RECORD = "unlearning.json"


class Unlearned(NamedTuple):
    """What `unlearn` returns.

    Attributes:
      table: a row per seed and way, as in `unlearning.csv`.
      differences: of each way to retraining, over the seeds, as in `unlearning_differences.csv`.
      models: the final variables, by way and seed.
      notes: what to know of them, a sentence each.
    """

    table: pd.DataFrame
    differences: pd.DataFrame
    models: dict[tuple[str, int], Any]
    notes: list[str]


def unlearn(
    path: str | os.PathLike[str],
    *,
    clients: int | Iterable[int],
    out: str | os.PathLike[str],
    data: Any = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    how: str | Sequence[str] = WAYS,
    every: int = 2,
    ratio: float = 0.5,
    seeds: int | Sequence[int] | None = None,
    force: bool = False,
    resume: bool = False,
    device: str | None = None,
    data_roots: Iterable[str | os.PathLike[str]] = (),
    progress: bool | None = None,
    ask: Callable[[], bool] = lambda: False,
) -> Unlearned:
    """Make the model of a finished run without some of its clients, and score what became of it.

    `retrain` is the run again from its start without the clients (`fleet.without`), which are not
    drawn any more; it is always made, as what the other is held against. `federaser` calibrates the
    recorded updates of the others.
    Of a client that never took part there is nothing to unlearn: its model is the original.

    Args:
      path: the directory of the original, one run of one method.
      clients: numbers of the clients to forget.
      out: a directory for the tables, the models, and the runs behind them.
      data: what `fedsim.run` was given, if it was.
      model: likewise.
      params: likewise.
      loss: likewise.
      how: ways besides retraining: `federaser`.
      every: Δt of FedEraser: rounds from one calibrated round to the next.
      ratio: r of FedEraser: the share of the local steps that a client takes in one.
      seeds: some of the original's seeds: a number n (0 to n − 1) or a sequence; left out: all.
      force: replace what an earlier call wrote to `out`.
      resume: continue what was interrupted there.
      device: compute on these, as `fedsim.run` takes it.
      data_roots: folders that the record may name data files in, besides the working directory.
      progress: as in `fedsim.run`.
      ask: as in `fedsim.run`.

    Returns:
      `table`, a row per seed and way, with scores, distances to retraining and what was spent;
      `differences` to retraining over the seeds; `models` by way and seed; `notes`.

    Raises:
      DirectoryError: where there is no run that can be repeated, and for an `out` that is taken.
      LockedError: when another process is writing in `out`.
      CheckpointError: for clients and seeds that the run does not have, for a way that it does not
        support, and where it cannot be repeated here.
    """
    given = Given(data, model, params, loss)
    original = ended_run(Path(path), device, data_roots, "unlearn", "unlearn clients of", given)
    task = Task(
        original=original,
        clients=_numbers(clients),
        ways=_ways(how),
        settings=_settings(every, ratio),
        out=Path(out),
        progress=progress,
        ask=ask,
    )
    with held(task.out):
        entries = _replaceable(task.out, force, resume)
        with original.numerics() as devices:
            experiment = original.build(devices)
            _require_clients(task, experiment)
            by_seed = seeds_of(task, experiment, _seeds(experiment, seeds))
            _require_ways(task, experiment, by_seed)
        _begin(task, by_seed, entries, resume)
        rows, models = _scores(task, experiment, by_seed)
        differences = differences_of(rows)
        _write(task.out, rows, differences, models)

    return Unlearned(
        table=tables.frame(rows, UNLEARNING),
        differences=tables.frame(differences, DIFFERENCES),
        models=models,
        notes=_notes(task, by_seed, rows),
    )


def _scores(
    task: Task, experiment: Experiment, by_seed: Mapping[int, Seed]
) -> tuple[list[Record], dict[tuple[str, int], Any]]:
    """Make the models of all ways -> the rows of `unlearning.csv`, the models by way and seed."""
    again = retrained(task, by_seed)
    rows = []
    models = {}
    with task.original.numerics():
        for number, seed in by_seed.items():
            made = made_of_seed(task, experiment, seed, again)
            of_seed, of_ways = scored(experiment.run(number), made, task.clients)
            for row in of_seed:
                rows.append({"seed": number, "first_round": seed.first, **row})
            models |= {(way, number): variables for way, variables in of_ways.items()}
    return rows, models


def _write(
    out: Path,
    rows: Sequence[Record],
    differences: Sequence[Record],
    models: Mapping[tuple[str, int], Any],
) -> None:
    """Write models and tables."""
    for (way, number), variables in models.items():
        if way != ORIGINAL:
            directory.write_model(out / f"model.{way}.{number}.safetensors", variables)
    for (name, columns), records in zip(TABLES.items(), (rows, differences), strict=True):
        files.write(out / name, tables.to_csv(records, columns))


# ------------------------------------------------------------------------------ what is asked for


def _numbers(clients: int | Iterable[int]) -> tuple[int, ...]:
    """Numbers of clients, rising."""
    if isinstance(clients, int):
        clients = [clients]
    numbers = sorted({int(client) for client in clients})
    if not numbers:
        raise ValueError("clients: name at least one client to forget")
    return tuple(numbers)


def _ways(how: str | Sequence[str]) -> tuple[str, ...]:
    """The ways that are asked for, retraining first."""
    asked = (how,) if isinstance(how, str) else tuple(how)
    unknown = sorted(set(asked) - set(WAYS))
    if unknown:
        raise ValueError(f"how: expected {', '.join(WAYS)}; found {', '.join(unknown)}")
    return tuple(way for way in WAYS if way == RETRAIN or way in asked)


def _seeds(experiment: Experiment, seeds: int | Sequence[int] | None) -> list[int]:
    """Numbers of the seeds that are asked for."""
    if seeds is None:
        return list(experiment.plans)
    if isinstance(seeds, int):
        return list(range(seeds))
    return [int(seed) for seed in seeds]


def _settings(every: int, ratio: float) -> Calibration:
    """How FedEraser trains."""
    if every < 1:
        raise ValueError(f"every: {every} is not 1 or more")
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio: {ratio} is not above 0, and 1 at most")
    return Calibration(every=every, ratio=ratio)


def _require_clients(task: Task, experiment: Experiment) -> None:
    """Refuse clients that the run does not have, and all of its clients together."""
    plan = next(iter(experiment.plans.values()))
    path = task.original.path
    N = plan.federation.unpooled.N
    if task.clients[0] < 0 or task.clients[-1] >= N:
        unknown = next(client for client in task.clients if not 0 <= client < N)
        raise CheckpointError(f"{path}: client {unknown}: the run has the clients 0 to {N - 1}")
    for seed, plan in experiment.plans.items():
        if not np.setdiff1d(plan.eligible, task.clients).size:
            raise CheckpointError(f"{path}: seed {seed}: no client with samples would be left")


def _require_ways(task: Task, experiment: Experiment, by_seed: Mapping[int, Seed]) -> None:
    """Refuse a run that has no model of one server, and FedEraser where it cannot be computed."""
    path = task.original.path
    client = experiment.client
    if client.not_federated or client.gossip is not None or client.bank is not None:
        raise CheckpointError(f"{path}: there is no single model of a server that could forget")
    if all(seed.first is None for seed in by_seed.values()):
        return  # nothing is trained

    if FEDERASER in task.ways:
        reason = unsupported(experiment, experiment.plans[next(iter(by_seed))])
        if reason:
            raise CheckpointError(f"{path}: {FEDERASER}: {reason}; choose --how {RETRAIN}")


def _replaceable(out: Path, force: bool, resume: bool) -> list[Path]:
    """What is in the directory, which is locked; nothing is changed yet."""
    with files.reporting_os_errors(out):
        entries = [entry for entry in sorted(out.iterdir()) if entry.name != LOCK]
    if entries and (force or resume) and not (out / RECORD).exists():
        raise DirectoryError(f"{out}: holds nothing of fedsim fork --unlearn; choose another --out")
    if entries and not (force or resume):
        ways = "--resume continues what was interrupted, --force replaces it"
        raise DirectoryError(f"{out}: already exists; {ways}, or choose another --out")
    return entries


def _begin(task: Task, by_seed: Mapping[int, Seed], entries: Sequence[Path], resume: bool) -> None:
    """Write into the directory what is unlearned, in place of entries unless that resumes."""
    record = {
        "original": task.original.record["hashes"]["scenario"],
        "clients": task.clients,
        "seeds": list(by_seed),
        "how": task.ways,
        **task.settings._asdict(),
    }
    text = json.dumps(record, indent=2) + "\n"
    if not resume:
        for entry in entries:
            files.remove(entry)
    elif entries and (task.out / RECORD).read_text(encoding="utf-8") != text:
        reason = "was begun with other clients or options; --force replaces it"
        raise DirectoryError(f"{task.out}: {reason}")
    files.write(task.out / RECORD, text)


def _notes(task: Task, by_seed: Mapping[int, Seed], rows: Sequence[Record]) -> list[str]:
    """What to know of the table, a sentence each."""
    notes = []
    listed = " and ".join(map(str, task.clients))
    never = [number for number, seed in by_seed.items() if seed.first is None]
    if never:
        seeds = ", ".join(map(str, never))
        notes.append(
            f"seed {seeds}: no update of client {listed} counted in any round; the model is "
            "already without it"
        )
    for row in rows:
        if row["reason"]:
            notes.append(f"seed {row['seed']}, {row['how']}: {row['reason']}")
    return notes

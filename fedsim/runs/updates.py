"""`fedsim.updates_of`: the updates of a finished run's clients, as the server received them."""

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fedsim.assemble import Experiment
from fedsim.engine.loop import events
from fedsim.engine.recording import RoundUpdates, why_unrecorded
from fedsim.engine.run import CommitPoint, Run
from fedsim.errors import CheckpointError, DirectoryError
from fedsim.runs.ended import EndedRun, ended_run
from fedsim.runs.given import Given
from fedsim.runs.replay import RecordedSeed, differing_values

EVERY_ROUND = lambda round: True


def updates_of(
    path: str | os.PathLike[str],
    *,
    seed: int | None = None,
    data: Any = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    device: str | None = None,
    data_roots: Iterable[str | os.PathLike[str]] = (),
) -> Iterator[RoundUpdates]:
    """Yield the updates of a finished run's clients, round by round, as the server received them.

    They are read where the run kept them (`checkpoint: {updates: true}`). Otherwise it is replayed,
    row by row against what it wrote. Of a fork that kept them, they begin with its first own round.

    Args:
      path: the directory of a run of one method.
      seed: one of its seeds; may be left out where there is only one.
      data: what `fedsim.run` was given, if it was.
      model: likewise.
      params: likewise.
      loss: likewise.
      device: compute on these, as `fedsim.run` takes it.
      data_roots: folders that the record may name data files in, besides the working directory.

    Returns:
      Rounds in order: `round`, `clients` (ids `[K]`), `weights` `[K]` by which the rule counts
      them, `params_before` and `params_after`, `updates` (`[K, ...]`, structured as the parameters
      that clients send) and more; see `fedsim.engine.recording.RoundUpdates`.

    Raises:
      DirectoryError: where there is no finished run of one method, and for a fork that kept none.
      CheckpointError: where the server receives no updates of single clients, and where the run
        cannot be repeated here.
    """
    given = Given(data, model, params, loss)
    ended = ended_run(
        Path(path), device, data_roots, "updates_of", "read the updates of", given, forks=True
    )
    (recorded,) = ended.recorded([only_seed(ended, seed)])
    with ended.numerics() as devices:
        experiment = ended.build(devices)
        require_updates(ended, experiment)
    rounds = updates_in(ended, experiment, recorded)
    while True:
        # The numerics of the run hold while it computes, and not in the caller's code between.
        with ended.numerics():
            updates = next(rounds, None)
        if updates is None:
            return
        yield updates


def only_seed(ended: EndedRun, seed: int | None) -> int:
    """Return a seed, which may be left out where a run has only one."""
    seeds = ended.record["scenario"]["seeds"]
    if seed is not None:
        return seed
    if len(seeds) > 1:
        listed = ", ".join(map(str, seeds))
        raise CheckpointError(f"{ended.path}: has the seeds {listed}; name one of them")
    return seeds[0]


def require_updates(ended: EndedRun, experiment: Experiment) -> None:
    """Refuse a run whose server receives no updates of single clients."""
    pipeline = experiment.program.server.pipeline
    reason = why_unrecorded(experiment.client, pipeline.rule, pipeline.codec)
    if reason:
        raise CheckpointError(f"{ended.path}: has no updates of single clients: {reason}")


def updates_in(
    ended: EndedRun, experiment: Experiment, recorded: RecordedSeed
) -> Iterator[RoundUpdates]:
    """Yield the updates of a recorded seed (inside `numerics`)."""
    own_rounds = list(range(ended.first_round, recorded.end["round"] + 1))
    is_kept = recorded.updates.rounds() == own_rounds
    if ended.first_round > 1 and not is_kept:
        text = "is a fork that kept no updates; set checkpoint.updates=true when it is made"
        raise DirectoryError(f"{ended.path}: {text}")
    with tempfile.TemporaryDirectory(prefix="fedsim-") as folder:
        run = experiment.run(recorded.who["seed"], Path(folder))
        if is_kept:
            for round in own_rounds:
                yield recorded.updates.read(round, run)
        else:
            yield from _replayed(ended, experiment, recorded, run)


def _replayed(
    ended: EndedRun, experiment: Experiment, recorded: RecordedSeed, run: Run
) -> Iterator[RoundUpdates]:
    """Replay a seed from its start, and yield its updates."""
    where = f"{ended.path}: seed {recorded.who['seed']}"
    expected = {row["round"]: row for row in recorded.rows}
    kept = deque[RoundUpdates]()
    run.keep_updates = kept.append
    sample_bytes = experiment.scenario.spec.data.resident_mb * 1e6
    for event in events([run], run.program, EVERY_ROUND, samples=sample_bytes):
        if not isinstance(event, CommitPoint):
            _, row = event
            round = row.values["round"]
            values = {**recorded.who, **row.values}
            problems = differing_values(expected.get(round, {}), values)
            if problems:
                raise CheckpointError(f"{where}: round {round}: {problems[0]}")
        while kept:
            yield kept.popleft()

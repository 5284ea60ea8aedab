"""The ways to make a run's model without some of its clients; see `unlearning`."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedsim.assemble import Experiment
from fedsim.disk.checkpoint import restore_tree
from fedsim.engine.run import Run
from fedsim.engine.server_records import ServerState
from fedsim.fleet import Plan
from fedsim.runs import directory
from fedsim.runs.ended import EndedRun
from fedsim.runs.go_on import Point, go_on
from fedsim.runs.replay import RecordedSeed, recorded
from fedsim.runs.run import Options, run_from
from fedsim.runs.updates import updates_in
from fedsim.scenario import Scenario, read
from fedsim.scenario.load import confined
from fedsim.tools.unlearn.federaser import (
    Calibration,
    calibrated,
    erase,
    first_round,
    leaf_norms,
    steps_in,
)

ORIGINAL = "original"
RETRAIN = "retrain"
REWIND = "rewind"
FEDERASER = "federaser"
WAYS = (RETRAIN, REWIND, FEDERASER)


class Task(NamedTuple):
    """What is unlearned, and where it is written.

    Attributes:
      original: the run.
      clients: numbers of the clients, rising.
      ways: `retrain`, and those of the others that are asked for.
      settings: of FedEraser.
      out: the directory.
      progress: as in `fedsim.run`.
      ask: likewise.
    """

    original: EndedRun
    clients: tuple[int, ...]
    ways: tuple[str, ...]
    settings: Calibration
    out: Path
    progress: bool | None
    ask: Callable[[], bool]


class Seed(NamedTuple):
    """A seed of the original.

    Attributes:
      recorded: as it is recorded.
      first: the first round in which an update of one of the clients counted; None: there is none.
        Where rounds depend on earlier ones it is not looked for, and 1.
    """

    recorded: RecordedSeed
    first: int | None


class RunWithout(NamedTuple):
    """A run of one seed without the clients.

    Attributes:
      folder: its run directory.
      plan: its plan.
      after: the round of the original that it goes on from; 0: it begins anew.
    """

    folder: Path
    plan: Plan
    after: int


class Made(NamedTuple):
    """What a way made of a seed.

    Attributes:
      server: its server at the end.
      from_round: the last round of the original that it goes on from.
      rounds: rounds in which clients trained for it.
      steps: local steps that they took; None: unknown.
      reason: why it ended early, where it did.
    """

    server: ServerState
    from_round: int
    rounds: int
    steps: int | None
    reason: str


def seeds_of(task: Task, experiment: Experiment, numbers: Sequence[int]) -> dict[int, Seed]:
    """Return seeds of the original.

    Raises:
      CheckpointError: for those that it does not have.
    """
    by_seed = {}
    for number, of_seed in zip(numbers, task.original.recorded(numbers), strict=True):
        plan = experiment.plans[number]
        if plan.pure:
            first = first_round(plan, task.clients)
        else:
            joined = of_seed.commits[-1].run.arrays["joined"][list(task.clients)]
            first = 1 if joined.any() else None
        by_seed[number] = Seed(of_seed, first)
    return by_seed


def runs_without(task: Task, by_seed: Mapping[int, Seed]) -> dict[tuple[str, int], RunWithout]:
    """Run the original again without the clients, and go on without them from where they came.

    Returns:
      Runs by way and seed; none of a seed in which the clients never took part.
    """
    affected = [number for number, seed in by_seed.items() if seed.first is not None]
    if not affected:
        return {}
    runs = {}
    for number, retrained in _retrained(task, affected).items():
        runs[RETRAIN, number] = retrained
        if REWIND not in task.ways:
            continue
        first = by_seed[number].first
        assert first is not None
        # Before round 1 there is nothing to go on from.
        runs[REWIND, number] = retrained if first == 1 else _rewound(task, number, first - 1)
    return runs


def _retrained(task: Task, numbers: Sequence[int]) -> dict[int, RunWithout]:
    """Run seeds of the original again from their start, without the clients."""
    folder = task.out / RETRAIN
    result = run_from(_scenario(task, numbers), folder, _options(task, folder), task.progress)
    plans = result.experiment.plans
    return {number: RunWithout(folder, plans[number], after=0) for number in numbers}


def _rewound(task: Task, number: int, round: int) -> RunWithout:
    """Go on from a round of a seed, without the clients."""
    folder = task.out / f"{REWIND}.{number}"
    scenario = _scenario(task, [number])
    options = _options(task, folder)
    result = go_on(task.original, scenario, Point(round), folder, options, task.progress)
    return RunWithout(folder, result.experiment.plans[number], after=round)


def _scenario(task: Task, numbers: Sequence[int]) -> Scenario:
    """Return the original's scenario for some seeds, without the clients, and those it lacks."""
    original = task.original
    absent = {*original.scenario.spec.fleet.without, *task.clients}
    edits = (f"fleet.without={sorted(absent)}", f"seeds={list(numbers)}")
    scenario = read(original.scenario.document, edits)
    return confined(scenario, original.path, original.data_roots)


def _options(task: Task, folder: Path) -> Options:
    """Return how runs without the clients are run; those that have begun go on."""
    return Options(
        started=time.monotonic(),
        given=task.original.given,
        resume=(folder / directory.RECORD).exists(),
        device=task.original.device,
        ask=task.ask,
        threads=task.original.threads,
    )


def made_of_seed(
    task: Task, experiment: Experiment, seed: Seed, runs: Mapping[tuple[str, int], RunWithout]
) -> dict[str, Made]:
    """Return what the original and every way made of a seed (inside `numerics`).

    Args:
      task: what is unlearned.
      experiment: the original's.
      seed: the seed.
      runs: as `runs_without` returns them.
    """
    number = seed.recorded.who["seed"]
    run = experiment.run(number)
    original = _made_by_run(seed.recorded, experiment.plans[number], run, after=0)
    made = {ORIGINAL: original}
    for way in task.ways:
        if seed.first is None:
            made[way] = original._replace(from_round=original.rounds, rounds=0, steps=0)
        elif way == FEDERASER:
            made[way] = _calibrated(task, experiment, seed.recorded, seed.first)
        else:
            folder, plan, after = runs[way, number]
            record = directory.sound_record(folder)
            made[way] = _made_by_run(recorded(folder, record, number), plan, run, after)
    return made


def _made_by_run(of_seed: RecordedSeed, plan: Plan, run: Run, after: int) -> Made:
    """What a run made from a round of the original on.

    Args:
      of_seed: its seed as recorded.
      plan: its plan.
      run: a run of the original's experiment, as whose server the recorded one is structured.
      after: the round of the original that it goes on from.
    """
    rounds = range(after + 1, of_seed.end["round"] + 1)
    return Made(
        server=restore_tree("server", of_seed.commits[-1].run.arrays, run.server),
        from_round=after,
        rounds=len(rounds),
        steps=steps_in(plan, rounds) if plan.pure else None,
        reason=of_seed.end["reason"],
    )


def _calibrated(task: Task, experiment: Experiment, of_seed: RecordedSeed, first: int) -> Made:
    """What FedEraser makes of a seed, from the recorded updates of the other clients."""
    plan = experiment.plans[of_seed.who["seed"]]
    last = of_seed.end["round"]
    rounds = calibrated(first, last, task.settings.every)
    norms: dict[int, np.ndarray] = {}
    if rounds:
        for updates in updates_in(task.original, experiment, of_seed):
            if updates.round in rounds:
                norms[updates.round] = leaf_norms(updates, plan.federation.N)
            if updates.round == rounds[-1]:
                break
    given = task.original.given
    erased = erase(of_seed, experiment, task.clients, first, norms, task.settings, given)
    return Made(
        server=erased.server,
        from_round=first - 1,
        rounds=len(rounds),
        steps=erased.steps,
        reason=erased.reason,
    )

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
    steps_in,
    update_norms,
)

ORIGINAL = "original"
RETRAIN = "retrain"
FEDERASER = "federaser"
WAYS = (RETRAIN, FEDERASER)


class Task(NamedTuple):
    """What is unlearned, and where it is written."""

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


class Retrained(NamedTuple):
    """The original run again from its start, without the clients."""

    folder: Path
    plans: Mapping[int, Plan]  # by seed; none of a seed in which the clients never took part


class Made(NamedTuple):
    """What a way made of a seed."""

    server: ServerState
    from_round: int  # the last round of the original that it goes on from
    rounds: int  # in which clients trained for it
    steps: int | None  # local steps that they took; None: unknown
    reason: str  # why it ended early; empty: it did not


def seeds_of(task: Task, experiment: Experiment, numbers: Sequence[int]) -> dict[int, Seed]:
    """Return seeds of the original."""
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


def retrained(task: Task, by_seed: Mapping[int, Seed]) -> Retrained:
    """Run the original again from its start, without the clients."""
    folder = task.out / RETRAIN
    affected = [number for number, seed in by_seed.items() if seed.first is not None]
    if not affected:
        return Retrained(folder, {})
    options = Options(
        started=time.monotonic(),
        given=task.original.given,
        resume=(folder / directory.RECORD).exists(),
        device=task.original.device,
        ask=task.ask,
        threads=task.original.threads,
    )
    result = run_from(_scenario(task, affected), folder, options, task.progress)
    return Retrained(folder, result.experiment.plans)


def _scenario(task: Task, numbers: Sequence[int]) -> Scenario:
    """Return the original's scenario for some seeds, without the clients, and those it lacks."""
    original = task.original
    absent = {*original.scenario.spec.fleet.without, *task.clients}
    edits = (f"fleet.without={sorted(absent)}", f"seeds={list(numbers)}")
    scenario = read(original.scenario.document, edits)
    return confined(scenario, original.path, original.data_roots)


def made_of_seed(
    task: Task, experiment: Experiment, seed: Seed, retrained: Retrained
) -> dict[str, Made]:
    """Return what the original and every way made of a seed (inside `numerics`)."""
    number = seed.recorded.who["seed"]
    run = experiment.run(number)
    original = _made_by_run(seed.recorded, experiment.plans[number], run)
    made = {ORIGINAL: original}
    for way in task.ways:
        if seed.first is None:
            made[way] = original._replace(from_round=original.rounds, rounds=0, steps=0)
        elif way == FEDERASER:
            made[way] = _calibrated(task, experiment, seed.recorded, seed.first)
        else:
            record = directory.sound_record(retrained.folder)
            of_seed = recorded(retrained.folder, record, number)
            made[way] = _made_by_run(of_seed, retrained.plans[number], run)
    return made


def _made_by_run(of_seed: RecordedSeed, plan: Plan, run: Run) -> Made:
    """What a run made from its start.

    Args:
      run: a run of the original's experiment, as whose server the recorded one is structured.
    """
    rounds = range(1, of_seed.end["round"] + 1)
    return Made(
        server=restore_tree("server", of_seed.commits[-1].run.arrays, run.server),
        from_round=0,
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
                norms[updates.round] = update_norms(updates, plan.federation.N)
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

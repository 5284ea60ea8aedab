"""FedEraser: a model without some clients, from the updates that a run recorded of the others.

The rounds before the clients first took part are the run's own. In the first round with them, the
recorded updates of the others are aggregated as they are: they started from a model that the
clients had no part in. In every Δt-th round after it, the others train a share r of their local
steps from the calibrated model, which is where their updates point; they are as long as the
recorded ones (`calibration`).
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.assemble import Experiment, build
from fedsim.assemble.method_traits import does_more
from fedsim.engine.loop import events
from fedsim.engine.recording import RoundUpdates, why_unrecorded
from fedsim.engine.run import Run
from fedsim.engine.server_records import ServerState
from fedsim.fleet import Plan
from fedsim.runs.given import Given
from fedsim.runs.replay import RecordedSeed, replayed_to
from fedsim.scenario import Scenario
from fedsim.types import Context, RowStage, Updates

ROUNDING = 1e-9  # steps: a product that is closer to a whole number is one


class Calibration(NamedTuple):
    """How FedEraser trains; the defaults are those of the paper.

    Attributes:
      every: Δt, rounds from one calibrated round to the next, at least 1.
      ratio: r, the share of the local steps that clients train in one, in (0, 1]; a client that
        trains takes one step at least.
    """

    every: int = 2
    ratio: float = 0.5


class Erased(NamedTuple):
    """What FedEraser made of a run."""

    server: ServerState
    steps: int  # local steps that clients took for it
    reason: str  # why it ended before the last of them; empty: it did not


def unsupported(experiment: Experiment, plan: Plan) -> str:
    """Return why FedEraser cannot be computed from a run; empty where it can."""
    spec = experiment.scenario.spec
    pipeline = experiment.program.server.pipeline
    reason = why_unrecorded(experiment.client, pipeline.rule, pipeline.codec)
    if reason:
        return f"there are no updates of single clients: {reason}"
    if spec.schedule.kind != "sync":
        return "clients of an asynchronous server begin with different models"
    if pipeline.rule.noises or experiment.program.mesh.lanes.private is not None:
        return "a calibrated round uses the clients' samples once more, which ε does not cover"
    if does_more(experiment.client, experiment.shared[plan.seed]):
        return f"clients of {spec.client.kind} send, keep or measure more than an update"
    if pipeline.remembering:
        listed = ", ".join(pipeline.remembering)
        return f"{listed} remembers clients, as they were in the recorded rounds"
    if not plan.pure:
        return "who takes part depends on earlier rounds"
    return ""


def erase(
    seed: RecordedSeed,
    experiment: Experiment,
    clients: Sequence[int],
    first: int,
    norms_by_round: Mapping[int, np.ndarray],
    settings: Calibration,
    given: Given,
) -> Erased:
    """Calibrate a run without some clients (inside `numerics`).

    Args:
      first: the first round in which one of them took part.
      norms_by_round: norms of the recorded updates `[N]`, as `update_norms` returns them, of every
        calibrated round.
    """
    number = seed.who["seed"]
    plan = experiment.plans[number]
    begun = _run_of_first_round(seed, experiment, clients, first)
    if begun.reason or not norms_by_round:
        return Erased(begun.server, steps=0, reason=begun.reason)

    shorter = _with_fewer_steps(experiment.scenario, plan, settings.ratio)
    short = build(shorter, before=(calibration(),), **given._asdict())
    run = _run_in_vain(short, number, clients)
    stages = begun.server.state["stages"]
    run.server = begun.server
    steps = 0
    for round, norms in sorted(norms_by_round.items()):
        table = jnp.asarray(norms, short.program.dtype)
        state = {**run.server.state, "stages": (table, *stages)}
        run.server = ServerState(run.server.shared, state)
        run.round = round - 1
        _play(run, round, shorter)
        _, *stages = run.server.state["stages"]
        steps += steps_in(run.plan, [round])
        if run.reason:
            break
    return Erased(run.server, steps, run.reason)


@functools.cache
def calibration() -> RowStage:
    """Û_k ← ‖U_k‖₂ · Û_k / ‖Û_k‖₂, where client k sent U_k in the recorded round.

    The state is a table of the recorded norms `[N]`, which is set before every round; NaN: the
    client's update was not recorded, and the row does not count. An update of norm 0 has no
    direction and stays 0.

    References:
      Liu, Ma, Yang, Wang, Liu 2021, FedEraser: Enabling Efficient Client-Level Data Removal from
      Federated Learning Models, IWQoS 2021, section IV-A, algorithm 1.
    """

    def init(params, present):
        return jnp.zeros(len(present), jnp.result_type(*jax.tree.leaves(params)))

    def apply(updates: Updates, context: Context) -> Updates:
        recorded = context.state[context.ids]
        length = tree.norm(updates.delta)
        factor = jnp.where(length > 0, recorded / length, 0)
        return updates._replace(
            delta=jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), updates.delta),
            arrived=updates.arrived & jnp.isfinite(recorded),
        )

    return RowStage(apply=apply, name="calibration", init=init)


def calibrated(first: int, last: int, every: int) -> tuple[int, ...]:
    """Return the rounds in which clients train for FedEraser.

    >>> calibrated(3, 10, 2)
    (5, 7, 9)
    """
    return tuple(range(first + every, last + 1, every))


def update_norms(updates: RoundUpdates, N: int) -> np.ndarray:
    """Return the norms of a round's recorded updates, in float64.

    Returns:
      Norms `[N]`; NaN for clients of which nothing arrived.
    """
    arrived = updates.columns["arrived"]
    squares = np.zeros(arrived.sum())
    for leaf in jax.tree.leaves(updates.updates):
        rows = np.asarray(leaf, np.float64).reshape(len(arrived), -1)[arrived]
        squares += np.square(rows).sum(axis=1)
    norms = np.full(N, np.nan)
    norms[updates.clients[arrived]] = np.sqrt(squares)
    return norms


def first_round(plan: Plan, clients: Sequence[int]) -> int | None:
    """Return the first round in which an update of one of the clients counts; None: there is none.

    Args:
      plan: a plan whose rounds do not depend on earlier ones.
    """
    for round in range(1, plan.rounds + 1):
        work, _ = plan.round(round)
        if np.isin(work.ids[work.weight > 0], clients).any():
            return round
    return None


def steps_in(plan: Plan, rounds: Iterable[int]) -> int:
    """Return the local steps of all clients in rounds of a plan, of those that drop out as well.

    Args:
      plan: a plan whose rounds do not depend on earlier ones.
    """
    steps = 0
    for round in rounds:
        work, _ = plan.round(round)
        steps += int(work.steps.sum())
        if work.uncounted is not None:
            steps += int(work.uncounted.steps.sum())
    return steps


def _run_of_first_round(
    seed: RecordedSeed, experiment: Experiment, clients: Sequence[int], first: int
) -> Run:
    """The run after the first round with the clients, in which only the others took part.

    The others train in it as they did: from the same model, on the same batches.
    """
    snapshot = replayed_to(seed, experiment, first - 1)
    run = _run_in_vain(experiment, seed.who["seed"], clients)
    run.restore(snapshot)
    _play(run, first, experiment.scenario)
    return run


def _run_in_vain(experiment: Experiment, seed: int, clients: Sequence[int]) -> Run:
    """A run in whose rounds clients are missing; it is not evaluated on the way."""
    plan = experiment.plans[seed].drawing_in_vain(clients)
    run = experiment._replace(plans={seed: plan}).run(seed)
    run.every = plan.rounds + 1
    return run


def _with_fewer_steps(scenario: Scenario, plan: Plan, ratio: float) -> Scenario:
    """The scenario of one seed in which clients take a share of their local steps, at least one."""
    # 0.1 · 30 is a little more than 3.
    steps = [max(math.ceil(ratio * n - ROUNDING), 1) for n in plan.steps.tolist()]
    client = scenario.spec.client.model_copy(update={"steps": steps, "epochs": None})
    spec = scenario.spec.model_copy(update={"client": client, "seeds": [plan.seed]})
    return scenario._replace(spec=spec)


def _play(run: Run, round: int, scenario: Scenario) -> None:
    """Run a round, and those before it that are left."""
    sample_bytes = scenario.spec.data.resident_mb * 1e6
    run.status = "running"
    for _ in events([run], run.program, lambda r: r == round, samples=sample_bytes):
        if run.round >= round:
            return

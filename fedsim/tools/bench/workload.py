"""The rounds of a scenario, compared with plain ways to run them and with the machine's peak."""

import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.assemble import Experiment, build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.plans import of_first_seed
from fedsim.engine.clock import compile_seconds
from fedsim.engine.frozen import bound, without_frozen
from fedsim.engine.layout import lay_out
from fedsim.engine.loop import events
from fedsim.engine.models import one_model
from fedsim.engine.run import CommitPoint, Run
from fedsim.engine.slots import RunCohort
from fedsim.machine import memory_peak
from fedsim.scenario import Scenario
from fedsim.tools.bench.baselines import cohort, rivals
from fedsim.tools.bench.timing import TRIALS, Announce, spread, timed
from fedsim.types import Batch

MATRIX_SIDE = 2048  # of the square matrices whose product gives the peak
RIVAL_SECONDS = 6.0  # after which no further round of a rival is measured


class Work(NamedTuple):
    """How much the rounds of a scenario compute, and what the machine can."""

    round_flops: float  # of an average round
    round_steps: float
    peak: float  # FLOP/s


def bench(scenario: Scenario, announce: Announce = lambda text: None) -> Iterator[dict[str, Any]]:
    """Measure a scenario of plain local SGD and `mean`.

    Yields:
      a record for the lanes, then one for every rival.
    """
    name = scenario.spec.name
    with numerics(scenario) as devices:
        announce(f"{name}: building")
        peak = matmul_peak(scenario.spec.numerics.dtype)
        experiment = build(scenario, devices=devices)
        flops = step_flops(experiment)

        announce(f"{name}: lanes")
        seconds, evaluation_seconds, details = lanes(experiment)
        work = _work(experiment, flops, peak)
        yield {
            "workload": name,
            "how": f"lanes ({experiment.program.width.lanes})",
            **_rates(seconds, work),
            **details,
        }
        rivals_seconds = _rivals(experiment, evaluation_seconds, announce)
        for rival, rival_seconds, compiling_seconds in rivals_seconds:
            yield {
                "workload": name,
                "how": rival,
                **_rates(rival_seconds, work),
                "times_lanes": rival_seconds["seconds"] / seconds["seconds"],
                "compile_seconds": compiling_seconds,
            }


def matmul_peak(dtype: str) -> float:
    """Return the FLOP/s of a large matrix product, the best of several."""
    a = jnp.ones((MATRIX_SIDE, MATRIX_SIDE), dtype)
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    seconds = min(timed(lambda: product(a).block_until_ready()) for _ in range(TRIALS))
    return 2 * MATRIX_SIDE**3 / seconds


def step_flops(experiment: Experiment) -> float:
    """Return the floating-point operations of one client's local step, as XLA counts them."""
    program = experiment.program
    plan = of_first_seed(experiment.plans)
    train = plan.federation.train
    B = plan.batch_rows
    batch = Batch(
        x=jnp.zeros((B, *train.x.shape[1:]), train.x.dtype),
        y=jnp.zeros((B, *train.y.shape[1:]), train.y.dtype),
        mask=jnp.ones(B, bool),
        key=jax.random.key(0),
        step=jnp.zeros((), jnp.int32),
    )
    variables = of_first_seed(experiment.shared)
    lowered = jax.jit(program.task.value_and_grad).lower(variables, batch)
    counted = lowered.compile().cost_analysis()
    return float((counted or {}).get("flops", 0))


def lanes(experiment: Experiment) -> tuple[dict[str, float], float, dict[str, Any]]:
    """Run the rounds of an experiment on lanes.

    Returns:
      Seconds of a steady round, seconds of an evaluation, and the rest of the record.
    """
    seed = next(iter(experiment.plans))
    run = experiment.run(seed)
    rows = [event[1] for event in events([run], run.program) if not isinstance(event, CommitPoint)]

    # The first third of the rounds is warm-up.
    walls = [row.timing["wall_seconds"] for row in rows]
    steady_seconds = spread(np.diff(walls)[len(walls) // 3 :].tolist())

    def evaluate() -> None:
        jax.block_until_ready(run.evaluate(run.server))

    evaluation_seconds = min(timed(evaluate) for _ in range(TRIALS))
    efficiency = [row.timing["lane_efficiency"] for row in rows[1:]]
    details = {
        "lane_efficiency": statistics.mean(efficiency),
        "compile_seconds": rows[-1].timing["compile_seconds"],
        "plan_seconds": _plan_seconds(experiment, run),
        "evaluation_seconds": evaluation_seconds,
        "peak_bytes": memory_peak(),
    }
    return steady_seconds, evaluation_seconds, details


def _plan_seconds(experiment: Experiment, run: Run) -> float:
    """Seconds of what the host does for a round."""
    program = experiment.program
    plan = run.plan

    def plan_round(r: int) -> None:
        work, _ = plan.round(r)
        runs = [RunCohort(plan, work)]
        for first in range(0, len(work.ids), program.width.block):
            lay_out(runs, first, program.width, program.capacity, program.dtype, program.pack)

    return statistics.median(timed(lambda r=r: plan_round(r)) for r in range(1, TRIALS + 1))


def _rivals(
    experiment: Experiment, evaluation_seconds: float, announce: Announce
) -> Iterator[tuple[str, dict[str, float], float]]:
    """Every rival's name, its seconds of a round, and its seconds of compiling.

    The seconds of an evaluation of the test set are added to every round.
    """
    seed, plan = next(iter(experiment.plans.items()))
    program = experiment.program
    spec = experiment.scenario.spec
    shared, frozen = without_frozen(one_model(experiment.client, experiment.shared[seed]))
    task = bound(program.task, frozen, shared)
    data = jax.device_put((np.asarray(plan.federation.train.x), plan.federation.train.y))

    # All cohorts have one shape, so that a rival is compiled once.
    rounds = range(1, min(spec.rounds, 2 * TRIALS) + 1)
    T = max(int(plan.round(r)[0].steps.max()) for r in rounds)
    cohorts = [cohort(plan, r, T, plan.batch_rows, program.dtype) for r in rounds]

    for name, play in rivals(task, spec.client.lr).items():
        announce(f"{spec.name}: {name}")
        compiled_before = compile_seconds()
        jax.block_until_ready(play(shared, cohorts[0], data))
        compiling_seconds = compile_seconds() - compiled_before

        seconds = []
        begin = time.perf_counter()
        for c in cohorts:
            taken = timed(lambda c=c, play=play: jax.block_until_ready(play(shared, c, data)))
            seconds.append(taken + evaluation_seconds)
            if time.perf_counter() - begin > RIVAL_SECONDS:
                break
        yield name, spread(seconds), compiling_seconds


def _work(experiment: Experiment, flops: float, peak: float) -> Work:
    """How much an average round computes, with `flops` in a local step and a `peak` in FLOP/s."""
    plan = of_first_seed(experiment.plans)
    rounds = range(1, experiment.scenario.spec.rounds + 1)
    steps = statistics.mean(int(plan.round(r)[0].steps.sum()) for r in rounds)
    return Work(round_flops=steps * flops, round_steps=steps, peak=peak)


def _rates(seconds: dict[str, float], work: Work) -> dict[str, Any]:
    """The columns of a record that follow from the seconds of a round."""
    median = seconds["seconds"]
    return {
        **seconds,
        "steps_per_second": work.round_steps / median,
        "gflops": 1e-9 * work.round_flops / median,
        "peak_gflops": 1e-9 * work.peak,
        "share_of_peak": work.round_flops / median / work.peak,
    }

"""`fedsim bench`: how fast a scenario's rounds are here, beside the plain ways to run them and the machine's own peak."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.assemble import Experiment, build
from fedsim.assemble.experiment import numerics
from fedsim.bench.baselines import cohort, rivals
from fedsim.engine.clock import compile_seconds
from fedsim.engine.layout import lay_out
from fedsim.engine.loop import events
from fedsim.engine.run import CommitPoint, Run
from fedsim.engine.slots import RunCohort
from fedsim.machine import memory_peak
from fedsim.scenario import Scenario
from fedsim.types import Batch

SIDE = 2048  # of the square matrices whose product gives the peak
TRIALS = 5
RIVAL_SECONDS = 6.0  # after which a rival has shown what it can

Say = Callable[[str], None]


def bench(scenario: Scenario, say: Say = lambda text: None) -> Iterator[dict[str, Any]]:
    """Measure a scenario of plain local SGD and `mean` -> a record for the lanes, then one for every rival.

    Args:
      scenario: as read; its rounds are played with an evaluation each.
      say: called with what is measured next.
    """
    with numerics(scenario) as devices:
        say(f"{scenario.spec.name}: building")
        peak = matmul_peak(scenario.spec.numerics.dtype)
        experiment = build(scenario, devices=devices)
        flops = step_flops(experiment)
        say(f"{scenario.spec.name}: lanes")
        ours, evaluation, run = lanes(experiment)
        rounds = _rates(ours, experiment, flops, peak)
        yield {
            "workload": scenario.spec.name,
            "how": f"lanes ({experiment.program.width.lanes})",
            **rounds,
            **run,
        }
        for name, seconds, compiling in _rivals(experiment, evaluation, say):
            rates = _rates(seconds, experiment, flops, peak)
            against = {
                "times_lanes": seconds["seconds"] / ours["seconds"],
                "compile_seconds": compiling,
            }
            yield {"workload": scenario.spec.name, "how": name, **rates, **against}


def matmul_peak(dtype: str) -> float:
    """FLOP/s of a large matrix product, the best of several."""
    a = jnp.ones((SIDE, SIDE), dtype)
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    return 2 * SIDE**3 / min(timed(lambda: product(a).block_until_ready()) for _ in range(TRIALS))


def step_flops(experiment: Experiment) -> float:
    """Floating-point operations of one local step of one client, as XLA counts them."""
    program, plan = experiment.program, next(iter(experiment.plans.values()))
    f, B = plan.federation, program.room.batch
    batch = Batch(
        jnp.zeros((B, *f.train.x.shape[1:]), f.train.x.dtype),
        jnp.zeros((B, *f.train.y.shape[1:]), f.train.y.dtype),
        jnp.ones(B, bool),
        jax.random.key(0),
        jnp.zeros((), jnp.int32),
    )
    shared = next(iter(experiment.shared.values()))
    variables = {name: shared[name] for name in ("params", "stats")}
    counted = jax.jit(program.task.value_and_grad).lower(variables, batch).compile().cost_analysis()
    return float((counted or {}).get("flops", 0))


def lanes(experiment: Experiment) -> tuple[dict[str, float], float, dict[str, Any]]:
    """Our rounds -> (seconds of a steady one, seconds of an evaluation, the rest of the record)."""
    seed = next(iter(experiment.plans))
    run = experiment.run(seed)
    rows = [event[1] for event in events([run], run.program) if not isinstance(event, CommitPoint)]
    walls = [row.timing["wall_seconds"] for row in rows]
    steady = spread(np.diff(walls)[len(walls) // 3 :].tolist())
    evaluation = min(
        timed(lambda: jax.block_until_ready(run.evaluate(run.server))) for _ in range(TRIALS)
    )
    efficiency = [row.timing["lane_efficiency"] for row in rows[1:]]
    record = {
        "lane_efficiency": statistics.mean(efficiency),
        "compile_seconds": rows[-1].timing["compile_seconds"],
        "plan_seconds": _plan_seconds(experiment, run),
        "evaluation_seconds": evaluation,
        "peak_bytes": memory_peak(),
    }
    return steady, evaluation, record


def _plan_seconds(experiment: Experiment, run: Run) -> float:
    """What the host does for a round."""
    program, plan = experiment.program, run.plan

    def planned(r: int) -> None:
        work, _ = plan.round(r)
        for first in range(0, len(work.ids), program.width.block):
            lay_out(
                [RunCohort(plan, work)],
                first,
                program.width,
                program.room,
                program.dtype,
                program.pack,
            )

    return statistics.median(timed(lambda r=r: planned(r)) for r in range(1, TRIALS + 1))


def _rivals(
    experiment: Experiment, evaluation: float, say: Say
) -> Iterator[tuple[str, dict[str, float], float]]:
    """Every rival's seconds a round, with an evaluation of the test set added, and its seconds of compiling."""
    seed, plan = next(iter(experiment.plans.items()))
    lr = experiment.scenario.spec.client.lr
    data = jax.device_put((np.asarray(plan.federation.train.x), plan.federation.train.y))
    rounds = range(1, min(experiment.scenario.spec.rounds, 2 * TRIALS) + 1)
    T, B = max(int(plan.round(r)[0].steps.max()) for r in rounds), experiment.program.room.batch
    cohorts = [cohort(plan, r, T, B, experiment.program.dtype) for r in rounds]  # all of one shape
    for name, play in rivals(experiment.program.task, lr).items():
        say(f"{experiment.scenario.spec.name}: {name}")
        shared, compiling, taken = experiment.shared[seed], compile_seconds(), []
        jax.block_until_ready(play(shared, cohorts[0], data))
        compiling, began = compile_seconds() - compiling, time.perf_counter()
        for c in cohorts:
            taken.append(
                timed(lambda c=c, shared=shared: jax.block_until_ready(play(shared, c, data)))
                + evaluation
            )
            if time.perf_counter() - began > RIVAL_SECONDS:
                break
        yield name, spread(taken), compiling


def _rates(
    seconds: dict[str, float], experiment: Experiment, flops: float, peak: float
) -> dict[str, Any]:
    plan = next(iter(experiment.plans.values()))
    rounds = range(1, experiment.scenario.spec.rounds + 1)
    steps = statistics.mean(int(plan.round(r)[0].steps.sum()) for r in rounds)
    return {
        **seconds,
        "steps_per_second": steps / seconds["seconds"],
        "gflops": 1e-9 * steps * flops / seconds["seconds"],
        "peak_gflops": 1e-9 * peak,
        "share_of_peak": steps * flops / seconds["seconds"] / peak,
    }


def timed(work: Callable[[], Any]) -> float:
    """Seconds that some work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Median and range of several measurements."""
    return {"seconds": statistics.median(seconds), "least": min(seconds), "most": max(seconds)}

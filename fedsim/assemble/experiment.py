"""The build: a checked scenario becomes plans (host) and a program (device)."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim import tree
from fedsim.assemble.checked import checked
from fedsim.assemble.federation import federations_of, resolved_data
from fedsim.assemble.links import locate_link_errors
from fedsim.assemble.machines import resolved_cohort, resolved_fleet
from fedsim.assemble.memory import allocations, check_memory, run_footprint
from fedsim.assemble.model import start_variables
from fedsim.assemble.plans import plans_of
from fedsim.assemble.programs import HashableSection, serving
from fedsim.data import Federation
from fedsim.engine.footprint import least
from fedsim.engine.mesh import mesh
from fedsim.engine.pack import Packer, Width, capacity, longest_first
from fedsim.engine.records import Program
from fedsim.engine.run import Policy, Run
from fedsim.engine.threads import useful_threads
from fedsim.fleet import Plan
from fedsim.machine import compile_cache, devices_of, fix_threads, platform
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client


class Experiment(NamedTuple):
    """Everything a run of a scenario needs; one program for all seeds."""

    scenario: Scenario  # with `auto` resolved to numbers
    method: str
    program: Program
    plans: dict[int, Plan]
    shared: dict[int, Any]  # start variables by seed
    client: Client  # the method's hooks, as the lanes run them
    counted: dict[str, int]  # bytes by purpose that a run holds, besides what the process does

    def run(self, seed: int, folder: Path | None = None) -> Run:
        """One seed, ready for `events` (inside `numerics`); `folder`: for client memory that does not fit."""
        spec = self.scenario.spec
        policy = Policy(
            nonfinite=spec.on_nonfinite == "stop",
            impossible=spec.on_impossible == "stop",
            aggregates=aggregates(spec),
        )
        return Run(
            self.program,
            self.plans[seed],
            self.shared[seed],
            jax.random.key(seed),
            spec.rounds,
            spec.evaluate.every,
            policy,
            folder,
            int(spec.checkpoint.resident_mb * 1e6),
        )


def aggregates(spec: Any) -> bool:
    """Whether a run aggregates rounds by design; where it does not, a run without any is done all the same.

    Args:
      spec: the sections of a scenario.
    """
    return spec.rounds > 0


@contextlib.contextmanager
def numerics(
    scenario: Scenario, threads: int | None = None, device: str | None = None
) -> Iterator[list[Any]]:
    """The float type and precision of a scenario, by context, and the compile cache: the host program's defaults stay as they
    are.

    Args:
      scenario: as read.
      threads: of the run that is repeated or goes on, where the scenario leaves the number to the machine.
      device: as `devices_of` takes it.

    Yields:
      the devices to train on; everything else happens on the first one of this process.
    """
    spec = scenario.spec.numerics
    fix_threads(threads if spec.threads == "auto" else spec.threads)
    devices = devices_of(device)
    local = next(d for d in devices if d.process_index == jax.process_index())
    precision = jax.default_matmul_precision(spec.matmul_precision)
    # a hyper-parameter beyond the float type is infinite, and what it does to a model shows in its rounds
    overflow = np.errstate(over="ignore")
    with (
        compile_cache(),
        jax.enable_x64(spec.dtype == "float64"),
        precision,
        jax.default_device(local),
        overflow,
    ):
        yield devices


@locate_link_errors
def build(
    scenario: Scenario,
    *,
    data=None,
    model=None,
    params=None,
    loss=None,
    pack: Packer = longest_first,
    devices: Sequence[Any] | None = None,
    partition: Callable[..., dict[int, Federation]] = federations_of,
) -> Experiment:
    """Plans and program of a scenario (call it inside `numerics`).

    Args:
      scenario: as read.
      data: `Arrays` in place of the scenario's data set.
      model: any model that `as_model` takes, in place of the scenario's.
      params: start parameters in place of the model's own.
      loss: `f(outputs, y) -> loss per row` in place of cross-entropy (labels) or squared error (targets).
      pack: which lane each client lands on; changes no bit.
      devices: on which the lanes train (None: the default one); changes no bit either.
      partition: in place of `federations_of`, by whoever builds several scenarios over the same samples.

    Raises:
      ScenarioError: for combinations that cannot run, with a line for each.
      DataError: for samples that cannot be learned from.
    """
    spec = scenario.spec
    dtype = np.dtype(spec.numerics.dtype)
    inputs = checked(scenario, data, model, params, loss, partition)
    federations, learned, trained = inputs.federations, inputs.learned, inputs.trained
    shared, shapes = inputs.shared, inputs.shapes
    some = next(iter(federations.values()))
    parts = inputs.cohort, inputs.timetable, inputs.fleet, inputs.local
    labelled = "labels" in trained.client.needs
    plans = plans_of(
        scenario, federations, *parts, labelled=labelled, down=inputs.down, up=inputs.up
    )
    one, start = (
        next(iter(plans.values())),
        partial(start_variables, scenario, learned[0], trained, params=params),
    )
    K = one.nominal
    model_bytes = tree.nbytes(shapes["params"])
    width = _width(spec, model_bytes, K, platform())
    threads = useful_threads(_work(one, model_bytes, inputs.activations))
    longest = max(plans.values(), key=lambda plan: int(plan.steps.max(initial=0)))
    check_memory(scenario, least(model_bytes, width, longest, K, len(spec.seeds)))
    shards = len(devices) if devices and len(devices) > 1 else min(threads, -(-K // width.lanes))
    several = devices is not None and len(devices) > 1
    room = capacity([[plan] for plan in plans.values()], width, pack, shards, apart=several)
    shape = {"width": width.lanes, "block": width.block, "blocks": room.blocks}
    wire, links, broadcast = (
        tuple(map(HashableSection, sections))
        for sections in (spec.wire, spec.server, spec.broadcast)
    )
    drop = spec.on_nonfinite != "keep"
    server = serving(
        learned, wire, links, HashableSection(spec.schedule), broadcast, drop=drop, **shape
    )
    on = tuple(devices) if devices else None
    program = Program(
        mesh=mesh(trained.lanes, on, shards),
        server=server,
        evaluate=trained.evaluate,
        evaluators=useful_threads(max(len(x) for x, _ in some.scored.values()) * model_bytes),
        task=trained.task,
        width=width,
        room=room,
        dtype=dtype,
        pack=pack,
        diagnoses=spec.evaluate.diagnostics,
        probe=mesh(trained.probe, on, shards) if server.probes else None,
        own=mesh(trained.own) if server.refers else None,
        solo=trained.client.solo,
    )
    counted = run_footprint(scenario, program, one, shapes, inputs.activations).parts
    check_memory(scenario, counted)
    with allocations(scenario, counted):
        shared = jax.block_until_ready(shared or {seed: start(seed) for seed in spec.seeds})
    settled = spec.numerics.model_copy(update=width._asdict())
    resolved_sections = {
        "numerics": settled,
        "model": inputs.model,
        "data": resolved_data(scenario, data, some),
    }
    resolved_sections["fleet"] = resolved_fleet(scenario)
    resolved_sections["cohort"] = resolved_cohort(scenario)
    done = scenario._replace(spec=spec.model_copy(update=resolved_sections))
    return Experiment(
        done, spec.method or _method(spec), program, plans, shared, trained.client, counted
    )


SMALL = 8192  # bytes of a model of which many lanes fit into a core's cache
OUTPUTS = 32  # of a convolution, each of which reads its columns


def _width(spec: Any, model_bytes: int, K: int, backend: str) -> Width:
    """`auto` resolved by a pure function of model, cohort and backend kind: never of free memory, cores or devices."""
    wanted = spec.numerics
    widest = min(
        64
        if backend != "cpu"
        else 16
        if model_bytes <= SMALL
        else 8
        if model_bytes <= 1 << 21
        else 1,
        K,
    )
    waste = lambda lanes: (
        -(-K // lanes) * lanes - K
    )  # idle lanes at the end of a small cohort of equal clients
    even = min(range(widest, widest // 2, -1), key=waste) if K <= 2 * widest else widest
    lanes_ = even if wanted.lanes == "auto" else wanted.lanes
    block = (
        max(min(K, 1024, (1 << 28) // max(model_bytes, 1)), 1)
        if wanted.block == "auto"
        else wanted.block
    )
    return Width(lanes_, block)


def _work(plan: Plan, model_bytes: int, activations: int) -> float:
    """Bytes that the products of an average round read, roughly: the model once a row, the widest columns once an output."""
    rows = plan.local.widest(plan.sizes)
    return (
        plan.nominal
        * float(plan.steps[plan.present].mean())
        * (rows * model_bytes + OUTPUTS * activations)
    )


def _method(spec: Any) -> str:
    """What stands in the `method` column: `fedavg`, or an asynchronous schedule, for plain local training and the plain
    mean, else the rule.
    """
    rule = next(section for section in spec.server if section.family == "rule")
    plain = spec.client.kind == "sgd" and rule.kind == "mean" and len(spec.server) == 1
    schedule = "fedavg" if spec.schedule.kind == "sync" else spec.schedule.kind
    return schedule if plain else rule.kind

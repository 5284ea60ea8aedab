"""Building an experiment: a checked scenario becomes plans (host) and a program (device)."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim import tree
from fedsim.assemble.checked import Checked, checked
from fedsim.assemble.federation import federations_of, resolved_data
from fedsim.assemble.links import locate_link_errors
from fedsim.assemble.machines import resolved_cohort, resolved_fleet
from fedsim.assemble.memory import allocations, check_memory, run_footprint
from fedsim.assemble.model import start_variables
from fedsim.assemble.plans import plans_of
from fedsim.assemble.programs import ServerShape, server_sections, serving
from fedsim.data import Federation
from fedsim.engine.footprint import least
from fedsim.engine.mesh import mesh
from fedsim.engine.pack import Capacity, Packer, Width, capacity, longest_first
from fedsim.engine.records import Program
from fedsim.engine.run import Policy, Run
from fedsim.engine.threads import useful_threads
from fedsim.fleet import Plan
from fedsim.machine import compile_cache, devices_of, fix_threads, platform
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client

# Widths that `numerics.lanes: auto` starts from, by backend and size of the model.
ACCELERATOR_LANES = 64
SMALL_MODEL = 8192  # bytes; many lanes of such a model fit into a core's cache
SMALL_MODEL_LANES = 16
MEDIUM_MODEL = 1 << 21  # bytes
MEDIUM_MODEL_LANES = 8

# Limits of `numerics.block: auto`.
MAX_BLOCK = 1024
MAX_BLOCK_BYTES = 1 << 28

OUTPUT_CHANNELS = 32  # of a typical convolution, each of which reads the columns of its input


class Experiment(NamedTuple):
    """Everything that the runs of a scenario need; all seeds share one program."""

    scenario: Scenario  # with `auto` resolved to numbers
    method: str
    program: Program
    plans: dict[int, Plan]  # by seed
    shared: dict[int, Any]  # start variables by seed
    client: Client  # the method's hooks, as the lanes run them
    counted: dict[str, int]  # bytes by purpose that a run adds to what the process holds

    def run(self, seed: int, folder: Path | None = None) -> Run:
        """Return the run of one seed, ready for `engine.loop.events` inside `numerics`.

        Args:
          seed: one of the scenario's seeds.
          folder: where client memory goes that does not fit on the device.
        """
        spec = self.scenario.spec
        policy = Policy(
            nonfinite=spec.on_nonfinite == "stop",
            impossible=spec.on_impossible == "stop",
            aggregates=spec.rounds > 0,  # a run of no rounds is done without an aggregate
        )
        return Run(
            program=self.program,
            plan=self.plans[seed],
            shared=self.shared[seed],
            key=jax.random.key(seed),
            rounds=spec.rounds,
            every=spec.evaluate.every,
            policy=policy,
            folder=folder,
            resident=int(spec.checkpoint.resident_mb * 1e6),
        )


@contextlib.contextmanager
def numerics(
    scenario: Scenario, threads: int | None = None, device: str | None = None
) -> Iterator[list[Any]]:
    """Compute in a scenario's float type and precision, with the compile cache, in this context.

    The defaults of the host program are the same afterwards.

    Args:
      scenario: as read.
      threads: threads of a run that is repeated or resumed; used where the scenario says `auto`.
      device: as `devices_of` takes it.

    Yields:
      The devices to train on; everything else happens on the first one of this process.
    """
    spec = scenario.spec.numerics
    fix_threads(threads if spec.threads == "auto" else spec.threads)
    devices = devices_of(device)
    process = jax.process_index()
    first_local_device = next(d for d in devices if d.process_index == process)

    with (
        compile_cache(),
        jax.enable_x64(spec.dtype == "float64"),
        jax.default_matmul_precision(spec.matmul_precision),
        jax.default_device(first_local_device),
        # A hyper-parameter beyond the float type is infinite; its rounds show what that does.
        np.errstate(over="ignore"),
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
    """Return the plans and the program of a scenario (call it inside `numerics`).

    Args:
      scenario: as read.
      data: `Arrays` in place of the scenario's data set.
      model: any model that `as_model` takes, in place of the scenario's.
      params: start parameters in place of the model's.
      loss: `f(outputs, y) -> loss per row` in place of cross-entropy (labels) or squared error
        (targets).
      pack: assigns clients to lanes; changes no bit.
      devices: on which the lanes train (None: the default one); changes no bit either.
      partition: in place of `federations_of`, for building several scenarios over the same samples.

    Raises:
      ScenarioError: for combinations that cannot run, with a line for each.
      DataError: for samples that cannot be learned from.
    """
    inputs = checked(scenario, data, model, params, loss, partition)
    plans = plans_of(
        scenario,
        inputs.federations,
        inputs.plan_inputs,
        labelled="labels" in inputs.trained.client.needs,
        bytes_down=inputs.bytes_down,
        bytes_up=inputs.bytes_up,
    )
    layout = _layout(scenario, inputs, plans, pack, devices)
    program = _program(scenario.spec, inputs, layout, pack, devices)

    plan = next(iter(plans.values()))
    footprint = run_footprint(scenario, program, plan, inputs.shapes, inputs.activation_bytes)
    check_memory(scenario, footprint.parts)
    with allocations(scenario, footprint.parts):
        shared = jax.block_until_ready(inputs.shared or _start(scenario, inputs, params))

    return Experiment(
        scenario=_resolved(scenario, inputs, layout.width, data),
        method=_method_name(scenario.spec),
        program=program,
        plans=plans,
        shared=shared,
        client=inputs.trained.client,
        counted=footprint.parts,
    )


class Layout(NamedTuple):
    """How a cohort is spread over lanes, blocks and shards."""

    width: Width  # lanes and block
    shards: int  # devices, or threads of one device
    capacity: Capacity  # static shapes that hold every round of every seed


def _layout(
    scenario: Scenario,
    inputs: Checked,
    plans: dict[int, Plan],
    pack: Packer,
    devices: Sequence[Any] | None,
) -> Layout:
    """Choose the shapes of the program.

    Raises:
      TooLargeError: for what cannot fit into memory, whatever the rounds are.
    """
    spec = scenario.spec
    plan = next(iter(plans.values()))
    K = plan.nominal
    model_bytes = tree.nbytes(inputs.shapes["params"])
    width = Width(
        lanes=_lanes(spec.numerics.lanes, model_bytes, K, platform()),
        block=_block(spec.numerics.block, model_bytes, K),
    )

    # What cannot fit is refused here, because `capacity` plans the rounds, which takes long.
    longest_plan = max(plans.values(), key=_longest_client_steps)
    check_memory(scenario, least(model_bytes, width, longest_plan, K, len(spec.seeds)))

    several_devices = devices is not None and len(devices) > 1
    if devices is not None and several_devices:
        shards = len(devices)
    else:
        threads = useful_threads(_bytes_read(plan, model_bytes, inputs.activation_bytes))
        full_shards = -(-K // width.lanes)  # rounded up
        shards = min(threads, full_shards)

    one_bank_per_seed = [[plan] for plan in plans.values()]
    room = capacity(one_bank_per_seed, width, pack, shards, apart=several_devices)
    return Layout(width, shards, room)


def _lanes(requested: int | str, model_bytes: int, K: int, backend: str) -> int:
    """Return the number of lanes for a cohort of K clients.

    The bits of a result depend on it, so `auto` is a function of model, cohort and backend alone,
    never of free memory, cores or devices.
    """
    if isinstance(requested, int):
        return requested

    widest = min(_widest_lanes(model_bytes, backend), K)
    if K > 2 * widest:
        return widest

    # In a small cohort the last clients leave lanes idle: of the widths above half of the widest,
    # take the one that leaves the fewest idle when all clients train equally long.
    def idle_lanes(lanes: int) -> int:
        turns = -(-K // lanes)  # rounded up
        return turns * lanes - K

    widths = range(widest, widest // 2, -1)
    return min(widths, key=idle_lanes)


def _widest_lanes(model_bytes: int, backend: str) -> int:
    """The lanes that train fastest where there are clients enough."""
    if backend != "cpu":
        return ACCELERATOR_LANES
    if model_bytes <= SMALL_MODEL:
        return SMALL_MODEL_LANES
    if model_bytes <= MEDIUM_MODEL:
        return MEDIUM_MODEL_LANES
    return 1


def _block(requested: int | str, model_bytes: int, K: int) -> int:
    """Return the slots of a block for a cohort of K clients.

    Like `_lanes`, it decides bits. `auto` is the whole cohort, up to MAX_BLOCK slots and as many
    messages as fit into MAX_BLOCK_BYTES.
    """
    if isinstance(requested, int):
        return requested
    messages = MAX_BLOCK_BYTES // max(model_bytes, 1)
    return max(1, min(K, MAX_BLOCK, messages))


def _longest_client_steps(plan: Plan) -> int:
    """Local steps of the client that trains longest."""
    return int(plan.steps.max(initial=0))


def _bytes_read(plan: Plan, model_bytes: int, activation_bytes: int) -> float:
    """Estimate the bytes that the matrix products of an average round read.

    The model is read once for a row of a batch, the widest columns once for an output channel.
    """
    batch_rows = plan.local.widest(plan.sizes)
    mean_steps = float(plan.steps[plan.present].mean())
    step_bytes = batch_rows * model_bytes + OUTPUT_CHANNELS * activation_bytes
    return plan.nominal * mean_steps * step_bytes


def _program(
    spec: Any,
    inputs: Checked,
    layout: Layout,
    pack: Packer,
    devices: Sequence[Any] | None,
) -> Program:
    """The compiled half of an experiment."""
    trained = inputs.trained
    server = serving(
        inputs.training_inputs,
        server_sections(spec),
        drop=spec.on_nonfinite != "keep",
        shape=ServerShape(
            width=layout.width.lanes,
            block=layout.width.block,
            blocks=layout.capacity.blocks,
        ),
    )

    lane_devices = tuple(devices) if devices else None
    probe = mesh(trained.probe, lane_devices, layout.shards) if server.probes else None
    server_training = mesh(trained.server_lanes) if server.refers else None

    # Test sets are cut for as many threads as are worth having.
    federation = next(iter(inputs.federations.values()))
    test_samples = max(len(x) for x, _ in federation.scored.values())
    evaluators = useful_threads(test_samples * tree.nbytes(inputs.shapes["params"]))

    return Program(
        mesh=mesh(trained.lanes, lane_devices, layout.shards),
        server=server,
        evaluate=trained.evaluate,
        evaluators=evaluators,
        task=trained.task,
        width=layout.width,
        room=layout.capacity,
        dtype=np.dtype(spec.numerics.dtype),
        pack=pack,
        diagnoses=spec.evaluate.diagnostics,
        probe=probe,
        own=server_training,
        solo=trained.client.solo,
    )


def _start(scenario: Scenario, inputs: Checked, params: Any) -> dict[int, Any]:
    """Start variables by seed."""
    model = inputs.training_inputs.model
    return {
        seed: start_variables(scenario, model, inputs.trained, seed, params)
        for seed in scenario.spec.seeds
    }


def _resolved(scenario: Scenario, inputs: Checked, width: Width, data: Any) -> Scenario:
    """The scenario with what the build decided written out."""
    federation = next(iter(inputs.federations.values()))
    spec = scenario.spec
    sections = {
        "numerics": spec.numerics.model_copy(update=width._asdict()),
        "model": inputs.model,
        "data": resolved_data(scenario, data, federation),
        "fleet": resolved_fleet(scenario),
        "cohort": resolved_cohort(scenario),
    }
    return scenario._replace(spec=spec.model_copy(update=sections))


def _method_name(spec: Any) -> str:
    """What the column `method` says where a scenario names no method.

    The rule; for plain local training and a plain mean, `fedavg` or the asynchronous schedule.
    """
    if spec.method:
        return spec.method
    rule = next(section for section in spec.server if section.family == "rule")
    plain = spec.client.kind == "sgd" and rule.kind == "mean" and len(spec.server) == 1
    if not plain:
        return rule.kind
    if spec.schedule.kind == "sync":
        return "fedavg"
    return spec.schedule.kind

"""How a cohort is laid out on the device: lanes, blocks, shards, and the shapes that hold it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedsim import tree
from fedsim.assemble.facts import Facts
from fedsim.assemble.memory import check_memory
from fedsim.assemble.plans import of_first_seed
from fedsim.engine.footprint import minimum_bytes
from fedsim.engine.models import models_of
from fedsim.engine.pack import Capacity, Packer, Width, capacity
from fedsim.engine.threads import useful_threads
from fedsim.fleet import Plan
from fedsim.machine import platform
from fedsim.models.freezing import with_all_leaves
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import Numerics

# The lanes that train fastest, given enough clients, by backend and bytes of the model.
ACCELERATOR_LANES = 64
ACCELERATOR_BYTES = 1 << 34  # of all lanes; a constant, because the number of lanes decides bits
VALUES_OF_A_STEP = 40  # as large as the largest one; `resnet` holds 36 to 39, `cnn` 11
SMALL_MODEL = 8192  # many lanes of such a model fit into a core's cache
SMALL_MODEL_LANES = 16
MEDIUM_MODEL = 1 << 21
MEDIUM_MODEL_LANES = 8

# Steps with large values have large products already: more lanes only push each other out of the
# cache, and stand idle while the longest client trains. A constant, as it decides bits.
CORE_BYTES = 1 << 19  # of the largest value of all lanes

# Limits of `numerics.block: auto`.
MAX_BLOCK = 1024  # slots
MAX_BLOCK_BYTES = 1 << 28  # of their messages

OUTPUT_CHANNELS = 32  # of a typical convolution, each of which reads the columns of its input


class Layout(NamedTuple):
    """How a cohort is spread over lanes, blocks and shards."""

    width: Width  # lanes and block
    shards: int  # devices, or threads of one device
    capacity: Capacity  # static shapes that hold every round of every seed


def layout_of(
    scenario: Scenario,
    inputs: Facts,
    plans: dict[int, Plan],
    *,
    pack: Packer,
    devices: Sequence[Any] | None,
) -> Layout:
    """Return the layout of a scenario's rounds."""
    spec = scenario.spec
    plan = of_first_seed(plans)
    K = plan.nominal
    model_bytes = tree.nbytes(inputs.shapes["params"])
    samples = len(plan.federation.train.x)
    nominal_rows = plan.unclipped_local.nominal_rows(samples, plan.federation.N)
    width = width_of(spec.numerics, model_bytes, inputs.activation_bytes[nominal_rows], K)

    # Refuse what cannot fit before `capacity` plans all rounds, which takes time.
    longest_plan = max(plans.values(), key=lambda plan: plan.steps.max(initial=0))
    counted = minimum_bytes(model_bytes, width, longest_plan, K, seeds=len(spec.seeds))
    check_memory(scenario, counted)

    device_count = len(devices) if devices else 1
    if device_count > 1:
        shards = device_count
    else:
        read_bytes = tree.nbytes(with_all_leaves(inputs.shapes)["params"])
        activation_bytes = max(inputs.activation_bytes.values())
        threads = useful_threads(_bytes_read(plan, read_bytes, activation_bytes))
        busy_shards = -(-K // width.lanes)  # rounded up; the lanes of further ones would be idle
        shards = min(threads, busy_shards)

    shapes = capacity(
        [[plan] for plan in plans.values()],  # every seed is trained by itself
        width,
        pack,
        shards,
        samples_by_shard=device_count > 1,  # each device holds the samples of its clients
        models=models_of(inputs.trained.client),
    )
    return Layout(width, shards, shapes)


def width_of(numerics: Numerics, model_bytes: int, activation_bytes: int, K: int) -> Width:
    """Return lanes and block of a cohort of K clients."""
    return Width(
        lanes=_lanes(numerics.lanes, model_bytes, activation_bytes, K, platform()),
        block=_block(numerics.block, model_bytes, K),
    )


def _lanes(
    requested: int | str, model_bytes: int, activation_bytes: int, K: int, backend: str
) -> int:
    """Return the number of lanes for a cohort of K clients.

    The bits of a result depend on it, so `auto` is a function of model, batch, cohort and backend
    alone, never of free memory, cores, devices or seeds.
    """
    if isinstance(requested, int):
        return requested

    widest = min(_fastest_lanes(model_bytes, activation_bytes, backend), K)
    if K > 2 * widest:
        return widest

    # In a small cohort the last clients leave lanes idle. Of the widths above half of the widest,
    # take the one that leaves the fewest idle when all clients train equally long.
    def idle_lanes(lanes: int) -> int:
        turns = -(-K // lanes)  # rounded up
        return turns * lanes - K

    widths = range(widest, widest // 2, -1)
    return min(widths, key=idle_lanes)


def _fastest_lanes(model_bytes: int, activation_bytes: int, backend: str) -> int:
    """Return the number of lanes that trains fastest, given enough clients."""
    if backend != "cpu":
        # A lane holds a client's model and gradient, and what a step makes of a batch.
        lane_bytes = 2 * model_bytes + VALUES_OF_A_STEP * activation_bytes
        return max(1, min(ACCELERATOR_LANES, ACCELERATOR_BYTES // max(lane_bytes, 1)))
    if model_bytes <= SMALL_MODEL:
        most = SMALL_MODEL_LANES
    elif model_bytes <= MEDIUM_MODEL:
        most = MEDIUM_MODEL_LANES
    else:
        most = 1
    return max(1, min(most, CORE_BYTES // max(activation_bytes, 1)))


def _block(requested: int | str, model_bytes: int, K: int) -> int:
    """Return the slots of a block for a cohort of K clients.

    Like `_lanes`, it decides bits. `auto` is the full cohort, up to MAX_BLOCK slots and as many
    messages as fit into MAX_BLOCK_BYTES, in blocks of the same size.
    """
    if isinstance(requested, int):
        return requested
    messages = MAX_BLOCK_BYTES // max(model_bytes, 1)
    most = max(1, min(MAX_BLOCK, messages))
    blocks = max(1, -(-K // most))  # rounded up
    return max(1, -(-K // blocks))


def _bytes_read(plan: Plan, model_bytes: int, activation_bytes: int) -> float:
    """Estimate the bytes that the matrix products of an average round read.

    The model is read once for a row of a batch, the widest columns once for an output channel.
    """
    mean_steps = float(plan.steps[plan.present].mean())
    step_bytes = plan.batch_rows * model_bytes + OUTPUT_CHANNELS * activation_bytes
    return plan.nominal * mean_steps * step_bytes

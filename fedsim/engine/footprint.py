"""The memory that a run will hold, counted from shapes.

Nothing is allocated, compiled or trained. The build refuses by these counts what cannot fit, and
`fedsim check` prints them, next to what the compiler says about the run's programs.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.compose import max_bytes, shaped
from fedsim.data import Federation
from fedsim.engine.frozen import without_frozen
from fedsim.engine.layout import Queues, shapes_of_layout
from fedsim.engine.memory import CLIENT, Memory
from fedsim.engine.mesh import Mesh
from fedsim.engine.models import one_model
from fedsim.engine.own_work import OwnShapes
from fedsim.engine.pack import Width
from fedsim.engine.program import Program
from fedsim.engine.server_records import Messages, RoundStart, ServerState
from fedsim.engine.slots import Slots
from fedsim.fleet import Plan
from fedsim.types import Codec, Mixing

Shape = jax.ShapeDtypeStruct

# Of a client's rows in the tables at the end, as columns and as text (measured with a million).
TABLE_BYTES = 350
# Of an evaluated round in the log and in the tables (measured with a thousand: 1,630 at most).
ROW_BYTES = 2000
# Of a lane's queue on the host.
LANE_BYTES = 200
# Messages of a round from which on the work of a rule is traced and counted: it may hold the
# distances of all pairs.
MANY = 1000


class Footprint(NamedTuple):
    """The memory that a run will hold.

    Attributes:
      bytes_by_purpose: `tables` are held at the end, when the memory of training is free again.
      message: bytes of what one client sends.
      shapes: shapes of what the programs take, by name.
    """

    bytes_by_purpose: dict[str, int]
    message: int
    shapes: dict[str, Any]


class DeviceLimits(NamedTuple):
    """Bytes that may stay on the device.

    If there are more samples, those of each block are handed over with it. If there is more client
    memory, it is in a file.
    """

    samples: float
    memory: float


def minimum_bytes(model_bytes: int, width: Width, plan: Plan, K: int, seeds: int) -> dict[str, int]:
    """Return bytes by purpose that any run holds; `footprint` counts much more.

    Args:
      plan: a seed's plan, none of whose rounds has been planned.
      K: nominal clients of a round.
      seeds: number of runs, whose start models are all made.
    """
    steps = int(plan.steps.max(initial=0))
    lane_models = width.lanes * 2 * model_bytes
    block_models = width.block * model_bytes
    return {
        "start_models": seeds * model_bytes,
        "server": 3 * model_bytes,
        "lanes": lane_models + width.lanes * LANE_BYTES + block_models,
        "batches": steps * (width.lanes * plan.batch_rows * 4 + 8),
        "cohort": 64 * K,
    }


def footprint(
    program: Program, plan: Plan, shared: Any, limits: DeviceLimits, rows: int, activations: int = 0
) -> Footprint:
    """Return what a run holds besides what the process already holds.

    Args:
      shared: shapes of the variables at the start of the run.
      rows: evaluated rounds of all runs.
      activations: bytes of the largest value in one client's pass through the model.
    """
    f = plan.federation
    capacity = program.capacity
    lanes = program.width.lanes
    shards = program.mesh.shards
    devices = len(program.mesh.devices or [None])
    codec = program.server.pipeline.codec

    shared, frozen = without_frozen(shared)
    server = jax.eval_shape(program.server.init, shared, Shape((f.N,), np.bool_))
    own = OwnShapes()
    if program.own_work is not None:
        own = program.own_work.shapes(program, plan, server.shared, frozen)
    probe = probe_pass(program, plan, server.shared, frozen)
    start = _start_shapes(program, plan, server, own)._replace(frozen=frozen)
    shapes = _round_shapes(program, plan, start, limits=limits)

    seat_rows = stacked(shapes.row, capacity.seats)
    on_lanes = shards * (tree.nbytes(shapes.lane) + tree.nbytes(seat_rows))
    stack = tree.nbytes(shapes.messages.rows) if shards > 1 else 0
    work_on_lanes = 2 * shards * lanes * activations
    model = one_model(program.server.client, server.shared)
    versions = plan.survey.max_versions - 1 + 2 * (capacity.models_per_run - 1)
    samples = tree.nbytes((shapes.data, start.server_loss))
    bytes_by_purpose = {
        "samples": samples + _scored_bytes(f) + own.samples,
        "client_memory": tree.nbytes(shapes.store) + 2 * tree.nbytes(shapes.loaded),
        "lanes": on_lanes + lanes * shards * LANE_BYTES + probe.held + own.held,
        # The plan's, those of the layouts of this block and of the next, and the device's.
        "batches": 4 * shards * tree.nbytes(shapes.queues),
        "stack": stack + tree.nbytes(shapes.received),
        "server": 3 * tree.nbytes(server) + versions * tree.nbytes(model),
        "work": max(work_on_lanes, _rule_work(program, shapes, start)),
        "frozen": devices * tree.nbytes(frozen),
        "rows": ROW_BYTES * rows,
        "tables": TABLE_BYTES * f.N + 16 * _table_samples(f),
    }
    if codec is not None:
        bytes_by_purpose["codec"] = lanes * coding_bytes(codec, shapes.row.message.delta)
    by_name = {
        "data": shapes.data,
        "start": start,
        "server": server,
        "store": shapes.store,
        "queues": shapes.queues,
        "slots": shapes.slots,
        "lane": shapes.lane,
        "memory": shapes.memory,
        "rows": seat_rows,
        "messages": shapes.messages,
        "received": shapes.received,
    }
    message = message_bytes(shapes.row, codec) + probe.message
    return Footprint(bytes_by_purpose, message, by_name)


class RoundShapes(NamedTuple):
    """Shapes of what the programs of a round take and return."""

    data: tuple  # (x, y), the training samples on the device
    queues: Queues  # of a shard
    slots: Slots
    store: Memory  # client memory on the device
    loaded: dict[str, Any]  # its rows of a block, by owner
    memory: Any  # those of the client method, by seat of a shard
    lane: Any  # what a shard's lanes carry
    row: Any  # one row of the stack
    messages: Messages  # of a block
    received: Any  # of a round, summed or gathered


def _round_shapes(
    program: Program, plan: Plan, start: RoundStart, limits: DeviceLimits
) -> RoundShapes:
    """Return the shapes of a round."""
    capacity = program.capacity
    memories = program.server.memories
    server = start.server
    queues, slots = shapes_of_layout(program.width, capacity, program.dtype, plan)

    # Client memory: of all members on the device if it fits, else of one cohort.
    store = jax.eval_shape(lambda shared: memories.empty(shared, capacity.members), server.shared)
    if tree.nbytes(store.rows) > limits.memory:
        cohort = capacity.blocks * program.width.block
        if plan.network is not None:  # all nodes mix, whoever trains
            cohort = max(cohort, plan.federation.N)
        store = jax.eval_shape(lambda shared: memories.empty(shared, cohort), server.shared)
    loaded = jax.eval_shape(memories.gather, store, server.shared, slots, start.root)
    stage_memory = {name: rows for name, rows in loaded.items() if name != CLIENT}
    memory = loaded[CLIENT]
    if program.mesh.shards > 1:
        memory = stacked(tree.row_shapes(memory), capacity.seats)

    model = one_model(program.server.client, server.shared)
    lane, row = of_lanes(
        program.mesh,
        model,
        memory,
        queues=queues,
        slots=slots,
        frozen=start.frozen,
    )
    stack = stacked(row, capacity.runs * program.width.block)
    messages = Messages(stack, slots, stage_memory)
    return RoundShapes(
        data=_data_shapes(program, plan.federation, limits),
        queues=queues,
        slots=slots,
        store=store,
        loaded=loaded,
        memory=memory,
        lane=lane,
        row=row,
        messages=messages,
        received=jax.eval_shape(program.server.aggregator.zero, messages, start),
    )


def _start_shapes(program: Program, plan: Plan, server: ServerState, own: OwnShapes) -> RoundStart:
    number: Any = Shape((), program.dtype)
    expected: Any = Shape((2,), program.dtype)
    round_number: Any = Shape((), np.int32)

    mixing = None
    if plan.timetable.mixing is not None:
        mixing = Mixing(program.server.pipeline.shared_params(server.shared), number)
    edges = None
    if plan.network is not None:
        everybody = np.ones(plan.federation.N, bool)
        edges = shapes_of(plan.network.table(1, everybody, program.dtype))
    return RoundStart(
        server=server,
        root=jax.eval_shape(jax.random.key, 0),
        round=round_number,
        clients=number,
        samples=number,
        expected=expected,
        server_loss=own.server_loss,
        reference=own.reference,
        mixing=mixing,
        edges=edges,
    )


def _data_shapes(program: Program, f: Federation, limits: DeviceLimits) -> tuple:
    """Return the shapes of the training samples on the device: all of them, or those of a block."""
    samples = len(f.train.x)
    if f.train.x.nbytes + f.train.y.nbytes > limits.samples:
        samples = program.capacity.samples
    return tuple(Shape((samples, *part.shape[1:]), part.dtype) for part in (f.train.x, f.train.y))


def _scored_bytes(f: Federation) -> int:
    """Return the bytes of the samples that models are scored on."""
    return sum(x.nbytes + y.nbytes for x, y in f.scored.values())


def _table_samples(f: Federation) -> int:
    """Return how many samples the tables at the end refer to."""
    test_samples = int(f.test_holders.indices.max(initial=0)) + 1
    return max(len(f.train.x), test_samples)


def _rule_work(program: Program, shapes: RoundShapes, start: RoundStart) -> int:
    """Return the bytes of the largest value that a rule makes of many messages; 0 for few."""
    messages = program.capacity.blocks * program.width.block
    if not program.server.stacks or messages < MANY:
        return 0
    return largest_value_bytes(
        program.server.update, shapes.received, shapes.store, shapes.slots, start
    )


class ProbePass(NamedTuple):
    """The pass at the global model.

    Attributes:
      held: bytes that it holds.
      message: bytes of one client's message.
      shapes: shapes of its queues, slots, lanes and rows.
    """

    held: int = 0
    message: int = 0
    shapes: tuple = ()


def probe_pass(program: Program, plan: Plan, shared: Any, frozen: Any) -> ProbePass:
    """Return what the pass at the global model takes, where a round has one."""
    mesh = program.probe_mesh
    if mesh is None:
        return ProbePass()
    capacity = program.capacity._replace(steps=program.capacity.probe_steps)
    queues, slots = shapes_of_layout(program.width, capacity, program.dtype, plan)
    lane, row = of_lanes(mesh, shared, memory=(), queues=queues, slots=slots, frozen=frozen)
    rows = stacked(row, capacity.seats)

    message = message_bytes(row, program.server.pipeline.codec)
    if program.server.needs_client_loss:
        message += tree.payload_bytes(row.loss)
    return ProbePass(
        held=mesh.shards * (tree.nbytes(lane) + tree.nbytes(rows)),
        message=message,
        shapes=(queues, slots, lane, rows),
    )


def shapes_of(arrays: Any) -> Any:
    """Return the shapes of arrays."""
    return jax.tree.map(lambda leaf: Shape(leaf.shape, leaf.dtype), arrays)


def of_lanes(
    mesh: Mesh, shared: Any, memory: Any, queues: Queues, slots: Slots, frozen: Any
) -> tuple[Any, Any]:
    """Return the shapes of what a shard's lanes carry, and of one row of what they write."""
    return mesh.lanes.shapes((shared,), memory, queues, slots, frozen)


def stacked(row: Any, rows: int) -> Any:
    """Return the shapes of a stack from those of a row."""
    return jax.tree.map(lambda leaf: Shape((rows, *leaf.shape), leaf.dtype), row)


def message_bytes(row: Any, codec: Codec | None) -> int:
    """Return the most bytes of what one client sends, from the shapes of its row."""
    sent = row.message
    if codec is not None and jax.tree.leaves(sent.delta):
        params = max_bytes(codec, sent.delta)
    else:
        params = tree.payload_bytes(sent.delta)
    return params + tree.payload_bytes((sent.stats, sent.aux))


def coding_bytes(codec: Codec, sent: Any) -> int:
    """Return the bytes of the largest value when a tree is encoded and decoded."""
    leaves = jax.tree.leaves(sent)
    numbers = sum(leaf.size for leaf in leaves)
    x = Shape((numbers,), jnp.result_type(*(leaf.dtype for leaf in leaves)))
    codec = shaped(codec, sent)

    def received(x, memory, key):
        payload, _, memory = codec.encode(x, memory, key)
        return codec.decode(payload, len(x)), memory

    memory = jax.eval_shape(codec.memory, x)
    key = jax.eval_shape(jax.random.key, 0)
    return largest_value_bytes(received, x, memory, key)


def largest_value_bytes(program: Any, *shapes: Any) -> int:
    """Return the bytes of the largest value that a program makes, from a trace of it."""
    traced = jax.make_jaxpr(program)(*shapes)
    return max((tree.nbytes(variable.aval) for variable in _variables(traced.jaxpr)), default=0)


def _variables(jaxpr: Any) -> Iterator[Any]:
    """Yield every value that a traced program makes, also in the programs within it."""
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            if hasattr(variable.aval, "shape"):
                yield variable

        parameters = list(equation.params.values())
        for inner in jax.tree.leaves(parameters, is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from _variables(inner)

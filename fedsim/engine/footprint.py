"""What a run will hold in memory, counted from shapes: nothing is allocated, nothing is compiled,
nothing is trained.

The build refuses by it what cannot fit, and `fedsim check` prints it, beside what the compiler says
of its programs.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.compose import most_bytes, shaped
from fedsim.engine.layout import Queues, laid_out
from fedsim.engine.memory import CLIENT
from fedsim.engine.mesh import Mesh
from fedsim.engine.own_samples import ALONE, own_samples, room_of
from fedsim.engine.pack import Width
from fedsim.engine.records import Program
from fedsim.engine.serving import Messages, RoundStart
from fedsim.engine.slots import Slots
from fedsim.fleet import Plan
from fedsim.types import Codec, Flown

Shape = jax.ShapeDtypeStruct
# of a client's rows in the tables at the end, as columns and as text (measured with a million)
TABLE_BYTES = 350
# of an evaluated round in the log and in the tables (measured with a thousand: 1,630 at the most)
ROW_BYTES = 2000
# messages of a round from which on what a rule computes is traced and counted: distances of all
# pairs
MANY = 1000
LANE_BYTES = 200  # of a lane's queue on the host


class Held(NamedTuple):
    """What a run holds.

    Attributes:
      parts: bytes by purpose; `tables` at the end, when those of training are free again.
      message: bytes of what one client sends.
      shapes: of what the programs take, by name.
    """

    parts: dict[str, int]
    message: int
    shapes: dict[str, Any]


class Kept(NamedTuple):
    """Bytes that stay on the device: beyond them, samples are handed over block by block, and
    memory lives in a file.
    """

    samples: float
    memory: float


def least(model_bytes: int, width: Width, plan: Plan, K: int, seeds: int) -> dict[str, int]:
    """Bytes by purpose that any run holds, before a round of it is planned: much less than
    `footprint` counts.

    Args:
      model_bytes: of the parameters.
      width: lanes and block.
      plan: of a seed.
      K: nominal clients of a round.
      seeds: runs, whose start models are all made.
    """
    steps, B = int(plan.steps.max(initial=0)), plan.local.widest(plan.sizes)
    return {
        "start_models": seeds * model_bytes,
        "server": 3 * model_bytes,
        "lanes": width.lanes * (2 * model_bytes + LANE_BYTES) + width.block * model_bytes,
        "batches": steps * (width.lanes * B * 4 + 8),
        "cohort": 64 * K,
    }


def footprint(
    program: Program, plan: Plan, shared: Any, kept: Kept, rows: int, activations: int = 0
) -> Held:
    """What a run holds besides what the process holds already.

    Args:
      program: of the run.
      plan: of a seed.
      shared: shapes of the start variables.
      kept: what stays on the device.
      rows: evaluated rounds of all runs.
      activations: bytes of the largest value in a pass through the model, of one client.
    """
    f, room, width, programs = plan.federation, program.room, program.width, program.server
    K, shards, memories = width.block, program.mesh.shards, program.server.memories
    queues, slots = laid_out(width, room, program.dtype, plan)
    samples = (
        len(f.train.x) if f.train.x.nbytes + f.train.y.nbytes <= kept.samples else room.samples
    )
    data = tuple(Shape((samples, *part.shape[1:]), part.dtype) for part in (f.train.x, f.train.y))
    number: Any = Shape((), program.dtype)
    expected = Shape((2,), program.dtype)
    server = jax.eval_shape(programs.init, shared, Shape((f.N,), np.bool_))
    about: tuple[Any, ...] = (
        jax.eval_shape(jax.random.key, 0),
        Shape((), np.int32),
        number,
        number,
        expected,
    )
    at = RoundStart(server, *about)
    if programs.scores:
        at = at._replace(own=shapes_of(own_samples(f)))
    if plan.timetable.mixing is not None:
        at = at._replace(flown=Flown(programs.pipeline.travelling(server.shared), number))
    store = jax.eval_shape(lambda start: memories.empty(start, room.members), server.shared)
    if tree.nbytes(store.rows) > kept.memory:
        store = jax.eval_shape(lambda start: memories.empty(start, room.blocks * K), server.shared)
    lent = jax.eval_shape(memories.gather, store, server.shared, slots, at.root)
    remembered = {name: rows for name, rows in lent.items() if name != CLIENT}
    seated = lent[CLIENT] if shards == 1 else stacked(tree_row(lent[CLIENT]), room.seats)
    lane, row = of_lanes(program.mesh, server.shared, seated, queues, slots)
    own = own_training(program, plan, server.shared)
    at = at._replace(reference=own.reference)
    stack = stacked(row, room.runs * K)
    messages = Messages(stack, slots, remembered)
    total = jax.eval_shape(programs.reduction.zero, messages, at)
    before = probe_pass(program, plan, server.shared)
    held_out = [part for pair in f.scored.values() for part in pair]
    many = not programs.pipeline.folds and room.blocks * K >= MANY
    closing = widest(programs.close, total, store, slots, at) if many else 0
    on_lanes = shards * (tree.nbytes(lane) + room.seats * tree.nbytes(row))
    parts = {
        "samples": tree.nbytes((data, at.own))
        + sum(part.nbytes for part in held_out)
        + own.samples,
        "client_memory": tree.nbytes(store) + 2 * tree.nbytes(lent),
        "lanes": on_lanes + width.lanes * shards * LANE_BYTES + before.held + own.held,
        # the plan's, the lay-out of this block and of the next, the device's
        "batches": 4 * shards * tree.nbytes(queues),
        "stack": (tree.nbytes(stack) if shards > 1 else 0) + tree.nbytes(total),
        "server": 3 * tree.nbytes(server)
        + (plan.held - 1 + 2 * (room.versions - 1)) * tree.nbytes(server.shared),
        "work": max(2 * shards * width.lanes * activations, closing),
        "rows": ROW_BYTES * rows,
        "tables": TABLE_BYTES * f.N
        + 16 * max(len(f.train.x), int(f.test_holders.indices.max(initial=0)) + 1),
    }
    shapes = {
        "data": data,
        "at": at,
        "server": server,
        "store": store,
        "queues": queues,
        "slots": slots,
        "lane": lane,
        "seated": seated,
        "rows": stacked(row, room.seats),
        "messages": messages,
        "total": total,
    }
    if programs.pipeline.codec is not None:
        parts["codec"] = width.lanes * coding_bytes(programs.pipeline.codec, row.message.delta)
    return Held(parts, message_bytes(row, programs.pipeline.codec) + before.message, shapes)


class ProbePass(NamedTuple):
    """The pass at the global model: bytes that it holds, bytes of one client's message, and the shapes of its
    program.
    """

    held: int = 0
    message: int = 0
    shapes: tuple = ()


def probe_pass(program: Program, plan: Plan, shared: Any) -> ProbePass:
    """What the pass at the global model takes, where a round has one."""
    mesh = program.probe
    if mesh is None:
        return ProbePass()
    room = program.room._replace(steps=program.room.passes)
    queues, slots = laid_out(program.width, room, program.dtype, plan)
    lane, row = of_lanes(mesh, shared, (), queues, slots)
    losses = program.server.asks_loss * tree.payload_bytes(row.loss)
    held = mesh.shards * (tree.nbytes(lane) + room.seats * tree.nbytes(row))
    return ProbePass(
        held,
        message_bytes(row, program.server.pipeline.codec) + losses,
        (queues, slots, lane, stacked(row, room.seats)),
    )


class OwnTraining(NamedTuple):
    """The server's own training: bytes of its samples, bytes that it holds beside, and the shapes
    of its update.
    """

    samples: int = 0
    held: int = 0
    reference: Any = None


def own_training(program: Program, plan: Plan, shared: Any) -> OwnTraining:
    """What the server's own training takes, where there is one."""
    if program.own is None:
        return OwnTraining()
    own = plan.of_server()
    queues, slots = laid_out(ALONE, room_of(own), program.dtype, own)
    lane, row = of_lanes(program.own, {**shared, "aux": {}}, (), queues, slots)
    reference = row.message.delta
    return OwnTraining(
        tree.nbytes((own.federation.train.x, own.federation.train.y)),
        tree.nbytes((lane, row, reference)),
        reference,
    )


def shapes_of(arrays: Any) -> Any:
    """Shapes in place of arrays."""
    return jax.tree.map(lambda leaf: Shape(leaf.shape, leaf.dtype), arrays)


def of_lanes(mesh: Mesh, shared: Any, memory: Any, queues: Queues, slots: Slots) -> tuple[Any, Any]:
    """Shapes of what a shard's lanes carry, and of one row of what they write."""
    return mesh.lanes.shapes((shared,), memory, queues, slots)


def stacked(row: Any, rows: int) -> Any:
    """Shapes of so many rows of a shape."""
    return jax.tree.map(lambda leaf: Shape((rows, *leaf.shape), leaf.dtype), row)


def tree_row(stack: Any) -> Any:
    """Shapes of one row of a stack."""
    return jax.tree.map(lambda leaf: Shape(leaf.shape[1:], leaf.dtype), stack)


def message_bytes(row: Any, codec: Codec | None) -> int:
    """The most bytes of what one client sends, from the shapes of its row."""
    sent = row.message
    params = (
        most_bytes(codec, sent.delta)
        if codec and jax.tree.leaves(sent.delta)
        else tree.payload_bytes(sent.delta)
    )
    return params + tree.payload_bytes((sent.stats, sent.aux))


def coding_bytes(codec: Codec, sent: Any) -> int:
    """Bytes of the largest value on the way from such a tree to what its receiver makes of it."""
    leaves = jax.tree.leaves(sent)
    x = Shape(
        (sum(leaf.size for leaf in leaves),), jnp.result_type(*(leaf.dtype for leaf in leaves))
    )
    codec = shaped(codec, sent)

    def received(x, memory, key):
        payload, _, memory = codec.encode(x, memory, key)
        return codec.decode(payload, len(x)), memory

    memory = jax.eval_shape(codec.memory, x)
    return widest(received, x, memory, jax.eval_shape(jax.random.key, 0))


def widest(program: Any, *shapes: Any) -> int:
    """Bytes of the largest value that a program makes on its way, from a trace of it."""
    traced = jax.make_jaxpr(program)(*shapes)
    return max((tree.nbytes(variable.aval) for variable in _made(traced.jaxpr)), default=0)


def _made(jaxpr: Any) -> Iterator[Any]:
    """Every value that a traced program makes, those of the programs within it as well."""
    for equation in jaxpr.eqns:
        yield from (variable for variable in equation.outvars if hasattr(variable.aval, "shape"))
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from _made(inner)

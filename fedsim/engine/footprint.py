"""What a run will hold in memory, counted from shapes: nothing is allocated, nothing is compiled, nothing is trained.

The build refuses by it what cannot fit, and `fedsim check` prints it, beside what the compiler says of its programs.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.engine.mesh import Mesh
from fedsim.engine.pack import Jobs, Layout, Width, laid_out, unpack
from fedsim.engine.round import Program
from fedsim.engine.server import RoundInfo
from fedsim.fleet import Plan

Shape = jax.ShapeDtypeStruct
TABLE_BYTES = 350  # of a client's rows in the tables at the end, as columns and as text (measured with a million)
ROW_BYTES = 2000  # of an evaluated round in the log and in the tables (measured with a thousand: 1,630 at the most)
MANY = 1000  # messages of a round from which on it is looked at what a rule makes of them: distances of all pairs
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
    """Bytes that stay on the device: beyond them, samples are handed over block by block, and memory lives in a file."""

    samples: float
    memory: float


def least(model_bytes: int, width: Width, plan: Plan, K: int, seeds: int) -> dict[str, int]:
    """Bytes by purpose that any run holds, before a round of it is looked at: much less than `footprint` counts.

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


def footprint(program: Program, plan: Plan, shared: Any, kept: Kept, rows: int, activations: int = 0) -> Held:
    """What a run holds besides what the process holds already.

    Args:
      program: of the run.
      plan: of a seed.
      shared: shapes of the start variables.
      kept: what stays on the device.
      rows: evaluated rounds of all runs.
      activations: bytes of the largest value in a pass through the model, of one client.
    """
    f, room, width, serve = plan.federation, program.room, program.width, program.serve
    K, crews, memories = width.block, program.mesh.crews, program.memories
    layout = laid_out(width, room, program.dtype, plan.labels.shape[1])
    samples = len(f.x) if f.x.nbytes + f.y.nbytes <= kept.samples else room.samples
    data = tuple(Shape((samples, *part.shape[1:]), part.dtype) for part in (f.x, f.y))
    jobs, number = jobs_of(layout, crews), Shape((), program.dtype)
    about: tuple[Any, ...] = (jax.eval_shape(jax.random.key, 0), Shape((), np.int32), number, number)
    info = RoundInfo(*about)
    server = jax.eval_shape(serve.init, shared, Shape((f.N,), np.bool_))
    store = jax.eval_shape(lambda bank: memories.empty(bank, room.members), server.bank)
    if nbytes(store.rows) > kept.memory:
        store = jax.eval_shape(lambda bank: memories.empty(bank, room.blocks * K), server.bank)
    lent = jax.eval_shape(memories.gather, store, server.bank, jobs, info.root)
    mine = lent if crews == 1 else stacked(tree_row(lent), layout.seats)
    lane, each = of_lanes(program.mesh, server.bank, mine, jobs)
    stack = stacked(each, room.runs * K)
    total = jax.eval_shape(serve.zero, stack, jobs)
    before = first_pass(program, plan, server.bank)
    held_out = (f.x_test, f.y_test, f.x_validation, f.y_validation)
    many = not serve.folds and room.blocks * K >= MANY
    closing = widest(serve.close, total, server, store, jobs, info) if many else 0
    on_lanes = crews * (nbytes(lane) + layout.seats * nbytes(each))
    parts = {
        "samples": nbytes(data) + sum(part.nbytes for part in held_out),
        "client_memory": nbytes(store) + 2 * nbytes(lent),
        "lanes": on_lanes + width.lanes * crews * LANE_BYTES + before.held,
        "batches": 4
        * nbytes(layout[:4]),  # the plan's, the lay-out of this block and of the next one, and the device's
        "stack": (nbytes(stack) if crews > 1 else 0) + nbytes(total),
        "server": 3 * nbytes(server),
        "work": max(2 * crews * width.lanes * activations, closing),
        "rows": ROW_BYTES * rows,
        "tables": TABLE_BYTES * f.N + 16 * len(f.x),
    }
    shapes = {"data": data, "info": info, "server": server, "store": store, "jobs": jobs, "lane": lane, "mine": mine}
    shapes |= {"rows": stacked(each, layout.seats), "stack": stack, "total": total}
    return Held(parts, message_bytes(each) + before.message, shapes)


class Before(NamedTuple):
    """A pass before training: bytes that it holds, bytes of one client's message, and the shapes of its program."""

    held: int = 0
    message: int = 0
    shapes: tuple = ()


def first_pass(program: Program, plan: Plan, bank: Any) -> Before:
    """What the pass before training takes, where there is one."""
    mesh = program.first
    if mesh is None:
        return Before()
    room = program.room._replace(steps=program.room.passes)
    layout = laid_out(program.width, room, program.dtype, plan.labels.shape[1])
    jobs = jobs_of(layout, mesh.crews)
    lane, each = of_lanes(mesh, bank, (), jobs)
    told = program.serve.losses * each.loss.dtype.itemsize
    held = mesh.crews * (nbytes(lane) + layout.seats * nbytes(each))
    return Before(held, message_bytes(each) + told, (jobs, lane, stacked(each, layout.seats)))


def of_lanes(mesh: Mesh, bank: Any, memory: Any, jobs: Jobs) -> tuple[Any, Any]:
    """Shapes of what a crew's lanes carry, and of one row of what they write."""
    begin, _ = mesh.programs
    return jax.eval_shape(begin, bank, memory, jobs, Shape((), np.int32)), mesh.shapes(bank, memory, jobs)


def jobs_of(layout: Layout, crews: int) -> Jobs:
    """Shapes of what one of the crews reads of a layout."""
    wide = layout.slot.shape[1] // crews
    own = {
        name: Shape((part.shape[0], wide, *part.shape[2:]), part.dtype)
        for name, part in layout._asdict().items()
        if name in ("index", "valid", "slot")
    }
    return jax.eval_shape(unpack, layout._replace(**own, seats=0))


def stacked(row: Any, rows: int) -> Any:
    """Shapes of so many rows of a shape."""
    return jax.tree.map(lambda leaf: Shape((rows, *leaf.shape), leaf.dtype), row)


def tree_row(stack: Any) -> Any:
    """Shapes of one row of a stack."""
    return jax.tree.map(lambda leaf: Shape(leaf.shape[1:], leaf.dtype), stack)


def message_bytes(row: Any) -> int:
    """Bytes of what one client sends, from the shapes of its row."""
    sent = row.message
    return nbytes((sent.delta, sent.stats, sent.aux))


def nbytes(shapes: Any) -> int:
    """Bytes of a PyTree of shapes or arrays; Python's integers, which do not overflow."""
    return sum(math.prod(leaf.shape) * _itemsize(leaf.dtype) for leaf in jax.tree.leaves(shapes))


def _itemsize(dtype: Any) -> int:
    return dtype.itemsize if hasattr(dtype, "itemsize") else 8


def widest(program: Any, *shapes: Any) -> int:
    """Bytes of the largest value that a program makes on its way, from a trace of it."""
    traced = jax.make_jaxpr(program)(*shapes)
    return max((nbytes(variable.aval) for variable in _made(traced.jaxpr)), default=0)


def _made(jaxpr: Any) -> Iterator[Any]:
    """Every value that a traced program makes, those of the programs within it as well."""
    for equation in jaxpr.eqns:
        yield from (variable for variable in equation.outvars if hasattr(variable.aval, "shape"))
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from _made(inner)

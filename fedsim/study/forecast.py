"""`fedsim check`: what a run will take, told before it starts. Programs are compiled, nothing is trained."""

import ctypes
import gc
import statistics
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.engine.blocks import Blocks
from fedsim.engine.machine import memory_now, memory_peak
from fedsim.engine.run import held_out
from fedsim.scenario import Experiment
from fedsim.types import Batch

Shape = jax.ShapeDtypeStruct
TABLE_BYTES = 350  # of a client's rows in the tables at the end, as columns and as text (measured with a million)
SURVEYED = 50  # rounds whose plans are looked at


def forecast(experiment: Experiment) -> dict[str, Any]:
    """Parameters, local steps, bytes and memory of a scenario that was built for one device (call it inside `numerics`)."""
    spec, plan = experiment.scenario.spec, next(iter(experiment.plans.values()))
    program, shared = experiment.program, next(iter(experiment.shared.values()))
    rounds = [plan.round(r) for r in range(1, min(spec.rounds, SURVEYED) + 1)]
    clients = statistics.mean(len(work.ids) for work in rounds) if rounds else 0
    parts, sent = memory(experiment)
    training = sum(bytes_ for name, bytes_ in parts.items() if name != "tables")
    ending = sum(parts[name] for name in ("process", "samples", "client_memory", "server", "tables"))
    return {
        "clients": plan.federation.N,
        "clients_a_round": clients,
        "samples": int(plan.sizes.sum()),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(shared["params"])),
        "steps_a_round": statistics.mean(int(work.steps.sum()) for work in rounds) if rounds else 0,
        "longest_client_steps": max((int(work.steps.max(initial=0)) for work in rounds), default=0),
        "bytes_up_a_round": int(clients * sent),
        "bytes_down_a_round": int(clients * tree.payload_bytes(shared)),
        "lanes": program.width.lanes,
        "block": program.width.block,
        "crews": program.mesh.crews,
        "stacked": not program.serve.folds,
        "memory": parts,
        "peak_bytes": max(training, ending, memory_peak()),
    }


def memory(experiment: Experiment) -> tuple[dict[str, int], int]:
    """Bytes by purpose (`tables` at the end, when those of training are free again), and bytes of one client's message.

    What the process holds is measured when everything is built and compiled; what it will hold besides is counted from
    shapes and from what the compiler says of each program.
    """
    program, plan, spec = experiment.program, next(iter(experiment.plans.values())), experiment.scenario.spec
    mesh, memories, serve = program.mesh, program.memories, program.serve
    f, room, K, crews = plan.federation, program.room, program.width.block, program.mesh.crews
    held = f.x.nbytes + f.y.nbytes <= spec.data.resident_mb * 1e6
    block = Blocks(plan, program.width, room, program.dtype, program.pack, held).get(1)
    local, jobs = mesh.jobs(block.layout)
    data = (f.x, f.y) if block.samples is None else block.samples
    data = tuple(Shape(part.shape, part.dtype) for part in data)
    key = (jax.random.key(0), 1)
    server = jax.eval_shape(serve.init, next(iter(experiment.shared.values())))
    store = jax.eval_shape(lambda bank: memories.empty(bank, room.members), server.bank)
    if _bytes(store.rows) > spec.checkpoint.resident_mb * 1e6:
        store = jax.eval_shape(lambda bank: memories.empty(bank, room.blocks * K), server.bank)
    lent = jax.eval_shape(memories.gather, store, server.bank, jobs, key)
    mine = jax.eval_shape(lambda m: m if crews == 1 else tree.take(m, jnp.zeros(block.layout.seats, int)), lent)
    rows = jax.eval_shape(lambda *a: mesh.empty(None, *a, block.layout.seats)[0], server.bank, [mine], local)
    begin, train = mesh.programs
    lane = jax.eval_shape(begin, server.bank, mine, local[0], 0)
    stack = jax.eval_shape(mesh.collect, [rows] * crews, local)
    total = jax.eval_shape(serve.zero, stack, jobs)
    held_sets = held_out(f, program.crews)[0]
    temporary = {
        "train": _temporary(train, server.bank, mine, local[0], data, key, lane, rows, 0, 1, 0) * crews,
        "add": _temporary(serve.add, total, server, store, stack, jobs, key, 0),
        "close": _temporary(serve.close, total, server, store, jobs, key),
        **{k: program.crews * _temporary(program.evaluate, server.bank, *v[0]) for k, v in held_sets.items()},
    }
    parts = {
        "samples": _bytes(data) + _bytes(held_sets),
        "client_memory": _bytes(store) + 2 * _bytes(lent),
        "lanes": crews * (_bytes(lane) + _bytes(rows)) + 2 * _bytes(local),
        "stack": (_bytes(stack) if crews > 1 else 0) + _bytes(total),
        "server": 3 * _bytes(server),
        "temporary": max(temporary.values()),
        "tables": TABLE_BYTES * f.N + 16 * len(f.x),
    }
    sent = rows.message
    return {"process": _resident(), **parts}, _bytes((sent.delta, sent.state, sent.aux)) // rows.loss.shape[0]


def one_batch(experiment: Experiment) -> dict[str, float]:
    """Loss and gradient of one client's first batch, operation by operation: an error in a model or loss shows where it is.

    Returns:
      `loss` of the start model, and `largest_gradient`, the largest entry of the gradient by magnitude.
    """
    program, plan = experiment.program, next(iter(experiment.plans.values()))
    shared, f = next(iter(experiment.shared.values())), plan.federation
    id = int(plan.eligible[0])
    index, valid = plan.batches(1, id)
    mask = jnp.arange(index.shape[1]) < valid[0]
    batch = Batch(jnp.asarray(f.x[index[0]]), jnp.asarray(f.y[index[0]]), mask, jax.random.key(0), jnp.zeros((), int))
    with jax.disable_jit():
        (loss, _), gradient = program.task.value_and_grad({"params": shared["params"], "state": shared["state"]}, batch)
    steepest = max((float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient) if leaf.size), default=0.0)
    return {"loss": float(loss), "largest_gradient": steepest}


def _temporary(program: Any, *arguments: Any) -> int:
    """Bytes that a program needs while it runs, besides what goes in."""
    stats = program.lower(*arguments).compile().memory_analysis()
    if stats is None:
        return 0
    return int(stats.temp_size_in_bytes + max(stats.output_size_in_bytes - stats.alias_size_in_bytes, 0))


def _bytes(shapes: Any) -> int:
    return sum(_leaf_bytes(leaf) for leaf in jax.tree.leaves(shapes))


def _leaf_bytes(leaf: Any) -> int:
    dtype = leaf.dtype
    return int(np.prod(leaf.shape)) * (dtype.itemsize if hasattr(dtype, "itemsize") else 8)


def _resident() -> int:
    """Bytes that this process holds now, without what the compiler left behind for others to use."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        gc.collect()
        trim(0)
    return memory_now()

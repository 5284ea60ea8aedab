"""`fedsim check`: what a run will take, told before it starts. Programs are compiled, nothing is trained."""

import ctypes
import gc
import statistics
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.engine.blocks import Blocks
from fedsim.engine.machine import memory_now, memory_peak
from fedsim.engine.round import Program
from fedsim.engine.run import held_out
from fedsim.engine.serve import RoundInfo
from fedsim.fleet import Plan
from fedsim.scenario import Experiment
from fedsim.scenario.links import link
from fedsim.types import Batch, Facts, RowStage, Rule

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
        "stacked_by": stacking(experiment),
        "memory": parts,
        "peak_bytes": max(training, ending, memory_peak()),
        "notes": notes(experiment),
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
    block = Blocks([plan], program.width, room, program.dtype, program.pack, held, False).get(1, 0, (True,))
    local, jobs = mesh.jobs(block.layout)
    data = (f.x, f.y) if block.samples is None else block.samples
    data = tuple(Shape(part.shape, part.dtype) for part in data)
    number = jnp.ones((), program.dtype)
    info = RoundInfo(jax.random.key(0), 1, number, number)
    server = jax.eval_shape(serve.init, next(iter(experiment.shared.values())), plan.present)
    store = jax.eval_shape(lambda bank: memories.empty(bank, room.members), server.bank)
    if _bytes(store.rows) > spec.checkpoint.resident_mb * 1e6:
        store = jax.eval_shape(lambda bank: memories.empty(bank, room.blocks * K), server.bank)
    lent = jax.eval_shape(memories.gather, store, server.bank, jobs, info.root)
    mine = jax.eval_shape(lambda m: m if crews == 1 else tree.take(m, jnp.zeros(block.layout.seats, int)), lent)
    rows = jax.eval_shape(lambda *a: mesh.empty(None, *a, block.layout.seats)[0], [server.bank], [mine], local)
    begin, train = mesh.programs
    lane = jax.eval_shape(begin, server.bank, mine, local[0], 0)
    stack = jax.eval_shape(mesh.collect, [rows] * crews, local)
    total = jax.eval_shape(serve.zero, stack, jobs)
    held_sets = held_out(f, program.crews)[0]
    before = _first_pass(program, plan, held, server, data, info[:2])
    temporary = {
        "first": before.temporary,
        "train": _temporary(train, server.bank, mine, local[0], data, info[:2], lane, rows, 0, 1, 0) * crews,
        "add": _temporary(serve.add, total, server, store, stack, None, jobs, info, 0),
        "close": _temporary(serve.close, total, server, store, jobs, info),
        **{k: program.crews * _temporary(program.evaluate, server.bank, *v[0]) for k, v in held_sets.items()},
    }
    parts = {
        "samples": _bytes(data) + _bytes(held_sets),
        "client_memory": _bytes(store) + 2 * _bytes(lent),
        "lanes": crews * (_bytes(lane) + _bytes(rows)) + 2 * _bytes(local) + before.held,
        "stack": (_bytes(stack) if crews > 1 else 0) + _bytes(total),
        "server": 3 * _bytes(server),
        "temporary": max(temporary.values()),
        "tables": TABLE_BYTES * f.N + 16 * len(f.x),
    }
    return {"process": _resident(), **parts}, _message(rows) + before.sent


class Before(NamedTuple):
    """What a pass before training takes, in bytes: while it runs, of rows that are kept, and of one client's message."""

    temporary: int = 0
    held: int = 0
    sent: int = 0


def _first_pass(program: Program, plan: Plan, held: bool, server: Any, data: Any, key: tuple) -> Before:
    mesh = program.first
    if mesh is None:
        return Before()
    block = Blocks([plan], program.width, program.room, program.dtype, program.pack, held, True).get(
        1, 0, (True,), True
    )
    local, _ = mesh.jobs(block.layout)
    rows = jax.eval_shape(
        lambda bank, jobs: mesh.empty(None, [bank], [()], jobs, block.layout.seats)[0], server.bank, local
    )
    begin, train = mesh.programs
    lane = jax.eval_shape(begin, server.bank, (), local[0], 0)
    while_ = _temporary(train, server.bank, (), local[0], data, key, lane, rows, 0, 1, 0)
    loss = program.serve.losses * rows.loss.dtype.itemsize
    return Before(mesh.crews * while_, mesh.crews * (_bytes(lane) + _bytes(rows)), _message(rows) + loss)


def _message(rows: Any) -> int:
    """Bytes of what one client sends, from the shapes of a stack."""
    sent = rows.message
    return _bytes((sent.delta, sent.state, sent.aux)) // rows.loss.shape[0]


def one_batch(experiment: Experiment) -> dict[str, float]:
    """One client's first batch through all of its hooks, operation by operation: an error in a model, a loss or a client
    method shows where it is.

    Returns:
      `loss` of the start model on the batch, and `largest_gradient` and `largest_update`, by magnitude of their entries.
    """
    program, plan, client = experiment.program, next(iter(experiment.plans.values())), experiment.client
    shared, f, task = next(iter(experiment.shared.values())), plan.federation, program.task
    id, key = int(plan.eligible[0]), jax.random.key(0)
    index, valid = plan.batches(1, id)
    mask = jnp.arange(index.shape[1]) < valid[0]
    with jax.disable_jit():
        lr, samples = (jnp.asarray(value, program.dtype) for value in (plan.local.lr(1), plan.sizes[id]))
        labels = jnp.asarray(plan.labels[id], program.dtype)
        facts = Facts(jnp.int32(id), samples, jnp.int32(1), lr, lr, labels)
        batch = Batch(jnp.asarray(f.x[index[0]]), jnp.asarray(f.y[index[0]]), mask, key, jnp.int32(0))
        row = client.memory(shared, key)
        variables, local = client.start(task, shared, row, facts)
        (loss, state), gradient = client.gradient(task, variables, batch, local, shared, facts)
        params, local = client.step(task, gradient, variables["params"], local, shared, facts)
        message = client.finish(task, shared, {"params": params, "state": state}, local, row, facts)
    return {
        "loss": float(loss),
        "largest_gradient": _largest(gradient),
        "largest_update": _largest(message.delta),
    }


def stacking(experiment: Experiment) -> list[str]:
    """Links that must see all messages of a round at once, as `server[0] krum`: they hold the whole stack in memory."""
    spec = experiment.scenario.spec
    found = []
    for where, sections in (("wire", spec.wire), ("server", spec.server)):
        for i, section in enumerate(sections):
            made = link(section)() if section.family != "optimizer" else None
            alone = made is None or isinstance(made, RowStage) or (isinstance(made, Rule) and made.fold is not None)
            found += [] if alone else [f"{where}[{i}] {section.kind}"]
    return found


def notes(experiment: Experiment) -> list[str]:
    """What a user may not have meant."""
    spec, plan = experiment.scenario.spec, next(iter(experiment.plans.values()))
    sizes, said = plan.sizes, []
    if empty := int((sizes == 0).sum()):
        said.append(f"{empty} of {len(sizes)} clients hold no samples and never take part")
    if spec.client.batch != "full" and (small := int(((sizes < spec.client.batch) & (sizes > 0)).sum())):
        said.append(f"{small} of {len(sizes)} clients hold fewer samples than client.batch = {spec.client.batch}")
    attacks = [section.kind for section in spec.wire if section.family == "attack"]
    if attacks and not plan.malicious.any():
        said.append(f"wire has {attacks[0]}, and no client is malicious; set fleet.malicious")
    if plan.malicious.any() and not attacks:
        said.append("fleet.malicious is set, and wire has no attack: malicious clients behave like all others")
    return said


def _largest(values: Any) -> float:
    return max((float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(values) if leaf.size), default=0.0)


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

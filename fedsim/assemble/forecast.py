"""`fedsim check`: what a run will take, before it starts. Nothing is trained, and few programs are compiled."""

import ctypes
import functools
import gc
import itertools
import statistics
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.assemble import Experiment
from fedsim.assemble import temporary as temporary_
from fedsim.assemble.checked import links_of
from fedsim.assemble.hooks import own_file
from fedsim.assemble.links import factory_of
from fedsim.assemble.memory import data_warnings, run_footprint
from fedsim.compose import most_bytes
from fedsim.engine.downlink import downlink
from fedsim.engine.evaluation import held_out
from fedsim.engine.footprint import probe_pass, shapes_of
from fedsim.engine.lanes import LaneInputs
from fedsim.engine.shared_leaves import travelling
from fedsim.errors import dotted
from fedsim.machine import memory_now, memory_peak
from fedsim.types import Batch, RowStage, Rule, Work

Shape = jax.ShapeDtypeStruct
FORECAST_ROUNDS = 50  # whose plans are counted
COMPILER = 90_000_000  # bytes that a process holds on to once it has the programs of a run: 50 MB of kept ones, 150 of new ones
QUICKLY: dict[str, Any] = {"xla_backend_optimization_level": 0}  # of a program that runs once
PARTIAL = frozenset(
    {"top_k", "rand_k", "threshold", "low_rank"}
)  # codecs that leave most of a vector out
LITTLE = 0.1  # of a run's memory: below it, what programs need while they run is counted and not measured


def forecast(experiment: Experiment) -> dict[str, Any]:
    """Parameters, local steps, bytes and memory of a scenario that was built for one device (call it inside `numerics`)."""
    plan = next(iter(experiment.plans.values()))
    program, shared = experiment.program, next(iter(experiment.shared.values()))
    rounds = list(itertools.islice(plan.survey(), FORECAST_ROUNDS))
    clients = statistics.mean(len(work.ids) for work in rounds) if rounds else 0
    parts, message = memory(experiment)
    training = sum(bytes_ for name, bytes_ in parts.items() if name != "tables")
    ending = sum(
        parts[name] for name in ("process", "samples", "client_memory", "server", "tables")
    )
    return {
        "clients": plan.federation.N,
        "clients_a_round": clients,
        "samples": int(plan.sizes.sum()),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(shared["params"])),
        "steps_a_round": statistics.mean(int(work.steps.sum()) for work in rounds) if rounds else 0,
        "longest_client_steps": max((int(work.steps.max(initial=0)) for work in rounds), default=0),
        "server_steps": int(plan.of_server().steps[0]) if program.server.refers else 0,
        "bytes_up_a_round": int(clients * message),
        "bytes_down_a_round": _received(experiment, [work.ids for work in rounds]),
        "lanes": program.width.lanes,
        "block": program.width.block,
        "shards": program.mesh.shards,
        "stacked": not program.server.pipeline.folds,
        "stacked_by": stacking(experiment),
        "memory": parts,
        "peak_bytes": max(training, ending, memory_peak()),
        "notes": notes(experiment),
    }


def _received(experiment: Experiment, cohorts: list[Any]) -> int:
    """The most bytes that the clients of an average round get."""
    plan, shared = next(iter(experiment.plans.values())), next(iter(experiment.shared.values()))
    client, codec = experiment.client, experiment.program.server.sender.codec
    counted, size = downlink(client, codec, shared, plan.federation.N), None
    if codec is not None:
        size = (
            counted.whole - counted.model + most_bytes(codec, travelling(client, shared["params"]))
        )
    return (
        int(statistics.mean(int(counted.deliver(ids, size).sum()) for ids in cohorts))
        if cohorts
        else 0
    )


def memory(experiment: Experiment) -> tuple[dict[str, int], int]:
    """Bytes by purpose (`tables` at the end, when those of training are free again), and bytes of one client's message.

    What the process holds is measured when everything is built; what it will hold besides is counted from shapes, as the
    build has done. So is what programs need while they run, unless that is much: then the compiler says it.
    """
    program, plan = experiment.program, next(iter(experiment.plans.values()))
    held = run_footprint(experiment.scenario, program, plan, next(iter(experiment.shared.values())))
    programs = _programs(experiment, held.shapes)
    resident = _resident()
    process = max(resident + COMPILER, memory_peak())
    temporary = max(
        times * temporary_.counted(run, *shapes, donated=d) for times, run, shapes, d in programs
    )
    if temporary > LITTLE * (process + sum(held.parts.values())):
        temporary = max(
            times * temporary_.measured(run, *shapes) for times, run, shapes, _ in programs
        )
        process = _resident()
    return {"process": process, **held.parts, "temporary": temporary}, held.message


def _programs(experiment: Experiment, s: dict[str, Any]) -> list[tuple[int, Any, tuple, Any]]:
    """The programs of a round: how many run at once, each, the shapes that it takes, and those whose memory it reuses."""
    program, plan = experiment.program, next(iter(experiment.plans.values()))
    programs, server, at, integer = program.server, s["server"], s["at"], Shape((), np.int32)
    keys, bank = ((at.root,), at.round), (server.shared,) * program.room.versions
    lent = LaneInputs(bank, s["seated"], s["queues"], s["slots"], s["data"], keys)
    on_lanes = (lent, s["lane"], s["rows"], integer, integer, integer)
    total, store, messages = s["total"], s["store"], s["messages"]
    adding, lost = (total, messages, 0), (total,)
    if programs.pipeline.folds:
        adding, lost = (total, store, messages, at, 0), (total, store)
    all_programs = [
        (program.mesh.shards, program.mesh.train, on_lanes, (s["lane"], s["rows"])),
        (1, programs.reduction.adding, adding, lost),
        (1, programs.close, (total, store, s["slots"], at), store),
    ]
    for stacks in held_out(plan.federation, program.evaluators)[0].values():
        all_programs.append(
            (program.evaluators, program.evaluate, (server.shared, *shapes_of(stacks[0])), ())
        )
    if program.probe is not None:
        queues, slots, lane, rows = probe_pass(program, plan, server.shared).shapes
        probing = (
            LaneInputs(bank, (), queues, slots, s["data"], keys),
            lane,
            rows,
            integer,
            integer,
            integer,
        )
        all_programs.append((program.probe.shards, program.probe.train, probing, (lane, rows)))
    return all_programs


def one_batch(experiment: Experiment) -> dict[str, float]:
    """One client's first batch through all of its hooks, as one program: an error in a model, a loss or a client method
    shows where it is, as it would when the run traces it.

    Returns:
      `loss` of the start model on the batch, and `largest_gradient` and `largest_update`, by magnitude of their entries.
    """
    program, plan, client = (
        experiment.program,
        next(iter(experiment.plans.values())),
        experiment.client,
    )
    shared, f, task = next(iter(experiment.shared.values())), plan.federation, program.task
    id, number = int(plan.eligible[0]), program.dtype.type
    index, valid = plan.batches(1, id)
    mask, lr = np.arange(index.shape[1]) < valid[0], number(plan.local.lr(1))
    labels, samples, malicious = (
        plan.labels[id].astype(program.dtype),
        number(plan.sizes[id]),
        plan.malicious[id],
    )
    about = Work(jnp.int32(id), samples, jnp.int32(1), lr, lr, labels, malicious)

    @functools.partial(jax.jit, compiler_options=QUICKLY)
    def step(shared, work, x, y, mask, key):
        batch = Batch(x, y, mask, key, jnp.int32(0))
        row = client.memory(shared, key)
        variables, local = client.start(task, shared, row, work)
        (loss, stats), gradient = client.gradient(task, variables, batch, local, shared, work)
        params, local = client.step(task, gradient, variables["params"], local, shared, work)
        message = client.finish(task, shared, {"params": params, "stats": stats}, local, row, work)
        return loss, _largest(gradient), _largest(message.delta)

    values = step(shared, about, f.train.x[index[0]], f.train.y[index[0]], mask, jax.random.key(0))
    return dict(
        zip(("loss", "largest_gradient", "largest_update"), map(float, values), strict=True)
    )


def _largest(values: Any) -> Any:
    return functools.reduce(
        jnp.maximum, [jnp.abs(leaf).max() for leaf in jax.tree.leaves(values) if leaf.size], 0.0
    )


def stacking(experiment: Experiment) -> list[str]:
    """Links that must see all messages of a round at once, as `server[0] krum`: they hold the whole stack in memory."""
    links = []
    for path, section in links_of(experiment.scenario.spec):
        made = factory_of(section)() if section.family != "optimizer" else None
        by_row = (
            made is None
            or isinstance(made, RowStage)
            or (isinstance(made, Rule) and made.fold is not None)
        )
        links += [] if by_row else [f"{dotted(path)} {section.kind}"]
    return links


def notes(experiment: Experiment) -> list[str]:
    """What a user may not have meant."""
    spec, plan = experiment.scenario.spec, next(iter(experiment.plans.values()))
    sizes, lines = plan.sizes, []
    if empty := int((sizes == 0).sum()):
        lines.append(f"{empty} of {len(sizes)} clients hold no samples and never take part")
    if spec.client.batch != "full" and (
        small := int(((sizes < spec.client.batch) & (sizes > 0)).sum())
    ):
        lines.append(
            f"{small} of {len(sizes)} clients hold fewer samples than client.batch = {spec.client.batch}"
        )
    attacks = [section.kind for section in spec.wire if section.family == "attack"]
    if attacks and not plan.malicious.any():
        lines.append(f"wire has {attacks[0]}, and no client is malicious; set fleet.malicious")
    if spec.data.attack and not plan.malicious.any():
        lines.append(
            f"data.attack has {spec.data.attack[0].kind}, and no client is malicious; set fleet.malicious"
        )
    if spec.broadcast and (kind := spec.broadcast[0].kind) in PARTIAL:
        text = f"broadcast has {kind}, and clients train from what is left of the model"
        lines.append(f"{text}; ef21(codec: {kind}) sends them differences")
    idle = plan.malicious.any() and not attacks and not spec.data.attack
    if idle and own_file(spec.client) is None:  # a client method may read it
        text = "fleet.malicious is set, and neither wire nor data.attack has an attack"
        lines.append(f"{text}: malicious clients behave like all others")
    if experiment.client.personal is not None and not len(plan.federation.test_holders.indices):
        text = (
            f"{spec.client.kind} has personal models, and no client keeps samples to score them on"
        )
        lines.append(f"{text}; set data.client_test for personal_accuracy in clients.csv")
    return lines + data_warnings(experiment.scenario, plan.federation)


def _resident() -> int:
    """Bytes that this process holds now, without what the compiler left behind for others to use."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        gc.collect()
        trim(0)
    return memory_now()

"""`fedsim check`: what a run will take. Nothing is trained, and few programs are compiled."""

import ctypes
import functools
import gc
import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.assemble import Experiment, temporary
from fedsim.assemble.client_shares import rounded_shares
from fedsim.assemble.components import links_of
from fedsim.assemble.fields import fields, of_all
from fedsim.assemble.hooks import user_file
from fedsim.assemble.links import factory_of
from fedsim.assemble.memory import run_footprint
from fedsim.assemble.meters import downlink_of
from fedsim.assemble.plans import of_first_seed, of_widest_batch
from fedsim.assemble.sample_notes import data_warnings
from fedsim.compose.contract import row_in_hooks
from fedsim.engine.footprint import probe_pass, shapes_of
from fedsim.engine.frozen import bound, merged_section, with_frozen, without_frozen
from fedsim.engine.lanes import LaneInputs, with_phase
from fedsim.engine.models import one_model
from fedsim.engine.scoring.sets import scored_sets
from fedsim.engine.shared_leaves import shared_leaves
from fedsim.errors import dotted
from fedsim.fleet import Plan, RoundPlan
from fedsim.machine import memory_now, memory_peak
from fedsim.types import Batch, RowStage, Rule, Work

Shape = jax.ShapeDtypeStruct

FORECAST_ROUNDS = 50  # whose plans are counted

# Bytes that a process holds on to once it has the programs of a run: 50 MB of programs from the
# cache, 150 MB of new ones.
COMPILER_BYTES = 90_000_000

# Share of a run's memory below which what programs need while they run is counted, not measured.
SMALL_SHARE = 0.1

TIMED_STEPS = 10  # local steps, of which the fastest is the time of one


def forecast(experiment: Experiment) -> dict[str, Any]:
    """Return parameters, local steps, bytes and memory of a scenario that was built for one device.

    Call it inside `numerics`.
    """
    plan = of_first_seed(experiment.plans)
    program = experiment.program
    rounds = list(itertools.islice(plan.survey.rounds(), FORECAST_ROUNDS))
    clients = mean_of([len(work.ids) for work in rounds])
    steps = mean_of([int(work.steps.sum()) for work in rounds])

    # Memory is measured first: what follows would count as memory of the process.
    memory, message_bytes = _memory(experiment)
    bytes_up = mean_of([_bytes_sent(plan, work, message_bytes) for work in rounds])
    training_bytes = sum(memory[name] for name in memory if name != "tables")
    at_the_end = ("process", "samples", "client_memory", "server", "tables")
    ending_bytes = sum(memory[name] for name in at_the_end)

    expected = {
        "clients": plan.federation.N,
        "clients_a_round": clients,
        "samples": int(plan.sizes.sum()),
        **_parameters(experiment),
        "parts": [],
        "steps_a_round": steps,
        "longest_client_steps": max((int(work.steps.max(initial=0)) for work in rounds), default=0),
        "server_steps": 0,
        "bytes_up_a_round": int(bytes_up),
        "bytes_down_a_round": _bytes_down(experiment, rounds),
        "updates_bytes": updates_bytes(experiment),
        "graph": None,
        "epsilon": None,
        "samples_epsilon": None,
        "lanes": program.width.lanes,
        "block": program.width.block,
        "shards": program.mesh.shards,
        "stacked": program.server.stacks,
        "stacked_by": stacking(experiment),
        "memory": memory,
        "peak_bytes": max(training_bytes, ending_bytes, memory_peak()),
        "notes": [*_notes_on_rounds(rounds), *notes(experiment)],
    }
    for field in fields().values():
        expected |= field.forecast(experiment, rounds)
    return expected


def updates_bytes(experiment: Experiment) -> int:
    """The bytes of the updates that all runs keep on the disk; 0 where they keep none.

    A round has the parameters before and after it, and a row for each of its clients.
    """
    spec = experiment.scenario.spec
    if not spec.checkpoint.updates:
        return 0
    plan = of_first_seed(experiment.plans)
    rounds = itertools.islice(plan.survey.rounds(), FORECAST_ROUNDS)
    clients = mean_of([len(work.ids) for work in rounds])

    shared, _ = without_frozen(of_first_seed(experiment.shared))
    sent = shared_leaves(experiment.client, shared["params"])
    stats = tree.nbytes(shared["stats"])
    server = 2 * tree.nbytes(shared["params"]) + stats
    row = tree.nbytes(sent)
    if experiment.client.travel.stats != "kept":
        row += stats
    return int(len(spec.seeds) * spec.rounds * (server + clients * row))


def _bytes_sent(plan: Plan, work: RoundPlan, message_bytes: int) -> int:
    """The most bytes that the clients of a round send, some of them a part of the model."""
    left_out = 0 if plan.left_out is None else int(plan.left_out[work.senders].sum())
    return len(work.senders) * message_bytes - left_out


def _parameters(experiment: Experiment) -> dict[str, int]:
    """How many numbers the model has, and how many of them are trained, frozen and sent."""
    shared, frozen = without_frozen(of_first_seed(experiment.shared))
    params = shared["params"]
    trained = _numbers_in(params)
    merged = _numbers_in(merged_section(shared))
    return {
        "parameters": trained + _numbers_in(frozen) + merged,
        "parameters_trained": trained,
        "parameters_frozen": _numbers_in(frozen) + merged,
        "parameters_merged": merged,
        "parameters_sent": _numbers_in(shared_leaves(experiment.client, params)),
    }


def _numbers_in(params: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def mean_of(numbers: Sequence[float]) -> float:
    """The mean; 0 where there are none."""
    return statistics.mean(numbers) if numbers else 0


def _bytes_down(experiment: Experiment, rounds: Sequence[RoundPlan]) -> int:
    plan = of_first_seed(experiment.plans)
    counted = downlink_of(experiment.program, plan, of_first_seed(experiment.shared))
    return int(mean_of([int(counted.foresee(plan, work).sum()) for work in rounds]))


def _memory(experiment: Experiment) -> tuple[dict[str, int], int]:
    """Bytes by purpose, and the bytes of one client's message.

    `tables` are held at the end, when the memory of training is free again.

    What the process holds is measured once everything is built; what it will hold besides is
    counted from shapes, as the build has done. So is what programs need while they run, unless that
    is much: then the compiler says it.
    """
    plan = of_widest_batch(experiment.plans)
    shared = of_first_seed(experiment.shared)
    footprint = run_footprint(experiment.scenario, experiment.program, plan, shared)
    calls = _program_calls(experiment, footprint.shapes)
    process = max(_resident_bytes() + COMPILER_BYTES, memory_peak())

    temporary_bytes = max(
        call.at_once * temporary.traced_bytes(call.program, *call.shapes, donated=call.donated)
        for call in calls
    )
    if temporary_bytes > SMALL_SHARE * (process + sum(footprint.bytes_by_purpose.values())):
        temporary_bytes = max(
            call.at_once * temporary.compiled_bytes(call.program, *call.shapes) for call in calls
        )
        process = _resident_bytes()  # which has the compiled programs now

    # The process holds the frozen leaves already: those of all seeds, each once.
    frozen_bytes = _held_frozen_bytes(experiment)
    memory = {
        "process": process - frozen_bytes,
        **footprint.bytes_by_purpose,
        "frozen": frozen_bytes,
        "temporary": temporary_bytes,
    }
    return memory, footprint.message


def _held_frozen_bytes(experiment: Experiment) -> int:
    """Bytes of the frozen leaves of all seeds, which may have them in common."""
    held = {}
    for start in experiment.shared.values():
        _, frozen = without_frozen(start)
        held |= {id(leaf): leaf.nbytes for leaf in jax.tree.leaves(frozen)}
    return sum(held.values())


class _Call(NamedTuple):
    """A program of a round, and the shapes that it is called with."""

    at_once: int  # calls that run side by side
    program: Any
    shapes: tuple
    donated: Any = ()  # those whose memory the results take


def _program_calls(experiment: Experiment, shapes: dict[str, Any]) -> list[_Call]:
    """The programs of a round; `shapes` by name, as `footprint` makes them."""
    program = experiment.program
    plan = of_first_seed(experiment.plans)
    calls = [_training_call(experiment, shapes), *_server_calls(experiment, shapes)]

    sets = scored_sets(plan.federation, program.evaluation_threads)
    for scored in sets.values():
        shared = one_model(program.server.client, shapes["server"].shared)
        variables = with_frozen(shared, shapes["start"].frozen)
        arguments = (variables, *shapes_of(scored.stacks[0]))
        calls.append(_Call(program.evaluation_threads, program.evaluate, arguments))

    if program.probe_mesh is not None:
        calls.append(_probe_call(experiment, shapes))
    return calls


def _training_call(experiment: Experiment, shapes: dict[str, Any]) -> _Call:
    shared = one_model(experiment.client, shapes["server"].shared)
    bank = (shared,) * experiment.program.capacity.models_per_run
    layout = (shapes["queues"], shapes["slots"])
    buffers = (shapes["lane"], shapes["rows"])
    return _lanes_call(experiment.program.mesh, shapes, bank, shapes["memory"], layout, buffers)


def _probe_call(experiment: Experiment, shapes: dict[str, Any]) -> _Call:
    """The program of the pass at the global model."""
    program = experiment.program
    plan = of_first_seed(experiment.plans)
    shared = shapes["server"].shared
    queues, slots, lane, rows = probe_pass(program, plan, shared, shapes["start"].frozen).shapes
    return _lanes_call(program.probe_mesh, shapes, (shared,), (), (queues, slots), (lane, rows))


def _lanes_call(
    mesh: Any, shapes: dict[str, Any], bank: tuple, memory: Any, layout: tuple, buffers: tuple
) -> _Call:
    """A program of the lanes; `layout` are queues and slots, `buffers` lanes and rows."""
    start = shapes["start"]
    queues, slots = layout
    inputs = LaneInputs(
        bank=bank,
        memory=memory,
        queues=queues,
        slots=slots,
        data=shapes["data"],
        keys=((start.root,), start.round),
        frozen=start.frozen,
    )
    integer = Shape((), np.int32)
    arguments = (inputs, *buffers, integer, integer, integer)
    return _Call(mesh.shards, mesh.train, arguments, donated=buffers)


def _server_calls(experiment: Experiment, shapes: dict[str, Any]) -> list[_Call]:
    server = experiment.program.server
    start = shapes["start"]
    store = shapes["store"]
    total = shapes["received"]
    messages = shapes["messages"]
    adding = _Call(1, server.aggregator.add_program, (total, messages, 0), donated=(total,))
    if not server.stacks:
        arguments = (total, store, messages, start, 0)
        adding = _Call(1, server.aggregator.add_program, arguments, donated=(total, store))
    closing = _Call(1, server.update, (total, store, shapes["slots"], start), donated=store)
    return [adding, closing]


def one_batch(experiment: Experiment) -> tuple[dict[str, float], float]:
    """Pass one client's first batch through all of its hooks, as one program, and time that.

    An error in a model, a loss or a client method shows where it is, as it would when a run traces
    it.

    Returns:
      `loss` of the start model on the batch, and `largest_gradient` and `largest_update`, the
      largest magnitudes among their entries; and the seconds that such a local step takes.
    """
    program = experiment.program
    plan = of_first_seed(experiment.plans)
    client = experiment.client
    start = one_model(client, of_first_seed(experiment.shared))
    number = program.dtype.type

    id = int(plan.eligible[0])
    lr = number(plan.local.lr(1))
    client_work = Work(
        id=jnp.int32(id),
        samples=number(plan.sizes[id]),
        steps=jnp.int32(1),
        lr=lr,
        lr_sum=lr,
        labels=plan.labels[id].astype(program.dtype),
        malicious=plan.malicious[id],
        phase_ends=plan.phase_ends[id].astype(np.int32),
    )
    if plan.level is not None:
        client_work = client_work._replace(level=plan.level[id], round=jnp.int32(0))
    client_work = with_phase(client_work, client.phases, jnp.int32(0))

    @jax.jit
    def step(start, work, x, y, mask, key):
        shared, frozen = without_frozen(start)
        task = bound(program.task, frozen, shared)
        batch = Batch(x, y, mask, key, jnp.int32(0))
        row = row_in_hooks(client, client.memory(shared, key))
        variables, local = client.start(task, shared, row, work)
        (loss, stats), gradient = client.gradient(task, variables, batch, local, shared, work)
        params, local = client.step(task, gradient, variables["params"], local, shared, work)
        trained = {"params": params, "stats": stats}
        message = client.finish(task, shared, trained, local, row, work)
        return loss, _largest(gradient), _largest(message.delta)

    index, valid = plan.work.batches(1, id)  # [T, B], [T]
    mask = np.arange(index.shape[1]) < valid[0]  # [B]
    train = plan.federation.train
    x = train.x[index[0]]
    y = train.y[index[0]]
    arguments = (start, client_work, x, y, mask, jax.random.key(0))
    loss, gradient, update = step(*arguments)
    found = {
        "loss": float(loss),
        "largest_gradient": float(gradient),
        "largest_update": float(update),
    }
    return found, _seconds_of(step, arguments)


def _seconds_of(program: Any, arguments: tuple) -> float:
    """The least time of a program that is compiled: what else the machine does is no part of it."""
    seconds = []
    for _ in range(TIMED_STEPS):
        began = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def _largest(values: Any) -> Any:
    magnitudes = [jnp.abs(leaf).max() for leaf in jax.tree.leaves(values) if leaf.size]
    return functools.reduce(jnp.maximum, magnitudes, 0.0)


def stacking(experiment: Experiment) -> list[str]:
    """Return the links that hold the whole stack of a round in memory, as `server[0] krum`."""
    spec = experiment.scenario.spec
    links = []
    for field in fields().values():
        links += field.stacks(spec)
    for path, section in links_of(spec):
        if section.family == "optimizer":
            continue
        made = factory_of(section)()
        is_sum = isinstance(made, Rule) and made.fold is not None
        if not is_sum and not isinstance(made, RowStage):
            links.append(f"{dotted(path)} {section.kind}")
    return links


def notes(experiment: Experiment) -> list[str]:
    """Return what a user may not have meant: a line for each."""
    plan = of_first_seed(experiment.plans)
    spec = experiment.scenario.spec
    return [
        *_notes_on_sizes(spec, plan.sizes),
        *_notes_on_attacks(spec, plan),
        *of_all(lambda field: field.notes(spec)),
        *_notes_on_malicious_clients(spec, plan),
        *_notes_on_personal_models(experiment, plan),
        *remarks(experiment),
    ]


def remarks(experiment: Experiment) -> list[str]:
    """What `run` says as well: of shares of clients, of fields, and what is odd about samples."""
    scenario = experiment.scenario
    plan = of_first_seed(experiment.plans)
    return [
        *rounded_shares(scenario, plan.federation, plan.cohort),
        *of_all(lambda field: field.remarks(experiment)),
        *data_warnings(scenario, plan.federation.unpooled),
    ]


def _notes_on_rounds(rounds: Sequence[RoundPlan]) -> list[str]:
    """Rounds in which no message counts."""
    if not rounds or any(len(work.ids) for work in rounds):
        return []
    text = f"no client reports in the first {len(rounds)} rounds"
    keys = of_all(lambda field: field.keeps_away)
    return [f"{text}; see {', '.join(keys[:-1])} and {keys[-1]}" if keys else text]


def _notes_on_sizes(spec: Any, sizes: np.ndarray) -> list[str]:
    """Clients without samples, and clients that cannot fill a batch."""
    lines = []
    clients = len(sizes)
    empty = int((sizes == 0).sum())
    if empty:
        lines.append(f"{empty} of {clients} clients hold no samples and never take part")

    batch = spec.client.batch
    if batch != "full":
        small = int(((sizes < batch) & (sizes > 0)).sum())
        if small:
            text = f"{small} of {clients} clients hold fewer samples"
            lines.append(f"{text} than client.batch = {batch}")
    return lines


def _attacks(spec: Any) -> dict[str, list[str]]:
    """Path -> the kinds of the attacks there, on messages and those of fields."""
    attacks = {"wire": [section.kind for section in spec.wire if section.family == "attack"]}
    for field in fields().values():
        attacks |= {path: kinds(spec) for path, kinds in field.attacks.items()}
    return attacks


def _notes_on_attacks(spec: Any, plan: Plan) -> list[str]:
    """Attacks without malicious clients, unless the comparison varies how many there are."""
    if plan.malicious.any() or "fleet.malicious" in spec.compare.vary:
        return []
    remedy = "and no client is malicious; set fleet.malicious"
    attacks = _attacks(spec)
    return [f"{path} has {kinds[0]}, {remedy}" for path, kinds in attacks.items() if kinds]


def _notes_on_malicious_clients(spec: Any, plan: Plan) -> list[str]:
    """Malicious clients without an attack; a user's client method may read who is malicious."""
    attacks = _attacks(spec)
    if not plan.malicious.any() or any(attacks.values()) or user_file(spec.client) is not None:
        return []
    nowhere = f"neither {' nor '.join(attacks)} has an" if len(attacks) > 1 else "wire has no"
    text = f"fleet.malicious is set, and {nowhere} attack"
    return [f"{text}: malicious clients behave like all others"]


def _notes_on_personal_models(experiment: Experiment, plan: Plan) -> list[str]:
    """Personal models that nobody scores, or that new clients cannot make their own."""
    f = plan.federation
    if experiment.client.scored.personal is None or plan.network is not None:
        return []
    kind = experiment.scenario.spec.client.kind
    if not len(f.test_holders.indices):
        reason = "no client keeps samples to score them on"
        remedy = "set data.client_test for personal_accuracy in clients.csv"
        return [f"{kind} has personal models, and {reason}; {remedy}"]
    if experiment.client.scored.tune_steps is not None and f.adapting is None and f.held_out.any():
        text = f"{int(f.held_out.sum())} clients never train, and are scored on all their samples"
        reason = f"{kind} has none of theirs to train on first"
        return [f"{text}: {reason}; set data.client_test"]
    return []


def _resident_bytes() -> int:
    """Bytes that this process holds now, without memory that the compiler has freed."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        gc.collect()
        trim(0)
    return memory_now()

"""One round in five steps: plan, train, receive, aggregate, save.

It is a round of one run, or of several that train side by side. The cohorts of all runs train
together, from a bank with the start models of every run. The other steps work on each run's own
rows of the stack, by the programs that the run would use alone.

The steps dispatch programs and do not wait for the device, except between the calls into which a
long training is cut, and where client memory is in a file.

A client of the cohort has a *slot*, a row of the stacked messages; slots are trained in *blocks*. A
*lane* trains a queue of slots one after another, and a *shard* is the lanes of one device or
thread. The *bank* holds the models that the clients of a block start from.
"""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array

from fedsim import tree
from fedsim.engine.before import add_probe, train_servers, with_probe_mean
from fedsim.engine.blocks import Block, training_key
from fedsim.engine.feedback import update_feedback
from fedsim.engine.memory import CLIENT, Memory
from fedsim.engine.mesh import Mesh
from fedsim.engine.recording import Arrived
from fedsim.engine.records import (
    DispatchedRound,
    RoundState,
    TrainedBlock,
)
from fedsim.engine.sending import Broadcast
from fedsim.engine.server_records import Messages, RoundStart, ServerUpdate
from fedsim.engine.slots import RunCohort, Slots, by_run, with_memory_rows
from fedsim.engine.summing import Sum
from fedsim.engine.threads import run_in_threads
from fedsim.tree import Tree

if TYPE_CHECKING:
    from fedsim.engine.loop import Loop
    from fedsim.engine.run import Run


def run_round(loop: "Loop", number: int, playing: tuple[bool, ...]) -> list[DispatchedRound | None]:
    """Dispatch one round of runs that train side by side.

    Args:
      number: the round, from 1.

    Returns:
      One result per run, None for a run that takes no part.
    """
    program = loop.program
    first_block, states = plan(loop, number, playing)

    # Some rules need an update computed on the server's own data; some methods and rules need a
    # pass over the clients' data at the global model.
    states = train_servers(loop, states)
    if program.probe_mesh is not None:
        first_block, states = run_probe(loop, first_block, states)

    # The cohorts train block by block; the server receives the messages of a block before the next
    # one trains.
    lane_steps = 0
    observer = program.observer
    observed = None
    for block in loop.blocks.pass_from(first_block):
        trained = train(loop, program.mesh, block, states)
        states = receive(states, trained)
        if observer is not None:
            observed = observer.add(observed, states, trained)
        states = record(states, trained)
        lane_steps += block.layout.steps * program.width.lanes * program.mesh.shards

    updates = aggregate(states)
    if observer is not None:
        updates, observed = observer.report(observed, states, updates)
    return save(states, updates, observed, lane_steps)


def plan(loop: "Loop", number: int, playing: tuple[bool, ...]) -> tuple[Block, list[RoundState]]:
    """Step 1: lay out the first block on lanes, load the cohorts' memory, broadcast the models."""
    block = loop.blocks.first_of(number, playing)
    filling = len(loop.runs) - len(loop.servers)
    servers = loop.servers + loop.servers[:1] * filling  # only their shapes count
    states = []
    for run, server, run_cohort in zip(loop.runs, servers, block.cohorts, strict=True):
        states.append(_start_round(run, run.round_start(server, number), run_cohort))
    return block, states


def run_probe(
    loop: "Loop", first_block: Block, states: list[RoundState]
) -> tuple[Block, list[RoundState]]:
    """Pass over the clients' samples at the global model before they train, reusing step 2.

    Returns:
      The first block of the training; and the states, with the mean of the clients' messages if the
      method reads it.
    """
    mesh = loop.program.probe_mesh
    assert mesh is not None
    for block in loop.blocks.pass_from(first_block):
        states = add_probe(states, train(loop, mesh, block, states))

    states = [with_probe_mean(state) for state in states]
    return loop.blocks.get(training_key(first_block.key)), states


def train(loop: "Loop", mesh: Mesh, block: Block, states: list[RoundState]) -> TrainedBlock:
    """Step 2, on the device: train the clients of a block on its lanes, those of all runs together.

    Args:
      loop: the runs; the buffers of earlier blocks are reused.
      mesh: the lanes, those of the training or of the pass at the global model.

    Returns:
      The block with the messages of its clients, run by run.
    """
    slots, slots_by_run = _slots_with_memory(block, states)
    if states[0].run.form.chooses and not block.key.is_probe:
        slots, slots_by_run = _slots_with_choices(block, states, slots_by_run)

    # What the clients remember; the pass at the global model does not read it.
    if block.key.is_probe:
        client_memory = ()
        stage_memory = [{}] * len(states)
    else:
        client_memory, stage_memory = _gathered_memory(states, slots_by_run)

    # The bank: the start models of the first run, of the second, ...
    bank = []
    for state in states:
        if block.key.is_probe:  # it sees the variables of all models of a server that has several
            bank += [state.broadcast.shared] * block.models_per_run
        else:
            bank += state.run.form.models(state, block.models_per_run)

    # The training samples are on the device for the whole run, or come with their block.
    data = loop.data
    if data is None:
        data = mesh.put_samples(block.samples)

    layout = block.layout._replace(slots=slots)
    roots = tuple(state.start.root for state in states)
    inputs = mesh.inputs(
        tuple(bank),
        client_memory,
        layout=layout,
        data=data,
        keys=(roots, block.key.round),
        frozen=loop.frozen,
    )
    buffers = mesh.train_block(inputs, loop.buffers.get(mesh), layout, loop.pieces)

    # The host lays out the next block while the device trains this one.
    loop.blocks.prepare(block)

    # [runs · block, ...] -> [block, ...] for every run
    stack, loop.buffers[mesh] = mesh.collect(buffers, inputs)
    rows_by_run = [stack] if len(states) == 1 else _split(stack, len(states))
    messages = []
    for rows, of_run, remembered in zip(rows_by_run, slots_by_run, stage_memory, strict=True):
        messages.append(Messages(rows, of_run, remembered))
    return TrainedBlock(block=block, slots=slots, stack=stack, messages=messages)


def receive(states: list[RoundState], trained: TrainedBlock) -> list[RoundState]:
    """Step 3: pass a block's messages through the wire, and add them to those received so far.

    If the rule must see all rows together, messages are only gathered here, and pass the wire at
    the start of step 4.
    """
    first_slot = trained.block.key.first_slot
    calls = []
    for state, messages in zip(states, trained.messages, strict=True):
        calls.append((state, messages, first_slot))

    # Runs with different programs compile and dispatch them side by side.
    programs = [state.run.program.server.aggregator.add_program for state in states]
    return run_in_threads(_with_messages, calls, programs)


def record(states: list[RoundState], trained: TrainedBlock) -> list[RoundState]:
    """Add what arrived of a block, for runs that keep it; gathered messages are all there later."""
    first_slot = trained.block.key.first_slot
    recorded = []
    for state, messages in zip(states, trained.messages, strict=True):
        is_summed = isinstance(state.received, Sum) and state.has_block(first_slot)
        if state.run.keep_updates is not None and is_summed:
            messages = _with_losses(state, messages, first_slot)
            arrived = state.run.program.server.recording.arrived(messages, state.start)
            state = state._replace(arrived=(*state.arrived, arrived))
        recorded.append(state)
    return recorded


def aggregate(states: list[RoundState]) -> list[ServerUpdate | None]:
    """Step 4: the rule and the optimisers make the next server of every run."""
    calls = [(state,) for state in states]
    programs = [state.run.program.server.update for state in states]
    return run_in_threads(_server_update, calls, programs)


def save(
    states: list[RoundState],
    updates: list[ServerUpdate | None],
    observed: Any,
    lane_steps: int,
) -> list[DispatchedRound | None]:
    """Step 5: save client memory, and return the round's results, which the host reads later.

    Args:
      updates: the update of every run; None for a run that takes no part.
      observed: what an observer has for the host, of all runs.
    """
    # A run's share of the lane steps is its share of the local steps.
    steps = sum(state.steps for state in states)
    lane_steps_per_step = lane_steps / max(steps, 1)

    dispatched = []
    for index, (state, update) in enumerate(zip(states, updates, strict=True)):
        if state.cohort is None or update is None:
            dispatched.append(None)
            continue

        run = state.run
        run.store.save(state.remembered, update.memory)
        run.form.close(state.cohort.round, update.server.shared)
        dispatched.append(
            DispatchedRound(
                cohort=state.cohort,
                server=update.server,
                report=update.report,
                stats=state.stats,
                steps=state.steps,
                lane_steps=int(np.rint(lane_steps_per_step * state.steps)),
                sent_bytes=_sent_bytes(state, update),
                loss_bytes=run.form.asked_bytes(state),
                received_bytes=state.broadcast.bytes,
                observed=observed,
                index=index,
                feedback=state.feedback,
                choices=() if state.probe is None else state.probe.choices,
                arrived=_arrived(state),
            )
        )
    return dispatched


def _arrived(state: RoundState) -> tuple[Arrived, ...]:
    """Return what arrived in a round, by block or gathered; nothing where nobody keeps it."""
    if state.run.keep_updates is None or state.arrived:
        return state.arrived
    return (state.run.program.server.recording.arrived(state.received, state.start),)


def _start_round(run: "Run", start: RoundStart, run_cohort: RunCohort | None) -> RoundState:
    """Start a run's round: load the memory of its clients, and broadcast the model."""
    if run_cohort is None:
        nobody = np.zeros(0, int)
        memory, memory_rows = run.store.load(nobody)
        broadcast = Broadcast(start.server.shared)
        return RoundState(run, start, broadcast, None, nobody, memory, memory_rows)

    remembered, memory, memory_rows = run.form.load(run, run_cohort)
    sender = run.program.server.sender
    server, broadcast = sender.broadcast(start.server, start.root, run_cohort.cohort.round)
    return RoundState(
        run=run,
        start=run.form.start(run, run_cohort, start._replace(server=server)),
        broadcast=broadcast,
        cohort=run_cohort.cohort,
        remembered=remembered,
        memory=memory,
        memory_rows=memory_rows,
    )


def _slots_with_memory(block: Block, states: list[RoundState]) -> tuple[Slots, list[Slots]]:
    """Return a block's slots with the memory rows of their clients: of all runs, and of each."""
    first_slot = block.key.first_slot
    size = len(block.layout.slots.weight) // len(states)
    memory_rows = [state.memory_rows[first_slot : first_slot + size] for state in states]
    slots = with_memory_rows(block.layout.slots, memory_rows, size)
    return slots, by_run(slots, len(states))


def _slots_with_choices(
    block: Block, states: list[RoundState], slots_by_run: list[Slots]
) -> tuple[Slots, list[Slots]]:
    """Return a block's slots with the models that the clients train: of all runs, and of each."""
    first_slot = block.key.first_slot
    with_choices = []
    for state, slots in zip(states, slots_by_run, strict=True):
        if state.has_block(first_slot):
            slots = slots._replace(start=state.run.form.bank_rows(state, slots, first_slot))
        with_choices.append(slots)
    if len(states) == 1:
        return with_choices[0], with_choices
    return _concatenated(with_choices), with_choices


def _gathered_memory(states: list[RoundState], slots: list[Slots]) -> tuple[Tree, list[Tree]]:
    """Return a block's client memory: of the methods, for all runs together; of stages, by run."""
    of_methods = []
    of_stages = []
    for state, of_run in zip(states, slots, strict=True):
        run = state.run
        memory = _newest_memory(state, states)
        by_owner = run.program.server.memories.gather(memory, run.initial, of_run, state.start.root)
        of_methods.append(by_owner.pop(CLIENT))
        of_stages.append(by_owner)
    if len(states) == 1:
        return of_methods[0], of_stages
    return _concatenated(of_methods), of_stages


def _newest_memory(state: RoundState, states: list[RoundState]) -> Memory:
    """Return a run's memory as the blocks of the round have left it.

    A run that fills up shares its store with one that plays, and whose last block has replaced the
    memory that both of them loaded.
    """
    for other in states:
        if other.cohort is not None and other.run.store is state.run.store:
            return other.memory
    return state.memory


def _with_messages(state: RoundState, messages: Messages, first_slot: int) -> RoundState:
    """Add a block's messages of one run, if its cohort has such a block."""
    if not state.has_block(first_slot):
        return state
    run = state.run

    feedback = state.feedback
    if run.feedback_names:
        feedback = (*feedback, update_feedback(messages.rows.message.delta, run.feedback_names))
    messages = _with_losses(state, messages, first_slot)
    received, memory, stats = run.program.server.aggregator.add(
        state.received, state.memory, messages, state.start, first_slot
    )
    return state._replace(
        received=received,
        memory=memory,
        slots=messages.slots,
        stats=(*state.stats, stats),
        feedback=feedback,
    )


def _with_losses(state: RoundState, messages: Messages, first_slot: int) -> Messages:
    """Add the clients' losses at the global model, where a pass measured them."""
    if state.probe is None:
        return messages
    index = first_slot // len(messages.slots.weight)
    return messages._replace(loss=state.probe.losses[index])


def _server_update(state: RoundState) -> ServerUpdate | None:
    """Return the next server of one run; None if it takes no part."""
    if state.cohort is None:
        return None
    assert state.received is not None
    assert state.slots is not None
    return state.run.program.server.update(state.received, state.memory, state.slots, state.start)


def _sent_bytes(state: RoundState, update: ServerUpdate) -> tuple[Array, ...]:
    """Return the bytes by slot of the messages, and of those of a pass at the global model."""
    if state.probe is None or state.probe.total is None:
        return (update.report.bytes,)
    return (update.report.bytes, state.probe.total.bytes)


_concatenated = jax.jit(tree.concatenate)
_split = jax.jit(tree.split, static_argnums=1)

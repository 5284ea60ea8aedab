"""One round in five steps: plan, train, wire, serve, keep. Of one run, or of several side by side.

All cohorts train as one, from a bank with a start model for every run. What follows is done for
each run apart, on its own rows of the stack, by the programs that it would run alone. Nothing here
waits for the device, but for the calls that cut a long training into pieces.
"""

import jax
import numpy as np

from fedsim import tree
from fedsim.engine.before import probe, refer
from fedsim.engine.blocks import Block
from fedsim.engine.diagnosis import Sums, close_sums
from fedsim.engine.feedback import observed
from fedsim.engine.measuring import measure, with_deviations
from fedsim.engine.memory import CLIENT
from fedsim.engine.mesh import Buffers, Mesh
from fedsim.engine.pieces import train_block
from fedsim.engine.records import Played, Round, RoundWork, RunState, Space, TrainedBlock
from fedsim.engine.sending import Sent
from fedsim.engine.serving import Messages, RoundStart, Served
from fedsim.engine.slots import RunCohort, Slots, of_runs, placed
from fedsim.engine.threads import run_in_threads
from fedsim.tree import Tree
from fedsim.types import Flown, Shared


def play(round: Round) -> tuple[list[Played | None], Space]:
    """A round of runs side by side -> (what every run did, None where it took no part; the space).

    The space is that of lanes and stacks, for the next round.
    """
    block: Block | None
    program = round.program

    # What only some rounds have: the server's own training, and a pass of the clients at the global model.
    block, works = plan(round)
    works, space = refer(round, works)
    if program.probe is not None:
        block, works, space = probe(round, train, block, works, space)

    lane_steps, sums = 0, None
    while block is not None:
        trained = train(round, program.mesh, block, works, space.training)
        works = wire(works, trained)
        if program.diagnoses:
            works, sums = measure(round, works, trained, sums)
        space = space._replace(training=trained.buffers)
        lane_steps += block.layout.steps * program.width.lanes * program.mesh.shards
        block = round.blocks.following(block)

    served = serve(works)
    if program.diagnoses:
        served = with_deviations(works, served)
    return keep(works, served, sums, lane_steps), space


def plan(round: Round) -> tuple[Block, list[RoundWork]]:
    """Step 1, on the host: the first block laid out on lanes, and memory lent for all clients."""
    block = round.blocks.get(round.number, 0, round.playing, round.program.probe is not None)
    each = zip(round.runs, block.parts, strict=True)
    return block, [_begun(round.number, run, part) for run, part in each]


def train(
    round: Round, mesh: Mesh, block: Block, works: list[RoundWork], buffers: Buffers | None
) -> TrainedBlock:
    """Step 2, on the device: the clients of a block on its lanes, those of all runs side by side.

    Args:
      round: what all steps read.
      mesh: the lanes, of the training or of the pass at the global model.
      block: the next one.
      works: of every run.
      buffers: those of the block before.
    """
    runs, size = len(works), round.program.width.block
    places = [work.places[block.first : block.first + size] for work in works]
    slots = placed(block.layout.slots, places, size)
    by_run = of_runs(slots, runs)
    memory, remembered = ((), [{}] * runs) if block.probe else _remembered(works, by_run)

    layout = block.layout._replace(slots=slots)
    bank = tuple(model for work in works for model in _start_models(work, block.versions))
    data = mesh.handed(block.samples) if round.data is None else round.data
    roots = tuple(work.at.root for work in works)
    lent = mesh.lend(bank, memory, layout, data, (roots, block.round))

    buffers = mesh.empty(buffers, lent, layout.seats)
    buffers = train_block(mesh, lent, buffers, layout.steps, round.pieces)
    round.blocks.prepare(block)  # while the device works
    stack, buffers = mesh.collect(buffers, lent)
    rows = [stack] if runs == 1 else _split(stack, runs)
    return TrainedBlock(block, slots, stack, list(map(Messages, rows, by_run, remembered)), buffers)


def wire(works: list[RoundWork], trained: TrainedBlock) -> list[RoundWork]:
    """Step 3: a block's messages travel, and are added to what the server has.

    Where rows must be seen together, they travel when all are there.
    """
    calls = [(*each, trained.block.first) for each in zip(works, trained.messages, strict=True)]
    return run_in_threads(_added, calls, [work.run.programs.reduction.adding for work in works])


def serve(works: list[RoundWork]) -> list[Served | None]:
    """Step 4: the rule and the optimisers make the next server of every run."""
    return run_in_threads(
        _served, [(work,) for work in works], [work.run.programs.close for work in works]
    )


def keep(
    works: list[RoundWork], served: list[Served | None], sums: Sums | None, lane_steps: int
) -> list[Played | None]:
    """Step 5: client memory goes back to its store; what happened is on its way to the host."""
    per_step, played = lane_steps / max(sum(work.steps for work in works), 1), []
    diagnosis = None if sums is None else close_sums(sums)
    for place, (work, result) in enumerate(zip(works, served, strict=True)):
        if work.cohort is None or result is None:
            played.append(None)
            continue
        work.run.store.keep(work.cohort.ids, result.memory)
        if work.run.versions is not None:
            work.run.versions.keep(work.cohort.round, result.server.shared)
        played.append(
            Played(
                cohort=work.cohort,
                server=result.server,
                outcome=result.outcome,
                stats=work.stats,
                steps=work.steps,
                lane_steps=int(np.rint(per_step * work.steps)),
                sent=(result.outcome.bytes, *_probe_bytes(work)),
                extra=_loss_bytes(work),
                got=work.sent.bytes,
                diagnosis=diagnosis,
                place=place,
                feedback=work.feedback,
            )
        )
    return played


def _begun(number: int, run: RunState, part: RunCohort | None) -> RoundWork:
    """A run's work at the start of a round: memory is lent, the model is on its way to clients."""
    cohort = None if part is None else part.cohort
    memory, places = run.store.lend(np.zeros(0, int) if cohort is None else cohort.ids)
    server, sent = run.server, Sent(run.server.shared)
    if cohort is not None:
        server, sent = run.programs.sender.sent(server, run.root, number)
    at = RoundStart(
        server=server,
        root=run.root,
        round=number,
        clients=run.clients,
        samples=run.samples,
        expected=run.expected,
        own=run.own,
        flown=None if part is None else _flown(run, part),
    )
    return RoundWork(run=run, at=at, sent=sent, cohort=cohort, memory=memory, places=places)


def _start_models(work: RoundWork, room: int) -> list[Shared]:
    """What a run's clients train from, by version; the last one fills the room that is left."""
    versions = work.run.versions
    if work.cohort is None or versions is None:
        return [work.sent.shared] * room
    started = np.unique(work.cohort.start).tolist() or [work.cohort.round - 1]
    models = [versions.models[v] for v in started]
    return [*models, *models[-1:] * (room - len(models))]


def _remembered(works: list[RoundWork], slots: list[Slots]) -> tuple[Tree, list[Tree]]:
    """Rows of memory of a block: those of the method for all runs together, of stages by run."""
    rows = [
        work.run.programs.memories.gather(work.memory, work.run.start, own, work.run.root)
        for work, own in zip(works, slots, strict=True)
    ]
    trained = [row.pop(CLIENT) for row in rows]
    return trained[0] if len(rows) == 1 else _concatenated(trained), rows


def _flown(run: RunState, part: RunCohort) -> Flown | None:
    """What the only client of a round trained from, where the schedule mixes models."""
    mixing, cohort = part.plan.timetable.mixing, part.cohort
    if mixing is None or run.versions is None:
        return None
    version, share = cohort.round - 1, 0.0  # of a round without a client
    if len(cohort.ids):
        version, share = cohort.start[0], mixing(cohort.age[0])
    params = run.programs.pipeline.travelling(run.versions.models[version])
    return Flown(params, run.samples.dtype.type(share))


def _added(work: RoundWork, messages: Messages, first: int) -> RoundWork:
    """With the messages of the slots from `first` on, where a run's cohort has such slots."""
    if not work.has(first):
        return work
    asks, slots, reduction = work.run.asks, messages.slots, work.run.programs.reduction
    feedback = (*work.feedback, observed(messages.rows.message.delta, asks)) if asks else ()
    if work.probed is not None:
        messages = messages._replace(loss=work.probed.losses[first // len(slots.weight)])
    total, memory, stats = reduction.add(work.total, work.memory, messages, work.at, first)
    return work._replace(
        total=total,
        memory=memory,
        slots=slots,
        stats=(*work.stats, stats),
        feedback=feedback,
    )


def _served(work: RoundWork) -> Served | None:
    """The next server of a run that takes part."""
    if work.cohort is None:
        return None
    assert work.total is not None and work.slots is not None
    return work.run.programs.close(work.total, work.memory, work.slots, work.at)


def _loss_bytes(work: RoundWork) -> int:
    """What the loss at the global model adds to a message, where clients send it."""
    if not work.run.programs.asks_loss:
        return 0
    return tree.payload_bytes(jax.ShapeDtypeStruct((), work.stats[0].loss.dtype))


def _probe_bytes(work: RoundWork) -> tuple:
    """Bytes by slot of the messages of a pass at the global model, where there were some."""
    if work.probed is None or work.probed.total is None:
        return ()
    return (work.probed.total.bytes,)


_concatenated, _split = jax.jit(tree.concatenate), jax.jit(tree.split, static_argnums=1)

"""One round in five steps: plan, train, wire, serve, keep. Of one run, or of several side by side.

All cohorts train as one, from a bank with a start model for every run. What follows is done for each run apart, on its
own rows of the stack, by the programs that it would run alone. Nothing here waits for the device, but for the
calls that cut a long training into pieces.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from fedsim import tree
from fedsim.engine.blocks import Block, Blocks
from fedsim.engine.deviation import HonestSum
from fedsim.engine.diagnosis import Diagnosis, Sums, close_sums, measured
from fedsim.engine.evaluation import Evaluate
from fedsim.engine.feedback import observed
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import CLIENT, Memory
from fedsim.engine.mesh import Buffers, Mesh
from fedsim.engine.own_samples import OwnSamples, ServerTraining
from fedsim.engine.pack import Capacity, Packer, Width, longest_first
from fedsim.engine.pieces import Pieces, train_block
from fedsim.engine.server import Server
from fedsim.engine.serving import (
    Folded,
    Gathered,
    Outcome,
    ProbeSum,
    RoundInfo,
    Sent,
    ServerState,
    TrainStats,
    mean_losses,
)
from fedsim.engine.slots import Part, Slots, of_runs, placed
from fedsim.engine.store import Store
from fedsim.engine.threads import beside
from fedsim.engine.versions import Versions
from fedsim.fleet import RoundPlan
from fedsim.tree import Tree
from fedsim.types import Flown, Shared, Task


class Program(NamedTuple):
    """The compiled half of a scenario: pure functions, and the shapes they were made for."""

    mesh: Mesh
    server: Server
    evaluate: Evaluate
    evaluators: int  # threads that evaluate side by side
    task: Task
    width: Width
    room: Capacity
    dtype: np.dtype
    pack: Packer = longest_first
    diagnoses: bool = False  # whether the updates are measured
    probe: Mesh | None = None  # the lanes of the pass at x, where a round has one
    own: Mesh | None = None  # those of the server's own training, where the rule needs it
    solo: bool = False  # whether no other run may train beside


class RunState(NamedTuple):
    """What a run holds between two rounds."""

    server: ServerState
    programs: Server
    start: Shared  # variables of the run's start
    store: Store  # where the clients' memory lives
    root: Key[Array, ""]  # of all randomness of the run
    clients: Float[Array, ""]  # that can take part
    samples: Float[Array, ""]  # of all of them together
    expected: Float[Array, "2"]  # clients that a round draws on average, and their samples
    versions: Versions | None = None  # of an asynchronous server: models that clients still train from
    own: OwnSamples | None = None  # of the server, where the rule asks for losses on them
    training: ServerTraining | None = None  # of the server itself, where the rule asks for its update
    asks: tuple[str, ...] = ()  # what its cohort wants to know of every update
    plays: bool = True  # this round; a run that does not keeps its place, so that no shape changes


class Space(NamedTuple):
    """Lanes and stacks of the round before, whose room is used again; their contents do not matter."""

    training: Buffers | None = None
    probe: Buffers | None = None
    own: Buffers | None = None


class Round(NamedTuple):
    """What the five steps of a round read."""

    program: Program
    blocks: Blocks  # the host's lay-outs
    runs: Sequence[RunState]  # often a single one
    number: int  # from 1
    data: list | None  # (x, y) of all training samples, on the device; None: they stay on the host
    pieces: Pieces
    own_pieces: Pieces  # of the server's own training
    space: Space

    @property
    def playing(self) -> tuple[bool, ...]:
        """Which runs take part."""
        return tuple(run.plays for run in self.runs)


class RoundWork(NamedTuple):
    """What has become of a run's cohort so far in a round."""

    run: RunState
    info: RoundInfo
    sent: Sent  # what the clients got, and the server of the round's start; after a pass at x, with its mean in `aux`
    cohort: RoundPlan | None  # None: the run does not take part
    memory: Memory
    places: np.ndarray  # of the clients' rows of memory
    total: Folded | Gathered | None = None
    slots: Slots | None = None  # of the last block
    stats: tuple[TrainStats, ...] = ()  # by block
    honest: HonestSum | None = None  # the sum of the honest rows, where blocks are folded
    probe: ProbeSum | None = None
    losses: tuple[Float[Array, " block"], ...] = ()  # at x, by block
    feedback: tuple[dict[str, Array], ...] = ()  # what the cohort asks for, by block

    @property
    def steps(self) -> int:
        """Local steps of all clients."""
        return 0 if self.cohort is None else int(self.cohort.steps.sum())


class TrainedBlock(NamedTuple):
    """A block whose clients have trained."""

    block: Block
    slots: Slots  # of all runs
    by_run: list[Slots]  # of every run
    stack: Rows  # of all runs, by slot
    rows: list[Rows]  # of every run, by slot
    remembered: list[Tree]  # of every run: what stages remember of these clients
    buffers: Buffers  # in which they stand


class Played(NamedTuple):
    """A round that was handed to the device; its numbers may still be on their way."""

    cohort: RoundPlan
    server: ServerState
    outcome: Outcome
    stats: tuple[TrainStats, ...]
    steps: int  # that trained a client
    lane_steps: int  # steps times lanes
    sent: tuple[Array, ...]  # bytes by slot: of the messages, and of those of a pass at x
    extra: int  # bytes that every client sends besides
    got: Array | int | None  # bytes that every client got; None: those of the variables
    diagnosis: Diagnosis | None = None  # of all runs side by side
    place: int = 0  # of this run among them
    feedback: tuple[dict[str, Array], ...] = ()  # what the cohort asks for, by block


def play(round: Round) -> tuple[list[Played | None], Space]:
    """A round of runs side by side -> (what every run did, None where it took no part; the space for the next round)."""
    block: Block | None
    block, works = plan(round)
    works, space = refer(round, works)
    lane_steps, sums = 0, None
    if round.program.probe is not None:
        block, works, space = probe(round, block, works, space)
    while block is not None:
        trained = train(round, round.program.mesh, block, works, space.training)
        works = wire(round, works, trained)
        sums = measure(round, sums, trained)
        space = space._replace(training=trained.buffers)
        lane_steps += block.layout.steps * round.program.width.lanes * round.program.mesh.shards
        block = round.blocks.following(block)
    served = serve(works, round.program.diagnoses)
    return keep(works, served, sums, lane_steps), space


def plan(round: Round) -> tuple[Block, list[RoundWork]]:
    """Step 1, on the host: cohorts, batches and lanes of the first block, and memory lent for the clients of all."""
    block = round.blocks.get(round.number, 0, round.playing, round.program.probe is not None)
    works = []
    for run, part in zip(round.runs, block.parts, strict=True):
        cohort = None if part is None else part.cohort
        memory, places = run.store.lend(np.zeros(0, int) if cohort is None else cohort.ids)
        info = RoundInfo(run.root, round.number, run.clients, run.samples, run.expected, run.own)
        if part is not None:
            info = info._replace(flown=_flown(run, part))
        sent = Sent(run.server, run.server.shared) if cohort is None else run.programs.sent(run.server, info)
        works.append(RoundWork(run, info, sent, cohort, memory, places))
    return block, works


def refer(round: Round, works: list[RoundWork]) -> tuple[list[RoundWork], Space]:
    """The servers' own training before that of the clients, where a rule asks for their update -> (works, space)."""
    referred, buffers = [], round.space.own
    for work in works:
        training = work.run.training
        if work.cohort is not None and training is not None:
            lent = training.lend(work.sent.shared, round.number)
            buffers = training.mesh.empty(buffers, lent, seats=1)
            buffers = train_block(training.mesh, lent, buffers, training.steps, round.own_pieces)
            work = work._replace(info=work.info._replace(reference=_first_row(buffers.rows[0].message.delta)))
        referred.append(work)
    return referred, round.space._replace(own=buffers)


def probe(round: Round, block: Block, works: list[RoundWork], space: Space) -> tuple[Block, list[RoundWork], Space]:
    """The pass at x before the training, where method or rule asks for one -> (first block of the training, works, space)."""
    mesh = round.program.probe
    assert mesh is not None
    following: Block | None = block
    while following is not None:
        trained = train(round, mesh, following, works, space.probe)
        works = [_probed(*each, following.first) for each in zip(works, trained.by_run, trained.rows, strict=True)]
        space = space._replace(probe=trained.buffers)
        following = round.blocks.following(following)
    return round.blocks.get(round.number, 0, round.playing), list(map(_with_probe, works)), space


def train(round: Round, mesh: Mesh, block: Block, works: list[RoundWork], buffers: Buffers | None) -> TrainedBlock:
    """Step 2, on the device: a block of the cohorts on its lanes."""
    runs, size = len(works), round.program.width.block
    bank = tuple(model for work in works for model in _start_models(work, block.versions))
    roots = tuple(work.info.root for work in works)
    places = [work.places[block.first : block.first + size] for work in works]
    layout = block.layout._replace(slots=placed(block.layout.slots, places, size))
    data = mesh.handed(block.samples) if round.data is None else round.data
    by_run = of_runs(layout.slots, runs)
    memory, remembered = ((), []) if block.probe else _remembered(works, by_run)
    lent = mesh.lend(bank, memory, layout, data, (roots, block.round))
    buffers = train_block(mesh, lent, mesh.empty(buffers, lent, layout.seats), layout.steps, round.pieces)
    round.blocks.prepare(block)  # while the device works
    stack, buffers = mesh.collect(buffers, lent)
    return TrainedBlock(
        block=block,
        slots=layout.slots,
        by_run=by_run,
        stack=stack,
        rows=[stack] if runs == 1 else _split(stack, runs),
        remembered=remembered,
        buffers=buffers,
    )


def wire(round: Round, works: list[RoundWork], trained: TrainedBlock) -> list[RoundWork]:
    """Step 3: a block's messages travel, and are added to what the server has (where rows must be seen together, they
    travel when all are there).
    """
    first, diagnoses = trained.block.first, round.program.diagnoses
    each = zip(works, trained.by_run, trained.rows, trained.remembered, strict=True)
    calls = [(*parts, first, diagnoses) for parts in each]
    return beside(_added, calls, [work.run.programs.adding for work in works])


def measure(round: Round, sums: Sums | None, trained: TrainedBlock) -> Sums | None:
    """What a block's updates say about the clients, where that is asked for."""
    if not round.program.diagnoses:
        return None
    return measured(sums, trained.stack.message.delta, trained.slots.weight, runs=len(round.runs))


def serve(works: list[RoundWork], diagnoses: bool) -> list[tuple[ServerState, Memory, Outcome] | None]:
    """Step 4: the rule and the optimisers make the next server of every run."""
    calls = [(work, diagnoses) for work in works]
    return beside(_served, calls, [work.run.programs.close for work in works])


def keep(
    works: list[RoundWork],
    served: list[tuple[ServerState, Memory, Outcome] | None],
    sums: Sums | None,
    lane_steps: int,
) -> list[Played | None]:
    """Step 5: client memory goes back to its store; what happened goes to the host, when it is there."""
    per_step, played = lane_steps / max(sum(work.steps for work in works), 1), []
    diagnosis = None if sums is None else close_sums(sums)
    for place, (work, result) in enumerate(zip(works, served, strict=True)):
        if work.cohort is None or result is None:
            played.append(None)
            continue
        server, memory, outcome = result
        work.run.store.keep(work.cohort.ids, memory)
        if work.run.versions is not None:
            work.run.versions.keep(work.cohort.round, server.shared)
        played.append(
            Played(
                cohort=work.cohort,
                server=server,
                outcome=outcome,
                stats=work.stats,
                steps=work.steps,
                lane_steps=int(np.rint(per_step * work.steps)),
                sent=(outcome.bytes, *(() if work.probe is None else (work.probe.bytes,))),
                extra=_loss_bytes(work),
                got=work.sent.bytes,
                diagnosis=diagnosis,
                place=place,
                feedback=work.feedback,
            )
        )
    return played


def _loss_bytes(work: RoundWork) -> int:
    """What the loss at x adds to a message, where clients send it."""
    loss = work.stats[0].loss
    return tree.payload_bytes(jax.ShapeDtypeStruct((), loss.dtype)) if work.run.programs.asks_loss else 0


def _start_models(work: RoundWork, room: int) -> list[Shared]:
    """What a run's clients train from, by version; the last one as often as there is room for more."""
    versions = work.run.versions
    if work.cohort is None or versions is None:
        return [work.sent.shared] * room
    started = np.unique(work.cohort.start).tolist() or [work.cohort.round - 1]
    models = [versions.models[v] for v in started]
    return [*models, *models[-1:] * (room - len(models))]


def _flown(run: RunState, part: Part) -> Flown | None:
    """What the only client of a round trained from, where the schedule mixes models; nobody's has no share."""
    mixing, cohort = part.plan.timetable.mixing, part.cohort
    if mixing is None or run.versions is None:
        return None
    version, share = (cohort.start[0], mixing(cohort.age[0])) if len(cohort.ids) else (cohort.round - 1, 0.0)
    params = run.programs.passage.travelling(run.versions.models[version])
    return Flown(params, run.samples.dtype.type(share))


def _remembered(works: list[RoundWork], slots: list[Slots]) -> tuple[Tree, list[Tree]]:
    """Rows of memory of a block's clients: of the client method, those of the runs one after another; of stages, by run."""
    rows = [
        work.run.programs.memories.gather(work.memory, work.run.start, columns, work.run.root)
        for work, columns in zip(works, slots, strict=True)
    ]
    trained = [row.pop(CLIENT) for row in rows]
    return trained[0] if len(rows) == 1 else _concatenated(trained), rows


def _probed(work: RoundWork, slots: Slots, rows: Rows, first: int) -> RoundWork:
    """With the rows of a block of the pass at x."""
    if work.cohort is None:
        return work
    programs, total = work.run.programs, None
    if programs.client.probe is not None:  # else the loss alone is sent
        total = programs.add_probe(work.probe, work.sent.server, rows, slots, work.info, first)
    return work._replace(probe=total, losses=(*work.losses, mean_losses(rows)))


def _with_probe(work: RoundWork) -> RoundWork:
    """With the mean of the pass at x sent to the clients, where the method reads it."""
    if work.probe is None or "probe" not in work.sent.shared["aux"]:
        return work
    return work._replace(sent=work.run.programs.send_probe(work.probe, work.sent))


def _added(work: RoundWork, slots: Slots, rows: Rows, remembered: Tree, first: int, diagnoses: bool) -> RoundWork:
    """With the rows of the slots from `first` on; a run whose cohort has no such slots has none to add."""
    if work.cohort is None or first > max(len(work.cohort.ids) - 1, 0):
        return work
    programs, asks = work.run.programs, work.run.asks
    feedback = (*work.feedback, observed(rows.message.delta, asks)) if asks else ()
    loss, losses = (work.losses[0], work.losses[1:]) if work.losses else (None, ())
    total, memory, stats = programs.add(
        work.total, work.sent.server, work.memory, rows, remembered, loss, slots, work.info, first
    )
    honest = work.honest
    if diagnoses and isinstance(total, Folded):
        honest = programs.add_honest(honest, work.sent.server, rows, remembered, slots, work.info)
    return work._replace(
        total=total,
        memory=memory,
        slots=slots,
        losses=losses,
        stats=(*work.stats, stats),
        honest=honest,
        feedback=feedback,
    )


def _served(work: RoundWork, diagnoses: bool) -> tuple[ServerState, Memory, Outcome] | None:
    """The next server of a run that takes part."""
    if work.cohort is None:
        return None
    assert work.total is not None and work.slots is not None
    programs, old, deviation = work.run.programs, work.sent.server, {}
    server, memory, outcome, reduced = programs.close(work.total, old, work.memory, work.slots, work.info)
    if diagnoses:
        deviation = programs.deviation(work.total, reduced, work.honest, old, work.slots, work.info)
    return server, memory, outcome._replace(info={**outcome.info, **deviation})


_first_row = jax.jit(lambda stack: tree.take(stack, 0))
_concatenated, _split = jax.jit(tree.concatenate), jax.jit(tree.split, static_argnums=1)

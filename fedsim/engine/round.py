"""One round, in five steps: plan, train, wire, serve, keep. Of one run, or of several side by side."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.engine.blocks import Block, Blocks
from fedsim.engine.diagnosis import Found, found, more, none
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import Memories
from fedsim.engine.mesh import Mesh
from fedsim.engine.pack import Capacity, Jobs, Packer, Part, Width, columns, longest_first, placed
from fedsim.engine.server import Met, Outcome, RoundInfo, Serve, Server, mean_losses
from fedsim.engine.store import Store
from fedsim.fleet import RoundPlan
from fedsim.types import Task

CALL_SECONDS = 1.0  # a device call is cut to about this long, so that Ctrl-C is quick


class Program(NamedTuple):
    """The compiled half of a scenario: pure functions, and the shapes they were made for."""

    mesh: Mesh
    memories: Memories
    serve: Serve
    evaluate: Callable
    crews: int  # that evaluate side by side
    task: Task
    width: Width
    room: Capacity
    dtype: Any
    pack: Packer = longest_first
    diagnoses: bool = False  # whether the updates are looked at
    first: Mesh | None = None  # the lanes of a round's first pass, where there is one
    solo: bool = False  # whether no other run may be played beside


class Played(NamedTuple):
    """A round that was handed to the device; its numbers may still be on their way."""

    work: RoundPlan
    server: Server
    outcome: Outcome
    met: list[Met]
    useful: int  # steps that trained a client
    lane_steps: int  # steps times lanes
    message_bytes: int  # of what one client sends
    found: Found | None = None  # what the updates say, where it was asked


class Pieces:
    """How many lane steps go into one device call: a fixed number of calls, or as many as fit into CALL_SECONDS."""

    def __init__(self, calls: int | None = None):
        self.calls, self.per_call = calls, 0

    def cuts(self, total: int) -> list[int]:
        """Ends of the calls of a block of `total` lane steps."""
        calls = self.calls or (-(-total // self.per_call) if self.per_call else 1)
        return sorted({round(total * (i + 1) / calls) for i in range(calls)} - {0})

    def probe(self, total: int) -> list[int]:
        """Cuts of the very first block: one step to compile, a few to time, then the rest."""
        return [] if self.calls or self.per_call else sorted({min(1, total), min(9, total)} - {0})

    def timed(self, steps: int, seconds: float) -> None:
        """Learn from `steps` lane steps that took `seconds`."""
        self.per_call = max(int(CALL_SECONDS * steps / max(seconds, 1e-9)), 1)


class Hand(NamedTuple):
    """What a run holds between two rounds."""

    serve: Serve
    server: Server
    start: Any  # the shared variables of the run's start, as a bank
    store: Store  # where the clients' memory lives
    root: Any  # key of all randomness of the run
    clients: Any  # that can take part
    samples: Any  # of all of them together
    plays: bool = True  # this round; a run that does not keeps its place, so that no shape changes


class Buffers(NamedTuple):
    """The stacks of the round before, whose room is used again; their contents do not matter."""

    rows: Any = None
    first: Any = None


def play(
    program: Program, blocks: Blocks, hands: Sequence[Hand], buffers: Buffers, data, r: int, pieces: Pieces
) -> tuple[list[Played | None], Buffers]:
    """Round r of runs side by side: `(servers, stack) -> (Played, stack)`, and what clients remember goes into its store.

    All cohorts train as one, from a bank of start models with a row per run. What comes after that is done for each run
    alone, on its own rows of the stack, by the programs that it would run by itself. Nothing here waits for the device.

    Args:
      program: the pure functions.
      blocks: the host's half.
      hands: of the runs, often of a single one.
      buffers: as the round before gave them back.
      data: (x, y) of all training samples, on the device; None: they stay on the host.
      r: round number, from 1.
      pieces: how blocks are cut into device calls; changes no bit.

    Returns:
      what every run played (None: nothing), and the buffers for the next round.
    """
    playing, first, rows = tuple(hand.plays for hand in hands), buffers.first, buffers.rows
    block = blocks.get(r, 0, playing, program.first is not None)  # 1 plan
    shares = [Share(program, hand, part, r) for hand, part in zip(hands, block.parts, strict=True)]
    if program.first is not None:
        for passed in _passes(program, program.first, blocks, block, shares, buffers.first, data, pieces):
            for share, own, arrived in passed.parts:
                share.look(arrived, own)
            first = passed.rows
        for share in shares:
            share.tell()
        block = blocks.get(r, 0, playing)
    lane_steps = 0
    for passed in _passes(program, program.mesh, blocks, block, shares, buffers.rows, data, pieces):  # 2 train
        for share, own, arrived in passed.parts:
            share.add(arrived, own, passed.block.first)  # 3 wire (or at the close)
        lane_steps += passed.block.steps * program.width.lanes * program.mesh.crews
        rows = passed.rows
    rate = lane_steps / max(sum(share.useful for share in shares), 1)
    return [share.close(rate) if share.work else None for share in shares], Buffers(rows, first)  # 4 serve, 5 keep


class Passed(NamedTuple):
    """A block whose clients have trained, or looked."""

    block: Block
    parts: "list[tuple[Share, Jobs, Rows]]"  # what arrived for each run
    rows: Any  # the buffer in which it stands


def _passes(
    program: Program, mesh: Mesh, blocks: Blocks, block: Block, shares: "list[Share]", rows, data, pieces: Pieces
) -> Iterator[Passed]:
    """A pass over the cohorts, block by block from `block` on."""
    K, runs = program.width.block, len(shares)
    bank, roots = _bank([(share.server.bank, share.info.root) for share in shares])
    for first in range(0, max(block.longest, 1), K):
        block = block if first == 0 else blocks.get(block.round, first, block.playing, block.look)
        layout = placed(block.layout, [share.places[first : first + K] for share in shares], K)
        here = mesh.spread(block.samples) if data is None else data
        local, columns = mesh.jobs(layout)
        jobs = _by_run(columns, runs)
        mine: Any = ()
        if not block.look:
            mine = _stack([share.remembered(own) for share, own in zip(shares, jobs, strict=True)])
        models, mine = mesh.lend(bank, mine, layout)
        rows = train(mesh, models, mine, local, here, (roots, block.round), rows, block.steps, layout.seats, pieces)
        blocks.prepare(block)  # while the device works
        stack = mesh.collect(rows, local)
        yield Passed(block, list(zip(shares, jobs, _by_run(stack, runs), strict=True)), rows)


class Share:
    """A run's part of a round behind the training: its rows arrive block by block and become the next server."""

    def __init__(self, program: Program, hand: Hand, part: Part | None, r: int):
        self.memories, self.hand = program.memories, hand
        self.info = RoundInfo(hand.root, r, hand.clients, hand.samples)
        self.server = hand.server
        self.work = part.work if part else None
        self.memory, self.places = hand.store.lend(self.work.ids if self.work else np.zeros(0, int))
        self.useful = int(self.work.steps.sum()) if self.work else 0
        self.total, self.jobs, self.met, self.message_bytes = None, None, [], 0
        self.diagnoses, self.sums = program.diagnoses, None
        self.looked, self.losses, self.first_bytes = None, [], 0

    def remembered(self, jobs: Jobs) -> Any:
        """Rows of memory of the block's clients."""
        return self.memories.gather(self.memory, self.hand.start, jobs, self.hand.root)

    def look(self, stack: Rows, jobs: Jobs) -> None:
        """Rows of the first pass."""
        if self.work is None:
            return
        self.looked = self.hand.serve.look(self.looked, self.server, stack, jobs, self.info)
        self.losses.append(mean_losses(stack))
        self.first_bytes = _message_bytes(stack) + self.hand.serve.losses * stack.loss.dtype.itemsize

    def tell(self) -> None:
        """What the first pass was for: its mean is sent out."""
        if self.looked is not None and "probe" in self.server.bank["aux"]:
            self.server = self.hand.serve.tell(self.looked, self.server)

    def add(self, stack: Rows, jobs: Jobs, first: int) -> None:
        """The rows of the slots from `first` on; a run whose cohort has no such slots has none to add."""
        if self.work is None or first > max(len(self.work.ids) - 1, 0):
            return
        serve = self.hand.serve
        total = serve.zero(stack, jobs) if self.total is None else self.total
        loss = self.losses.pop(0) if self.losses else None
        self.total, self.memory, met = serve.add(total, self.server, self.memory, stack, loss, jobs, self.info, first)
        self.jobs, self.message_bytes = jobs, _message_bytes(stack) + self.first_bytes
        self.met.append(met)
        if self.diagnoses:
            delta = stack.message.delta
            self.sums = more(none(delta) if self.sums is None else self.sums, delta, jobs.weight)

    def close(self, lane_steps: float) -> Played:
        """The next server; `lane_steps` were done for every step that trained a client."""
        assert self.work is not None
        serve, server = self.hand.serve, self.server
        server, memory, outcome = serve.close(self.total, server, self.memory, self.jobs, self.info)
        self.hand.store.keep(self.work.ids, memory)
        done = round(lane_steps * self.useful)
        said = None if self.sums is None else found(self.sums)
        return Played(self.work, server, outcome, self.met, self.useful, done, self.message_bytes, said)


def train(mesh: Mesh, bank, memory, jobs: Any, data, key, rows: Any, steps: int, seats: int, pieces: Pieces) -> Any:
    """All lane steps of one block, in one call or several; into a new buffer when there is none that fits."""
    stack = mesh.empty(rows, bank, memory, jobs, seats)
    lane = mesh.begin(bank, memory, jobs)
    t, token = 0, None
    probe = pieces.probe(steps)
    for cut in probe:
        begin = time.perf_counter()
        lane, stack, token = mesh.train(bank, memory, jobs, data, key, lane, stack, t, cut)
        jax.block_until_ready(token)
        if cut == probe[-1] and t:  # the first piece compiles, the second one counts
            pieces.timed(cut - t, time.perf_counter() - begin)
        t = cut
    for cut in pieces.cuts(steps):
        if cut > t:
            if token is not None:
                jax.block_until_ready(token)  # at most one call in the queue behind the running one
            lane, stack, token = mesh.train(bank, memory, jobs, data, key, lane, stack, t, cut)
            t = cut
    return stack


def _bank(starts: list[tuple]) -> tuple:
    """Start models and root keys of the runs, stacked."""
    return starts[0] if len(starts) == 1 else _banked(starts)


@jax.jit
def _banked(starts: list[tuple]) -> tuple:
    banks, roots = zip(*starts, strict=True)
    return tree.concatenate(banks), jnp.stack(roots)


def _stack(stacks: list) -> Any:
    """Rows by slot of every run, one after another."""
    return stacks[0] if len(stacks) == 1 else _concatenated(stacks)


def _by_run(stacked: Any, runs: int) -> list:
    """A stack over the slots of all runs -> one for each."""
    if runs == 1:
        return [stacked]
    return _split(columns(stacked) if isinstance(stacked, Jobs) else stacked, runs)


_concatenated, _split = jax.jit(tree.concatenate), jax.jit(tree.split, static_argnums=1)


def _message_bytes(rows: Rows) -> int:
    """Bytes of one message, from the shapes of the stack."""
    sent = rows.message
    return tree.payload_bytes((sent.delta, sent.stats, sent.aux)) // rows.loss.shape[0]

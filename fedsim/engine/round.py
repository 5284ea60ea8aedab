"""One round, in five steps: plan, train, wire, serve, keep."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from fedsim import tree
from fedsim.engine.blocks import Blocks
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import Memories
from fedsim.engine.mesh import Mesh
from fedsim.engine.pack import Capacity, Packer, Width, longest_first, placed
from fedsim.engine.serve import Met, Outcome, Serve, Server
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


class Played(NamedTuple):
    """A round that was handed to the device; its numbers may still be on their way."""

    work: RoundPlan
    server: Server
    outcome: Outcome
    met: list[Met]
    useful: int  # steps that trained a client
    lane_steps: int  # steps times lanes
    message_bytes: int  # of what one client sends


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


def play(
    program: Program, blocks: Blocks, server: Server, store: Store, rows: Any, data, root, r: int, pieces: Pieces
) -> tuple[Played, Any]:
    """Round r: `(server, stack) -> (Played, stack)`, and what clients remember goes back into its store.

    State in, state out; nothing here waits for the device.

    Args:
      program: the pure functions.
      blocks: the host's half.
      server: shared variables and server state before the round.
      store: where the clients' memory lives.
      rows: the stack's buffer of the round before (its contents do not matter), None in the first round.
      data: (x, y) of all training samples, on the device; None: they stay on the host.
      root: the run's root key.
      r: round number, from 1.
      pieces: how blocks are cut into device calls; changes no bit.
    """
    mesh, memories, serve, key, K = program.mesh, program.memories, program.serve, (root, r), program.width.block
    block = blocks.get(r)  # 1 plan
    work = block.work
    memory, places = store.lend(work.ids)
    total, jobs, stack, met, useful, lane_steps = None, None, None, [], 0, 0
    for first in range(0, max(len(work.ids), 1), K):
        block = block if first == 0 else blocks.get(r, first)
        layout = placed(block.layout, places[first : first + K])
        here = mesh.spread(block.samples) if data is None else data
        local, jobs = mesh.jobs(layout)
        mine = memories.gather(memory, server.bank, jobs, key)
        bank, mine = mesh.lend(server.bank, mine, layout, jobs)
        rows = train(mesh, bank, mine, local, here, key, rows, block.steps, layout.seats, pieces)  # 2 train
        blocks.prepare(block)  # while the device works
        stack = mesh.collect(rows, local)
        total = serve.zero(stack, jobs) if total is None else total
        total, memory, losses = serve.add(total, server, memory, stack, jobs, key, first)  # 3 wire (or at the close)
        met.append(losses)
        useful += int(work.steps[first : first + K].sum())
        lane_steps += block.steps * program.width.lanes * mesh.crews
    server, memory, outcome = serve.close(total, server, memory, jobs, key)  # 4 serve
    store.keep(work.ids, memory)  # 5 keep
    assert stack is not None
    return Played(work, server, outcome, met, useful, lane_steps, _message_bytes(stack)), rows


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


def _message_bytes(rows: Rows) -> int:
    """Bytes of one message, from the shapes of the stack."""
    sent = rows.message
    return tree.payload_bytes((sent.delta, sent.state, sent.aux)) // rows.loss.shape[0]

"""What the steps of a round read, and what they return."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int, Key

from fedsim.engine.blocks import Block, Blocks
from fedsim.engine.deviation import HonestSum
from fedsim.engine.diagnosis import Diagnosis
from fedsim.engine.forms.one import OneModel
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import Memory
from fedsim.engine.mesh import Buffers
from fedsim.engine.pieces import Pieces
from fedsim.engine.probing import ProbeSum
from fedsim.engine.program import Program
from fedsim.engine.recording import Arrived
from fedsim.engine.sending import Broadcast
from fedsim.engine.server import Server
from fedsim.engine.server_records import (
    Messages,
    RoundReport,
    RoundStart,
    ServerState,
    TrainStats,
)
from fedsim.engine.server_samples import ServerSamples, ServerTraining
from fedsim.engine.slots import Slots
from fedsim.engine.store import Store
from fedsim.fleet import RoundPlan
from fedsim.tree import Tree
from fedsim.types import Shared


class RunState(NamedTuple):
    """What a run brings to a round."""

    server: ServerState
    server_programs: Server
    initial: Shared  # variables at the run's start, with which client memory begins
    store: Store  # of the clients' memory
    form: OneModel  # of the server
    root: Key[Array, ""]  # the run's root key
    clients: Float[Array, ""]  # clients that can take part
    samples: Float[Array, ""]  # of all of them together
    expected: Float[Array, "2"]  # clients that a round draws on average, and their samples
    server_samples: ServerSamples | None = None  # where the rule asks for losses on them
    server_training: ServerTraining | None = None  # where the rule asks for the server's own update
    feedback_names: tuple[str, ...] = ()  # what the run's cohorts ask about every update
    plays: bool = True  # False: it takes no part, but keeps its slots, so that no shape changes
    frozen: Tree = ()  # leaves of the model that nobody trains
    keeps_updates: bool = False  # whether somebody keeps what arrives

    def start(self, round: int) -> RoundStart:
        """Return the start of a round in which models are not mixed."""
        return RoundStart(
            server=self.server,
            root=self.root,
            round=round,
            clients=self.clients,
            samples=self.samples,
            expected=self.expected,
            server_samples=self.server_samples,
            frozen=self.frozen,
        )


class Workspace(NamedTuple):
    """Buffers of an earlier block or round, to be reused; their contents no longer matter."""

    training_buffers: Buffers | None = None
    probe_buffers: Buffers | None = None  # of the pass at the global model
    server_buffers: Buffers | None = None  # of the servers' own training


class Round(NamedTuple):
    """What the five steps of a round read."""

    program: Program
    blocks: Blocks
    runs: Sequence[RunState]  # often a single one
    number: int  # from 1
    data: list | None  # (x, y) of all training samples on the device; None: they stay on the host
    frozen: list[Tree]  # leaves of the model that nobody trains, of every shard
    pieces: Pieces  # of the clients' training
    server_pieces: Pieces  # of the servers' own training
    workspace: Workspace

    @property
    def playing(self) -> tuple[bool, ...]:
        """Which runs take part."""
        return tuple(run.plays for run in self.runs)


class ProbeState(NamedTuple):
    """The state of a run's pass at the global model."""

    total: ProbeSum | None = None  # None: clients send only their loss
    losses: tuple[Float[Array, " block"], ...] = ()  # by block
    choices: tuple[Int[Array, " block"], ...] = ()  # of a model, where there are several; by block


class RoundState(NamedTuple):
    """The state of a run's round: how it started, and what has arrived so far."""

    run: RunState
    start: RoundStart
    broadcast: Broadcast  # what the clients received
    cohort: RoundPlan | None  # None: the run does not take part
    remembered: np.ndarray  # ids of the clients whose memory is loaded
    memory: Memory
    memory_rows: np.ndarray  # of the cohort's clients
    received: Any = None  # messages so far: a `Sum`, or `Messages` that are gathered
    slots: Slots | None = None  # of the last block
    stats: tuple[TrainStats, ...] = ()  # by block
    feedback: tuple[dict[str, Array], ...] = ()  # what the cohort asks for, by block
    probe: ProbeState | None = None  # where there is a pass at the global model
    honest: HonestSum | None = None  # where the round is measured, and messages are summed
    # what arrived, by block, where somebody keeps it, and messages are summed
    arrived: tuple[Arrived, ...] = ()

    @property
    def steps(self) -> int:
        """Local steps of all clients."""
        return 0 if self.cohort is None else int(self.cohort.steps.sum())

    def has_block(self, first_slot: int) -> bool:
        """Whether a block of the cohort begins at this slot; an empty cohort has one block."""
        if self.cohort is None:
            return False
        last_slot = max(len(self.cohort.ids) - 1, 0)
        return first_slot <= last_slot


class TrainedBlock(NamedTuple):
    """A block whose clients have trained."""

    block: Block
    slots: Slots  # of all runs
    stack: Rows  # of all runs, by slot
    messages: list[Messages]  # of every run
    buffers: Buffers  # which hold the rows


class DispatchedRound(NamedTuple):
    """A run's round that was dispatched; the device may still be computing its numbers."""

    cohort: RoundPlan
    server: ServerState
    report: RoundReport
    stats: tuple[TrainStats, ...]  # by block
    steps: int  # lane steps that trained a client of this run
    lane_steps: int  # this run's share of all lane steps
    sent_bytes: tuple[
        Array, ...
    ]  # by slot: of the messages, of those of a pass at the global model
    loss_bytes: int  # that every client sends besides, of its loss at the global model
    received_bytes: Array | int | None  # by every client; None: those of the variables
    diagnosis: Diagnosis | None = None  # of all runs side by side
    index: int = 0  # of this run among them
    choices: tuple[Array, ...] = ()  # models that clients chose, by block
    feedback: tuple[dict[str, Array], ...] = ()  # what the cohort asks for, by block
    arrived: tuple[Arrived, ...] = ()  # messages, by block, where somebody keeps them

    def rounds(self) -> "list[DispatchedRound]":
        """Return the rounds that were dispatched together: this one."""
        return [self]

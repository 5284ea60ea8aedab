"""What the steps of a round read, and what they return."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from fedsim.engine.blocks import Block
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import Memory
from fedsim.engine.probing import ProbeSum
from fedsim.engine.recording import Arrived
from fedsim.engine.sending import Broadcast
from fedsim.engine.server_records import (
    Messages,
    RoundReport,
    RoundStart,
    ServerState,
    TrainStats,
)
from fedsim.engine.slots import Slots
from fedsim.fleet import RoundPlan

if TYPE_CHECKING:
    from fedsim.engine.run import Run


class ProbeState(NamedTuple):
    """The state of a run's pass at the global model."""

    total: ProbeSum | None = None  # None: clients send only their loss
    losses: tuple[Float[Array, " block"], ...] = ()  # by block
    choices: tuple[Int[Array, " block"], ...] = ()  # of a model, where there are several; by block


class RoundState(NamedTuple):
    """The state of a run's round: how it started, and what has arrived so far."""

    run: "Run"
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
    observed: Any = None  # by an observer, of all runs side by side
    index: int = 0  # of this run among them
    choices: tuple[Array, ...] = ()  # models that clients chose, by block
    feedback: tuple[dict[str, Array], ...] = ()  # what the cohort asks for, by block
    arrived: tuple[Arrived, ...] = ()  # messages, by block, where somebody keeps them

    def rounds(self) -> "list[DispatchedRound]":
        """Return the rounds that were dispatched together: this one."""
        return [self]

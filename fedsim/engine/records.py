"""What the steps of a round read, and what has become of a run's cohort so far."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key

from fedsim.engine.blocks import Block, Blocks
from fedsim.engine.deviation import HonestSum
from fedsim.engine.diagnosis import Diagnosis
from fedsim.engine.evaluation import Evaluate
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import Memory
from fedsim.engine.mesh import Buffers, Mesh
from fedsim.engine.own_samples import OwnSamples, ServerTraining
from fedsim.engine.pack import Capacity, Packer, Width, longest_first
from fedsim.engine.pieces import Pieces
from fedsim.engine.probing import ProbeSum
from fedsim.engine.sending import Sent
from fedsim.engine.server import Server
from fedsim.engine.serving import Messages, Outcome, RoundStart, ServerState, TrainStats
from fedsim.engine.slots import Slots
from fedsim.engine.store import Store
from fedsim.engine.versions import Versions
from fedsim.fleet import RoundPlan
from fedsim.types import Shared, Task


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
    probe: Mesh | None = None  # the lanes of the pass at the global model, where a round has one
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
    # of an asynchronous server: models that clients still train from
    versions: Versions | None = None
    own: OwnSamples | None = None  # of the server, where the rule asks for losses on them
    # of the server itself, where the rule asks for its update
    training: ServerTraining | None = None
    asks: tuple[str, ...] = ()  # what its cohort wants to know of every update
    plays: bool = True  # this round; a run that does not keeps its place, so that no shape changes


class Space(NamedTuple):
    """Lanes and stacks of the round before, whose room is used again; their contents do not
    matter.
    """

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


class Probed(NamedTuple):
    """What a pass at the global model has said so far."""

    total: ProbeSum | None = None  # None: clients send their loss alone
    losses: tuple[Float[Array, " block"], ...] = ()  # by block


class RoundWork(NamedTuple):
    """What has become of a run's cohort so far in a round."""

    run: RunState
    at: RoundStart
    sent: Sent
    cohort: RoundPlan | None  # None: the run does not take part
    memory: Memory
    places: np.ndarray  # of the clients' rows of memory
    total: Any = None  # what arrived: a `Sum`, or `Messages` that are gathered
    slots: Slots | None = None  # of the last block
    stats: tuple[TrainStats, ...] = ()  # by block
    feedback: tuple[dict[str, Array], ...] = ()  # what the cohort asks for, by block
    probed: Probed | None = None  # where there is a pass at the global model
    honest: HonestSum | None = None  # where the round is measured, and messages are summed

    @property
    def steps(self) -> int:
        """Local steps of all clients."""
        return 0 if self.cohort is None else int(self.cohort.steps.sum())

    def has(self, first: int) -> bool:
        """Whether the cohort has a block from this slot on; an empty cohort has one."""
        return self.cohort is not None and first <= max(len(self.cohort.ids) - 1, 0)


class TrainedBlock(NamedTuple):
    """A block whose clients have trained."""

    block: Block
    slots: Slots  # of all runs
    stack: Rows  # of all runs, by slot
    messages: list[Messages]  # of every run
    buffers: Buffers  # in which they stand


class Played(NamedTuple):
    """A round that was handed to the device; its numbers may still be on their way."""

    cohort: RoundPlan
    server: ServerState
    outcome: Outcome
    stats: tuple[TrainStats, ...]
    steps: int  # that trained a client
    lane_steps: int  # steps times lanes
    sent: tuple[
        Array, ...
    ]  # bytes by slot: of the messages, and of those of a pass at the global model
    extra: int  # bytes that every client sends besides
    got: Array | int | None  # bytes that every client got; None: those of the variables
    diagnosis: Diagnosis | None = None  # of all runs side by side
    place: int = 0  # of this run among them
    feedback: tuple[dict[str, Array], ...] = ()  # what the cohort asks for, by block

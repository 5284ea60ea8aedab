"""Lanes: the one local loop. It is vmapped over lanes, each with a queue of clients.

Hooks are written for ONE client (`Client`); `jax.vmap` lifts them over the lanes with
`in_axes=(None, 0, ...)`: what is shared stays single, and each lane has its own model. Where a
client ends, its message is written to its row of the stack, and its lane restarts with the next
client. `lanes = cohort` is the plain vmap over clients, `lanes = 1` the plain scan.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from fedsim import tree
from fedsim.engine.frozen import bound
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.layout import Queues
from fedsim.engine.moments import about_zero
from fedsim.engine.shared_leaves import shared_leaves
from fedsim.engine.slots import Slots
from fedsim.engine.task import counted
from fedsim.fleet.local import asked_phase
from fedsim.sources.arrays import is_per_token
from fedsim.tree import Tree
from fedsim.types import Batch, Client, LocalPhase, Message, Shared, Task, Work

Bank = tuple[Shared, ...]
"""Start models, W for every run that trains."""

Keys = tuple[tuple[Key[Array, ""], ...], Int[Array, ""] | int]
"""The root key of every run, and the round."""

Private = Callable[[Task, Key[Array, ""], Work], Task]
"""(task, key of a local step, work) -> the task with gradients that are private."""

PerLane = Callable[[Slots, Int[Array, " L"]], tuple[Tree, int | None]]
"""(slot table, slots on the lanes `[L]`) -> (a tree for the lanes, its `in_axes` in a vmap)."""


class LaneInputs(NamedTuple):
    """What the lanes of one shard read."""

    bank: Bank
    memory: Tree  # the clients' rows; slot k has row `slots.seat[k] - origin`
    queues: Queues
    slots: Slots
    data: tuple[Array, Array]  # (x [n, ...], y [n, ...]), the training samples
    keys: Keys
    frozen: Tree = ()  # leaves of the model that nobody trains, the same for all lanes


class Lane(NamedTuple):
    """What a lane carries from step to step (leading axis `[L]` once stacked)."""

    variables: Tree
    local: Tree
    step: Int[Array, ""]  # of the client being trained
    loss: Float[Array, ""]  # Σ over its steps of batch loss · valid rows
    seen: Float[Array, ""]  # Σ valid rows


class Noise(NamedTuple):
    """Keys of a round, or of a local step, by purpose."""

    client: Key[Array, ""]
    augment: Key[Array, ""] | None
    gradient: Key[Array, ""] | None


class BatchRows(NamedTuple):
    """Which samples a lane trains on in a step."""

    index: Int[Array, " B"]  # rows of the training samples
    valid: Int[Array, ""]  # rows of the batch that count
    shift: Int[Array, " S"]  # classes that labels have moved by; S = 0 unless they move


class Rows(NamedTuple):
    """The stack `[block, ...]`: row k is what slot k sends, and its losses while it trained."""

    message: Message
    loss: Float[Array, " block"]
    seen: Float[Array, " block"]


class _Clients(NamedTuple):
    """Where the lanes of a shard find the clients of slots."""

    models: PerLane
    memory: Tree
    slots: Slots
    origin: Int[Array, ""] | int  # first seat of the shard


class Lanes:
    """The program that trains one block on one shard; pure.

    A block may be trained in any number of calls of `train`.

    Args:
      private: makes the gradients of every local step private; None: they are as they are.
    """

    def __init__(self, client: Client, task: Task, private: Private | None = None):
        self.client = client
        self.task = task
        self.private = private

    def shapes(
        self, bank: Bank, memory: Tree, queues: Queues, slots: Slots, frozen: Tree = ()
    ) -> tuple[Lane, Rows]:
        """Return the shapes of what the lanes carry `[L]`, and of one row of the stack."""
        return jax.eval_shape(self.lanes_and_row, bank, memory, queues, slots, frozen)

    @jitted  # never run, but traced once for equal shapes
    def lanes_and_row(
        self, bank: Bank, memory: Tree, queues: Queues, slots: Slots, frozen: Tree
    ) -> tuple[Lane, Rows]:
        """Return the lanes at their first step, and one row of the stack."""
        shared = bank[0]
        bound_lanes = self.with_frozen(frozen, shared)
        row = tree.take(memory, 0)
        work = tree.take(slots.work, 0)
        clients = _Clients(_per_lane(bank), memory, slots, origin=0)
        lanes = bound_lanes._restart(clients, queues.slot[0])
        started = bound_lanes._start(shared, row, work)
        return lanes, bound_lanes._finish(shared, started, row, work)

    def with_frozen(self, frozen: Tree, shared: Shared) -> "Lanes":
        """Return the program for the model with these frozen leaves, and those of the server."""
        return Lanes(self.client, bound(self.task, frozen, shared), self.private)

    def train(
        self,
        inputs: LaneInputs,
        lane: Lane,
        rows: Rows,
        t0: Int[Array, ""],
        t1: Int[Array, ""],
        origin: Int[Array, ""],
    ) -> tuple[Lane, Rows, Int[Array, ""]]:
        """Do the lane steps t0 to t1.

        Args:
          lane: the lanes `[L]`; at t0 = 0 every lane begins with its first client.
          rows: the stack, in which the shard writes the rows of its seats.
          t1: one beyond the last step.
          origin: first seat of the shard.

        Returns:
          The lanes, the rows, and t1: a token to wait for.
        """
        bound_lanes = self.with_frozen(inputs.frozen, inputs.bank[0])
        models = _per_lane(inputs.bank)
        noises = self._noises(inputs.slots, inputs.keys, len(inputs.bank))
        queues = inputs.queues
        clients = _Clients(models, inputs.memory, inputs.slots, origin)

        def lane_step(t, lane: Lane) -> Lane:
            """One local step of the client on every lane."""
            slots = inputs.slots
            slot = queues.slot[t]  # [L]
            shared, model_axis = models(slots, slot)
            work = tree.take(slots.work, slot)
            noise, noise_axis = noises(slots, slot)
            rows = BatchRows(queues.index[t], queues.valid[t], slots.shift[slot])  # [L, ...]
            step = jax.vmap(bound_lanes._step, in_axes=(model_axis, 0, 0, 0, None, noise_axis))
            return step(shared, lane, work, rows, inputs.data, noise)

        def stretch(state):
            """Steps that only train, up to one where a client ends.

            A condition in every step would copy all lanes.
            """
            t, lane, rows = state
            stop = jnp.minimum(queues.until[t], t1)
            lane = lax.fori_loop(t, stop, lane_step, lane)
            written = bound_lanes._write(clients, queues, t=stop - 1, lane=lane, rows=rows)
            return stop, *written

        # A block begins with the first client of every lane.
        first_clients = lambda lane: bound_lanes._restart(clients, queues.slot[0])
        lane = lax.cond(t0 == 0, first_clients, lambda lane: lane, lane)
        t0 = jnp.asarray(t0, jnp.int32)
        t, lane, rows = lax.while_loop(lambda state: state[0] < t1, stretch, (t0, lane, rows))
        return lane, rows, t

    def _write(
        self, clients: _Clients, queues: Queues, t: Int[Array, ""], lane: Lane, rows: Rows
    ) -> tuple[Lane, Rows]:
        """After step t: write the messages of clients that end there, and start the next ones."""
        slots = clients.slots
        slot = queues.slot[t]  # [L]
        next_slot = queues.slot[t + 1]  # [L]

        # A client has one slot in a block, so it ends where the lane's slot changes.
        ends = slot != next_slot

        # The messages of all lanes, of which only those that end are written.
        shared, model_axis = clients.models(slots, slot)
        seat = slots.seat[slot] - clients.origin  # [L] rows of this shard
        finish = jax.vmap(self._finish, in_axes=(model_axis, 0, 0, 0))
        messages = finish(
            shared, lane, tree.take(clients.memory, seat), tree.take(slots.work, slot)
        )

        # A seat beyond the last row writes nothing.
        beyond = rows.loss.shape[0]
        rows = tree.put(rows, jnp.where(ends, seat, beyond), messages)
        restarted = self._restart(clients, next_slot)
        return tree.select(ends, restarted, lane), rows

    def _restart(self, clients: _Clients, slot: Int[Array, " L"]) -> Lane:
        """Return the lanes with the clients of these slots at their first step."""
        slots = clients.slots
        shared, model_axis = clients.models(slots, slot)
        rows = tree.take(clients.memory, slots.seat[slot] - clients.origin)
        start = jax.vmap(self._start, in_axes=(model_axis, 0, 0))
        return start(shared, rows, tree.take(slots.work, slot))

    def _noises(self, slots: Slots, keys: Keys, models: int) -> PerLane:
        """Return the keys of slots: those of their run and the round.

        Where a run has several start models, a slot has the keys of its draw in place of the
        round's.
        """
        roots, round = keys
        if models == len(roots):
            return _per_lane(tuple(self._noise(root, round) for root in roots))

        models_of_run = models // len(roots)
        root = jnp.stack(roots)[slots.start // models_of_run]  # [slots]
        drawn = jax.vmap(self._noise)(root, slots.draw)
        return lambda slots, slot: (tree.take(drawn, slot), 0)

    def _noise(self, root: Key[Array, ""], round) -> Noise:
        augment = None
        if self.task.augment is not None:
            augment = round_key(root, round, Phase.AUGMENT)
        gradient = None
        if self.private is not None:
            gradient = round_key(root, round, Phase.GRADIENT)
        return Noise(round_key(root, round, Phase.CLIENT), augment, gradient)

    def _start(self, shared: Shared, row: Tree, work: Work) -> Lane:
        zero = jnp.zeros_like(work.lr)
        variables, local = self.client.start(self.task, shared, row, work)
        return Lane(variables, local, step=jnp.zeros((), jnp.int32), loss=zero, seen=zero)

    def _step(
        self,
        shared: Shared,
        lane: Lane,
        work: Work,
        rows: BatchRows,
        data: tuple[Array, Array],
        keys: Noise,
    ) -> Lane:
        """Do one local step of ONE client: the batch, the gradient, the step."""
        task = self.task

        def key_of_step(key):
            key = jax.random.fold_in(key, work.id)
            return jax.random.fold_in(key, lane.step)

        # The batch: [n, ...] -> [B, ...]
        x, y = (part[rows.index] for part in data)
        mask = jnp.arange(rows.index.shape[0]) < rows.valid  # [B]
        noise = jax.tree.map(key_of_step, keys)
        if rows.shift.size:  # labels move from round to round
            y = (y + rows.shift[0]) % task.classes
        if task.augment is not None:
            x = task.augment(noise.augment, x)
        batch = Batch(x=x, y=y, mask=mask, key=noise.client, step=lane.step)

        # The gradient and the step.
        work = work._replace(lr=task.rate(work.lr, lane.step))
        work = with_phase(work, self.client.phases, lane.step)
        if self.private is not None:
            task = self.private(task, noise.gradient, work)
        variables = lane.variables
        (loss, stats), g = self.client.gradient(task, variables, batch, lane.local, shared, work)
        params, local = self.client.step(task, g, variables["params"], lane.local, shared, work)

        # A loss counts once for every row, or for every labelled token.
        n = counted(mask, batch.y).sum() if is_per_token(batch.y) else rows.valid
        if self.client.phases:  # only that of the phase that every method has is reported
            n = jnp.where(work.phase == asked_phase(self.client.phases), n, 0)
        n = n.astype(lane.loss.dtype)
        return Lane(
            variables={"params": params, "stats": stats},
            local=local,
            step=lane.step + 1,
            loss=lane.loss + loss * n,
            seen=lane.seen + n,
        )

    def _finish(self, shared: Shared, lane: Lane, row: Tree, work: Work) -> Rows:
        """Return what ONE client sends after its last step."""
        message = self.client.finish(self.task, shared, lane.variables, lane.local, row, work)
        message = message._replace(delta=shared_leaves(self.client, message.delta))
        if self.client.travel.stats == "pooled":
            message = message._replace(stats=about_zero(message.stats))
        if self.client.travel.stats == "kept":
            message = message._replace(stats={})
        return Rows(message, lane.loss, lane.seen)


def with_phase(work: Work, phases: tuple[LocalPhase, ...], step: Int[Array, ""]) -> Work:
    """Return what is known about ONE client with the phase of a local step, if there are any."""
    if not phases:
        return work
    ends = jnp.asarray(work.phase_ends, jnp.int32)[:-1]
    phase = jnp.sum(step >= ends, dtype=jnp.int32)
    begins = jnp.concatenate([jnp.zeros(1, jnp.int32), ends])
    substeps = jnp.array([phase.substeps for phase in phases], jnp.int32)
    return work._replace(phase=phase, substep=(step - begins[phase]) % substeps[phase])


def _per_lane(bank: tuple[Tree, ...]) -> PerLane:
    """Return what gives every lane its entry of a bank: a single one is shared by all lanes."""
    if len(bank) == 1:
        return lambda slots, slot: (bank[0], None)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *bank)
    return lambda slots, slot: (tree.take(stacked, slots.start[slot]), 0)

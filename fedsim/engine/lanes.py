"""Lanes: the one local loop. What is vmapped is not clients but lanes, each with its queue of them.

Hooks are written for ONE client (`Client`); `jax.vmap` lifts them over the lanes with
`in_axes=(None, 0, ...)`: shared things stay single, each lane has its own model. Where a client
ends, its message is written to its row of the stack and its lane restarts with the next client.
`lanes = cohort` is the plain vmap, `lanes = 1` the plain scan.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from fedsim import tree
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.layout import Queues
from fedsim.engine.shared_leaves import travelling
from fedsim.engine.slots import Slots
from fedsim.engine.task import counted
from fedsim.sources.arrays import per_token
from fedsim.tree import Tree
from fedsim.types import Batch, Client, Message, Shared, Task, Work

Bank = tuple[Shared, ...]
Keys = tuple[tuple[Key[Array, ""], ...], Int[Array, ""] | int]
Models = Callable[[Slots, Int[Array, " L"]], tuple[Tree, int | None]]


class LaneInputs(NamedTuple):
    """What the lanes of one shard read; slot k has row `slots.seat[k] - origin` of the memory."""

    bank: Bank  # start models, W for every run that trains
    memory: Tree  # the clients' rows, by seat
    queues: Queues
    slots: Slots
    data: tuple[Array, Array]  # (x [n, ...], y [n, ...]), the training samples
    keys: Keys  # the root key of every run, the round


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


class Rows(NamedTuple):
    """The stack `[block, ...]`: row k is what slot k sends, and its losses while it trained."""

    message: Message
    loss: Float[Array, " block"]
    seen: Float[Array, " block"]


class Lanes:
    """The program of one block on one shard; pure. A round may be trained in any number of calls of
    `train`.

    Args:
      client: the hooks.
      task: what there is to learn.
    """

    def __init__(self, client: Client, task: Task):
        self.client, self.task = client, task

    def shapes(self, bank: Bank, memory: Tree, queues: Queues, slots: Slots) -> tuple[Lane, Rows]:
        """Shapes of what the lanes carry `[L]`, and of one row of the stack."""
        return jax.eval_shape(self.both, bank, memory, queues, slots)

    @jitted  # never run: traced once for equal shapes
    def both(self, bank: Bank, memory: Tree, queues: Queues, slots: Slots) -> tuple[Lane, Rows]:
        """Lanes at their first step, and a row."""
        shared, row, work = bank[0], tree.take(memory, 0), tree.take(slots.work, 0)
        lanes = self._restart(_stacked(bank), memory, slots, queues.slot[0], 0)
        return lanes, self._finish(shared, self._start(shared, row, work), row, work)

    def train(
        self,
        lent: LaneInputs,
        lane: Lane,
        rows: Rows,
        t0: Int[Array, ""],
        t1: Int[Array, ""],
        origin: Int[Array, ""],
    ) -> tuple[Lane, Rows, Int[Array, ""]]:
        """Lane steps t0 to t1 -> (lanes, rows, t1: a token to wait for). At t0 = 0 every lane
        begins with its first client.

        The shard's rows begin with seat `origin`.
        """
        bank, memory, queues, slots, data, keys = lent
        models, noises = _stacked(bank), self._noises(slots, keys, len(bank))
        beyond = rows.loss.shape[0]  # the last row: not written

        def lane_step(t, lane: Lane) -> Lane:
            slot = queues.slot[t]
            shared, axis = models(slots, slot)
            work = tree.take(slots.work, slot)
            noise, noise_axis = noises(slots, slot)
            step = jax.vmap(self._step, in_axes=(axis, 0, 0, 0, 0, 0, None, noise_axis))
            return step(
                shared, lane, work, queues.index[t], queues.valid[t], slots.shift[slot], data, noise
            )

        def write(t, lane: Lane, rows: Rows) -> tuple[Lane, Rows]:
            """After step t: the messages of lanes whose client ends there, and the next clients."""
            slot, following = queues.slot[t], queues.slot[t + 1]
            # a client stands in a block once: its job ends where the lane's slot changes
            ends = slot != following
            shared, axis = models(slots, slot)
            seat = slots.seat[slot] - origin
            finish = jax.vmap(self._finish, in_axes=(axis, 0, 0, 0))
            messages = finish(shared, lane, tree.take(memory, seat), tree.take(slots.work, slot))
            rows = tree.put(rows, jnp.where(ends, seat, beyond), messages)
            restarted = self._restart(models, memory, slots, following, origin)
            return tree.select(ends, restarted, lane), rows

        def stretch(state):
            """Steps that only train, up to one where a client ends.

            A condition in every step would copy all lanes.
            """
            t, lane, rows = state
            stop = jnp.minimum(queues.until[t], t1)
            lane = lax.fori_loop(t, stop, lane_step, lane)
            return stop, *write(stop - 1, lane, rows)

        begin = lambda lane: self._restart(models, memory, slots, queues.slot[0], origin)
        lane, t0 = lax.cond(t0 == 0, begin, lambda lane: lane, lane), jnp.asarray(t0, jnp.int32)
        t, lane, rows = lax.while_loop(lambda state: state[0] < t1, stretch, (t0, lane, rows))
        return lane, rows, t

    def _noises(self, slots: Slots, keys: Keys, models: int) -> Models:
        """The keys of a slot: of its run and the round or, where a run has several start models, of
        its draw.
        """
        roots, round = keys
        if models == len(roots):
            return _stacked(tuple(self._noise(root, round) for root in roots))
        root = jnp.stack(roots)[slots.start // (models // len(roots))]
        drawn = jax.vmap(self._noise)(root, slots.draw)
        return lambda slots, slot: (tree.take(drawn, slot), 0)

    def _noise(self, root: Key[Array, ""], round) -> Noise:
        """The keys of a round; that of augmentation where there is one."""
        augment = None if self.task.augment is None else round_key(root, round, Phase.AUGMENT)
        return Noise(round_key(root, round, Phase.CLIENT), augment)

    def _restart(
        self, models: Models, memory: Tree, slots: Slots, slot: Int[Array, " L"], origin
    ) -> Lane:
        """The lanes with the clients of these slots at their first step."""
        shared, axis = models(slots, slot)
        rows = tree.take(memory, slots.seat[slot] - origin)
        return jax.vmap(self._start, in_axes=(axis, 0, 0))(
            shared, rows, tree.take(slots.work, slot)
        )

    def _start(self, shared: Shared, row: Tree, work: Work) -> Lane:
        """ONE client at its first step."""
        zero = jnp.zeros_like(work.lr)
        return Lane(
            *self.client.start(self.task, shared, row, work), jnp.zeros((), jnp.int32), zero, zero
        )

    def _step(
        self, shared: Shared, lane: Lane, work: Work, index, valid, shift, data, keys: Noise
    ) -> Lane:
        """One local step of ONE client: the batch, the gradient, the step."""
        x, y = (part[index] for part in data)
        mask = jnp.arange(index.shape[0]) < valid
        noise = jax.tree.map(
            lambda key: jax.random.fold_in(jax.random.fold_in(key, work.id), lane.step), keys
        )
        if shift.size:  # labels move on from round to round
            y = (y + shift[0]) % self.task.classes
        if self.task.augment is not None:
            x = self.task.augment(noise.augment, x)
        batch = Batch(x, y, mask, noise.client, lane.step)
        work = work._replace(lr=self.task.rate(work.lr, lane.step))
        (loss, stats), g = self.client.gradient(
            self.task, lane.variables, batch, lane.local, shared, work
        )
        params, local = self.client.step(
            self.task, g, lane.variables["params"], lane.local, shared, work
        )
        n = (counted(mask, batch.y).sum() if per_token(batch.y) else valid).astype(lane.loss.dtype)
        return Lane(
            {"params": params, "stats": stats},
            local,
            lane.step + 1,
            lane.loss + loss * n,
            lane.seen + n,
        )

    def _finish(self, shared: Shared, lane: Lane, row: Tree, work: Work) -> Rows:
        """What ONE client sends after its last step."""
        message = self.client.finish(self.task, shared, lane.variables, lane.local, row, work)
        message = message._replace(delta=travelling(self.client, message.delta))
        return Rows(message, lane.loss, lane.seen)


def _stacked(bank: tuple[Tree, ...]) -> Models:
    """What gives every lane its run's start model (or whatever else is banked), and their
    `in_axes`: one for all lanes unless there are several runs.
    """
    if len(bank) == 1:
        return lambda slots, slot: (bank[0], None)
    models = jax.tree.map(lambda *leaves: jnp.stack(leaves), *bank)
    return lambda slots, slot: (tree.take(models, slots.start[slot]), 0)

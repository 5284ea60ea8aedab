"""Lanes: the one local loop. What is vmapped is not clients but lanes, each training a queue of clients.

Hooks are written for ONE client (`Client`); `jax.vmap` lifts them over the lanes with `in_axes=(None, 0, ...)`: shared
things stay single, each lane has its own model. Where a client ends, its message is written to its row of the stack and
its lane restarts with the next client. `lanes = cohort` is the plain vmap, `lanes = 1` the plain scan.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from fedsim import tree
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.pack import Jobs
from fedsim.tree import Tree
from fedsim.types import Batch, Client, Message, Task, Work


class Lane(NamedTuple):
    """What a lane carries from step to step (leading axis `[L]` once stacked)."""

    variables: Tree
    local: Tree
    step: Int[Array, ""]  # of the client being trained
    loss: Float[Array, ""]  # Σ over its steps of batch loss · valid rows
    seen: Float[Array, ""]  # Σ valid rows


class Rows(NamedTuple):
    """The stack `[block, ...]`: row k is what slot k sends, and what it met while training."""

    message: Message
    loss: Float[Array, " block"]
    seen: Float[Array, " block"]


class Lanes(NamedTuple):
    """The program of one block on one device; pure. A round may be trained in any number of calls of `train`.

    `memory` and `rows` are the clients' rows of this device; slot k has row `jobs.seat[k] - origin` of them.
    """

    shapes: Callable  # (bank, memory, jobs) -> shapes of one row
    begin: Callable  # (bank, memory, jobs, origin) -> Lane [L]
    train: (
        Callable  # (bank, memory, jobs, data, key, lane, rows, t0, t1, origin) -> (lane, rows, t1: a token to wait for)
    )


def lanes(client: Client, task: Task) -> Lanes:
    """The program that trains a block of jobs from a bank of start models `[W, ...]`.

    `data` = (x [n, ...], y [n, ...]); `key` = (root key, or one per start model `[W]`; round).
    """

    def start(shared, row, work: Work) -> Lane:
        zero = jnp.zeros_like(work.lr)
        return Lane(*client.start(task, shared, row, work), jnp.zeros((), jnp.int32), zero, zero)

    def step(shared, lane: Lane, work: Work, index, valid, data, key) -> Lane:
        x, y = data
        mask = jnp.arange(index.shape[0]) < valid
        noise = jax.random.fold_in(jax.random.fold_in(key, work.id), lane.step)
        batch = Batch(x[index], y[index], mask, noise, lane.step)
        work = work._replace(lr=task.rate(work.lr, lane.step))
        (loss, stats), g = client.gradient(task, lane.variables, batch, lane.local, shared, work)
        params, local = client.step(task, g, lane.variables["params"], lane.local, shared, work)
        n = valid.astype(lane.loss.dtype)
        return Lane({"params": params, "stats": stats}, local, lane.step + 1, lane.loss + loss * n, lane.seen + n)

    def finish(shared, lane: Lane, row, work: Work) -> Rows:
        return Rows(client.finish(task, shared, lane.variables, lane.local, row, work), lane.loss, lane.seen)

    def at(jobs: Jobs, slot) -> Work:
        columns = (jobs.id, jobs.samples, jobs.steps, jobs.lr, jobs.lr_sum, jobs.labels)
        return Work(*(column[slot] for column in columns))

    def models(bank, jobs: Jobs, slot):
        """Start models by lane (or whatever else is banked), and their `in_axes`: one for all unless there are several."""
        if tree.rows(bank) == 1:
            return tree.take(bank, 0), None
        return tree.take(bank, jobs.start[slot]), 0

    def restart(bank, memory, jobs: Jobs, slot, origin) -> Lane:
        shared, axis = models(bank, jobs, slot)
        mine = tree.take(memory, jobs.seat[slot] - origin)
        return jax.vmap(start, in_axes=(axis, 0, 0))(shared, mine, at(jobs, slot))

    def begin(bank, memory, jobs: Jobs, origin) -> Lane:
        return restart(bank, memory, jobs, jobs.slot[0], origin)

    def train(bank, memory, jobs: Jobs, data, key, lane: Lane, rows: Rows, t0, t1, origin):
        nowhere = rows.loss.shape[0]  # beyond the last row: not written
        root, r = key
        noises = jax.vmap(lambda root: round_key(root, r, Phase.CLIENT))(root.reshape(-1))

        def lane_step(t, lane: Lane) -> Lane:
            now = jobs.slot[t]
            (shared, axis), work = models(bank, jobs, now), at(jobs, now)
            noise, noise_axis = models(noises, jobs, now)
            train_one = jax.vmap(step, in_axes=(axis, 0, 0, 0, 0, None, noise_axis))
            return train_one(shared, lane, work, jobs.index[t], jobs.valid[t], data, noise)

        def write(t, lane: Lane, rows: Rows) -> tuple[Lane, Rows]:
            """After step t: the messages of the lanes whose client ends there, and their next clients."""
            now, then = jobs.slot[t], jobs.slot[t + 1]
            ends = now != then  # a client stands in a block once: its job ends where the lane's slot changes
            (shared, axis), work, seat = models(bank, jobs, now), at(jobs, now), jobs.seat[now] - origin
            sent = jax.vmap(finish, in_axes=(axis, 0, 0, 0))(shared, lane, tree.take(memory, seat), work)
            rows = tree.put(rows, jnp.where(ends, seat, nowhere), sent)
            return tree.select(ends, restart(bank, memory, jobs, then, origin), lane), rows

        def stretch(carry):
            """Steps that only train, up to one where a client ends: a condition in every step would copy all lanes."""
            t, lane, rows = carry
            stop = jnp.minimum(jobs.until[t], t1)
            lane = lax.fori_loop(t, stop, lane_step, lane)
            return stop, *write(stop - 1, lane, rows)

        t, lane, rows = lax.while_loop(lambda carry: carry[0] < t1, stretch, (jnp.asarray(t0, jnp.int32), lane, rows))
        return lane, rows, t

    def shapes(bank, memory, jobs: Jobs) -> Rows:
        def one(bank, memory, jobs):
            shared, row, work = tree.take(bank, 0), tree.take(memory, 0), at(jobs, 0)
            return finish(shared, start(shared, row, work), row, work)

        return jax.eval_shape(one, bank, memory, jobs)

    return Lanes(shapes, begin, train)

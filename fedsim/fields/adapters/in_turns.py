"""Clients that train some leaves in one round, and others in the next."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Client, Shared

TURN = "turn"  # the entry of `aux` that says whose turn it is


def in_turns(inner: Client, freezes: Sequence[Sequence[str]]) -> Client:
    """Return a method whose clients train some leaves in one round and others in the next.

    A leaf that rests is not changed by a step, and not sent: where a client
    begins at a model of its own, the difference to the shared leaf stays with it. The server sends
    the number of the turn, a float. A skipped round is repeated.

    Args:
      freezes: for every turn, patterns over the names of leaves that rest.
    """

    def resting(shared: Shared, params: Tree) -> Tree:
        """A bool for every leaf: whether it rests in this round."""
        turn = shared["aux"][TURN]
        names = tree.leaf_names(params)
        rests = [jnp.any(turn == _turns_of_rest(name, freezes)) for name in names]
        return jax.tree.unflatten(jax.tree.structure(params), rests)

    def step(task, g, params, local, shared, work):
        new, local = inner.step(task, g, params, local, shared, work)
        keep = lambda rests, old, trained: jnp.where(rests, old, trained)
        return jax.tree.map(keep, resting(shared, params), params, new), local

    def finish(task, shared, variables, local, row, work):
        message = inner.finish(task, shared, variables, local, row, work)
        without = lambda rests, delta: jnp.where(rests, 0, delta)
        delta = jax.tree.map(without, resting(shared, message.delta), message.delta)
        return message._replace(delta=delta)

    def next_turn(task, old, shared, aggregate, pace):
        del task, shared, aggregate, pace
        return (old + 1) % len(freezes)

    def aux(task, params):
        return {**inner.aux(task, params), TURN: jnp.zeros(())}

    return inner._replace(
        step=step,
        finish=finish,
        aux=aux,
        reduce={**inner.reduce, TURN: next_turn},
        travel=inner.travel._replace(resting=resting),
    )


def _turns_of_rest(name: str, freezes: Sequence[Sequence[str]]) -> np.ndarray:
    """The turns in which a leaf rests."""
    rests = [tree.matches_any(name, patterns) for patterns in freezes]
    return np.flatnonzero(rests).astype(np.float32)

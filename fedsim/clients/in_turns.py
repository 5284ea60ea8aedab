"""Clients that train some leaves in one round, and others in the next."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Client, Shared

TURN = "turn"  # the entry of `aux` that says whose turn it is


def in_turns(inner: Client, freezes: Sequence[Sequence[str]]) -> Client:
    """Return a method whose clients leave some leaves as they are, in every round others.

    The server sends the number of the turn, a float. A skipped round is repeated.

    Args:
      inner: the method.
      freezes: for every turn, patterns over the names of leaves that rest.
    """

    def resting(shared: Shared, params: Tree) -> Tree:
        """A bool for every leaf: whether it rests in this round."""
        turn = shared["aux"][TURN]
        names = tree.leaf_names(params)
        rests = [_is_one_of(turn, _turns_of_rest(name, freezes)) for name in names]
        return jax.tree.unflatten(jax.tree.structure(params), rests)

    def step(task, g, params, local, shared, work):
        new, local = inner.step(task, g, params, local, shared, work)
        keep = lambda rests, old, trained: jnp.where(rests, old, trained)
        return jax.tree.map(keep, resting(shared, params), params, new), local

    def next_turn(task, old, shared, aggregate, pace):
        del task, shared, aggregate, pace
        return (old + 1) % len(freezes)

    def aux(task, params):
        return {**inner.aux(task, params), TURN: jnp.zeros(())}

    return inner._replace(
        step=step, aux=aux, reduce={**inner.reduce, TURN: next_turn}, resting=resting
    )


def _turns_of_rest(name: str, freezes: Sequence[Sequence[str]]) -> list[int]:
    """The turns in which a leaf rests."""
    return [turn for turn, patterns in enumerate(freezes) if tree.matches_any(name, patterns)]


def _is_one_of(turn: Array, turns: list[int]) -> Array:
    return jnp.any(turn == jnp.asarray(turns, turn.dtype))

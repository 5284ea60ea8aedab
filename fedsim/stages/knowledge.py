"""What an attacker knows about a round, and statistics of it."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Context, Updates

Knowledge = Literal["own", "cohort"]
"""What an attacker knows.

`own`: what the malicious clients would have sent honestly; `cohort`: the updates of all honest
clients of the round.
"""


def known_rows(updates: Updates, context: Context, knowledge: Knowledge) -> Bool[Array, " K"]:
    """The rows of the round that an attacker knows; they have arrived and are finite."""
    side = context.malicious if knowledge == "own" else ~context.malicious
    return updates.arrived & side & tree.finite_rows(updates.delta, len(updates.arrived))


def mean_of(updates: Updates, known: Bool[Array, " K"]) -> Tree:
    """The uniform mean of the known rows; zero where there is none."""
    return tree.weighted_mean(updates.delta, known.astype(updates.samples.dtype))


def std_of(updates: Updates, known: Bool[Array, " K"], mean: Tree, ddof: int = 1) -> Tree:
    """The coordinate-wise standard deviation of the known rows; zero for fewer than two rows."""
    w = known.astype(updates.samples.dtype)
    squares = jax.tree.map(lambda x, m: (x - m) ** 2, updates.delta, mean)
    degrees = jnp.maximum(w.sum() - ddof, 1)
    total = tree.weighted_sum(squares, w)
    return jax.tree.map(lambda s: jnp.sqrt(s / degrees.astype(s.dtype)), total)


def for_all(row: Tree, updates: Updates) -> Tree:
    """Repeat a row for every client of the stack."""
    return jax.tree.map(lambda r, x: jnp.broadcast_to(r[None], x.shape), row, updates.delta)


def dots(stacked: Tree, row: Tree) -> Float[Array, " K"]:
    """⟨x_i, row⟩ of every row of a stack."""
    product = lambda x, r: jnp.sum((x * r[None]).reshape(x.shape[0], -1), axis=1)
    return sum(jax.tree.leaves(jax.tree.map(product, stacked, row)), start=jnp.zeros(()))

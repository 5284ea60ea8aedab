"""How far the aggregate of a round lies from the mean of its honest clients, on request (`evaluate.diagnostics`).

Over the honest clients H of a round whose messages reached the rule's side of the wire and are finite:

    honest_distance = ‖F − mean_H‖      kappa_ratio = ‖F − mean_H‖² / (κ · 1/|H| Σ_{i∈H} ‖x_i − mean_H‖²)

with F what the rule made of the round, before any step on it, and κ the bound of `fedsim.rules.bounds`: a ratio above 1
contradicts it. NaN where nothing is known, and where the bound is 0 and leaves no room for rounding.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.stages.knowledge import known_rows
from fedsim.tree import Tree
from fedsim.types import Bound, Context, Updates


class HonestSum(NamedTuple):
    """Sum over the honest clients of a round."""

    delta: Tree
    count: Float[Array, ""]


def add_honest(total: HonestSum | None, arrived: Updates, context: Context) -> HonestSum:
    """With the rows of a block, one after another."""
    w = known_rows(arrived, context, "cohort").astype(arrived.samples.dtype)
    so_far = total or HonestSum(tree.zero_row(arrived.delta), jnp.zeros_like(w[0]))
    return HonestSum(*tree.fold(tuple(so_far), (arrived.delta, jnp.ones_like(w)), w))


def mean_of(total: HonestSum) -> Tree:
    """NaN where nobody honest arrived."""
    return tree.over(total.delta, total.count)


def ratio_to_bound(aggregate: Tree, mean: Tree, arrived: Updates, context: Context, bound: Bound) -> Float[Array, ""]:
    """`kappa_ratio` of rows that stand together, of whose honest ones `mean` is the mean."""
    honest, malicious = known_rows(arrived, context, "cohort"), arrived.arrived & context.malicious
    away, off = tree.norms(arrived.delta, mean), tree.norm(tree.subtract(aggregate, mean))
    spread = jnp.sum(jnp.where(honest, away * away, 0)) / jnp.sum(honest)
    most = spread * bound(jnp.sum(honest | malicious), jnp.sum(malicious)).astype(spread.dtype)
    return jnp.where(most > 0, off * off / most, jnp.nan)

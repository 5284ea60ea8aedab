"""How far the aggregate of a round lies from the mean of its honest clients, on request (`evaluate.diagnostics`).

Over the honest clients H of a round whose messages reached the rule's side of the wire and are finite:

    honest_distance = ‖F − mean_H‖      kappa_ratio = ‖F − mean_H‖² / (κ · 1/|H| Σ_{i∈H} ‖x_i − mean_H‖²)

with F what the rule made of the round, before any step on it, and κ the bound of `fedsim.rules.bounds`: a ratio above 1
contradicts it. NaN where nothing is known, and where the honest rows do not differ.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Bound, Context, Updates


class HonestSum(NamedTuple):
    """Sum over the honest clients of a round."""

    delta: Tree
    count: Float[Array, ""]


def honest_rows(arrived: Updates, context: Context) -> Bool[Array, " K"]:
    """Rows that count: of honest clients, arrived and finite."""
    return arrived.arrived & ~context.malicious & tree.finite_rows(arrived.delta, len(arrived.arrived))


def add_honest(total: HonestSum | None, arrived: Updates, context: Context) -> HonestSum:
    """With the rows of a block, one after another."""
    w = honest_rows(arrived, context).astype(arrived.samples.dtype)
    so_far = total or HonestSum(tree.zero_row(arrived.delta), jnp.zeros_like(w[0]))
    return HonestSum(*tree.fold(tuple(so_far), (arrived.delta, jnp.ones_like(w)), w))


def mean_of(total: HonestSum) -> Tree:
    """NaN where nobody honest arrived."""
    return tree.over(total.delta, total.count)


def ratio_to_bound(aggregate: Tree, mean: Tree, arrived: Updates, context: Context, bound: Bound) -> Float[Array, ""]:
    """`kappa_ratio` of rows that stand together, of whose honest ones `mean` is the mean."""
    honest, malicious = honest_rows(arrived, context), arrived.arrived & context.malicious
    away, off = tree.norms(arrived.delta, mean), tree.norm(tree.subtract(aggregate, mean))
    spread = jnp.sum(jnp.where(honest, away * away, 0)) / jnp.sum(honest)
    kappa = bound(jnp.sum(honest | malicious), jnp.sum(malicious)).astype(spread.dtype)
    return jnp.where(spread > 0, off * off / (kappa * spread), jnp.nan)

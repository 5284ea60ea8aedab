"""FLAME: the largest cluster of angles, clipped to the median length, and noise."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.selection import selection_report
from fedsim.rules.single_linkage import single_linkage
from fedsim.rules.sorting import middle
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


@rule
def flame(noise: Annotated[float, Ge(0)] = 0.001) -> Rule:
    """Mean of the majority cluster, each update clipped to the median length, with noise.

    A = the cluster of more than half of the m clients by the cosine distance 1 − cos(x_i, x_j);
    S = the median of the m lengths;
    agg = 1/|A| Σ_{i∈A} x_i · min(1, S/‖x_i‖₂) + N(0, (λS)²) in every coordinate.
    Sample counts and updates that are not finite are ignored.

    The cluster is that of HDBSCAN with at least ⌊m/2⌋+1 members, min_samples 1 and a single cluster
    allowed: as no two clusters can hold more than half, it is the smallest single-linkage cluster
    of more than half of the clients, which needs no host code. The cosine of a zero row to all
    others is 0.

    Resists: fewer than half of the clients, if their angles differ from those of the others; the
    noise removes small backdoors.
    Cost: O(K²·D + K³).
    Needs: the whole stack.

    Args:
      noise: λ; the paper has 0.001 for images; 0 adds none.

    References:
      Nguyen et al. 2022, FLAME: Taming Backdoors in Federated Learning, arXiv:2101.02281,
      Algorithm 1.

    >>> import fedsim
    >>> rows = [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [0.0, -9.0]]
    >>> fedsim.aggregate({"kind": "flame", "noise": 0.0}, rows).round(3).tolist()
    [1.833, 0.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable, lengths, cosines = tree.angles(updates.delta, updates.arrived)
        admitted = majority_cluster(1 - cosines, usable)
        bound = median_length(lengths, usable)
        mean = clipped_mean(updates.delta, lengths, bound, admitted)
        info = selection_report(admitted, updates, context)
        if noise:
            mean = tree.select(jnp.any(usable), tree.noised(mean, context.key, noise * bound), mean)
        return mean, state, info

    return Rule(apply=apply)


def majority_cluster(
    distance: Float[Array, "K K"], present: Bool[Array, " K"]
) -> Bool[Array, " K"]:
    """The smallest cluster of more than half of the present rows that single linkage makes."""
    joined = single_linkage(distance, present)
    half = jnp.sum(present) // 2
    # The distance at which a row's cluster has more than half of the rows.  [K]
    reach = jnp.sort(joined, axis=1)[:, jnp.minimum(half, len(present) - 1)]
    centre = jnp.argmin(jnp.where(present, reach, jnp.inf))
    return present & (joined[centre] <= reach[centre])


def median_length(lengths: Float[Array, " K"], present: Bool[Array, " K"]) -> Float[Array, ""]:
    """The median length of the present rows; 0 where there is none."""
    m = jnp.sum(present)
    bound = middle(jnp.sort(jnp.where(present, lengths, jnp.inf)), m)
    return jnp.where(m > 0, bound, 0)


def clipped_mean(
    stacked: Tree,
    lengths: Float[Array, " K"],
    bound: Float[Array, ""],
    admitted: Bool[Array, " K"],
) -> Tree:
    """The mean of the admitted rows, of which longer ones are shortened to the bound."""
    count = jnp.sum(admitted, dtype=bound.dtype)
    weights = jnp.where(admitted, clip_factors(lengths, bound), 0)
    return tree.divide(tree.weighted_sum(stacked, weights), count)


def clip_factors(lengths: Float[Array, " K"], bound: Float[Array, ""]) -> Float[Array, " K"]:
    """Factors that shorten rows to the bound; 1 for those that are not longer."""
    return jnp.where(lengths > bound, bound / jnp.where(lengths > 0, lengths, 1), 1)

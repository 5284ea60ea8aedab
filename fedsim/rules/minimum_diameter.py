"""Minimum-diameter averaging."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.subsets import best_subset, most_rows
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(mda="minimum_diameter", minimum_diameter_averaging="minimum_diameter")


@rule
def minimum_diameter(f: Annotated[int, Ge(0)]) -> Rule:
    """Plain mean of the m−f updates that lie within the least diameter.

    agg = 1/(m−f) Σ_{i∈S} x_i,  S = argmin_{|S| = m−f} max_{i,j∈S} ‖x_i − x_j‖₂  over all subsets of the m reporting clients;
    of several, the first in lexicographic order. Sample counts are ignored.

    Resists: f malicious clients, 2·f < m.    Cost: O(K²·D + C(m, f)·K²).    Needs: the whole stack.

    Args:
      f: malicious clients to expect.

    Raises:
      ScenarioError: when fewer than 2·f + 1 clients can report, or so many that there are more than 200,000 subsets (a
        round with fewer or more survivors is skipped).

    References:
      El Mhamdi, Guerraoui, Guirguis, Hoang, Rouault 2019, Genuinely Distributed Byzantine Machine Learning,
      arXiv:1905.03853.

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "minimum_diameter", "f": 1}, [[0.0], [1.0], [2.0], [1e9]]).tolist()
    [1.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        present = updates.arrived
        distance = tree.squared_distances(updates.delta, present)
        pairs = lambda kept: kept[:, :, None] & kept[:, None, :]
        kept = best_subset(lambda kept: jnp.max(jnp.where(pairs(kept), distance, 0), (1, 2)), present, f)
        info = {"malicious_kept": jnp.sum(kept & context.malicious, dtype=jnp.int32)}
        return tree.weighted_mean(updates.delta, kept.astype(updates.samples.dtype)), state, info

    return Rule(apply=apply, least=2 * f + 1, most=most_rows(f))

"""Minimum-diameter averaging."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Bool, Float

from fedsim.compose import alias, rule
from fedsim.rules.subsets import mean_of_best_subset
from fedsim.types import Rule

alias(mda="minimum_diameter", minimum_diameter_averaging="minimum_diameter")


@rule
def minimum_diameter(f: Annotated[int, Ge(0)]) -> Rule:
    """Plain mean of the m−f updates that lie within the least diameter.

    agg = 1/(m−f) Σ_{i∈S} x_i,  S = argmin_{|S| = m−f} max_{i,j∈S} ‖x_i − x_j‖₂  over all subsets of
    the m reporting clients; of several, the first in lexicographic order. Sample counts are
    ignored.

    Resists: f malicious clients, 2·f < m.    Cost: O(K²·D + C(m, f)·K²).    Needs: the whole stack.

    Args:
      f: malicious clients to expect.

    Raises:
      ScenarioError: when fewer than 2·f + 1 clients can report, or so many that they have more than
        200,000 subsets (a round with fewer or more survivors is skipped).

    References:
      El Mhamdi, Guerraoui, Guirguis, Hoang, Rouault 2019, Genuinely Distributed Byzantine Machine
      Learning, arXiv:1905.03853.

    >>> import fedsim
    >>> rule = {"kind": "minimum_diameter", "f": 1}
    >>> fedsim.aggregate(rule, [[0.0], [1.0], [2.0], [1e9]]).tolist()
    [1.0]
    """

    def diameters(
        subsets: Bool[Array, "B K"], squared_distances: Float[Array, "K K"]
    ) -> Float[Array, " B"]:
        """The squared diameter of every subset."""
        pairs = subsets[:, :, None] & subsets[:, None, :]
        return jnp.max(jnp.where(pairs, squared_distances, 0), (1, 2))

    return mean_of_best_subset(diameters, f)

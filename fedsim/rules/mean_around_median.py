"""Mean around median: coordinate-wise mean of the values nearest to the median."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge

from fedsim.compose import alias, rule
from fedsim.rules.median import median
from fedsim.rules.nearest_values import mean_of_nearest
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(meamed="mean_around_median")


@rule
def mean_around_median(f: Annotated[int, Ge(0)]) -> Rule:
    """Coordinate-wise mean of the m−f values nearest to the median.

    aggᵈ = 1/(m−f) Σ_{i ∈ N(d)} x_iᵈ,  N(d) = the m−f of the m reporting clients with the least
    |x_iᵈ − med(x₁ᵈ … x_mᵈ)|. Ties go to the lowest index. Sample counts are ignored.

    Resists: f malicious clients, 2·f < m.
    Cost: O(K log² K) per coordinate, twice.
    Needs: the whole stack, twice.

    Args:
      f: malicious clients to expect; 0 is the plain mean.

    Raises:
      ScenarioError: when fewer than 2·f + 1 clients can report (a round with fewer survivors is
        skipped).

    References:
      Xie, Koyejo, Gupta 2018, Generalized Byzantine-tolerant SGD, arXiv:1802.10116, definition 7.

    >>> import fedsim
    >>> rule = {"kind": "mean_around_median", "f": 1}
    >>> fedsim.aggregate(rule, [[0.0], [1.0], [2.0], [1e9]]).tolist()
    [1.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        centre, _, _ = median().apply(updates, (), context)
        m = jnp.sum(updates.arrived)
        return mean_of_nearest(updates.delta, centre, updates.arrived, m - f), state, {}

    return Rule(apply=apply, least=2 * f + 1)

"""Inner product manipulation (IPM): updates against the mean of the honest clients."""

from typing import Annotated

import jax
from annotated_types import Ge

from fedsim.compose import alias, attack
from fedsim.stages.knowledge import Knowledge, for_all, known_rows, mean_of
from fedsim.tree import Tree
from fedsim.types import Context, Updates

alias(ipm="inner_product")


@attack
def inner_product(epsilon: Annotated[float, Ge(0)] = 0.5, knowledge: Knowledge = "cohort"):
    """All malicious clients send the mean update reversed and scaled.

    x_i ← −ε μ, μ the mean of the known updates. A small ε (0.1, 0.5) passes rules that look at
    distances, and shrinks the step; a large one reverses the step where the rule accepts it.

    Knows: as `knowledge` says.
    Defence: rules that look at angles; the mean, for a small ε.
    Cost: O(K·D).
    Needs: the whole stack.

    Args:
      epsilon: ε.
      knowledge: `cohort`: μ of the honest clients of the round; `own`: μ of what the malicious
        clients would have sent.

    References:
      Xie, Koyejo, Gupta 2019, Fall of Empires, arXiv:1903.03936.

    >>> import fedsim
    >>> fedsim.transmit("inner_product", [[1.0], [3.0], [9.0]], malicious=[2])[0].tolist()
    [[1.0], [3.0], [-1.0]]
    """

    def corrupt(updates: Updates, context: Context) -> Tree:
        mean = mean_of(updates, known_rows(updates, context, knowledge))
        return for_all(jax.tree.map(lambda m: -epsilon * m, mean), updates)

    return corrupt

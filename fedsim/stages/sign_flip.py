"""An attack on messages: the update reversed."""

from typing import Annotated

from annotated_types import Ge

from fedsim import tree
from fedsim.compose import attack, row_attack
from fedsim.tree import Tree
from fedsim.types import Context, RowStage


@attack
def sign_flip(scale: Annotated[float, Ge(0)] = 1.0) -> RowStage:
    """Sends the update reversed.

    x_i ← −s · x_i  for every malicious client i: gradient ascent on its data. With s > 1 it also
    pulls harder.

    Defence: rules like the median; a mean does not.
    Cost: O(D) per client.
    Needs: one row at a time.

    Args:
      scale: s.

    References:
      Li et al. 2019, RSA: Byzantine-Robust Stochastic Aggregation Methods, arXiv:1811.03761,
      section 5.

    >>> import fedsim
    >>> fedsim.transmit("sign_flip", [[1.0], [2.0]], malicious=[1])[0].tolist()
    [[1.0], [-2.0]]
    """

    def corrupt(delta: Tree, context: Context) -> Tree:
        del context
        return tree.scale(delta, -scale)

    return row_attack(corrupt)

"""Independent Gaussian noise."""

from fedsim import tree
from fedsim.fields.privacy.mechanism import Mechanism, mechanism
from fedsim.tree import Tree
from fedsim.types import Context


@mechanism
def gaussian() -> Mechanism:
    """Independent noise in every round.

    The noise of round t is Z_t ~ N(0, I), times zC/m.

    Cost: O(D) per round.
    State: none.

    References:
      McMahan, Ramage, Talwar, Zhang 2018, Learning Differentially Private Recurrent Language
      Models, arXiv:1710.06963, Algorithm 1.
    """

    def draw(like: Tree, state: Tree, context: Context) -> tuple[Tree, Tree]:
        return tree.normal(like, context.key), state

    return Mechanism(draw)

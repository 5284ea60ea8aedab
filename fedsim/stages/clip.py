"""A bound on the length of each update."""

from typing import Annotated, Any

import jax
from annotated_types import Gt

from fedsim import tree
from fedsim.compose import alias, stage
from fedsim.tree import Tree
from fedsim.types import Context, RowStage, Updates

alias(norm_bounding="clip", norm_clipping="clip")


@stage
def clip(norm: Annotated[float, Gt(0)]) -> RowStage:
    """Shortens every update that is longer than a bound.

    x_i ← x_i · min(1, C / ‖x_i‖₂), with the norm over the whole tree. An update that is not finite
    stays so.

    Resists: large updates; not many small ones that agree.
    Cost: O(D) per client.
    Needs: one row at a time.

    Args:
      norm: C, the longest update that passes unchanged.

    References:
      Sun et al. 2019, Can You Really Backdoor Federated Learning?, arXiv:1911.07963, section 5.

    >>> import fedsim
    >>> rows = [[3.0, 4.0], [0.3, 0.4]]
    >>> fedsim.transmit({"kind": "clip", "norm": 1.0}, rows)[0].round(3).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """

    def apply(updates: Updates, context: Context) -> Updates:
        del context
        return updates._replace(delta=clipped(updates.delta, norm))

    return RowStage(apply=apply)


def clipped(delta: Tree, norm: Any) -> Tree:
    """Shorten a tree that is longer than `norm` to that length."""
    scale, rest = tree.scaled_norm(delta)

    # Two factors: their product may overflow, and its inverse underflow.
    shorter = lambda x: x / scale.astype(x.dtype) * (norm / rest).astype(x.dtype)
    return tree.select(scale * rest > norm, jax.tree.map(shorter, delta), delta)

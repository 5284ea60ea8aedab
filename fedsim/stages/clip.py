"""A bound on the length of each update."""

from typing import Annotated

from annotated_types import Gt

from fedsim import tree
from fedsim.compose import alias, stage
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
        return updates._replace(delta=tree.clipped(updates.delta, norm))

    return RowStage(apply=apply)

"""The noise that privacy adds, as a record, and the decorator of its kinds."""

from collections.abc import Callable
from typing import NamedTuple

from fedsim.kinds import F, register
from fedsim.tree import Tree
from fedsim.types import Codec, Context, RowStage


class Mechanism(NamedTuple):
    """The noise that privacy adds: to the aggregates of all rounds, or at the clients.

    Attributes:
      draw: (a tree of the noise's shapes, state, context) -> (noise, state), once in every round,
        for a deviation of 1; `context.key` is for this round's noise alone.
      init: (params) -> state.
      wire: in place of `draw`: (clip, noise multiplier) -> the last links of the wire, by which
        clients clip their updates and add noise.
      least: messages that a round needs, so that there is enough noise of clients.
    """

    draw: Callable[[Tree, Tree, Context], tuple[Tree, Tree]] | None = None
    init: Callable[[Tree], Tree] = lambda params: ()
    wire: Callable[[float, float], list[RowStage | Codec]] | None = None
    least: int = 0


def mechanism(factory: F) -> F:
    """Decorator: noise on the aggregates of all rounds, as a kind of `privacy.mechanism`.

    It is not for plug-ins: ε of their noise would be unknown.

    Args:
      factory: `(hyper-parameters) -> Mechanism`.
    """
    return register("mechanism", factory)

"""The last update of every client, which rules that remember absent clients share."""

from typing import NamedTuple

from jaxtyping import Array, Float

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Context, RowStage, Updates


class LastUpdates(NamedTuple):
    """State of such a rule's server, besides the last update y_i of every client."""

    sum_of_last: Tree  # Σ y_i over all clients


class Changes(NamedTuple):
    """The sum of the changes over the rows of a round."""

    change: Tree  # Σ (Δ_i − y_i)
    count: Float[Array, ""]  # rows


def change_since_last() -> RowStage:
    """Δ_i ← Δ_i − y_i, and y_i ← Δ_i, with y_i = 0 before a client's first update.

    The sum of the changes so far is Σ y_i.
    """

    def apply(updates: Updates, context: Context) -> Updates:
        del context
        change = tree.subtract(updates.delta, updates.memory)
        return updates._replace(delta=change, memory=updates.delta)

    def memory(params: Tree, key: Array) -> Tree:
        del key
        return tree.zeros_like(params)

    return RowStage(apply=apply, name="last_update", memory=memory)


def no_updates(params: Tree, present: Array) -> LastUpdates:
    """The server's state at the start."""
    del present
    return LastUpdates(tree.zeros_like(params))

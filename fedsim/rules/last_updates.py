"""The last update of every client: what rules that remember absent clients have in common."""

from typing import NamedTuple

from jaxtyping import Array, Float

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Context, RowStage, Updates


class LastUpdates(NamedTuple):
    """What such a rule's server remembers besides the last update y_i of every client."""

    sum_of_last: Tree  # Σ y_i over all clients


class Summed(NamedTuple):
    """The sum over the rows of a round."""

    change: Tree  # Σ (Δ_i − y_i)
    count: Float[Array, ""]  # rows


def change_since_last() -> RowStage:
    """Δ_i ← Δ_i − y_i, and y_i ← Δ_i, with y_i = 0 before a client's first update. Whoever adds the changes up knows Σ y_i."""

    def apply(updates: Updates, context: Context) -> Updates:
        del context
        change = tree.subtract(updates.delta, updates.memory)
        return updates._replace(delta=change, memory=updates.delta)

    return RowStage(
        apply=apply, name="last_update", memory=lambda params, key: tree.zeros_like(params)
    )


def none_yet(params: Tree, present: Array) -> LastUpdates:
    """The server's state at the start."""
    del present
    return LastUpdates(tree.zeros_like(params))

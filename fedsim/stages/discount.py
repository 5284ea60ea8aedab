"""Old updates count less: what an asynchronous schedule puts between the stages and the rule."""

from collections.abc import Callable
from typing import Any

import jax

from fedsim.types import Context, RowStage, Updates


def discount(factor: Callable[[Any], Any]) -> RowStage:
    """Δ_i ← s(τ_i) Δ_i, where the update's age τ_i counts the server's steps since it sent the start model.

    Args:
      factor: s.
    """

    def apply(updates: Updates, context: Context) -> Updates:
        del context
        s = factor(updates.age)
        return updates._replace(delta=jax.tree.map(lambda x: x * s.astype(x.dtype), updates.delta))

    return RowStage(apply=apply, name="discount")

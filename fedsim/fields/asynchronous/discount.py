"""Old updates count less: the stage that asynchronous schedules put before the rule."""

from collections.abc import Callable
from typing import Any

import jax

from fedsim.types import Context, RowStage, Updates


def discount(factor: Callable[[Any], Any]) -> RowStage:
    """Δ_i ← s(τ_i) Δ_i, where the age τ_i is the server's steps since it sent the start model.

    Args:
      factor: s, the factor as a function of the age.
    """

    def apply(updates: Updates, context: Context) -> Updates:
        del context
        s = factor(updates.age)
        return updates._replace(delta=jax.tree.map(lambda x: x * s.astype(x.dtype), updates.delta))

    return RowStage(apply=apply, name="discount")

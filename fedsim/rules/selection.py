"""What a rule that keeps some rows and rejects the others reports."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedsim.types import Context, Info, Updates


class Met(NamedTuple):
    """How often a selection met malicious clients: sums over rows, which a rule that is a sum adds up block by block."""

    caught: Float[Array, ""]  # malicious rows that do not count
    kept: Int[Array, ""]  # and that do
    rejected: Float[Array, ""]  # rows that do not
    malicious: Float[Array, ""]


def met(kept: Bool[Array, " K"], updates: Updates, context: Context) -> Met:
    """Of the rows that arrived; arguments are those of `selected`."""
    malicious, dtype = context.malicious & updates.arrived, updates.samples.dtype
    rejected = updates.arrived & ~kept
    return Met(
        caught=jnp.sum(malicious & rejected, dtype=dtype),
        kept=jnp.sum(kept & malicious, dtype=jnp.int32),
        rejected=jnp.sum(rejected, dtype=dtype),
        malicious=jnp.sum(malicious, dtype=dtype),
    )


def rates(sums: Met) -> Info:
    """What `selected` reports, from the sums over a round."""
    return {
        "malicious_kept": sums.kept,
        "precision": sums.caught / sums.rejected,
        "recall": sums.caught / sums.malicious,
    }


def selected(kept: Bool[Array, " K"], updates: Updates, context: Context) -> Info:
    """How well a selection met the malicious clients of a round.

    Args:
      kept: rows that count in the aggregate.
      updates: of the round.
      context: of the round.

    Returns:
      `malicious_kept`: how many of them count; `precision`: the share of malicious clients among the rejected, NaN where
      nobody is; `recall`: the share of the malicious clients that was rejected, NaN where there is none.
    """
    return rates(met(kept, updates, context))

"""What a rule that keeps some rows and rejects the others reports."""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from fedsim.types import Context, Info, Updates


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
    malicious, dtype = context.malicious & updates.arrived, updates.samples.dtype
    rejected = updates.arrived & ~kept
    caught = jnp.sum(malicious & rejected, dtype=dtype)
    return {
        "malicious_kept": jnp.sum(kept & malicious, dtype=jnp.int32),
        "precision": caught / jnp.sum(rejected, dtype=dtype),
        "recall": caught / jnp.sum(malicious, dtype=dtype),
    }

"""Reports of rules that accept some rows and reject the others."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedsim.types import Context, Info, Updates


class SelectionCounts(NamedTuple):
    """Rows that a selection accepted and rejected; a rule that is a sum adds them by block."""

    malicious_rejected: Float[Array, ""]
    malicious_accepted: Int[Array, ""]
    rejected: Float[Array, ""]
    malicious: Float[Array, ""]


def count_selection(
    accepted: Bool[Array, " K"], updates: Updates, context: Context
) -> SelectionCounts:
    """Count the rows that arrived; the arguments are those of `selection_report`."""
    malicious = context.malicious & updates.arrived
    dtype = updates.samples.dtype
    rejected = updates.arrived & ~accepted
    return SelectionCounts(
        malicious_rejected=jnp.sum(malicious & rejected, dtype=dtype),
        malicious_accepted=jnp.sum(accepted & malicious, dtype=jnp.int32),
        rejected=jnp.sum(rejected, dtype=dtype),
        malicious=jnp.sum(malicious, dtype=dtype),
    )


def rates(counts: SelectionCounts) -> Info:
    """What `selection_report` returns, from the counts of a round."""
    return {
        "malicious_kept": counts.malicious_accepted,
        "precision": counts.malicious_rejected / counts.rejected,
        "recall": counts.malicious_rejected / counts.malicious,
    }


def selection_report(accepted: Bool[Array, " K"], updates: Updates, context: Context) -> Info:
    """Report how well a selection separates the malicious clients of a round from the others.

    Args:
      accepted: rows that count in the aggregate.

    Returns:
      `malicious_kept`: how many malicious clients count; `precision`: the share of malicious
      clients among the rejected ones, NaN where nobody is rejected; `recall`: the share of the
      malicious clients that was rejected, NaN where nobody is malicious.
    """
    return rates(count_selection(accepted, updates, context))

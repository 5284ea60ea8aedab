"""FedEraser: updates of a short training, as long as those that an earlier run recorded."""

import functools

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.types import Context, RowStage, Updates


@functools.cache
def calibration() -> RowStage:
    """Û_k ← ‖U_k‖₂ · Û_k / ‖Û_k‖₂, where client k sent U_k in the recorded round.

    The state is a table of the recorded norms `[N]`, which is set before every round; NaN: the
    client's update was not recorded, and the row does not count. An update of norm 0 has no
    direction and stays 0.

    References:
      Liu, Ma, Yang, Wang, Liu 2021, FedEraser: Enabling Efficient Client-Level Data Removal from
      Federated Learning Models, IWQoS 2021, section IV-A, algorithm 1.
    """

    def init(params, present):
        return jnp.zeros(len(present), jnp.result_type(*jax.tree.leaves(params)))

    def apply(updates: Updates, context: Context) -> Updates:
        recorded = context.state[context.ids]
        length = tree.norm(updates.delta)
        factor = jnp.where(length > 0, recorded / length, 0)
        return updates._replace(
            delta=jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), updates.delta),
            arrived=updates.arrived & jnp.isfinite(recorded),
        )

    return RowStage(apply=apply, name="calibration", init=init)

"""FedEraser: updates of a short training, as long as those that an earlier run recorded."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.types import Context, RowStage, Updates

Norms = Literal["update", "leaf"]


@functools.cache
def calibration(norms: Norms = "update") -> RowStage:
    """Û_k ← ‖U_k‖₂ · Û_k / ‖Û_k‖₂, where client k sent U_k in the recorded round.

    The state is a table of the recorded norms `[N, leaves]`, in the order of the leaves, which is
    set before every round; NaN: the client's update was not recorded, and the row does not count.
    An update of norm 0 has no direction and stays 0.

    Args:
      norms: `update`: one norm over the whole update, as in the paper (section IV-A, algorithm 1);
        `leaf`: one for each leaf.

    References:
      Liu, Ma, Yang, Wang, Liu 2021, FedEraser: Enabling Efficient Client-Level Data Removal from
      Federated Learning Models, IWQoS 2021.
    """

    def init(params, present):
        leaves = jax.tree.leaves(params)
        return jnp.zeros((len(present), len(leaves)), jnp.result_type(*leaves))

    def apply(updates: Updates, context: Context) -> Updates:
        recorded = context.state[context.ids]  # [leaves]
        leaves, structure = jax.tree.flatten(updates.delta)
        if norms == "update":
            lengths = [tree.norm(recorded)] * len(leaves)
            new_lengths = [tree.norm(updates.delta)] * len(leaves)
        else:
            lengths = list(recorded)
            new_lengths = [tree.norm(leaf) for leaf in leaves]

        scaled = []
        for leaf, length, new_length in zip(leaves, lengths, new_lengths, strict=True):
            factor = jnp.where(new_length > 0, length / new_length, 0)
            scaled.append(leaf * factor.astype(leaf.dtype))
        is_recorded = jnp.isfinite(recorded).all()
        return updates._replace(
            delta=jax.tree.unflatten(structure, scaled), arrived=updates.arrived & is_recorded
        )

    return RowStage(apply=apply, name="calibration", init=init)

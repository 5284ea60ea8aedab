"""Mimic: all malicious clients send what one honest client sends."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Int

from fedsim import tree
from fedsim.compose import attack
from fedsim.stages.knowledge import dots, for_all, known_rows, mean_of
from fedsim.tree import Tree
from fedsim.types import Context, Stage, Updates


class Watched(NamedTuple):
    """What the attacker has learned."""

    z: Tree  # the direction in which honest clients differ most
    rounds: Int[Array, ""]  # how many rounds it comes from


@attack
def mimic(warmup: Annotated[int, Ge(0)] = 20) -> Stage:
    """All malicious clients copy the honest client furthest along the direction of largest spread.

    x_i ← x_k, k = argmax_k ⟨z, x_k⟩ over the honest clients of the round; in the first rounds
    z ← t/(t+1) z + 1/(t+1) Σ_k ⟨x_k − μ, z⟩ (x_k − μ), scaled to length 1, from a fixed random
    direction. No message is unusual; where clients differ, one of them outvotes the others. Other
    software copies a client of fixed number. μ is the mean of the round; the authors' code takes
    the mean over the rounds so far, scales the sum to length 1 before it is added, and always
    copies the same client once z is learned.

    Knows: the updates of all honest clients of the round.
    Defence: bucketing and mixing before a robust rule.
    Cost: O(K·D).    Needs: the whole stack, and one model between rounds.

    Args:
      warmup: rounds in which z is learned; 0 keeps the fixed direction.

    References:
      Karimireddy, He, Jaggi 2022, Byzantine-Robust Learning on Heterogeneous Datasets via
      Bucketing, arXiv:2006.09365, section 3.2 and appendix B.

    >>> import fedsim
    >>> rows = fedsim.transmit("mimic", [[1.0], [3.0], [9.0]], malicious=[2])[0]
    >>> bool(rows[2] in rows[:2])
    True
    """

    def apply(updates: Updates, state: Watched, context: Context):
        known = known_rows(updates, context, "cohort")
        mean = mean_of(updates, known)
        t = state.rounds.astype(updates.samples.dtype)

        # Σ_k ⟨x_k − μ, z⟩ (x_k − μ); the products are in the terms, as no weight is negative.
        centred = jax.tree.map(lambda x, m: x - m[None], updates.delta, mean)
        along = jnp.where(known, dots(centred, state.z), 0)
        terms = jax.tree.map(lambda x: tree.along(along, x).astype(x.dtype) * x, centred)
        total = tree.weighted_sum(terms, known.astype(updates.samples.dtype))

        z = jax.tree.map(lambda old, new: (t * old + new) / (t + 1), state.z, total)
        length = tree.norm(z)
        z = jax.tree.map(lambda leaf: leaf / jnp.where(length > 0, length, 1).astype(leaf.dtype), z)
        learns = (state.rounds < warmup) & jnp.any(known) & (length > 0) & jnp.isfinite(length)
        state = tree.select(learns, Watched(z, state.rounds + 1), state)

        copied = jnp.argmax(jnp.where(known, dots(updates.delta, state.z), -jnp.inf))
        row = tree.select(jnp.any(known), tree.take(updates.delta, copied), mean)
        sent = tree.select(context.malicious, for_all(row, updates), updates.delta)
        return updates._replace(delta=sent), state, {}

    def init(params, present):
        del present
        start = tree.noised(tree.zeros_like(params), jax.random.key(0), jnp.ones(()))
        length = tree.norm(start)
        z = jax.tree.map(lambda leaf: leaf / length.astype(leaf.dtype), start)
        return Watched(z, jnp.zeros((), jnp.int32))

    return Stage(apply=apply, init=init)

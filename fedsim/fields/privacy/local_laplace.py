"""Laplace noise that makes a client's message private before it leaves."""

import functools
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Gt

from fedsim.compose import stage
from fedsim.limits import Epsilon
from fedsim.tree import Tree
from fedsim.types import Context, RowStage, Updates


@stage
def local_laplace(norm: Annotated[float, Gt(0)], epsilon: Epsilon) -> RowStage:
    """Shortens every update to a bound and adds Laplace noise: each message is ε-private.

    x_i ← x_i · min(1, C / ‖x_i‖₁) + Laplace(2C/ε) in every coordinate, with the L1 norm over the
    whole tree. Any two messages are neighbours, so that their distance is up to 2C.

    ε is that of one message, as of `local_gaussian`.

    Resists: inference from a message about its client, by anybody.
    Cost: O(D) per client; the noise grows with √D relative to that of `local_gaussian`.
    Needs: one row at a time.

    Args:
      norm: C, the largest L1 norm of an update that passes unchanged but for the noise.
      epsilon: ε of a message.

    References:
      Dwork, McSherry, Nissim, Smith 2006, Calibrating Noise to Sensitivity in Private Data
      Analysis, doi:10.1007/11681878_14.
    """
    scale = 2 * norm / epsilon

    def apply(updates: Updates, context: Context) -> Updates:
        shorter = _within(updates.delta, norm)
        return updates._replace(delta=_with_laplace(shorter, context.key, scale))

    return RowStage(apply=apply, noises=True)


def _within(delta: Tree, norm: float) -> Tree:
    """A tree that is longer than `norm` by the L1 norm shortened to it."""
    sums = [jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(delta)]
    length = functools.reduce(jnp.add, sums)
    factor = jnp.where(length > norm, norm / length, 1)
    return jax.tree.map(lambda x: x * factor.astype(x.dtype), delta)


def _with_laplace(delta: Tree, key: jax.Array, scale: float) -> Tree:
    """A tree with independent Laplace noise added to every coordinate."""
    leaves, structure = jax.tree.flatten(delta)
    keys = jax.random.split(key, len(leaves))
    noised = []
    for leaf, leaf_key in zip(leaves, keys, strict=True):
        noise = jax.random.laplace(leaf_key, leaf.shape, leaf.dtype)
        noised.append(leaf + jnp.asarray(scale, leaf.dtype) * noise)
    return jax.tree.unflatten(structure, noised)

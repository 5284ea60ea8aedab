"""Attacks on messages: what malicious clients send in place of their updates."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim import tree
from fedsim.compose import attack, row_attack
from fedsim.tree import Tree
from fedsim.types import Context, RowStage


@attack
def sign_flip(scale: Annotated[float, Ge(0)] = 1.0) -> RowStage:
    """Sends the own update reversed.

    x_i ← −s · x_i  for every malicious client i: gradient ascent on its own data. With s > 1 it also pulls harder.

    Resists: any rule of median kind stands it; a mean does not.    Cost: O(D) per client.    Needs: one row at a time.

    Args:
      scale: s.

    References:
      Li et al. 2019, RSA: Byzantine-Robust Stochastic Aggregation Methods, arXiv:1811.03761, section 5.

    >>> import fedsim
    >>> fedsim.transmit("sign_flip", [[1.0], [2.0]], malicious=[1])[0].tolist()
    [[1.0], [-2.0]]
    """

    def corrupt(delta: Tree, context: Context) -> Tree:
        del context
        return tree.scale(delta, -scale)

    return row_attack(corrupt)


@attack
def gaussian(std: Annotated[float, Gt(0)]) -> RowStage:
    """Sends noise in place of the own update.

    x_i ~ N(0, σ² I), independent in every coordinate, client and round; nothing of the honest update is left.

    Resists: any robust rule stands it for large σ, where it is easily seen.    Cost: O(D) per client.
    Needs: one row at a time.

    Args:
      std: σ, of each coordinate.

    References:
      Blanchard et al. 2017, Machine Learning with Adversaries, arXiv:1703.02757, section 5 (there σ = 200).

    >>> import fedsim
    >>> sent, _ = fedsim.transmit({"kind": "gaussian", "std": 2.0}, [[1.0] * 1000] * 2, malicious=[1])
    >>> [round(float(row.std())) for row in sent]
    [0, 2]
    """

    def corrupt(delta: Tree, context: Context) -> Tree:
        leaves, structure = jax.tree.flatten(delta)
        noise = []
        for i, leaf in enumerate(leaves):
            wide = jnp.promote_types(leaf.dtype, jnp.float32)  # half-precision normals take few values
            drawn = jax.random.normal(jax.random.fold_in(context.key, i), leaf.shape, wide)
            noise.append((std * drawn).astype(leaf.dtype))
        return jax.tree.unflatten(structure, noise)

    return row_attack(corrupt)


@attack
def nonfinite(value: Literal["nan", "inf", "-inf"] = "nan") -> RowStage:
    """Sends an update that is no number in any coordinate.

    x_i ← (NaN, …, NaN), or (±∞, …, ±∞), for every malicious client i: what a client with a diverged model sends as well.

    Resists: the server's filter drops such rows and counts them; where they are kept, a single one ruins a mean.
    Cost: O(D) per client.    Needs: one row at a time.

    Args:
      value: `nan`, `inf` or `-inf`.

    References:
      Blanchard et al. 2017, Machine Learning with Adversaries, arXiv:1703.02757: a Byzantine worker may send anything.

    >>> import fedsim
    >>> fedsim.transmit({"kind": "nonfinite", "value": "inf"}, [[1.0], [2.0]], malicious=[1])[0].tolist()
    [[1.0], [inf]]
    """

    def corrupt(delta: Tree, context: Context) -> Tree:
        del context
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, float(value)), delta)

    return row_attack(corrupt)

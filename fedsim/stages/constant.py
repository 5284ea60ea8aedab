"""Attacks on messages that need no knowledge: the same value in every coordinate."""

import jax
import jax.numpy as jnp

from fedsim.compose import alias, attack, row_attack
from fedsim.tree import Tree
from fedsim.types import Context, RowStage

alias(same_value="constant")


@attack
def constant(value: float = 1.0) -> RowStage:
    """Sends the same value in every coordinate.

    x_i ← c·(1, …, 1), the same for all malicious clients.

    Defence: any robust rule, for a large c, which is easily seen; a small c biases all coordinates.
    Cost: O(D) per client.
    Needs: one row at a time.

    Args:
      value: c.

    References:
      Li et al. 2019, RSA, arXiv:1811.03761, section 5 (same-value attack; there c = 100).

    >>> import fedsim
    >>> attack = {"kind": "constant", "value": 5.0}
    >>> fedsim.transmit(attack, [[1.0], [2.0]], malicious=[1])[0].tolist()
    [[1.0], [5.0]]
    """

    def corrupt(delta: Tree, context: Context) -> Tree:
        del context
        return jax.tree.map(lambda x: jnp.full_like(x, value), delta)

    return row_attack(corrupt)


@attack
def zero() -> RowStage:
    """Sends zeros: the client takes part and contributes no work.

    x_i ← 0. It slows a mean down by the share of such clients; a majority of them stops a median.

    Defence: the mean, up to a smaller step.    Cost: O(D) per client.    Needs: one row at a time.

    References:
      Li et al. 2019, RSA, arXiv:1811.03761, section 5 (zero-gradient attack, in its simplest form).

    >>> import fedsim
    >>> fedsim.transmit("zero", [[1.0], [2.0]], malicious=[1])[0].tolist()
    [[1.0], [0.0]]
    """

    def corrupt(delta: Tree, context: Context) -> Tree:
        del context
        return jax.tree.map(jnp.zeros_like, delta)

    return row_attack(corrupt)

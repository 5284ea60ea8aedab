"""Fang's attack on coordinate-wise rules: just beyond the honest values, on the wrong side."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Gt

from fedsim import tree
from fedsim.compose import attack
from fedsim.stages.knowledge import Knowledge, known_rows, mean_of
from fedsim.tree import Tree
from fedsim.types import Context, Updates


@attack
def fang(factor: Annotated[float, Gt(1)] = 2.0, knowledge: Knowledge = "cohort"):
    """Sends values just beyond those of all known clients, against the direction in which the mean goes.

    x_iᵈ is drawn evenly, for every malicious client and coordinate, between the least known value and b times it (or 1/b,
    whichever is less) where the mean is positive; between the largest and b times it (or 1/b, whichever is more) where it
    is not.

    Knows: as `knowledge` says.    Resists: rules that look at whole updates; median and trimmed mean are what it is made for.
    Cost: O(K·D).    Needs: the whole stack.

    Args:
      factor: b.
      knowledge: `cohort`: of the honest clients of the round; `own`: of what the malicious ones would have sent.

    References:
      Fang, Cao, Jia, Gong 2020, Local Model Poisoning Attacks to Byzantine-Robust Federated Learning, USENIX Security,
      arXiv:1911.11815, section 4.3 (trimmed mean and median; there b = 2).

    >>> import fedsim
    >>> rows = fedsim.transmit("fang", [[1.0], [3.0], [9.0]], malicious=[2])[0]
    >>> bool(0.5 <= rows[2, 0] <= 1.0)
    True
    """

    def corrupt(updates: Updates, context: Context) -> Tree:
        known = known_rows(updates, context, knowledge)
        mean = mean_of(updates, known)
        leaves, structure = jax.tree.flatten(updates.delta)
        of_client = lambda id, i: jax.random.fold_in(jax.random.fold_in(context.key, id), i)

        def beyond(i: int, x, m):
            rows = tree.along(known, x)
            least, most = jnp.min(jnp.where(rows, x, jnp.inf), 0), jnp.max(jnp.where(rows, x, -jnp.inf), 0)
            low = jnp.minimum(least * factor, least / factor)
            high = jnp.maximum(most * factor, most / factor)
            u = jax.vmap(lambda id: jax.random.uniform(of_client(id, i), m.shape, x.dtype))(context.ids)
            down, up = least[None] + u * (low - least)[None], most[None] + u * (high - most)[None]
            return jnp.where(jnp.any(known), jnp.where(m[None] > 0, down, up), x)

        pairs = enumerate(zip(leaves, jax.tree.leaves(mean), strict=True))
        return jax.tree.unflatten(structure, [beyond(i, x, m) for i, (x, m) in pairs])

    return corrupt

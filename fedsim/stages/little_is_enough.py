"""A little is enough (ALIE): updates that hide within the spread of the honest ones."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le
from jax.scipy.special import ndtri
from jaxtyping import Array, Float

from fedsim.compose import alias, attack
from fedsim.stages.knowledge import Knowledge, for_all, known_rows, mean_of, std_of
from fedsim.tree import Tree
from fedsim.types import Context, Updates

alias(alie="little_is_enough", lie="little_is_enough")


@attack
def little_is_enough(
    z: float | None = None,
    sign: Literal["minus", "plus"] = "minus",
    ddof: Annotated[int, Ge(0), Le(1)] = 1,
    knowledge: Knowledge = "cohort",
):
    """All malicious clients send a point so near the mean that honest clients are further out.

    x_i ← μ − z σ  (or +), μ and σ the coordinate-wise mean and standard deviation of the known
    updates. The default is z = Φ⁻¹((n − m − s) / (n − m)), s = ⌊n/2 + 1⌋ − m, for n clients that
    arrived, m of them malicious: with s honest clients they are a majority. The share is clipped
    half a client away from 0 and 1. Where few are malicious z ≤ 0 (10 clients, 1 of them: −0.14),
    and the attack helps; set z then. The authors subtract and divide by n (`ddof: 0`), other
    software adds and divides by n − 1.

    Knows: as `knowledge` says.
    Defence: hardly any rule where clients differ; momentum on the clients shrinks σ.
    Cost: O(K·D).    Needs: the whole stack.

    Args:
      z: the distance from the mean, in standard deviations.
      sign: the side of the mean.
      ddof: 1 divides squares by n − 1, 0 by n.
      knowledge: `cohort`: μ and σ of the honest clients of the round; `own`: of what the malicious
        clients would have sent.

    References:
      Baruch, Baruch, Goldberg 2019, A Little Is Enough, arXiv:1902.06156, Algorithm 3.

    >>> import fedsim
    >>> link = {"kind": "little_is_enough", "z": 2.0, "ddof": 0}
    >>> fedsim.transmit(link, [[1.0], [3.0], [9.0]], malicious=[2])[0].tolist()
    [[1.0], [3.0], [0.0]]
    """
    direction = -1.0 if sign == "minus" else 1.0

    def corrupt(updates: Updates, context: Context) -> Tree:
        known = known_rows(updates, context, knowledge)
        mean = mean_of(updates, known)
        away = largest_z(updates, context) if z is None else jnp.asarray(z)
        std = std_of(updates, known, mean, ddof)
        row = jax.tree.map(lambda m, s: m + (direction * away).astype(m.dtype) * s, mean, std)
        return for_all(row, updates)

    return corrupt


def largest_z(updates: Updates, context: Context) -> Float[Array, ""]:
    """The z at which the attacker's side has a majority."""
    n = jnp.sum(updates.arrived)
    m = jnp.sum(updates.arrived & context.malicious)
    honest = jnp.maximum(n - m, 1).astype(updates.samples.dtype)
    share = (n - m - (n // 2 + 1 - m)) / honest
    half = 0.5 / honest
    return ndtri(jnp.clip(share, half, 1 - half))

"""Fang's attacks: just beyond the honest values, or as far as Krum still chooses."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Gt
from jaxtyping import Array, Bool

from fedsim import tree
from fedsim.compose import attack
from fedsim.stages.chosen_by_krum import largest_chosen
from fedsim.stages.knowledge import Knowledge, for_all, known_rows, mean_of, std_of
from fedsim.tree import Tree
from fedsim.types import Context, Updates


@attack
def fang(
    against: Literal["trimmed_mean", "krum"] = "trimmed_mean",
    factor: Annotated[float, Gt(1)] = 2.0,
    knowledge: Knowledge = "cohort",
    threshold: Annotated[float, Gt(0)] = 1e-5,
):
    """Sends what moves a rule furthest against the direction of the mean.

    `trimmed_mean`, and median:  for every malicious client and coordinate, x_iᵈ is drawn uniformly.
    Where the mean is positive, between the least known value and b times it (or 1/b times, if that
    is less); where it is not, between the largest and b times it (or 1/b times, if that is more).
    That is the paper's attack with full knowledge. `knowledge: own` is its attack with partial
    knowledge: between μ − 4σ and μ − 3σ where the mean is positive, between μ + 3σ and μ + 4σ where
    it is not, with the mean μ and the standard deviation σ of the updates of the c malicious
    clients, with divisor c (the authors' code takes 3.5 σ instead of a draw). A single malicious
    client has σ = 0, and sends its honest update.

    `krum`:  all send x = −λ sign(μ) with μ the mean of the h known updates; λ starts at the
    authors' bound

        λ₀ = min_i Σ_{j ∈ N(i)} ‖x_i − x_j‖₂ / ((h − c − 1) √D) + max_i ‖x_i‖₂ / √D,
        N(i) the h − 2 nearest known updates,

    and is halved until Krum, for c malicious clients, prefers x to every known update, or λ is
    below the threshold. With `knowledge: own`, Krum chooses among the updates of the c malicious
    clients and 1 copy of x; if no λ will do, 2 copies, ..., at most c. h − c − 1 and the number of
    neighbours are at least 1. All copies are the same; in the paper they may differ by 0.01. The
    authors' code starts at λ = 1, with the sign of what Krum would choose.

    Knows: as `knowledge` says.
    Defence: for the first, rules that look at full updates; for the second, rules that average many
    updates.
    Cost: O(K·D); against Krum O(K²·D), and O(K² log K) per halving, at most 60 for each number of
    copies.
    Needs: the whole stack.

    Args:
      against: the rule under attack.
      factor: b, for `trimmed_mean` with `knowledge: cohort`.
      knowledge: `cohort`: the updates of the honest clients of the round; `own`: what the malicious
        clients would have sent.
      threshold: the least λ, in units of the updates.

    References:
      Fang, Cao, Jia, Gong 2020, Local Model Poisoning Attacks to Byzantine-Robust Federated
      Learning, USENIX Security, arXiv:1911.11815, sections 4.2 (Krum) and 4.3 (trimmed mean and
      median; there b = 2), each with full and with partial knowledge.

    >>> import fedsim
    >>> rows = fedsim.transmit("fang", [[1.0], [3.0], [9.0]], malicious=[2])[0]
    >>> bool(0.5 <= rows[2, 0] <= 1.0)
    True
    >>> rows = [[0.5], [3.0], [-2.5], [4.0], [-3.0], [0.0], [0.0]]
    >>> krum, fang = {"kind": "krum", "f": 2}, {"kind": "fang", "against": "krum"}
    >>> bool(fedsim.aggregate(krum, fedsim.transmit(fang, rows, malicious=[5, 6])[0])[0] < 0)
    True
    """

    def corrupt(updates: Updates, context: Context) -> Tree:
        known = known_rows(updates, context, knowledge)
        if against == "trimmed_mean":
            return _beyond(updates, context, known, knowledge, factor)
        return _chosen(updates, context, known, knowledge, threshold)

    return corrupt


def _beyond(
    updates: Updates,
    context: Context,
    known: Bool[Array, " K"],
    knowledge: Knowledge,
    factor: float,
) -> Tree:
    """Draw values against the mean for every client and coordinate.

    Where no update is known the updates do not change.
    """
    mean = mean_of(updates, known)
    deviation = std_of(updates, known, mean, ddof=0)
    leaves, structure = jax.tree.flatten(updates.delta)
    means = jax.tree.leaves(mean)
    deviations = jax.tree.leaves(deviation)

    def drawn(i: int):
        """Leaf i, with its own random numbers for every client."""
        x, m = leaves[i], means[i]
        if knowledge == "cohort":
            near, far = _extremes(x, m, known, factor)
        else:
            near, far = _deviations(m, deviations[i])

        def draw(client):
            key = jax.random.fold_in(jax.random.fold_in(context.key, client), i)
            return jax.random.uniform(key, m.shape, x.dtype)

        values = near + jax.vmap(draw)(context.ids) * (far - near)
        return jnp.where(jnp.any(known), values, x)

    return jax.tree.unflatten(structure, [drawn(i) for i in range(len(leaves))])


def _extremes(
    x: Array, mean: Array, known: Bool[Array, " K"], factor: float
) -> tuple[Array, Array]:
    """Return the ends `[...]` of a range beyond the known values.

    It runs from the least value down where the mean is positive, else from the largest up.
    """
    rows = tree.along(known, x)
    least = jnp.min(jnp.where(rows, x, jnp.inf), axis=0)
    most = jnp.max(jnp.where(rows, x, -jnp.inf), axis=0)
    low = jnp.minimum(least * factor, least / factor)
    high = jnp.maximum(most * factor, most / factor)
    return jnp.where(mean > 0, least, most), jnp.where(mean > 0, low, high)


def _deviations(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """Return the ends `[...]`, 3 and 4 standard deviations from the mean, against its sign."""
    step = jnp.where(mean > 0, -deviation, deviation)
    return mean + 3 * step, mean + 4 * step


def _chosen(
    updates: Updates,
    context: Context,
    known: Bool[Array, " K"],
    knowledge: Knowledge,
    threshold: float,
) -> Tree:
    """The furthest point against the signs of the mean that Krum chooses."""
    signs = jax.tree.map(jnp.sign, mean_of(updates, known))
    malicious = jnp.sum(updates.arrived & context.malicious)
    first = malicious if knowledge == "cohort" else jnp.ones_like(malicious)
    scale = largest_chosen(updates.delta, known, signs, first, malicious, threshold)
    row = jax.tree.map(lambda s: -scale.astype(s.dtype) * s, signs)
    return tree.select(jnp.any(known), for_all(row, updates), updates.delta)

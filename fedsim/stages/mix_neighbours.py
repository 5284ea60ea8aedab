"""Nearest-neighbour mixing."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.compose import alias, stage
from fedsim.tree import Tree
from fedsim.types import Bound, Context, Stage, Updates

alias(nnm="mix_neighbours", nearest_neighbour_mixing="mix_neighbours")

ROWS = 52  # that one product adds


@stage
def mix_neighbours(f: Annotated[int, Ge(0)]) -> Stage:
    """Nearest-neighbour mixing: every update becomes the mean of its nearest updates.

    x_i ← 1/(m−f) Σ_{j ∈ N(i)} x_j,
    N(i) = the m−f of the m reporting clients nearest to i in ‖x_i − x_j‖₂, i included; ties go to
    the lowest index. Rows keep their sample counts, which have no weight here. Before a rule of
    bound κ (see `fedsim.rules.bounds`) both together have the bound 8f / (m − f) · (κ + 1).

    Resists: f malicious clients, together with a robust rule behind it.
    Cost: O(K²·D).
    Needs: the whole stack.

    Args:
      f: malicious clients to expect; 0 mixes all rows to their mean.

    References:
      Allouah et al. 2023, Fixing by Mixing: A Recipe for Optimal Byzantine ML under Heterogeneity,
      arXiv:2302.01772.

    >>> import fedsim
    >>> stage = {"kind": "mix_neighbours", "f": 1}
    >>> fedsim.transmit(stage, [[0.0], [1.0], [2.0], [9.0]])[0].tolist()
    [[1.0], [1.0], [1.0], [4.0]]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        del context
        present = updates.arrived
        K = present.shape[0]
        count = jnp.maximum(jnp.sum(present) - f, 1)
        distance = tree.squared_distances(updates.delta, present)
        distance = jnp.where(jnp.eye(K, dtype=bool), -1, distance)
        rank = jnp.argsort(jnp.argsort(distance, axis=1, stable=True), axis=1)
        is_neighbour = (rank < count) & present[None, :]  # [row, neighbour]
        finite = tree.finite_rows(updates.delta, K)
        is_infected = jnp.any(is_neighbour & ~finite[None, :], axis=1)

        def mix(columns: Float[Array, "K C"]) -> Float[Array, "K C"]:
            total = sums_of_rows(columns, is_neighbour, present & finite)
            mean = total / count.astype(columns.dtype)
            mixed = jnp.where(is_infected[:, None], jnp.nan, mean)
            return jnp.where(present[:, None], mixed, columns)

        mixed = tree.by_columns(mix, updates.delta, K, cached=2**19)
        return updates._replace(delta=mixed), state, {}

    def bound(behind: Bound) -> Bound:
        def kappa(n: Int[Array, ""], malicious: Int[Array, ""]) -> Float[Array, ""]:
            holds = (malicious <= f) & (2 * f < n)
            joint = 8 * f / (n - f).astype(float) * (behind(n, jnp.asarray(f)) + 1)
            return jnp.where(holds, joint, jnp.nan)

        return kappa

    return Stage(apply=apply, least=f + 1, bound=bound)


def sums_of_rows(
    columns: Float[Array, "K C"], mask: Bool[Array, "J K"], used: Bool[Array, " K"]
) -> Float[Array, "J C"]:
    """`Σ_k mask[j, k] columns[k]` of the used rows for every j; the others may hold anything.

    The used rows come first, and products add as many of them at a time whatever K is, so that
    other rows change no bit (5. in `fedsim.tree.exact`).
    """
    J, K = mask.shape
    order = jnp.argsort(~used, stable=True)
    rows = jnp.where(used[order][:, None], columns[order], 0)
    steps = -(-K // ROWS)  # rounded up
    rows = jnp.pad(rows, ((0, steps * ROWS - K), (0, 0))).reshape(steps, ROWS, -1)
    factors = jnp.pad(mask[:, order], ((0, -J % 8), (0, steps * ROWS - K)))
    factors = factors.astype(columns.dtype).reshape(-1, steps, ROWS)

    def add(i, total):
        return total + jnp.matmul(factors[:, i], rows[i], precision=lax.Precision.HIGHEST)

    start = jnp.zeros((len(factors), columns.shape[1]), columns.dtype)
    return lax.fori_loop(0, steps, add, start)[:J]

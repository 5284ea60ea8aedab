"""What the updates say about the clients: how far they move, how far apart, in which directions.

It is measured on request. Over the K clients of a round whose updates are finite, as the training
left them (before wire and attacks):

    update_norm = 1/K Σ ‖Δ_k‖
    drift       = √(1/K Σ ‖Δ_k − mean Δ‖²)
    cosine      = mean over pairs of cos(Δ_j, Δ_k)

No pass over pairs is needed: Σ_jk u_j·u_k = ‖Σ_k u_k‖² with u_k = Δ_k / ‖Δ_k‖. The programs are
separate from the training, so that asking changes no bit of it.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.tree import Tree


class UpdateSums(NamedTuple):
    """Sums over the clients of a round, for every run `[runs]`."""

    count: Float[Array, ""]
    norm: Float[Array, ""]  # Σ ‖Δ‖
    square: Float[Array, ""]  # Σ ‖Δ‖²
    total: Tree  # Σ Δ
    units: Tree  # Σ Δ / ‖Δ‖


class Diagnosis(NamedTuple):
    """What a round's updates say, for every run `[runs]`; NaN where fewer than two arrived."""

    update_norm: Float[Array, ""]
    drift: Float[Array, ""]
    cosine: Float[Array, ""]


@functools.partial(jax.jit, static_argnames="runs")
def add_updates(
    sums: UpdateSums | None, delta: Tree, weight: Float[Array, " slots"], runs: int
) -> UpdateSums:
    """Add the updates of a block, row by row; rows of weight 0 do not count.

    One run at a time: the bits are the same whichever runs train side by side.

    Args:
      sums: the sums over the blocks before; None: this is the first.
      delta: updates, run after run `[runs · block, ...]`.
      weight: the weights of the same rows `[runs · block]`.
      runs: how many runs train side by side.
    """

    def by_run(leaf):  # [runs · block, ...] -> [runs, block, ...]
        return leaf.reshape(runs, -1, *leaf.shape[1:])

    if sums is None:
        sums = jax.vmap(_zero)(jax.tree.map(by_run, delta))
    blocks = jax.tree.map(by_run, (delta, weight))
    return lax.map(lambda run: _add_block(*run), (sums, *blocks))


@jax.jit
def diagnose(sums: UpdateSums) -> Diagnosis:
    """Return the means over clients and pairs, for every run `[runs]`."""
    runs = len(sums.count)

    # The compiler unrolls a loop over a single run, which changes its bits: compute it twice.
    if runs == 1:
        sums = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), sums)

    means = lax.map(_means, sums)
    return jax.tree.map(lambda leaf: leaf[:runs], means)


def _zero(delta: Tree) -> UpdateSums:
    """Sums over no rows, for updates stacked like `delta`."""
    row = tree.zero_row(delta)
    zero = jnp.zeros((), jax.tree.leaves(row)[0].dtype)
    return UpdateSums(count=zero, norm=zero, square=zero, total=row, units=row)


def _add_block(sums: UpdateSums, delta: Tree, weight: Float[Array, " block"]) -> UpdateSums:
    """Add the rows of a block of ONE run."""
    # One row at a time: the same bits in a block of any size.
    norms = lax.map(tree.norm, delta)  # [block]
    present = (weight > 0) & tree.finite_rows(delta, weight.shape[0])
    present = present.astype(norms.dtype)

    scalars = (jnp.ones_like(norms), norms, norms * norms)
    count, norm, square = tree.fold((sums.count, sums.norm, sums.square), scalars, present)

    moved = (present > 0) & (norms > 0)
    unit_weights = jnp.where(moved, 1 / jnp.where(norms > 0, norms, 1), 0)
    return UpdateSums(
        count=count,
        norm=norm,
        square=square,
        total=tree.fold(sums.total, delta, present),
        units=tree.fold(sums.units, delta, unit_weights),
    )


def _means(sums: UpdateSums) -> Diagnosis:
    """The diagnosis of ONE run."""
    K = sums.count
    mean_norm = tree.norm(tree.divide(sums.total, K))
    variance = sums.square / K - mean_norm * mean_norm
    drift = jnp.sqrt(jnp.maximum(variance, 0))

    units_norm = tree.norm(sums.units)
    cosine = (units_norm * units_norm - K) / (K * (K - 1))
    return Diagnosis(
        update_norm=sums.norm / K,
        drift=drift,
        cosine=jnp.where(K > 1, cosine, jnp.nan),
    )

"""What the stack of updates says about the clients, on request: how far they move, how far apart,
and in which directions.

Over the K clients of a round whose updates are finite, as they left their training (before wire and
attacks):

    update_norm = 1/K Σ ‖Δ_k‖
    drift       = √(1/K Σ ‖Δ_k − mean Δ‖²)
    cosine      = mean over pairs of cos(Δ_j, Δ_k)

The pairs need no pass over pairs: Σ_jk u_j·u_k = ‖Σ_k u_k‖² with u_k = Δ_k / ‖Δ_k‖. Programs of
their own, so that asking changes no bit of the training.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.tree import Tree


class Sums(NamedTuple):
    """Sums over the clients of a round, of every run `[runs]`."""

    count: Float[Array, ""]
    norm: Float[Array, ""]  # Σ ‖Δ‖
    square: Float[Array, ""]  # Σ ‖Δ‖²
    total: Tree  # Σ Δ
    units: Tree  # Σ Δ / ‖Δ‖


class Diagnosis(NamedTuple):
    """What a round's updates say, of every run `[runs]`; NaN where fewer than two arrived."""

    update_norm: Float[Array, ""]
    drift: Float[Array, ""]
    cosine: Float[Array, ""]


@functools.partial(jax.jit, static_argnames="runs")
def measured(sums: Sums | None, delta: Tree, weight: Float[Array, " slots"], runs: int) -> Sums:
    """With the rows of a block of runs side by side, stacked `[runs · block]`, one after another ->
    sums `[runs]`.

    Rows of weight 0 do not count. A run at a time: the same bits whoever trains beside.

    Args:
      sums: over the blocks before; None: this is the first.
      delta: updates.
      weight: of the same rows.
      runs: how many.
    """
    apart = lambda leaf: leaf.reshape(runs, -1, *leaf.shape[1:])
    sums = jax.vmap(_no_rows)(jax.tree.map(apart, delta)) if sums is None else sums
    return lax.map(lambda run: _with_rows(*run), (sums, *jax.tree.map(apart, (delta, weight))))


@jax.jit
def close_sums(sums: Sums) -> Diagnosis:
    """The means over clients and pairs, of every run `[runs]`."""
    runs = len(sums.count)
    least_two = lambda leaf: jnp.concatenate([leaf, leaf]) if runs == 1 else leaf
    # a loop over one would be written out, with other bits
    means = lax.map(_means, jax.tree.map(least_two, sums))
    return jax.tree.map(lambda leaf: leaf[:runs], means)


def _no_rows(delta: Tree) -> Sums:
    """Of no client yet, for updates stacked as `delta`."""
    row = tree.zero_row(delta)
    nothing = jnp.zeros((), jax.tree.leaves(row)[0].dtype)
    return Sums(nothing, nothing, nothing, row, row)


def _with_rows(sums: Sums, delta: Tree, weight: Float[Array, " block"]) -> Sums:
    """With the rows of a block of ONE run."""
    lengths = lax.map(tree.norm, delta)  # a row at a time: the same bits in a block of any size
    present = ((weight > 0) & tree.finite_rows(delta, weight.shape[0])).astype(lengths.dtype)
    scalars = (jnp.ones_like(lengths), lengths, lengths * lengths)
    count, norm, square = tree.fold((sums.count, sums.norm, sums.square), scalars, present)
    directed = jnp.where((present > 0) & (lengths > 0), 1 / jnp.where(lengths > 0, lengths, 1), 0)
    return Sums(
        count,
        norm,
        square,
        tree.fold(sums.total, delta, present),
        tree.fold(sums.units, delta, directed),
    )


def _means(sums: Sums) -> Diagnosis:
    K = sums.count
    mean = tree.norm(tree.divide(sums.total, K))
    drift = jnp.sqrt(jnp.maximum(sums.square / K - mean * mean, 0))
    length = tree.norm(sums.units)
    cosine = (length * length - K) / (K * (K - 1))
    return Diagnosis(sums.norm / K, drift, jnp.where(K > 1, cosine, jnp.nan))

"""LASA: of sparse updates, layer by layer those of usual length and direction."""

import math
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.flame import clipped_rows
from fedsim.rules.selection import selected
from fedsim.rules.sorting import middle
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


@rule
def lasa(
    sparsity: Annotated[float, Ge(0), Lt(1)] = 0.3,
    norm_radius: Annotated[float, Gt(0)] = 1.0,
    sign_radius: Annotated[float, Gt(0)] = 1.0,
) -> Rule:
    """Mean, layer by layer, of the sparse layers whose length and share of signs are those of most.

    x_i ← x_i · min(1, M/‖x_i‖₂), M the median of the m lengths;  x_i ← its ⌊(1 − ζ) D⌋ coordinates of largest magnitude, of
    equal ones all, the others 0.  Of every layer, an array of the model:  n_i = ‖x_i‖₂, p_i the share of positive ones among
    its nonzero coordinates, ½ of a layer of zeros;  S = {i : |n_i − med n| < λ_n σ(n) and |p_i − med p| < λ_s σ(p)}, σ with m,
    and where σ = 0 everybody is within it;  agg = the mean of x_i over S, over all m where S is empty. Sample counts are
    ignored, and so are updates that are not finite.

    The authors' code keeps one coordinate less, leaves arrays of one dimension whole, takes the lower of two middle lengths,
    and keeps everybody where σ = 0 or somebody's layer is zero.

    Resists: fewer than half of the clients, as far as they change lengths or signs; the others leave it by clipping no
    longer than the median.    Cost: O(K·D), 32 times for the magnitudes (64 in float64).    Needs: the whole stack.
    `malicious_kept` counts who is kept in some layer.

    Args:
      sparsity: ζ, the share of coordinates that become 0.
      norm_radius: λ_n, in standard deviations; the authors have 1 for CIFAR and 2 for smaller images.
      sign_radius: λ_s.

    References:
      Xu, Zhang, Hu 2024, Achieving Byzantine-Resilient Federated Learning via Layer-Adaptive Sparsified Model Aggregation,
      arXiv:2409.01435, Algorithm 1.

    >>> import fedsim
    >>> rows = [[1.0, 2.0, 0.1], [1.5, 2.0, 0.1], [1.0, 2.5, 0.1], [-9.0, -9.0, -9.0]]
    >>> fedsim.aggregate("lasa", rows).round(2).tolist()
    [1.23, 2.21, 0.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        clipped, _ = clipped_rows(updates.delta, usable, usable)
        sparse = lax.map(lambda row: largest_coordinates(row, sparsity), clipped)
        layers, structure = jax.tree.flatten(sparse)
        kept = [_kept(layer, usable, norm_radius, sign_radius) for layer in layers]
        means = [
            tree.weighted_mean(x, s.astype(updates.samples.dtype))
            for x, s in zip(layers, kept, strict=True)
        ]
        somewhere = jnp.any(jnp.stack(kept), axis=0)
        return jax.tree.unflatten(structure, means), state, selected(somewhere, updates, context)

    return Rule(apply=apply)


def largest_coordinates(row: Tree, sparsity: float) -> Tree:
    """A tree with its ⌊(1 − sparsity) D⌋ coordinates of largest magnitude, of equal ones all; zero elsewhere."""
    leaves, structure = jax.tree.flatten(row)
    count = max(math.floor((1 - sparsity) * sum(leaf.size for leaf in leaves) + 1e-9), 1)
    dtype = jnp.result_type(jnp.float32, *leaves)
    width = 8 * dtype.itemsize
    of_leaf = lambda x: lax.bitcast_convert_type(
        jnp.abs(x).astype(dtype), f"uint{width}"
    )  # in the order of magnitudes
    bits = [of_leaf(leaf) for leaf in leaves]

    def add(i, least):
        candidate = least | (jnp.ones_like(least) << (width - 1 - i).astype(least.dtype))
        enough = sum(jnp.sum(b >= candidate) for b in bits) >= count
        return jnp.where(enough, candidate, least)

    least = lax.fori_loop(
        0, width, add, jnp.zeros((), f"uint{width}")
    )  # the count-th largest, bit by bit
    kept = [jnp.where(b >= least, leaf, 0) for b, leaf in zip(bits, leaves, strict=True)]
    return jax.tree.unflatten(structure, kept)


def _kept(
    layer: Float[Array, "K ..."], usable: Bool[Array, " K"], norm_radius: float, sign_radius: float
) -> Bool[Array, " K"]:
    """Rows within both radii, or all usable ones where there is none."""
    lengths, flat = tree.norms(layer, tree.zero_row(layer)), layer.reshape(layer.shape[0], -1)
    positive, negative = jnp.sum(flat > 0, axis=1), jnp.sum(flat < 0, axis=1)
    nonzero = (positive + negative).astype(lengths.dtype)
    share = jnp.where(
        nonzero > 0, positive.astype(lengths.dtype) / jnp.where(nonzero > 0, nonzero, 1), 0.5
    )
    inside = usable & _within(lengths, usable, norm_radius) & _within(share, usable, sign_radius)
    return jnp.where(jnp.any(inside), inside, usable)


def _within(
    values: Float[Array, " K"], usable: Bool[Array, " K"], radius: float
) -> Bool[Array, " K"]:
    """Which of the values, none of them negative, are less than so many standard deviations from the median."""
    counted = usable.astype(values.dtype)
    m = jnp.sum(usable)
    values = values / jnp.maximum(
        jnp.max(jnp.where(usable, values, 0)), jnp.finfo(values.dtype).tiny
    )
    ordered = jnp.sort(jnp.where(usable, values, jnp.inf))
    median = middle(ordered, m)
    mean = tree.sum_weights(jnp.where(usable, values, 0)) / jnp.maximum(m, 1).astype(values.dtype)
    squares = tree.sum_weights(jnp.where(usable, (values - mean) ** 2, 0))
    std = jnp.sqrt(squares / jnp.sum(counted))
    bound = (
        radius * std * (1 - 64 * jnp.finfo(values.dtype).eps)
    )  # two pairs of values are 1 σ from their median
    return (std == 0) | (jnp.abs(values - median) < bound)

"""LASA: mean of sparse updates of usual length and signs, layer by layer."""

import math
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.flame import clip_factors, median_length
from fedsim.rules.selection import selection_report
from fedsim.rules.sorting import middle
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


@rule
def lasa(
    sparsity: Annotated[float, Ge(0), Lt(1)] = 0.3,
    norm_radius: Annotated[float, Gt(0)] = 1.0,
    sign_radius: Annotated[float, Gt(0)] = 1.0,
) -> Rule:
    """Mean, layer by layer, of the sparse layers of usual length and usual share of signs.

    x_i ← x_i · min(1, M/‖x_i‖₂), M the median of the m lengths;  x_i ← its ⌊(1 − ζ) D⌋ coordinates
    of largest magnitude (all, where several are equal), the others 0.
    For every layer, an array of the model:  n_i = ‖x_i‖₂, and p_i the share of positive ones among
    its nonzero coordinates, ½ for a layer of zeros;
    S = {i : |n_i − med n| < λ_n σ(n) and |p_i − med p| < λ_s σ(p)}, σ with m, and a σ of 0 excludes
    nobody;  agg = the mean of x_i over S, over all m where S is empty.
    Sample counts and updates that are not finite are ignored.

    The authors' code keeps one coordinate less, does not sparsify arrays of one dimension, takes
    the lower of two middle lengths, and keeps all clients where σ = 0 or the layer of any is zero.

    Resists: fewer than half of the clients, as far as they change lengths or signs; updates that
    change neither are clipped to the median length.
    Cost: O(K·D), 32 times for the magnitudes (64 in float64).
    Needs: the whole stack.
    Reports: `malicious_kept` counts clients that are kept in any layer.

    Args:
      sparsity: ζ, the share of coordinates that become 0.
      norm_radius: λ_n, in standard deviations; the authors have 1 for CIFAR and 2 for smaller
        images.
      sign_radius: λ_s.

    References:
      Xu, Zhang, Hu 2024, Achieving Byzantine-Resilient Federated Learning via Layer-Adaptive
      Sparsified Model Aggregation, arXiv:2409.01435, Algorithm 1.

    >>> import fedsim
    >>> rows = [[1.0, 2.0, 0.1], [1.5, 2.0, 0.1], [1.0, 2.5, 0.1], [-9.0, -9.0, -9.0]]
    >>> fedsim.aggregate("lasa", rows).round(2).tolist()
    [1.23, 2.21, 0.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))
        factors = jnp.where(usable, clip_factors(lengths, median_length(lengths, usable)), 1)
        clipped = jax.tree.map(lambda x: x * tree.along(factors, x).astype(x.dtype), updates.delta)
        sparse = lax.map(lambda row: largest_coordinates(row, sparsity), clipped)
        layers, structure = jax.tree.flatten(sparse)

        masks = []
        means = []
        for layer in layers:
            mask = _accepted_rows(layer, usable, norm_radius, sign_radius)
            masks.append(mask)
            means.append(tree.weighted_mean(layer, mask.astype(updates.samples.dtype)))

        in_any_layer = jnp.any(jnp.stack(masks), axis=0)
        info = selection_report(in_any_layer, updates, context)
        return jax.tree.unflatten(structure, means), state, info

    return Rule(apply=apply)


def largest_coordinates(row: Tree, sparsity: float) -> Tree:
    """Keep the ⌊(1 − sparsity) D⌋ coordinates of a tree of largest magnitude; the others are zero.

    Where several have the least magnitude that is kept, all of them are kept.
    """
    leaves, structure = jax.tree.flatten(row)
    D = sum(leaf.size for leaf in leaves)
    count = max(math.floor((1 - sparsity) * D + 1e-9), 1)
    dtype = jnp.result_type(jnp.float32, *leaves)
    width = 8 * dtype.itemsize

    # The bits of magnitudes, read as integers, are in the order of the magnitudes.
    def bits_of(x):
        return lax.bitcast_convert_type(jnp.abs(x).astype(dtype), f"uint{width}")

    bits = [bits_of(leaf) for leaf in leaves]

    # Find the count-th largest, bit by bit.
    def add_bit(i, least):
        candidate = least | (jnp.ones_like(least) << (width - 1 - i).astype(least.dtype))
        enough = sum(jnp.sum(b >= candidate) for b in bits) >= count
        return jnp.where(enough, candidate, least)

    least = lax.fori_loop(0, width, add_bit, jnp.zeros((), f"uint{width}"))
    sparse = [jnp.where(b >= least, leaf, 0) for b, leaf in zip(bits, leaves, strict=True)]
    return jax.tree.unflatten(structure, sparse)


def _accepted_rows(
    layer: Float[Array, "K ..."], usable: Bool[Array, " K"], norm_radius: float, sign_radius: float
) -> Bool[Array, " K"]:
    """Rows within both radii, or all usable ones where there is none."""
    lengths = tree.norms(layer, tree.zero_row(layer))
    flat = layer.reshape(layer.shape[0], -1)
    positive = jnp.sum(flat > 0, axis=1)
    negative = jnp.sum(flat < 0, axis=1)
    nonzero = (positive + negative).astype(lengths.dtype)
    share = positive.astype(lengths.dtype) / jnp.where(nonzero > 0, nonzero, 1)
    share = jnp.where(nonzero > 0, share, 0.5)
    inside = usable & _within(lengths, usable, norm_radius) & _within(share, usable, sign_radius)
    return jnp.where(jnp.any(inside), inside, usable)


def _within(
    values: Float[Array, " K"], usable: Bool[Array, " K"], radius: float
) -> Bool[Array, " K"]:
    """Whether the values, none of them negative, are within `radius` deviations of the median."""
    counted = usable.astype(values.dtype)
    m = jnp.sum(usable)

    # In units of the largest value, so that squares do not overflow.
    largest = jnp.max(jnp.where(usable, values, 0))
    values = values / jnp.maximum(largest, jnp.finfo(values.dtype).tiny)

    median = middle(jnp.sort(jnp.where(usable, values, jnp.inf)), m)
    mean = tree.sum_weights(jnp.where(usable, values, 0)) / jnp.maximum(m, 1).astype(values.dtype)
    squares = tree.sum_weights(jnp.where(usable, (values - mean) ** 2, 0))
    std = jnp.sqrt(squares / jnp.sum(counted))

    # Two pairs of values are exactly 1 σ from their median, whatever rounding says.
    bound = radius * std * (1 - 64 * jnp.finfo(values.dtype).eps)
    return (std == 0) | (jnp.abs(values - median) < bound)

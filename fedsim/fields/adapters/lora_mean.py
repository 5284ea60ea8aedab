"""Means of low-rank pairs: of the factors, or of their products."""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.fields.adapters.pairs import (
    Pair,
    by_norms,
    is_pair,
    matmul,
    nearest,
    pairs_of,
    relative_error,
    sum_of_products,
    with_pairs,
)
from fedsim.rules.mean import mean
from fedsim.rules.present_rows import of_present_rows
from fedsim.tree import Tree
from fedsim.types import (
    BASE,
    LOW_RANK,
    MERGED,
    MERGED_BYTES,
    AdapterLeaves,
    Context,
    Fold,
    Rule,
    Updates,
    by_samples,
    reported,
)

A, B = LOW_RANK


@rule
def lora_mean(
    how: Literal["factors", "product", "stack", "freeze_a", "alternate"] = "factors",
    weights: Literal["samples", "uniform", "norms"] = "samples",
) -> Rule:
    """Mean of the low-rank pairs of LoRA; all other leaves have the plain mean.

    With S = Σ p_i A_i B_i, the mean of the products:

    - `factors` (FedIT): A = Σ p_i A_i and B = Σ p_i B_i apart, whose product is not S. Where
      clients have different ranks (`client.rank`), zeros fill up the pairs (HetLoRA).
    - `product` (FlexLoRA): the A B of rank r that is nearest to S. By the singular value
      decomposition of the factors, S = U Σ Vᵀ, it is A = U_r and B = Σ_r V_rᵀ, with signs that
      make the largest entry of every column of A positive. The first columns are the nearest pair
      of a lower rank, which a client of that rank receives.
    - `stack` (FLoRA): S is added to the frozen weights, which are the server's then: the pairs of
      all clients next to one another, and so without an error. Clients begin each round with pairs
      of their own draw and send these whole; they receive all pairs that were added since their
      last round, or the weights where those are smaller. The column `merged_bytes` counts them.
    - `freeze_a` (FFA-LoRA): A stays as it starts, B alone is trained and sent. A B = S.
    - `alternate` (RoLoRA): B alone is trained and sent in one round, A alone in the next. A B = S.

    The column `error` of the first two is ‖A B − S‖/‖S‖ over all targets together, in Frobenius
    norms, before any optimiser. A B = S holds where wire and stages leave a zero as it is. Under
    `alternate` a server optimiser with momentum still moves the factor whose turn it is not, both
    factors are sent to the clients, and virtual seconds count the messages of both.

    With `weights: norms` (HetLoRA), p_i is proportional to ‖A_i B_i‖, of the pairs as the client
    has them after its training, over all targets together; samples do not count. Where all norms
    are zero, all clients count the same. The mean of running statistics is uniform.

    Resists: nothing; one client can move it anywhere, and by `norms` a large pair counts more.
    Cost: O(K·D), one pass; `factors` and `product` also O((m + n)·(K·r)²) per target `[m, n]`.
    Needs: all rows at once for `factors` and `product`, one block at a time for the others.
    `stack` makes S, `[m, n]`, of one client's product after another: O(K·m·n·r).
    Where all clients send the same A, and r is the rank of S: `factors` is `product`.

    Args:
      how: which mean.
      weights: `samples` or `uniform`; or `norms`, for `factors` and `product`.

    Raises:
      ValueError: for `norms` under another mean.

    References:
      Zhang et al. 2024, Towards Building the Federated GPT, arXiv:2305.05644 (`factors`); Bai et
      al. 2024, Federated Fine-tuning of Large Language Models under Heterogeneous Tasks and Client
      Resources, arXiv:2402.11505 (`product`); Wang et al. 2024, FLoRA: Federated Fine-Tuning Large
      Language Models with Heterogeneous Low-Rank Adaptations, arXiv:2409.05976 (`stack`); Sun
      et al. 2024, Improving LoRA in Privacy-preserving Federated Learning, arXiv:2403.12313
      (`freeze_a`); Chen et al. 2025, Robust Federated Finetuning of LLMs via Alternating
      Optimization of LoRA, arXiv:2502.01755 (`alternate`); Cho et al. 2024, Heterogeneous LoRA for
      Federated Fine-tuning of On-Device Foundation Models, arXiv:2401.06432, section 4 (`norms`,
      its sparsity-weighted aggregation).
    """
    if weights == "norms" and how not in ("factors", "product"):
        text = f"weights: norms are of how=factors and how=product, and here it is {how}"
        raise ValueError(f"{text}; use one of these, or weights=uniform")
    # The mean of the products is the plain mean, where only one factor of every pair differs.
    plain_mean = mean("samples" if weights == "samples" else "uniform")
    if how == "freeze_a":
        return plain_mean._replace(adapter=AdapterLeaves((B,), freezes=((A,),)))
    if how == "alternate":
        return plain_mean._replace(adapter=AdapterLeaves((A, B), freezes=((A,), (B,))))

    weigh = by_samples if weights == "samples" else reported
    if how == "stack":
        return _stacked(weigh)

    def apply(updates: Updates, state, context):
        w = weigh(updates)
        updates = _padded(updates, context)
        starts = pairs_of(context.shared["params"])
        if weights == "norms":
            w = by_norms(starts, pairs_of(updates.delta), w)
        plain = tree.weighted_mean(updates.delta, w)
        if not starts:
            return plain, state, {"error": jnp.zeros((), w.dtype)}

        means = tree.add(starts, pairs_of(plain))
        p = w / jnp.maximum(tree.sum_weights(w), jnp.finfo(w.dtype).tiny)

        def aggregated(rows: tuple[list[Pair], Float[Array, " K"]]):
            # Added here, where it is not contracted with what a stage does to a row.
            moves, p = rows
            sent = tree.select(p > 0, tree.add(starts, moves), tree.zeros_like(moves))
            sums = [sum_of_products(pair, p) for pair in sent]
            made = means
            if how == "product":
                made = list(map(nearest, sums, means))
            return made, relative_error(made, sums)

        made, error = of_present_rows(aggregated, (pairs_of(updates.delta), p), p > 0)
        if how == "factors":
            return plain, state, {"error": error}
        step = tree.select(jnp.any(p > 0), tree.subtract(made, starts), tree.zeros_like(starts))
        return with_pairs(plain, step), state, {"error": error}

    return Rule(apply=apply, weights=weigh, adapter=AdapterLeaves((A, B)))


def _stacked(weigh: Callable[[Updates], Float[Array, " K"]]) -> Rule:
    """S as the step of the weights that the pairs are next to; the pairs have no step."""

    def zero(updates: Updates):
        return {
            "mean": tree.zero_row((updates.delta, updates.samples)),
            "sums": [_no_product(pair) for pair in pairs_of(updates.delta)],
            "bytes": jnp.zeros((), jnp.int32),
        }

    def add(total, updates: Updates, context: Context):
        w = weigh(updates)
        pairs = pairs_of(updates.delta)

        def add_products(k, sums):
            added = []
            for total, pair in zip(sums, pairs, strict=True):
                product = w[k].astype(total.dtype) * matmul(pair.A[k], pair.B[k])
                added.append(total + jnp.where(w[k] > 0, product, 0))
            return added

        sizes = _bytes_of_pairs(updates, context)
        return {
            "mean": tree.fold(total["mean"], (updates.delta, jnp.ones_like(w)), w),
            "sums": lax.fori_loop(0, len(w), add_products, total["sums"]),
            "bytes": total["bytes"] + jnp.sum(jnp.where(w > 0, sizes, 0), dtype=jnp.int32),
        }

    def finish(total, state, context: Context):
        rows, weight = total["mean"]
        means = tree.divide(rows, weight)
        steps = [context.scale * S for S in tree.divide(total["sums"], weight)]
        aggregate = _with_steps(means, steps, context.shared)
        return aggregate, state, {MERGED_BYTES: total["bytes"]}

    rule = folding(Fold(zero=zero, add=add, finish=finish), weigh)
    return rule._replace(adapter=AdapterLeaves((A, B), merges=(BASE,)))


def _padded(updates: Updates, context: Context) -> Updates:
    """The updates with pairs that are zero where a client has none of it (HetLoRA)."""
    if context.trained is None:
        return updates
    to_zero = lambda has, delta, start: jnp.where(has, delta, -start)
    delta = jax.tree.map(to_zero, context.trained, updates.delta, context.shared["params"])
    return updates._replace(delta=delta)


def _with_steps(params: Tree, steps: list[Array], shared: Tree) -> Tree:
    """The tree with steps of the weights next to pairs, in its order; pairs have none."""
    remaining = iter(steps)

    def put(node, merged):
        if not is_pair(node):
            return node
        step = next(remaining)
        if BASE in merged:  # which rows alone, outside of a run, do not have
            step = step.reshape(merged[BASE].shape)
        return {**node, A: jnp.zeros_like(node[A]), B: jnp.zeros_like(node[B]), BASE: step}

    return jax.tree.map(put, params, shared.get(MERGED, params), is_leaf=is_pair)


def _no_product(pairs: Pair) -> Float[Array, "m n"]:
    """A B of a stack of pairs, as zeros."""
    return jnp.zeros((pairs.A.shape[1], pairs.B.shape[2]), pairs.A.dtype)


def _bytes_of_pairs(updates: Updates, context: Context) -> Int[Array, " K"]:
    """The bytes of every client's pairs, of which it may have a part."""
    K = len(updates.arrived)
    pairs = pairs_of(updates.delta)
    if context.trained is None:
        return jnp.full(K, tree.payload_bytes(pairs) // K, jnp.int32)
    bytes_ = jnp.zeros(K, jnp.int32)
    stacks = jax.tree.leaves(pairs)
    parts = jax.tree.leaves(pairs_of(context.trained))
    for leaf, has in zip(stacks, parts, strict=True):
        of_number = tree.payload_bytes(leaf) // leaf.size
        bytes_ += of_number * jnp.sum(has, axis=(1, 2), dtype=jnp.int32)
    return bytes_

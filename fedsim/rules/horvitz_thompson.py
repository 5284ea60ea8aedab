"""The unbiased estimate of the mean over all clients."""

from typing import Literal

import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.types import Fold, Rule, by_samples, reported


@rule
def horvitz_thompson(shares: Literal["reported", "known"] = "reported") -> Rule:
    """Unbiased estimate of the sample-weighted mean over all clients, from those that took part.

    Δ̄ = Σ_{i∈S} c_i (n_i/n) Δ_i / π_i, with n samples of all N clients that can take part; client i
    was drawn c_i times, and is drawn π_i times on average. `shares: reported` is for a uniform
    cohort of which m reported, π_i = m/N. `shares: known` computes π_i from the cohort (any kind
    that knows how often it draws a client), the availability (kinds with constant probabilities)
    and the dropout, whoever reported; then a round in which nobody came has the mean 0, is not
    skipped, and goes through the steps and optimisers behind the rule. Where π_i is unknown, take
    `fedau` or `mifa`.
    `mean(samples)` behind the cohort `uniform` divides by the samples of the cohort instead, which
    is biased but varies less; `mean(uniform)` behind the cohort `weighted`, which draws clients by
    their samples, with replacement, is unbiased as well.

    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    Needs: one block at a time.
    Where everybody reports: `mean(samples)`.

    Args:
      shares: π_i: `reported`, the same for all that reported, or `known` for every client.

    References:
      Horvitz, Thompson 1952, A Generalization of Sampling Without Replacement from a Finite
      Universe, JASA 47.
    """
    return _known() if shares == "known" else _reported()


def _reported() -> Rule:
    def zero(updates):
        return tree.zero_row((updates.delta, updates.samples, updates.samples))

    def add(total, updates, context):
        del context
        moved, samples, m = total
        one = jnp.ones_like(updates.samples)
        moved, samples = tree.fold((moved, samples), (updates.delta, one), by_samples(updates))
        return moved, samples, tree.fold(m, one, reported(updates))

    def finish(total, state, context):
        moved, samples, m = total
        mean = samples / jnp.where(m > 0, m, 1)
        n = jnp.where(context.samples > 0, context.samples, context.N * mean).astype(m.dtype)
        factor = context.N / jnp.where(m > 0, m * n, 1)
        return tree.scale(moved, factor), state, {}

    return folding(Fold(zero=zero, add=add, finish=finish, linear=True), by_samples)


def _known() -> Rule:
    def zero(updates):
        return tree.zero_row((updates.delta, updates.samples))

    def add(total, updates, context):
        share = jnp.where(context.share > 0, context.share, 1)
        w = by_samples(updates) / share.astype(updates.samples.dtype)
        return tree.fold(total, (updates.delta, jnp.ones_like(w)), w)

    def finish(total, state, context):
        moved, estimate = total  # an estimate of n, for where n is unknown
        n = jnp.where(context.samples > 0, context.samples, estimate).astype(estimate.dtype)
        return tree.divide(moved, n), state, {}

    weighted = folding(Fold(zero=zero, add=add, finish=finish, linear=True), by_samples)
    return weighted._replace(least=0, needs=frozenset({"share"}))

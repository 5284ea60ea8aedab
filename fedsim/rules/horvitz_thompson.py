"""The unbiased estimate of the mean over all clients."""

import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.types import Fold, Rule, by_samples, reported


@rule
def horvitz_thompson() -> Rule:
    """The unbiased estimate, from a uniform cohort, of the sample-weighted mean over all clients.

    Δ̄ = (N/m) Σ_{i∈S} (n_i/n) Δ_i, with n samples of all N clients that can take part, and m that reported.
    `mean(samples)` behind the cohort `uniform` divides by the samples of the cohort instead, which is biased and varies
    less; `mean(uniform)` behind the cohort `weighted`, which draws clients by their samples, with replacement, is unbiased
    as well.

    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), one pass.    Needs: one block at a time.
    Where everybody reports: `mean(samples)`.

    References:
      Horvitz, Thompson 1952, A Generalization of Sampling Without Replacement from a Finite Universe, JASA 47.
    """

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
        return tree.scale(moved, context.N / jnp.where(m > 0, m * n, 1)), state, {}

    return folding(Fold(zero=zero, add=add, finish=finish), by_samples)._replace(linear=True)

"""GIFAIR: clients count more, the more of the others have a smaller loss."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Lt
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.types import Rule, Updates, by_samples

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"strength=0": "mean"}


@rule
def gifair(strength: Annotated[float, Ge(0), Lt(1)] = 0.5) -> Rule:
    """GIFAIR: a penalty on how far the losses of any two clients lie apart.

    x ← x + Σ_{i∈S} (p_i + λ r_i) Δ_i  with  p_i = n_i/n, r_i = Σ_{j∈S} sign(F_i − F_j) and
    F_i = f_i(x), over all samples of client i; λ = s min_i p_i / (|S| − 1), so that no weight is
    negative. With one full-batch step it is a step on Σ_i p_i F_i + λ Σ_{i<j} |F_i − F_j|. The
    paper's clients multiply each of their steps by 1 + λ r_i/p_i in place of the update, and its
    groups of clients are single clients here.

    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D + K²), and a pass over all samples before.
    Needs: all rows at once, and every client's loss at the global model.
    With s = 0: `mean`.

    Args:
      strength: s, λ as a share of the largest one that is possible.

    References:
      Yue, Nouiehed, Al Kontar 2021, GIFAIR-FL: A Framework for Group and Individual Fairness in
      Federated Learning, arXiv:2108.02741, section 3 and Algorithm 1; the weights are those of the
      code of Zhang et al. 2022, Proportional Fairness in Federated Learning, but for equal losses,
      whose r_i is alike here, and rises in the order of the clients there.
    """

    def weights(updates: Updates) -> Float[Array, " K"]:
        samples = by_samples(updates)
        total = tree.sum_weights(samples)
        present = samples > 0
        apart = jnp.sign(updates.loss[:, None] - updates.loss[None, :])
        both = present[:, None] & present[None, :]
        rank = jnp.sum(jnp.where(both, apart, 0), axis=1)

        # All weights are times n here.
        fewest = jnp.min(jnp.where(present, samples, total), initial=jnp.inf)
        others = jnp.maximum(jnp.sum(present) - 1, 1).astype(samples.dtype)
        return jnp.where(present, samples + strength * fewest / others * rank, 0)

    def apply(updates: Updates, state, context):
        del context
        return tree.weighted_mean(updates.delta, weights(updates)), state, {}

    return Rule(apply=apply, weights=weights, needs=frozenset({"loss"}))

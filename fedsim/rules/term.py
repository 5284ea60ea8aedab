"""TERM: clients count by an exponential of their loss."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.types import Rule, Updates, by_samples


@rule
def term(t: float = 1.0) -> Rule:
    """Tilted empirical risk: clients count by an exponential of their loss.

    x ← x + Σ_{i∈S} w_i Δ_i  with  w_i = n_i e^{t F_i} / Σ_{j∈S} n_j e^{t F_j}  and F_i = f_i(x),
    over all samples of client i. With one full-batch step it is a step on
    (1/t) log Σ_i (n_i/n) e^{t F_i}, which goes from the mean of the losses (t → 0) to the largest
    of them (t → ∞).

    Resists: nothing; one client can move it anywhere. With t < 0, clients with a large loss count
    less, and a client that reports a small one counts most.
    Cost: O(K·D), and a pass over all samples before.
    Needs: all rows at once, and every client's loss at the global model.
    With t = 0: `mean`.

    Args:
      t: the tilt: how much more a larger loss counts.

    References:
      Li, Beirami, Sanjabi, Smith 2021, Tilted Empirical Risk Minimization, arXiv:2007.01162,
      Lemma 1 (weights), section 2.3 (tilting groups).
    """

    def weights(updates: Updates) -> Float[Array, " K"]:
        samples = by_samples(updates)
        present = samples > 0

        # The largest exponent is 0, so that none overflows.
        exponent = jnp.where(present, t * updates.loss, -jnp.inf)
        largest = jnp.max(exponent, initial=-jnp.inf)
        shifted = jnp.where(present, exponent - largest, -jnp.inf)
        return samples * jnp.exp(shifted)

    def apply(updates: Updates, state, context):
        del context
        return tree.weighted_mean(updates.delta, weights(updates)), state, {}

    return Rule(apply=apply, weights=weights, needs=frozenset({"loss"}))

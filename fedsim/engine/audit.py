"""What an audited run tells of its canaries."""

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.engine.run import Run
from fedsim.rules.canaries import canary_direction
from fedsim.tree import Tree


def canary_scores(run: Run) -> np.ndarray:
    """Return how much every canary seems to have sent in all rounds of a run `[canaries]`.

    It is ⟨d, s⟩ for the canary's direction d and the sum s of all aggregates over C/m, without what
    other clients added: for a canary that is in, the rounds that it joined, plus the noise of all
    rounds and the shares of other canaries. Differential privacy holds against those who see every
    aggregate and know all other clients' updates, and they can compute it.
    """
    ids = jnp.asarray(run.plan.canaries.ids, jnp.int32)
    products = _products(run.server.state["rule"].trace, ids)
    return np.asarray(products, np.float64)


@jax.jit
def _products(trace: Tree, ids: jax.Array) -> jax.Array:
    """Return the scalar product of a tree with the direction of every canary."""

    def product(id: jax.Array) -> jax.Array:
        direction = canary_direction(trace, id)
        products = jax.tree.map(lambda a, b: jnp.sum(a * b), direction, trace)
        return sum(jax.tree.leaves(products), start=jnp.zeros(()))

    return jax.lax.map(product, ids)

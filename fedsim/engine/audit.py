"""What the final model of an audited run tells of its canaries."""

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.engine.run import Run
from fedsim.rules.canaries import canary_direction
from fedsim.tree import Tree


def canary_scores(run: Run) -> np.ndarray:
    """Return how much the model moved towards every canary of a run that has ended `[canaries]`.

    It is the cosine of the angle between the direction that the canary sends, or would have sent,
    and the difference of the final model to the start model; 0 where the model has not moved. Whoever
    has seen the two models can compute it.
    """
    shared = run.program.server.pipeline.shared_params
    moved = tree.subtract(shared(run.server.shared), shared(run.initial))
    ids = jnp.asarray(run.plan.canaries.ids, jnp.int32)
    return np.asarray(_cosines(moved, ids), np.float64)


@jax.jit
def _cosines(moved: Tree, ids: jax.Array) -> jax.Array:
    """Return the cosine of a difference of models with the direction of every canary."""

    def product(id: jax.Array) -> jax.Array:
        direction = canary_direction(moved, id)
        products = jax.tree.map(lambda a, b: jnp.sum(a * b), direction, moved)
        return sum(jax.tree.leaves(products), start=jnp.zeros(()))

    length = tree.norm(moved)
    return jax.lax.map(product, ids) / jnp.where(length == 0, 1, length)

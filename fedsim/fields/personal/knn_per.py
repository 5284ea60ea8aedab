"""kNN-Per: the shared model, and the neighbours of a sample among the client's own."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le
from jaxtyping import Array, Float

from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client, Scored, Task


@client
def knn_per(
    k: Annotated[int, Ge(1), Le(100_000)] = 10,
    lam: Annotated[float, Ge(0), Le(1)] = 0.5,
    scale: Annotated[float, Gt(0)] = 1.0,
) -> Client:
    """Plain local training; a client mixes the shared model with neighbours among its own samples.

    Training is that of `sgd`. For `personal_accuracy` alone, every client, also one that never
    takes part, predicts λ h(c|s) + (1 − λ) p(c|s), where p is the shared model's softmax and
    h(c|s) ∝ Σ_{j∈N_k(s): y_j = c} e^{−‖z(s) − z(j)‖²/(dσ)} over the k of its own training samples
    whose features z, of d numbers, are nearest; all of them, where it has fewer. The loss is −log
    of the mixture. A client without training samples has the shared model. (The paper has e to the
    minus distance; the square over d is from the authors' code.)

    State: none.    Sends: one model.
    Costs the features of a client's training samples at each score. With λ = 0: `sgd`.
    Needs: classes, and a model with features.

    Args:
      k: how many neighbours count.
      lam: λ, the weight of the neighbours; the authors choose it on validation samples.
      scale: σ, the squared distance for each number of a feature vector that is near.

    References:
      Marfoq, Neglia, Vidal, Kameni 2022, Personalized Federated Learning through Local
      Memorization, arXiv:2111.09360, equations 6 to 8.
    """

    def predict(task: Task, variables: Tree, x: Array, own: tuple) -> Array:
        own_x, own_y, is_own = own
        everything = jnp.ones(len(x), bool)
        outputs, _ = task.apply(variables, x, mask=everything, key=jax.random.key(0), train=False)
        of_model = jax.nn.log_softmax(outputs)
        z = features(task, variables, x)
        square = squared_distances(z, features(task, variables, own_x))
        near, index = jax.lax.top_k(jnp.where(is_own, -square, -jnp.inf), min(k, len(own_y)))
        weights = jax.nn.softmax(near / (z.shape[1] * scale), axis=1)
        of_class = jax.nn.one_hot(own_y[index], task.classes, dtype=weights.dtype)
        neighbours = jnp.sum(weights[:, :, None] * of_class, axis=1)

        # log 0 would make the loss of a client's mistake infinite, which has λ = 1 alone.
        tiny = jnp.finfo(outputs.dtype).tiny
        mixed = lam * neighbours + (1 - lam) * jnp.exp(of_model)
        return jnp.where(jnp.any(is_own), jnp.log(jnp.maximum(mixed, tiny)), of_model)

    def features(task: Task, variables: Tree, x: Array) -> Float[Array, "n d"]:
        assert task.features is not None
        return task.features(variables, x).reshape(len(x), -1)

    return sgd()._replace(
        scored=Scored(hooks.shared_model, predict=predict),
        needs=frozenset({"classes", "features", "softmax"}),
    )


def squared_distances(a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """Return the squared distances of all pairs of rows."""
    products = jnp.matmul(a, b.T, precision=jax.lax.Precision.HIGHEST)
    square = jnp.sum(a * a, axis=1)[:, None] + jnp.sum(b * b, axis=1)[None, :] - 2 * products
    return jnp.maximum(square, 0)

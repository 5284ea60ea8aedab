"""FedNTD: not-true distillation."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim.clients import hooks
from fedsim.clients.probe import start_with_x
from fedsim.compose import client
from fedsim.types import Client

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"beta=0": "sgd", "client.steps=1": "sgd"}


@client
def fedntd(
    beta: Annotated[float, Ge(0)] = 1.0, temperature: Annotated[float, Gt(0)] = 1.0
) -> Client:
    """Not-true distillation: preserves what the shared model knows about the other classes.

    y ← y − η_l ∇(f_i(y; batch) + β T² ℓ), from y = x, with ℓ the mean over the batch of
    KL(p_x ‖ p_y), where p is the softmax of outputs/T over all classes but the true one, under x
    and under y.

    State: none.    Sends: one model.    Costs one more pass through the model per step.
    Needs: classes, at least three.    With β = 0: `sgd`.

    Args:
      beta: β, weight of the distillation.
      temperature: T.

    References:
      Lee et al. 2022, Preservation of the Global Knowledge by Not-True Distillation,
      arXiv:2106.03097.
    """

    def gradient(task, variables, batch, local, shared, work):
        at_x = {"params": local["x"], "stats": shared["stats"]}
        teacher, _ = task.apply(at_x, batch.x, mask=batch.mask, key=batch.key, train=False)
        true = jax.nn.one_hot(batch.y, teacher.shape[-1], dtype=bool)
        not_true = lambda outputs: jax.nn.log_softmax(jnp.where(true, -1e9, outputs / temperature))
        log_p = not_true(teacher)

        def objective(variables, outputs, batch):
            divergence = jnp.where(true, 0, jnp.exp(log_p) * (log_p - not_true(outputs)))
            return task.loss(outputs, batch.y) + beta * temperature**2 * divergence.sum(-1)

        return task.value_and_grad(variables, batch, objective)

    return Client(
        memory=hooks.no_memory,
        start=start_with_x,
        gradient=gradient,
        step=hooks.step,
        finish=hooks.finish,
        needs=frozenset({"classes", "softmax", "solo"}),
    )

"""MOON: model-contrastive local training."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim.clients import hooks
from fedsim.clients.probe import start_with_x
from fedsim.compose import client
from fedsim.types import Client


def _cosines(a, b):
    """Cosine of every pair of rows -> `[B]`."""
    a, b = (v.reshape(len(v), -1) for v in (a, b))
    squares = jnp.sum(a * a, 1) * jnp.sum(b * b, 1)
    return jnp.sum(a * b, 1) / jnp.sqrt(jnp.maximum(squares, 1e-16))  # ‖a‖‖b‖, at least 1e-8


@client
def moon(mu: Annotated[float, Ge(0)] = 1.0, temperature: Annotated[float, Gt(0)] = 0.5) -> Client:
    """Model contrast: features resemble the shared model's, and differ from the client's last ones.

    y ← y − η_l ∇(f_i(y; batch) + μ ℓ), from y = x, with ℓ the mean over the batch of
    −log e^{cos(z, z_x)/T} / (e^{cos(z, z_x)/T} + e^{cos(z, z_prev)/T}) and z the features under y,
    under x, and under the model that the client last sent (at first, the run's start model).

    State: one model a client.    Sends: one model.
    Costs two more passes through the model per step.
    Needs: a model with features.    With μ = 0: `sgd`.

    Args:
      mu: μ, weight of the contrast.
      temperature: T.

    References:
      Li, He, Song 2021, Model-Contrastive Federated Learning, arXiv:2103.16257, equation 4.
    """

    def memory(shared, key):
        del key
        return {"last": shared["params"]}

    def start(task, shared, row, work):
        variables, local = start_with_x(task, shared, row, work)
        return variables, {**local, "last": row["last"]}

    def gradient(task, variables, batch, local, shared, work):
        def features(params):
            return task.features({"params": params, "stats": variables["stats"]}, batch.x)

        z_x = features(local["x"])
        z_last = features(local["last"])

        def objective(variables, outputs, batch):
            z = features(variables["params"])
            contrast = jax.nn.softplus((_cosines(z, z_last) - _cosines(z, z_x)) / temperature)
            return task.loss(outputs, batch.y) + mu * contrast

        return task.value_and_grad(variables, batch, objective)

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"last": variables["params"]})

    return Client(
        memory=memory,
        start=start,
        gradient=gradient,
        step=hooks.step,
        finish=finish,
        needs=frozenset({"features", "solo"}),
    )

"""Methods that minimise something else than the loss: contrast, calibrated and restricted outputs, distillation.

What is reported as the training loss is the loss all the same, so that methods can be compared.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim.clients.gradient import finish, no_memory, start, step
from fedsim.clients.probe import start_with_x
from fedsim.compose import client
from fedsim.types import Client

Positive = Annotated[float, Gt(0)]


def _cosines(a, b):
    """Cosine of every pair of rows -> `[B]`."""
    a, b = (v.reshape(len(v), -1) for v in (a, b))
    squares = jnp.sum(a * a, 1) * jnp.sum(b * b, 1)
    return jnp.sum(a * b, 1) / jnp.sqrt(jnp.maximum(squares, 1e-16))  # ‖a‖‖b‖, at least 1e-8


@client
def moon(mu: Annotated[float, Ge(0)] = 1.0, temperature: Positive = 0.5) -> Client:
    """Model contrast: features should be like those of the shared model and unlike the client's own of last time.

    y ← y − η_l ∇(f_i(y; batch) + μ ℓ), from y = x, with ℓ the mean over the batch of
    −log e^{cos(z, z_x)/T} / (e^{cos(z, z_x)/T} + e^{cos(z, z_prev)/T}) and z the features under y, under x, and under the
    model that the client last sent (at first: the one of the run's start).

    State: one model a client.    Sends: one model.    Costs two more passes through the model per step.
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

    def begin(task, shared, row, work):
        variables, local = start_with_x(task, shared, row, work)
        return variables, {**local, "last": row["last"]}

    def contrasted(task, variables, batch, local, shared, work):
        seen = lambda params: task.features({"params": params, "stats": variables["stats"]}, batch.x)
        ours, mine = seen(local["x"]), seen(local["last"])

        def objective(now, outputs, batch):
            z = seen(now["params"])
            contrast = jax.nn.softplus((_cosines(z, mine) - _cosines(z, ours)) / temperature)
            return task.loss(outputs, batch.y) + mu * contrast

        return task.value_and_grad(variables, batch, objective)

    def close(task, shared, variables, local, row, work):
        message = finish(task, shared, variables, local, row, work)
        return message._replace(memory={"last": variables["params"]})

    return Client(memory, begin, contrasted, step, close, needs=frozenset({"features"}), solo=True)


@client
def fedlc(tau: Annotated[float, Ge(0)] = 1.0) -> Client:
    """Calibrated outputs: a client does not learn that classes it rarely sees are rare.

    y ← y − η_l ∇f̃_i(y; batch), from y = x, where f̃_i is the loss of outputs z_c − τ n_{i,c}^(−1/4) and n_{i,c} counts
    the client's samples of class c (at least 1e−8).

    State: none.    Sends: one model.    Needs: classes.    With τ = 0, or equally many samples of each class: `sgd`.

    Args:
      tau: τ, strength of the calibration.

    References:
      Zhang et al. 2022, Federated Learning with Label Distribution Skew via Logits Calibration, arXiv:2209.00189.
    """

    def calibrated(task, variables, batch, local, shared, work):
        margin = tau * jnp.maximum(work.labels, 1e-8) ** -0.25
        return task.value_and_grad(variables, batch, lambda now, outputs, batch: task.loss(outputs - margin, batch.y))

    return Client(no_memory, start, calibrated, step, finish, needs=frozenset({"labels"}))


@client
def fedrs(alpha: Annotated[float, Ge(0)] = 0.5) -> Client:
    """Restricted softmax: outputs of classes that the client does not have are scaled down while it trains.

    y ← y − η_l ∇f̃_i(y; batch), from y = x, where f̃_i is the loss of outputs z_c, times α where the client has no sample
    of class c.

    State: none.    Sends: one model.    Needs: classes.    With α = 1, or where nobody lacks a class: `sgd`.

    Args:
      alpha: α, factor of the outputs of missing classes.

    References:
      Li, Zhan 2021, FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID Data, KDD.
    """

    def restricted(task, variables, batch, local, shared, work):
        factor = jnp.where(work.labels > 0, 1, jnp.asarray(alpha, work.lr.dtype))
        return task.value_and_grad(variables, batch, lambda now, outputs, batch: task.loss(outputs * factor, batch.y))

    return Client(no_memory, start, restricted, step, finish, needs=frozenset({"labels"}))


@client
def fedntd(beta: Annotated[float, Ge(0)] = 1.0, temperature: Positive = 1.0) -> Client:
    """Not-true distillation: what the shared model knows of the classes that a sample is not of, is not forgotten.

    y ← y − η_l ∇(f_i(y; batch) + β T² ℓ), from y = x, with ℓ the mean over the batch of KL(p_x ‖ p_y), where p is the
    softmax of outputs/T over all classes but the true one, under x and under y.

    State: none.    Sends: one model.    Costs one more pass through the model per step.    Needs: classes, at least three.
    With β = 0: `sgd`.

    Args:
      beta: β, weight of the distillation.
      temperature: T.

    References:
      Lee et al. 2022, Preservation of the Global Knowledge by Not-True Distillation, arXiv:2106.03097.
    """

    def distilled(task, variables, batch, local, shared, work):
        at_x = {"params": local["x"], "stats": shared["stats"]}
        teacher, _ = task.apply(at_x, batch.x, mask=batch.mask, key=batch.key, train=False)
        true = jax.nn.one_hot(batch.y, teacher.shape[-1], dtype=bool)
        not_true = lambda outputs: jax.nn.log_softmax(jnp.where(true, -1e9, outputs / temperature))
        log_p = not_true(teacher)

        def objective(now, outputs, batch):
            apart = jnp.where(true, 0, jnp.exp(log_p) * (log_p - not_true(outputs)))
            return task.loss(outputs, batch.y) + beta * temperature**2 * apart.sum(-1)

        return task.value_and_grad(variables, batch, objective)

    return Client(no_memory, start_with_x, distilled, step, finish, needs=frozenset({"classes"}), solo=True)

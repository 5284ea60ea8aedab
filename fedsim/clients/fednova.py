"""FedNova's client: local training that measures how much work is in its update."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge

from fedsim.clients import hooks
from fedsim.clients.fedprox import fedprox
from fedsim.compose import client
from fedsim.types import Client

# What it is tuned over where a comparison says `ranges: true`.
ranges = {"client.lr": "log(1e-2, 1)"}


@client
def fednova(mu: Annotated[float, Ge(0)] = 0.0) -> Client:
    """Local training, plain or proximal, with any optimizer, that reports its effort ‖a_i‖₁.

    y ← y − η_l (∇f_i(y; batch) + μ (y − x)), from y = x;
    sends Δ_i = y − x = −η_l G_i a_i and ‖a_i‖₁, for `nova`.
    The effort is measured: an extra coordinate, whose gradient is always 1, goes through the same
    optimizer and proximal term, and the distance it travels, over η_l, is ‖a_i‖₁. So the effort is
    τ for SGD, [τ − ρ(1−ρ^τ)/(1−ρ)]/(1−ρ) with momentum ρ, [1 − (1−ημ)^τ]/(ημ) with the proximal
    term, and right for any other optimizer that is linear in the gradients.

    State: none.    Sends: one model, and one number.    Rule: `nova`.
    With equal steps: `fedprox`.

    Args:
      mu: μ, strength of the proximal term.

    References:
      Wang et al. 2020, Tackling the Objective Inconsistency Problem, arXiv:2007.07481, Section 4.
    """

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        origin = jnp.zeros_like(work.lr)
        extra = {"moved": origin, "extra_optimizer": task.optimizer(work.lr).init(origin)}
        return variables, {**local, **extra}

    def step(task, g, params, local, shared, work):
        params, local = hooks.step(task, g, params, local, shared, work)

        # The extra coordinate: gradient 1, and the pull of the proximal term.
        moved = local["moved"]
        optimizer = task.optimizer(work.lr)
        update, state = optimizer.update(1 + mu * moved, local["extra_optimizer"], moved)
        return params, {**local, "moved": moved + update, "extra_optimizer": state}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        steps = jnp.maximum(work.steps, 1).astype(work.lr.dtype)
        mean_lr = work.lr_sum / steps
        return message._replace(effort=-local["moved"] / jnp.where(mean_lr > 0, mean_lr, 1))

    return Client(
        memory=hooks.no_memory,
        start=start,
        gradient=fedprox(mu=mu).gradient,
        step=step,
        finish=finish,
    )

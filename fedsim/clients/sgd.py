"""Plain local training: FedAvg's client."""

from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client

# What it is tuned over where a comparison says `ranges: true`.
ranges = {"client.lr": "log(1e-2, 1)"}


@client
def sgd() -> Client:
    """Plain local training: FedAvg's client, and FedSGD's with one full-batch step.

    y ← y − η_l ∇f_i(y; batch), from y = x, for the planned local steps; sends Δ_i = y − x.
    The client's `optimizer` may be any of optax's; its state is fresh in each round, unless
    `optimizer_state: carry`.

    State: none.    Sends: one model.

    References:
      McMahan et al. 2017, arXiv:1602.05629, Algorithm 1.
    """
    return Client(
        memory=hooks.no_memory,
        start=hooks.start,
        gradient=hooks.gradient,
        step=hooks.step,
        finish=hooks.finish,
    )

"""FedRep: heads first, then the shared body."""

from typing import Annotated

import jax
from annotated_types import Ge, Le

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.fields.personal.fedper import keeping, shared_mask
from fedsim.types import Client, LocalPhase

HEAD, BODY = range(2)


@client
def fedrep(
    head_steps: Annotated[int, Ge(1), Le(100_000)] = 10,
    personal: list[str] | None = None,
) -> Client:
    """A shared body and a personal head for every client, trained one after the other.

    (x, v_i): first v_i ← v_i − η_l ∇_v f_i(x, v_i; batch), `head_steps` times on batches of their
    own; then y ← y − η_l ∇_x f_i(y, v_i; batch), from y = x, as often as `client.steps` or `epochs`
    say. The client sends y − x.

    State: v_i, the head, for every client.    Sends: one body, receives one.

    Args:
      head_steps: steps on the head in a round.
      personal: leaves that stay with the client, as for `fedper`. Left out: the last layer.

    Raises:
      ValueError: at build time, for names that match no leaf or every leaf, and for a model with a
        single layer.

    References:
      Collins et al. 2021, Exploiting Shared Representations for Personalized Federated Learning,
      arXiv:2102.07078, Algorithm 1.
    """

    def shares(params):
        return shared_mask(params, personal)

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        return value, only_moving(g, tree.zeros_like(g), work)

    def step(task, g, params, local, shared, work):
        moved, local = hooks.step(task, g, params, local, shared, work)
        return only_moving(moved, params, work), local

    def only_moving(moving, fixed, work):
        """The leaves of the part that this phase trains from one tree, the others from another."""
        is_body_phase = work.phase == BODY
        choose = lambda shared, new, old: tree.select(is_body_phase == shared, new, old)
        return jax.tree.map(choose, shares(moving), moving, fixed)

    return keeping("head", shares)._replace(
        gradient=gradient,
        step=step,
        phases=(LocalPhase("head", head_steps), LocalPhase("body")),
    )

"""FedBABU: a body trained under a head that never moves."""

from typing import Annotated

from annotated_types import Ge, Le

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.fields.personal.fedper import shared_mask
from fedsim.types import Client, Scored, Travel


@client
def fedbabu(
    tune_steps: Annotated[int, Ge(0), Le(100_000)] = 10,
    personal: list[str] | None = None,
) -> Client:
    """A shared body, trained under the head of the start model, which nobody moves or sends.

    y ← y − η_l ∇f_i(y; batch) from y = x, in the leaves of the body alone; the client sends the
    body of y minus x. A client's own model is the shared one after `tune_steps` steps in all leaves
    on its own samples, at the full learning rate, which every client takes before it is scored,
    also one that never takes part.

    State: none.    Sends: one body, receives one.

    Args:
      tune_steps: local steps before a score.
      personal: leaves of the head, as for `fedper`. Left out: the last layer.

    Raises:
      ValueError: at build time, for names that match no leaf or every leaf, and for a model with a
        single layer.

    References:
      Oh, Kim, Yun 2022, FedBABU: Towards Enhanced Representation for Federated Image
      Classification, arXiv:2106.06042, Algorithm 1.
    """

    def shares(params):
        return shared_mask(params, personal)

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        return value, body_of(g, tree.zeros_like(g))

    def step(task, g, params, local, shared, work):
        moved, local = hooks.step(task, g, params, local, shared, work)
        return body_of(moved, params), local

    def body_of(moved, head):
        """The body of one tree, and the head of another."""
        return tree.fill_leaves(tree.select_leaves(moved, shares(moved)), head)

    return sgd()._replace(
        gradient=gradient,
        step=step,
        travel=Travel(shares=shares),
        scored=Scored(hooks.shared_model, tune_steps=tune_steps),
    )

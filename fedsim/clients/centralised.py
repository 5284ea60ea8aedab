"""Pooled training: a baseline, not a federated method."""

from typing import Literal

from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.types import Client

# What it is tuned over where a comparison says `ranges: true`.
ranges = {"client.lr": "log(1e-2, 1)"}


@client
def centralised(steps_of: Literal["client", "cohort"] = "client") -> Client:
    """A baseline, not a federated method: plain training on the pooled samples of all clients.

    y ← y − η_l ∇f(y; batch), from y = x, over batches of all clients' training samples together;
    then x ← y. A round takes T = T̄ steps, or T = K T̄ for `steps_of: cohort`, rounded: T̄ is the mean
    number of local steps of the clients with samples, and K the clients in a round. Each round
    draws its batches anew, without replacement. The client's `lr`, `batch`, `optimizer` and other
    keys hold for the pooled samples (`batch: full` is all of them).

    There are no clients, so fleet, availability, attackers, schedule, wire, broadcast and stages
    have no effect, and neither bytes nor virtual seconds are counted: pooling the samples is not
    counted either.

    State: none.    Sends: nothing.    With one client: `sgd`.

    Args:
      steps_of: a round takes as many steps as one `client` does, or as the clients of a `cohort` do
        together.

    References:
      Training on the union of the clients' data, as methods are compared with it in McMahan et al.
      2017, arXiv:1602.05629, section 3.
    """
    return sgd()._replace(server=steps_of)

"""LG-FedAvg: a shared head on bodies of the clients' own."""

from fedsim.compose import client
from fedsim.fields.personal.fedper import keeping, opposite, shared_mask
from fedsim.types import Client


@client
def lg_fedavg(personal: list[str] | None = None) -> Client:
    """A shared head, and a personal body for every client, which it never sends.

    (v_i, x): y ← y − η_l ∇f_i(y; batch), from y = (v_i, x); then v_i is the body of y, and the
    client sends the head of y minus x: `fedper` the other way round. All bodies begin at the start
    model; the paper starts from a model of some rounds of `fedavg` (`fedsim.run(..., params=)`).

    State: v_i, the body, for every client.    Sends: one head, receives one.

    Args:
      personal: leaves that stay with the client, as for `fedper`. Left out: all but the last layer.

    Raises:
      ValueError: at build time, for names that match no leaf or every leaf, and for a model with a
        single layer.

    References:
      Liang et al. 2020, Think Locally, Act Globally: Federated Learning with Local and Global
      Representations, arXiv:2001.01523, Algorithm 1.
    """

    def shares(params):
        shared = shared_mask(params, personal)
        if personal is None:  # then the last layer is what is not shared in `fedper`
            return opposite(shared)
        return shared

    return keeping("body", shares)

"""Decentralised FedAvg."""

from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.fields.graphs.clients.nodes import AFTER
from fedsim.types import Client


@client
def dfedavg() -> Client:
    """Nodes of a graph train, then mix their models with their neighbours' (DFedAvg, D-PSGD).

    y ← y − η_l ∇f_i(y; batch), from y = x_i, for the planned local steps; x_i ← Σ_j W_ij y_j.
    Under `topology`, `sgd` is the same. With one step and `mix: before`, it is D-PSGD.

    State: none.    Sends: one model.    Needs: a `topology`.

    References:
      Sun, Li, Wang 2023, Decentralized Federated Averaging, arXiv:2104.11375, Algorithm 1 without
      momentum; D-PSGD: Lian et al. 2017, Can Decentralized Algorithms Outperform Centralized
      Algorithms?, arXiv:1705.09056, Algorithm 1.
    """
    return sgd()._replace(server=AFTER)

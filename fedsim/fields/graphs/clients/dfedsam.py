"""Decentralised sharpness-aware training."""

from typing import Annotated

from annotated_types import Ge

from fedsim.clients.fedsam import fedsam
from fedsim.compose import client
from fedsim.fields.graphs.clients.nodes import AFTER
from fedsim.types import Client


@client
def dfedsam(rho: Annotated[float, Ge(0)] = 0.05) -> Client:
    """Nodes of a graph train as `fedsam` does, then mix.

    y ← y − η_l ∇f_i(y + ρ g/‖g‖; batch) with g = ∇f_i(y; batch), from y = x_i;
    x_i ← Σ_j W_ij y_j.

    State: none.    Sends: one model.    Needs: a `topology`.    Costs a second gradient per step.

    Args:
      rho: ρ, radius of the neighbourhood.

    References:
      Shi et al. 2023, Improving the Model Consistency of Decentralized Federated Learning,
      arXiv:2302.04083, Algorithm 1.
    """
    return fedsam(rho)._replace(server=AFTER)

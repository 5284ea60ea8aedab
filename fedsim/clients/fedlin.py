"""FedLin: anchored gradients, and steps shortened by their number."""

from fedsim.clients import hooks
from fedsim.clients.probe import anchored, mean_gradient, start_with_x
from fedsim.compose import client
from fedsim.types import Client


@client
def fedlin() -> Client:
    """Anchored gradients, and shorter steps where a client takes more of them.

    c = mean_{j∈S} ∇f_j(x), over all their samples; then, from y = x,
    y ← y − (η_l/τ_i) (∇f_i(y; batch) − ∇f_i(x; batch) + c) for τ_i local steps.

    State: none.    Sends: two models, receives two.    Rule: `mean(uniform)`.
    Costs a second gradient per step, and a pass over all samples before each round.
    With one full-batch step: `fedsgd`.

    References:
      Mitra et al. 2021, Linear Convergence in Federated Learning, arXiv:2102.07053, FedLin.
    """

    def step(task, g, params, local, shared, work):
        return hooks.step(task, g, params, local, shared, work._replace(lr=work.lr / work.steps))

    return Client(
        memory=hooks.no_memory,
        start=start_with_x,
        gradient=anchored,
        step=step,
        finish=hooks.finish,
        probe=mean_gradient,
        needs=frozenset({"solo"}),
    )

"""Momentum on the clients: the standard partner of robust rules."""

from typing import Annotated

from annotated_types import Ge, Lt

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"beta=0": "sgd"}


@client
def worker_momentum(beta: Annotated[float, Ge(0), Lt(1)] = 0.9) -> Client:
    """Every client sends the momentum of its updates instead of its last update.

    m_i ← β m_i + (1 − β) (y_i − x), and sends m_i; m_i = 0 at the start, and y_i is where the plain
    local steps from x end. With one local step, m_i is −η_l times the momentum of its gradients.
    The error of robust rules grows with the variance of the honest updates, which momentum lowers.
    This momentum persists from round to round; the optimizer's `momentum` starts fresh in every
    round, unless `optimizer_state: carry`.

    State: m_i, one model a client; unchanged if its message is lost.    Sends: one model.
    With β = 0: `sgd`.

    Args:
      beta: β, decay of the momentum.

    References:
      Karimireddy, He, Jaggi 2021, Learning from History for Byzantine Robust Optimization,
      arXiv:2012.10333 (there m_i starts at the first gradient); Farhadkhani et al. 2022, Byzantine
      Machine Learning Made Easy by Resilient Averaging of Momentums, arXiv:2205.12173.
    """

    def memory(shared, key):
        del key
        return {"m": tree.zeros_like(shared["params"])}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        momentum = tree.mix(message.delta, row["m"], beta)
        return message._replace(delta=momentum, memory={"m": momentum})

    return Client(
        memory=memory, start=hooks.start, gradient=hooks.gradient, step=hooks.step, finish=finish
    )

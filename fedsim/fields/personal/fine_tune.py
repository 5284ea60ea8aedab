"""FedAvg, whose clients fine-tune the shared model before they are scored."""

from typing import Annotated

from annotated_types import Ge, Le

from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.types import Client, Scored

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"always": "sgd"}


@client
def fine_tune(tune_steps: Annotated[int, Ge(0), Le(100_000)] = 10) -> Client:
    """Plain local training; a client's own model is the shared one after steps on its own samples.

    Training: y ← y − η_l ∇f_i(y; batch), from y = x, as in `sgd`. For `personal_accuracy` alone,
    every client, also one that never takes part, does the same `tune_steps` times at the full
    learning rate, from the shared model of the moment. It sends nothing of this.

    State: none.    Sends: one model.    With 0 steps, the client's own model is the shared one.

    Args:
      tune_steps: local steps before a score.

    References:
      McMahan et al. 2017, arXiv:1602.05629, with local adaptation as in Yu, Bagdasaryan,
      Shmatikov 2020, Salvaging Federated Learning by Local Adaptation, arXiv:2002.04758.
    """
    return sgd()._replace(scored=Scored(hooks.shared_model, tune_steps=tune_steps))

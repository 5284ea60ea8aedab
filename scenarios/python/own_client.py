r"""Your own client method: plain local training with a different gradient.

    python scenarios/python/own_client.py
    fedsim run scenarios/dirichlet.yaml --set client.kind=clipped \
        --plugin scenarios/python/own_client.py

A client is a tuple of hooks on one local loop: `memory`, `start`, `gradient`, `step`, `finish`; see
`fedsim.types.Client`. Each is written for ONE client, and fedsim vmaps it over many.
"""

from typing import Annotated

import jax.numpy as jnp
import pandas as pd
from annotated_types import Gt

import fedsim
from fedsim import tree
from fedsim.clients import sgd


@fedsim.client
def clipped(norm: Annotated[float, Gt(0)] = 1.0):
    """Plain local training, with every gradient clipped to `norm`."""

    def gradient(task, variables, batch, local, shared, work):
        value, g = task.value_and_grad(variables, batch)
        return value, tree.scale(g, jnp.minimum(1, norm / tree.norm(g)))

    return sgd()._replace(gradient=gradient)


SCENARIO = {
    "name": "own-client",
    "rounds": 20,
    "seeds": 3,
    "data": {"kind": "digits", "clients": 50, "partition": "dirichlet"},
    "model": "mlp",
    "cohort": {"kind": "uniform", "size": 5},
    # A learning rate far too large, unless gradients are clipped.
    "client": {"lr": 1.0, "batch": 10, "epochs": 5},
}


def main() -> None:
    plain = fedsim.run(SCENARIO)
    # The same cohorts, batches and start models.
    mine = fedsim.run(SCENARIO, edits=["client.kind=clipped"])
    rounds = pd.concat([plain.rounds.assign(client="sgd"), mine.rounds.assign(client="clipped")])
    means = rounds.pivot_table(index="round", columns="client", values="test_accuracy")
    print(means[::5].round(3))


if __name__ == "__main__":
    main()

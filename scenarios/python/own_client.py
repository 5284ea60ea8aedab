"""Your own client method: plain local training with another gradient.

    python scenarios/python/own_client.py
    fedsim run scenarios/dirichlet.yaml --plugin scenarios/python/own_client.py --set client.kind=clipped

A client is a tuple of hooks on one local loop: `memory`, `start`, `gradient`, `step`, `finish`, see `fedsim.types.Client`.
Each is written for ONE client, and fedsim vmaps it over many.
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
    """Plain local training, with every gradient shortened to `norm`."""

    def gradient(task, variables, batch, local, shared, work):
        met, g = task.value_and_grad(variables, batch)
        return met, tree.scale(g, jnp.minimum(1, norm / tree.norm(g)))

    return sgd()._replace(gradient=gradient)


SCENARIO = {
    "name": "own-client",
    "rounds": 20,
    "seeds": 3,
    "data": {"kind": "digits", "clients": 50, "partition": "dirichlet"},
    "model": "mlp",
    "cohort": {"kind": "uniform", "size": 5},
    "client": {"lr": 1.0, "batch": 10, "epochs": 5},  # far too fast, unless steps are bounded
}


def main() -> None:
    plain = fedsim.run(SCENARIO)
    mine = fedsim.run(
        SCENARIO, edits=["client.kind=clipped"]
    )  # the same cohorts, batches and start models
    rounds = pd.concat([plain.rounds.assign(client="sgd"), mine.rounds.assign(client="clipped")])
    means = rounds.pivot_table(index="round", columns="client", values="test_accuracy")
    print(means[::5].round(3))


if __name__ == "__main__":
    main()

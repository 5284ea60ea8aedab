r"""Your own rule: a decorated function, whose name becomes a kind like any other.

    python scenarios/python/own_rule.py
    fedsim run scenarios/robust_basic.yaml --set 'method=shortest(keep=20)' \
        --plugin scenarios/python/own_rule.py

`--plugin` imports the file: put code that should run only as a script under `__name__`.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge

import fedsim
from fedsim import tree


@fedsim.rule
def shortest(keep: Annotated[int, Ge(1)] = 10):
    """Mean of the `keep` shortest updates, against loud attackers."""

    def reduce(updates, context):
        squares = [
            jnp.sum(leaf.reshape(len(leaf), -1) ** 2, axis=1)
            for leaf in jax.tree.leaves(updates.delta)
        ]
        reported = updates.arrived  # rows of clients that did not report may contain anything
        rank = jnp.argsort(jnp.argsort(jnp.where(reported, sum(squares), jnp.inf)))
        return tree.weighted_mean(updates.delta, ((rank < keep) & reported).astype(float))

    return reduce


SCENARIO = {
    "name": "own-rule",
    "rounds": 20,
    "seeds": 3,
    "data": {"kind": "digits", "clients": 20},
    "fleet": {"malicious": 0.25},
    "client": {"lr": 0.1, "batch": 10, "epochs": 1},
    "wire": [{"kind": "sign_flip", "scale": 5}],
    "evaluate": {"every": 5},
}


def main() -> None:
    # K = 3 updates, stacked: trying a rule needs no scenario.
    updates = [[1.0, 2.0], [1.2, 1.8], [-9.0, 9.0]]
    print(fedsim.aggregate({"kind": "shortest", "keep": 2}, updates))
    for rule in ("mean", "median", {"kind": "shortest", "keep": 15}):
        result = fedsim.run({**SCENARIO, "server": [rule]})
        print(f"{rule!s:35} {result.summary['final'].mean():.3f}")


if __name__ == "__main__":
    main()

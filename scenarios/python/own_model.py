"""Your own model, as two plain functions, a Flax or an Equinox module; and your own loss.

    python scenarios/python/own_model.py

A model needs only `init(key) -> params` and `apply(params, x) -> outputs`; `loss(outputs, y)` has
one value per row.
"""

from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp

import fedsim

SCENARIO = {
    "name": "own-model",
    "rounds": 20,
    "data": {"kind": "digits", "clients": 50, "partition": "dirichlet"},
    "cohort": {"kind": "uniform", "size": 10},
    "client": {"lr": 0.1, "batch": 10, "epochs": 5},
    "evaluate": {"every": 5},
}


def init(key):
    """Initial parameters, any PyTree; every seed of a run draws its own."""
    one, two = jax.random.split(key)
    return {"in": jax.random.normal(one, (64, 32)) / 8, "out": jax.random.normal(two, (32, 10)) / 6}


def apply(params, x):
    """Scores [B, 10] of images [B, 8, 8, 1]."""
    return jnp.tanh(x.reshape(len(x), -1) @ params["in"]) @ params["out"]


def smoothed(outputs, y):
    """Cross-entropy with smoothed labels: a loss per row [B]."""
    target = 0.9 * jax.nn.one_hot(y, 10) + 0.01
    return -jnp.sum(target * jax.nn.log_softmax(outputs), axis=1)


def main() -> None:
    models: dict[str, Any] = {"functions": (init, apply)}
    if find_spec("flax"):
        from flax import linen

        flat = lambda x: x.reshape(len(x), -1)
        models["flax"] = linen.Sequential([flat, linen.Dense(32), jnp.tanh, linen.Dense(10)])
    if find_spec("equinox"):
        from equinox import nn

        # Written for one image; as a function of the key, it draws new parameters for every seed.
        models["equinox"] = lambda key: nn.Sequential(
            [nn.Lambda(jnp.ravel), nn.MLP(64, 10, 32, 1, jnp.tanh, key=key)]
        )
    for name, model in models.items():
        result = fedsim.run(SCENARIO, model=model, loss=smoothed)
        print(f"{name:10} {result.summary['final'].item():.3f}")


if __name__ == "__main__":
    main()

"""Fully connected models."""

import itertools
import math
from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, MinLen

from fedsim.compose import model
from fedsim.types import Model

Build = Callable[[tuple[int, ...], int], Model]  # (shape of one sample, outputs) -> Model


@model
def logistic() -> Build:
    """Multinomial logistic regression, W [features, classes] and b [classes], both starting at zero.

    outputs = x W + b. Zero is the usual start: the loss is convex, so only the data and the method decide.
    """

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        features = math.prod(shape)

        def init(key):
            del key
            return {"params": {"W": jnp.zeros((features, outputs)), "b": jnp.zeros(outputs)}, "state": {}}

        def apply(variables, x, *, mask=None, key=None, train=False):
            del mask, key, train
            p = variables["params"]
            return x.reshape(len(x), -1) @ p["W"] + p["b"], variables["state"]

        return Model(init, apply)

    return build


@model
def mlp(hidden: Annotated[list[Annotated[int, Ge(1)]], MinLen(1)] = [64]) -> Build:  # noqa: B006 (read, never changed)
    """Multilayer perceptron with ReLU: features → hidden[0] → … → classes.

    Weights start uniform in ±√(6/fan_in) (He), those of the last layer in ±√(6/(fan_in+fan_out)) (Glorot); biases at 0.

    Args:
      hidden: widths of the hidden layers.
    """

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        widths = [math.prod(shape), *hidden, outputs]
        layers = list(itertools.pairwise(widths))

        def init(key):
            params = {}
            for i, (fan_in, fan_out) in enumerate(layers):
                bound = math.sqrt(6 / (fan_in if i < len(hidden) else fan_in + fan_out))
                W = jax.random.uniform(jax.random.fold_in(key, i), (fan_in, fan_out), minval=-bound, maxval=bound)
                params[f"layer{i}"] = {"W": W, "b": jnp.zeros(fan_out)}
            return {"params": params, "state": {}}

        def apply(variables, x, *, mask=None, key=None, train=False):
            del mask, key, train
            h = x.reshape(len(x), -1)
            for i in range(len(layers)):
                p = variables["params"][f"layer{i}"]
                h = h @ p["W"] + p["b"]
                h = jax.nn.relu(h) if i < len(hidden) else h
            return h, variables["state"]

        return Model(init, apply)

    return build

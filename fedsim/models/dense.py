"""Fully connected models."""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le, MinLen

from fedsim.compose import model
from fedsim.types import Model

Build = Callable[[tuple[int, ...], int], Model]  # (shape of one sample, outputs) -> Model
Width = Annotated[int, Ge(1)]
Layers = Annotated[int, Ge(1), Le(48)]  # of one kind, one on another: each is traced
LARGE = (
    1 << 17
)  # numbers of a matrix whose transpose is worth avoiding (half the time at 3136 × 512)
SHORT = 16  # rows of a batch whose outer products are summed one by one: from 20 on, a matrix product is faster


@model
def logistic() -> Build:
    """Multinomial logistic regression, W [features, classes] and b [classes], both starting at zero.

    outputs = x W + b. Zero is the usual start: the loss is convex, so only the data and the method decide.
    """
    return _affine


@model
def linear(bias: bool = True) -> Build:
    """Linear regression, W [features, targets] and b [targets], both starting at zero.

    outputs = x W + b, one column per number of the target; with the squared loss, least squares.

    Args:
      bias: whether there is a b.
    """
    return functools.partial(_affine, bias=bias)


def _affine(shape: tuple[int, ...], outputs: int, bias: bool = True) -> Model:
    features = math.prod(shape)

    def init(key):
        b = {"b": jnp.zeros(outputs)} if bias else {}
        return {"params": {"W": jnp.zeros((features, outputs)), **b}, "stats": {}}

    def apply(variables, x, *, mask=None, key=None, train=False):
        params, x = variables["params"], x.reshape(len(x), -1)
        return affine(params, x) if bias else product(x, params["W"]), variables["stats"]

    return Model(init, apply)


@model
def mlp(hidden: Annotated[list[Width], MinLen(1)] = [64]) -> Build:  # noqa: B006 (read, never changed)
    """Multilayer perceptron with ReLU: features → hidden[0] → … → classes.

    Weights start uniform in ±√(6/fan_in) (He), those of the last layer in ±√(6/(fan_in+fan_out)) (Glorot); biases at 0.
    `features` are the values of the last hidden layer `[B, hidden[-1]]`, `head` is the last layer.

    Args:
      hidden: widths of the hidden layers.
    """

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        layers = list(itertools.pairwise([math.prod(shape), *hidden, outputs]))
        *inner, last = (f"layer{i}" for i in range(len(layers)))

        def init(key):
            params = {}
            for i, (fan_in, fan_out) in enumerate(layers):
                bound = he(fan_in) if i < len(hidden) else glorot(fan_in, fan_out)
                params[f"layer{i}"] = weights(jax.random.fold_in(key, i), (fan_in, fan_out), bound)
            return {"params": params, "stats": {}}

        def features(variables, x):
            h = x.reshape(len(x), -1)
            for name in inner:
                h = jax.nn.relu(affine(variables["params"][name], h))
            return h

        def head(variables, h):
            return affine(variables["params"][last], h)

        def apply(variables, x, *, mask=None, key=None, train=False):
            return head(variables, features(variables, x)), variables["stats"]

        return Model(init=init, apply=apply, features=features, head=head)

    return build


def affine(p, x):
    """A layer without its nonlinearity: x W + b -> `[B, out]`."""
    return product(x, p["W"]) + p["b"]


@jax.custom_vjp
def product(x, W):
    """`x @ W`; for a short batch, the gradient of W is a sum of outer products, one per row of the batch.

    Such a sum is one loop over W's shape, which compilers fuse with the optimizer's step: the gradient is never written
    to memory. As a matrix product it is too short to be fast (with the step, 10 rows: 1.4 to 2.6 times slower).
    """
    return x @ W


def _gradients(inputs, g):
    x, W = inputs
    return _back(g, W), _outer(x, g) if x.ndim == 2 and len(x) <= SHORT else x.T @ g


def _back(g, W):
    """The product g Wᵀ. Of a large W the transpose would be written out: there the short g is turned instead, and the result."""
    if W.size < LARGE:
        return g @ W.T
    return jax.lax.optimization_barrier(W @ jax.lax.optimization_barrier(g.T)).T


def _outer(x, g):
    """Σ_b x_b g_bᵀ, one row after another.

    The sum starts from a zero that the compiler does not know: every addition then has one product to contract, where
    x_0 g_0ᵀ + x_1 g_1ᵀ leaves it a choice, which falls this way or that in different programs.
    """
    zero = jax.lax.optimization_barrier(jnp.zeros((), x.dtype))
    return sum((x[i, :, None] * g[i, None, :] for i in range(len(x))), start=zero)


product.defvjp(lambda x, W: (x @ W, (x, W)), _gradients)


def weights(key, shape: tuple[int, ...], bound: float) -> dict:
    """A layer's start: W uniform in ±bound, b (one per output, the last axis of W) at zero."""
    return {
        "W": jax.random.uniform(key, shape, minval=-bound, maxval=bound),
        "b": jnp.zeros(shape[-1]),
    }


def he(fan_in: int) -> float:
    """√(6/fan_in), for a layer before a ReLU."""
    return math.sqrt(6 / fan_in)


def glorot(fan_in: int, fan_out: int) -> float:
    """√(6/(fan_in+fan_out)), for the last layer."""
    return math.sqrt(6 / (fan_in + fan_out))

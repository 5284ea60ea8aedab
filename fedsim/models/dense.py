"""Fully connected models."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le, MinLen

from fedsim.compose import model
from fedsim.models.computing import is_narrow
from fedsim.tree import draws
from fedsim.types import Model

Build = Callable[..., Model]
"""(shape of one sample, outputs) -> Model; some take `remat=`, see `computing.recomputed`."""

Width = Annotated[int, Ge(1)]
Layers = Annotated[int, Ge(1), Le(48)]  # stacked layers of one kind; each is traced

# Numbers in a matrix from which on its transpose is worth avoiding (half the time at 3136 × 512).
LARGE = 1 << 17

# Rows of a batch up to which outer products are summed one by one; from 20 rows on, a matrix
# product is faster.
SHORT = 16


@model
def logistic() -> Build:
    """Multinomial logistic regression, W [features, classes] and b [classes], starting at zero.

    outputs = x W + b. Zero is the usual start: the loss is convex, so that only the data and the
    method decide.
    """
    return _affine


@model
def linear(bias: bool = True) -> Build:
    """Linear regression, W [features, targets] and b [targets], starting at zero.

    outputs = x W + b, with a column for every number of the target; least squares under the squared
    loss.

    Args:
      bias: whether there is a b.
    """
    return functools.partial(_affine, bias=bias)


def _affine(shape: tuple[int, ...], outputs: int, bias: bool = True) -> Model:
    """Return a model that is a single affine layer, starting at zero."""
    features = math.prod(shape)

    def init(key):
        params = {"W": jnp.zeros((features, outputs))}
        if bias:
            params["b"] = jnp.zeros(outputs)
        return {"params": params, "stats": {}}

    def apply(variables, x, *, mask=None, key=None, train=False):
        params = variables["params"]
        x = x.reshape(len(x), -1)  # [B, ...] -> [B, features]
        result = affine(params, x) if bias else product(x, params["W"])
        return result, variables["stats"]

    return Model(init, apply, products=("W",))


@model
def mlp(hidden: Annotated[list[Width], MinLen(1)] = [64]) -> Build:  # noqa: B006 (never changed)
    """Multilayer perceptron with ReLU: features → hidden[0] → … → classes.

    Weights start uniform in ±√(6/fan_in) (He), those of the last layer in ±√(6/(fan_in+fan_out))
    (Glorot); biases start at 0. `features` are the values of the last hidden layer `[B,
    hidden[-1]]`, `head` is the last layer.

    Args:
      hidden: widths of the hidden layers.
    """

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        sizes = list(itertools.pairwise([math.prod(shape), *hidden, outputs]))
        *inner, last = [f"layer{i}" for i in range(len(sizes))]

        def init(key):
            params = {}
            for i, (fan_in, fan_out) in enumerate(sizes):
                is_hidden = i < len(hidden)
                bound = he(fan_in) if is_hidden else glorot(fan_in, fan_out)
                layer_key = jax.random.fold_in(key, i)
                params[f"layer{i}"] = weights(layer_key, (fan_in, fan_out), bound)
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

        return Model(
            init,
            apply,
            features=features,
            head=head,
            products=("W",),
            hidden=hidden_axes([*inner, last], hidden),
        )

    return build


def hidden_axes(
    layers: Sequence[str], units: Sequence[int]
) -> tuple[tuple[str, tuple[int | None, ...]], ...]:
    """Return `Model.hidden` of layers `W [..., in, out]` and `b [out]` that follow one another.

    Args:
      layers: names of the layers, of which those with kernels `[k, k, in, out]` begin with `conv`.
      units: outputs of all layers but the last.
    """
    axes: list[tuple[str, tuple[int | None, ...]]] = []
    for name, inputs, outputs in zip(layers, [None, *units], [*units, None], strict=True):
        kernel = (None, None) if name.startswith("conv") else ()
        axes += [(f"{name}.W", (*kernel, inputs, outputs)), (f"{name}.b", (outputs,))]
    return tuple(axes)


def affine(p, x):
    """A layer without its nonlinearity: x W + b, `[B, in]` -> `[B, out]`."""
    return product(x, p["W"]) + p["b"]


@runtime_checkable
class Factored(Protocol):
    """What stands in place of a weight W in `x @ W`, such as factors of it."""

    def times(self, x: jax.Array, product: Callable) -> jax.Array:
        """Return what becomes of x `[rows, m]`, by products of arrays: `[rows, n]`."""
        ...


def takes_factors(product: Callable) -> Callable:
    """Decorator: `x @ W` also for a `Factored` W."""

    @functools.wraps(product)
    def of_array_or_factors(x, W):
        if isinstance(W, Factored):
            return W.times(x, of_array_or_factors)
        return product(x, W)

    return of_array_or_factors


@jax.custom_vjp
def product_of_arrays(x, W):
    """`x @ W`; for a short batch, the gradient of W is a sum of outer products, one per row.

    Compilers fuse such a sum, one loop over W's shape, with the optimizer's step: the gradient is
    never written to memory. As a matrix product it is too short to be fast (with the step, 10 rows:
    1.4 to 2.6 times slower).
    """
    return x @ W


def _product_and_inputs(x, W):
    return x @ W, (x, W)


def _gradients(inputs, g):
    x, W = inputs
    gradient_of_x = _back(g, W)
    gradient_of_W = sum_of_outer(x, g) if is_short(x) else x.T @ g
    return gradient_of_x, gradient_of_W


product_of_arrays.defvjp(_product_and_inputs, _gradients)
product = takes_factors(product_of_arrays)


def _back(g, W):
    """The product g Wᵀ.

    The transpose of a large W would be written to memory: there the short g is transposed instead,
    and so is the result.
    """
    if W.size < LARGE:
        return g @ W.T
    return jax.lax.optimization_barrier(W @ jax.lax.optimization_barrier(g.T)).T


def is_short(x) -> bool:
    """Whether outer products of the rows of a batch are faster than a matrix product."""
    return x.ndim == 2 and len(x) <= SHORT and not is_narrow(x)


def sum_of_outer(x, g):
    """Σ_b x_b g_bᵀ, one row after another.

    The sum starts from a zero that the compiler does not know. Then every addition has one product
    to contract, where x_0 g_0ᵀ + x_1 g_1ᵀ would leave a choice that differs between programs.
    """
    zero = jax.lax.optimization_barrier(jnp.zeros((), x.dtype))
    return sum((x[i, :, None] * g[i, None, :] for i in range(len(x))), start=zero)


def weights(key, shape: tuple[int, ...], bound: float) -> dict:
    """The start of a layer: W uniform in ±bound, b (one per output, the last axis of W) at zero."""
    return {
        "W": draws.uniform_within(key, shape, bound, jnp.result_type(float)),
        "b": jnp.zeros(shape[-1]),
    }


def he(fan_in: int) -> float:
    """√(6/fan_in), for a layer before a ReLU."""
    return math.sqrt(6 / fan_in)


def glorot(fan_in: int, fan_out: int) -> float:
    """√(6/(fan_in+fan_out)), for the last layer."""
    return math.sqrt(6 / (fan_in + fan_out))

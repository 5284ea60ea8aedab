"""Recurrent layers that stay matrix products when every client has its own weights.

Autodiff of a loop adds to the gradient of the weights in every step: a product too thin to be fast, and a pass over the
whole matrix. The loop back keeps the gradients of the products instead, and one product after it makes that of the weights.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from fedsim.models.dense import glorot, weights
from fedsim.models.sequences import SequenceBuild, embedded, samples_of, sequence_network
from fedsim.models.tokens import Tokens
from fedsim.types import Model


def lstm(p, x):
    """A layer of LSTM: x `[T, B, F]` -> h `[T, B, H]`; W `[F+H, 4H]` and b `[4H]` hold the blocks i, f, g, o."""
    return _recurrence(_lstm_cell, 2, p["W"], p["b"], x)


def lstm_start(key, fan_in: int, width: int):
    """W uniform in ±√(6/(F+H+4H)), b at 0, but that of f at 1."""
    shape = (fan_in + width, 4 * width)
    b = [jnp.zeros(width), jnp.ones(width), jnp.zeros(2 * width)]
    return {**weights(key, shape, glorot(*shape)), "b": jnp.concatenate(b)}


def _lstm_cell(y, h, c):
    i, f, g, o = jnp.split(y, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru(p, x):
    """A layer of GRU: x `[T, B, F]` -> h `[T, B, H]`; W `[F, 3H]` and U `[H, 3H]` hold the blocks r, z, n.

    b `[4H]`: of r, of z, of n's share of x and of its share of h. These two shares stay apart, as r weighs the second
    alone; with blocks of zeros, all four are one product.
    """
    (W, W_n), (U, U_n) = (jnp.split(p[name], (2 * p["U"].shape[0],), 1) for name in "WU")
    rows = [jnp.concatenate(row, 1) for row in ((W, W_n, 0 * W_n), (U, 0 * U_n, U_n))]
    return _recurrence(_gru_cell, 1, jnp.concatenate(rows), p["b"], x)


def gru_start(key, fan_in: int, width: int):
    """W and U uniform in ±√(6/(F+H+3H)), b at 0."""
    W, U = jnp.split(
        weights(key, (fan_in + width, 3 * width), glorot(fan_in + width, 3 * width))["W"], (fan_in,)
    )
    return {"W": W, "U": U, "b": jnp.zeros(4 * width)}


def _gru_cell(y, h):
    r, z, of_x, of_h = jnp.split(y, 4, -1)
    z, n = jax.nn.sigmoid(z), jnp.tanh(of_x + jax.nn.sigmoid(r) * of_h)
    return ((1 - z) * n + z * h,)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _recurrence(cell: Callable, memories: int, W, b, x):
    """States h_t from h_0 = 0: (h_t, ...) = cell([x_t, h_{t−1}] W + b, h_{t−1}, ...).

    Args:
      cell: (products `[B, G]`, state) -> the next state, a tuple of `[B, H]` that begins with h.
      memories: how many parts a state has.
      W: weights `[F+H, G]`.
      b: biases `[G]`.
      x: inputs `[T, B, F]`.

    Returns:
      h `[T, B, H]`.
    """
    return _forward(cell, memories, W, b, x)[0]


def _forward(cell, memories, W, b, x):
    zero = jnp.zeros((x.shape[1], W.shape[0] - x.shape[2]), x.dtype)

    def step(state, x):
        inputs = jnp.concatenate([x, state[0]], -1)
        y = inputs @ W + b
        new = cell(y, *state)
        return new, (new[0], (inputs, y, state[1:]))

    _, (h, steps) = lax.scan(step, (zero,) * memories, x)
    return h, (W, steps)


def _backward(cell, memories, kept, g):
    W, (inputs, y, rest) = kept
    H, turned = g.shape[-1], lax.optimization_barrier(W.T)  # turned once, not in every step

    def step(gradient, row):
        g, inputs, y, rest = row
        to_y, to_h, *to_rest = jax.vjp(cell, y, inputs[:, -H:], *rest)[1](
            (gradient[0] + g, *gradient[1:])
        )
        to_inputs = to_y @ turned
        return (to_h + to_inputs[:, -H:], *to_rest), (to_y, to_inputs[:, :-H])

    zero = jnp.zeros_like(g[0])
    _, (to_y, to_x) = lax.scan(step, (zero,) * memories, (g, inputs, y, rest), reverse=True)
    to_W = lax.dot_general(inputs, to_y, (((0, 1), (0, 1)), ((), ())))
    return to_W, to_y.sum((0, 1)), to_x


_recurrence.defvjp(_forward, _backward)


def recurrent(
    model: str, layer: Callable, start: Callable, embedding: int, layers: int, width: int
) -> SequenceBuild:
    """A network of recurrent layers, one on another.

    Args:
      model: its name, for errors.
      layer: what a layer computes, (params, x `[T, B, F]`) -> h `[T, B, H]`.
      start: its start values, (key, F, H) -> params.
      embedding: numbers that a token becomes.
      layers: how many.
      width: of each, H.
    """

    def build(shape: tuple[int, ...], outputs: int, tokens: Tokens | None = None) -> Model:
        samples = samples_of(model, shape, tokens)
        names = [f"layer{i}" for i in range(layers)]

        def init(key):
            keys = [jax.random.fold_in(key, i) for i in range(layers + 2)]
            params, fan_in = {}, samples.numbers
            if samples.vocabulary:
                size, fan_in = (samples.vocabulary, embedding), embedding
                params["embedding"] = {"W": weights(keys[0], size, glorot(*size))["W"]}
            for name, k in zip(names, keys[1:-1], strict=True):
                params[name] = start(k, fan_in, width)
                fan_in = width
            return {**params, "last": weights(keys[-1], (width, outputs), glorot(width, outputs))}

        def body(params, x):
            h = embedded(params["embedding"], x.T) if samples.vocabulary else x.swapaxes(0, 1)
            for name in names:
                h = layer(params[name], h)
            return h.swapaxes(0, 1) if samples.every else h[-1]

        return sequence_network(samples, init, body)

    return build

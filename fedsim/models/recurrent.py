"""Recurrent layers that remain matrix products if every client has its own weights.

Autodiff of a loop adds to the gradient of the weights in every step: a product that is too thin to
be fast, and a pass over the entire matrix. Here the backward loop stores the gradients of the
products instead, and a single product after the loop makes the gradient of the weights from them.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from fedsim.models.dense import glorot, weights
from fedsim.models.sequences import SequenceBuild, embedded, sequence_form, sequence_network
from fedsim.models.tokens import Tokens
from fedsim.types import Model


def lstm(p, x):
    """A layer of LSTM: x `[T, B, F]` -> h `[T, B, H]`.

    W `[F+H, 4H]` and b `[4H]` consist of the blocks i, f, g, o.
    """
    return _recurrence(_lstm_cell, 2, p["W"], p["b"], x)


def lstm_start(key, fan_in: int, width: int):
    """The start: W uniform in ±√(6/(F+H+4H)), b at 0, but that of f at 1."""
    shape = (fan_in + width, 4 * width)
    b = [jnp.zeros(width), jnp.ones(width), jnp.zeros(2 * width)]
    return {**weights(key, shape, glorot(*shape)), "b": jnp.concatenate(b)}


def _lstm_cell(y, h, c):
    i, f, g, o = jnp.split(y, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru(p, x):
    """A layer of GRU: x `[T, B, F]` -> h `[T, B, H]`.

    W `[F, 3H]` and U `[H, 3H]` consist of the blocks r, z, n; b `[4H]` of the blocks r, z, n's
    share of x and n's share of h. These two shares remain separate, since r scales the second
    alone; with blocks of zeros, all four are one product.
    """
    H = p["U"].shape[0]
    W, W_n = jnp.split(p["W"], (2 * H,), 1)
    U, U_n = jnp.split(p["U"], (2 * H,), 1)
    zero_W = 0 * W_n
    zero_U = 0 * U_n
    from_x = jnp.concatenate((W, W_n, zero_W), 1)
    from_h = jnp.concatenate((U, zero_U, U_n), 1)
    return _recurrence(_gru_cell, 1, jnp.concatenate([from_x, from_h]), p["b"], x)


def gru_start(key, fan_in: int, width: int):
    """The start: W and U uniform in ±√(6/(F+H+3H)), b at 0."""
    shape = (fan_in + width, 3 * width)
    W, U = jnp.split(weights(key, shape, glorot(*shape))["W"], (fan_in,))
    return {"W": W, "U": U, "b": jnp.zeros(4 * width)}


def _gru_cell(y, h):
    r, z, of_x, of_h = jnp.split(y, 4, -1)
    z = jax.nn.sigmoid(z)
    n = jnp.tanh(of_x + jax.nn.sigmoid(r) * of_h)
    return ((1 - z) * n + z * h,)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _recurrence(cell: Callable, memories: int, W, b, x):
    """States h_t from h_0 = 0: (h_t, ...) = cell([x_t, h_{t−1}] W + b, h_{t−1}, ...).

    Args:
      cell: (products `[B, G]`, state) -> the next state, a tuple of `[B, H]` that begins with h.
      memories: number of arrays in a state.
      W: weights `[F+H, G]`.
      b: biases `[G]`.
      x: inputs `[T, B, F]`.

    Returns:
      h `[T, B, H]`.
    """
    return _forward(cell, memories, W, b, x)[0]


def _forward(cell, memories, W, b, x):
    _, B, F = x.shape
    zero = jnp.zeros((B, W.shape[0] - F), x.dtype)

    def step(state, x):
        h, *other_states = state
        inputs = jnp.concatenate([x, h], -1)
        y = inputs @ W + b
        new = cell(y, *state)
        return new, (new[0], (inputs, y, tuple(other_states)))

    _, (h, steps) = lax.scan(step, (zero,) * memories, x)
    return h, (W, steps)


def _backward(cell, memories, residuals, g):
    W, (inputs, y, other_states) = residuals
    H = g.shape[-1]
    W_transposed = lax.optimization_barrier(W.T)  # once, instead of in every step

    def step(gradient, row):
        g, inputs, y, other_states = row
        h = inputs[:, -H:]
        _, cell_gradient = jax.vjp(cell, y, h, *other_states)
        to_y, to_h, *to_others = cell_gradient((gradient[0] + g, *gradient[1:]))
        to_inputs = to_y @ W_transposed
        to_h = to_h + to_inputs[:, -H:]
        return (to_h, *to_others), (to_y, to_inputs[:, :-H])

    zero = jnp.zeros_like(g[0])
    rows = (g, inputs, y, other_states)
    _, (to_y, to_x) = lax.scan(step, (zero,) * memories, rows, reverse=True)

    over_steps_and_batch = (((0, 1), (0, 1)), ((), ()))
    to_W = lax.dot_general(inputs, to_y, over_steps_and_batch)
    return to_W, to_y.sum((0, 1)), to_x


_recurrence.defvjp(_forward, _backward)


class Cell(NamedTuple):
    """A kind of recurrent layer.

    Attributes:
      layer: (params, x `[T, B, F]`) -> h `[T, B, H]`.
      start: (key, F, H) -> params.
    """

    layer: Callable
    start: Callable


LSTM = Cell(lstm, lstm_start)
GRU = Cell(gru, gru_start)


def recurrent(model: str, cell: Cell, embedding: int, layers: int, width: int) -> SequenceBuild:
    """Return a network of stacked recurrent layers.

    Args:
      embedding: numbers that a token becomes.
    """
    names = [f"layer{i}" for i in range(layers)]

    def build(shape: tuple[int, ...], outputs: int, tokens: Tokens | None = None) -> Model:
        form = sequence_form(model, shape, tokens)

        def init(key):
            keys = [jax.random.fold_in(key, i) for i in range(layers + 2)]
            params = {}
            fan_in = form.numbers
            if form.vocabulary:
                size = (form.vocabulary, embedding)
                params["embedding"] = {"W": weights(keys[0], size, glorot(*size))["W"]}
                fan_in = embedding
            for name, k in zip(names, keys[1:-1], strict=True):
                params[name] = cell.start(k, fan_in, width)
                fan_in = width
            params["last"] = weights(keys[-1], (width, outputs), glorot(width, outputs))
            return params

        def body(params, x):
            h = x.swapaxes(0, 1)  # [B, T, ...] -> [T, B, ...]
            if form.vocabulary:
                h = embedded(params["embedding"], h)
            for name in names:
                h = cell.layer(params[name], h)
            return h.swapaxes(0, 1) if form.per_token else h[-1]

        return sequence_network(form, init, body)

    return build

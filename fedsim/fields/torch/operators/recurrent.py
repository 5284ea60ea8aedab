"""Recurrent layers, each a scan over positions."""

import jax
import jax.numpy as jnp
from jax import lax

from fedsim.fields.torch.operators.random import dropout as dropped
from fedsim.fields.torch.operators.registry import operator


def _lstm_cell(gates, state, weight, bias):
    h, c = state
    i, f, g, o = jnp.split(gates + h @ weight.T + bias, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return (jax.nn.sigmoid(o) * jnp.tanh(c), c)


def _gru_cell(gates, state, weight, bias):
    (h,) = state
    reset, update, new = jnp.split(gates, 3, -1)
    of_reset, of_update, of_new = jnp.split(h @ weight.T + bias, 3, -1)
    update = jax.nn.sigmoid(update + of_update)
    new = jnp.tanh(new + jax.nn.sigmoid(reset + of_reset) * of_new)
    return (new + update * (h - new),)


def _rnn_cell(activation):
    def cell(gates, state, weight, bias):
        (h,) = state
        return (activation(gates + h @ weight.T + bias),)

    return cell


@operator("lstm.input", keyed=True)
def lstm(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, *, key):
    """-> (outputs, h at the end, c at the end)."""
    layout = (has_biases, num_layers, dropout if train else 0.0, bidirectional, batch_first)
    return _layers(_lstm_cell, x, hx, params, layout, key)


def _of_one_state(cell):
    def layers(
        x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, *, key
    ):
        """-> (outputs, h at the end)."""
        layout = (has_biases, num_layers, dropout if train else 0.0, bidirectional, batch_first)
        return _layers(cell, x, [hx], params, layout, key)

    return layers


operator("gru.input", keyed=True)(_of_one_state(_gru_cell))
operator("rnn_tanh.input", keyed=True)(_of_one_state(_rnn_cell(jnp.tanh)))
operator("rnn_relu.input", keyed=True)(_of_one_state(_rnn_cell(jax.nn.relu)))


def _layers(cell, x, states, params, layout, key):
    """Layers, one upon the other; in both directions where they are bidirectional.

    Args:
      cell: (W_ih x + b_ih, state, W_hh, b_hh) -> state.
      x: `[T, B, F]`, or `[B, T, F]` where batches are first.
      states: h, and c where there is one, at the start `[layers · directions, B, H]`.
      params: for every layer and direction W_ih, W_hh, and b_ih, b_hh where there are biases.
      layout: as of the operators, behind `params`.
      key: of dropout between layers.

    Raises:
      ValueError: for projections of h.
    """
    has_biases, num_layers, p, bidirectional, batch_first = layout
    per_direction = 4 if has_biases else 2
    directions = 2 if bidirectional else 1
    if len(params) != num_layers * directions * per_direction:
        raise ValueError("an LSTM with proj_size is not supported")

    h = jnp.swapaxes(x, 0, 1) if batch_first else x
    ends = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = params[number * per_direction :][:per_direction]
            start = tuple(state[number] for state in states)
            output, end = _positions(cell, h, start, weights, reverse=direction == 1)
            outputs.append(output)
            ends.append(end)
        h = jnp.concatenate(outputs, -1)
        if layer < num_layers - 1 and p > 0:
            h, _ = dropped(h, p, True, key=jax.random.fold_in(key, layer))
    h = jnp.swapaxes(h, 0, 1) if batch_first else h
    return (h, *(jnp.stack(of_state) for of_state in zip(*ends, strict=True)))


def _positions(cell, x, start, weights, reverse):
    """Return h of every position `[T, B, H]`, and the state at the end."""
    of_input, of_state, *biases = weights
    input_bias, state_bias = biases or (0, 0)
    gates = x @ of_input.T + input_bias

    def step(state, of_position):
        state = cell(of_position, state, of_state, state_bias)
        return state, state[0]

    end, outputs = lax.scan(step, start, gates, reverse=reverse)
    return outputs, end

"""What networks for sequences share: the samples they take, how these enter them, and the last layer."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
from jax import lax

from fedsim.models.dense import affine
from fedsim.models.tokens import Tokens
from fedsim.types import Model

SequenceBuild = Callable[
    [tuple[int, ...], int, Tokens | None], Model
]  # (shape of one sample, outputs, tokens) -> Model


class Samples(NamedTuple):
    """What the samples of a network for sequences are.

    Attributes:
      length: positions, T.
      vocabulary: tokens to choose from; 0: there are numbers at every position.
      numbers: at every position; 0: tokens.
      every: whether every token has a label.
    """

    length: int
    vocabulary: int
    numbers: int
    every: bool


def samples_of(model: str, shape: tuple[int, ...], tokens: Tokens | None) -> Samples:
    """What samples of a shape are to a network for sequences.

    Args:
      model: which asks, for the error.
      shape: of one sample: `[T]` tokens, or `[T, F]` numbers; more axes count as one, so rows of an image are a sequence.
      tokens: what is known of them, where samples are tokens.

    Raises:
      ValueError: for samples that are no sequences.
    """
    if tokens is not None:
        return Samples(shape[0], tokens.vocabulary, 0, tokens.every)
    if len(shape) < 2:
        needs = "needs sequences, tokens [T] (integers, `vocabulary` says of how many) or numbers [T, features]"
        raise ValueError(f"{model} {needs}; samples have shape {tuple(shape)}; use mlp")
    return Samples(shape[0], 0, math.prod(shape[1:]), False)


def sequence_network(samples: Samples, init: Callable, body: Callable) -> Model:
    """A network of sequences without statistics, with the affine layer `last` behind its features.

    Args:
      samples: that it takes.
      init: key -> params.
      body: (params, x) -> features: of tokens `[B, T]`, or numbers `[B, T, F]`, to `[B, F']`, or `[B, T, F']` where every
        token has a label.
    """

    def features(variables, x):
        x = x if samples.vocabulary else x.reshape(len(x), samples.length, samples.numbers)
        return body(variables["params"], x)

    def head(variables, h):
        return everywhere(variables["params"]["last"], h)

    def apply(variables, x, *, mask=None, key=None, train=False):
        return head(variables, features(variables, x)), variables["stats"]

    return Model(
        init=lambda key: {"params": init(key), "stats": {}},
        apply=apply,
        features=features,
        head=head,
    )


def embedded(p, tokens):
    """Rows of a table, one for each token: `[..., E]`.

    A gather and a sum by index: one row of the table for each token, where a product with unit vectors would read it all
    (2 to 12 times slower on a CPU, also where every client has a table of its own).
    """
    return p["W"][tokens]


def everywhere(p, h):
    """An affine layer at every position: `[..., F]` -> `[..., out]`."""
    if h.ndim == 2:
        return affine(p, h)
    return _product(h.reshape(-1, h.shape[-1]), p["W"]).reshape(*h.shape[:-1], -1) + p["b"]


@jax.custom_vjp
def _product(rows, W):
    """`rows @ W` for many rows; the gradient of W is a product over the rows as they lie.

    `rows.T @ g` turns them in memory, together with what made them (a step of a transformer: 1.2 times slower); autodiff's
    is as fast for one lane, 1.1 times slower for four.
    """
    return rows @ W


def _product_and_inputs(rows, W):
    rows = lax.optimization_barrier(rows)
    return rows @ W, (rows, W)


def _gradients(inputs, g):
    (rows, W), g = inputs, lax.optimization_barrier(g)
    return g @ W.T, lax.dot_general(rows, g, (((0,), (0,)), ((), ())))


_product.defvjp(_product_and_inputs, _gradients)

"""What networks for sequences share: the form of samples, the embedding, affine layers."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
from jax import lax

from fedsim.models.dense import affine, takes_factors
from fedsim.models.tokens import Tokens
from fedsim.types import Model

SequenceBuild = Callable[..., Model]
"""(shape of one sample, outputs, tokens=None) -> Model; some take `remat=`, as in `dense.Build`."""


class SequenceForm(NamedTuple):
    """What the samples of a network for sequences look like.

    Attributes:
      length: positions T.
      vocabulary: number of different tokens; 0: there are numbers at every position.
      numbers: numbers at every position; 0: there are tokens.
      per_token: whether every token has a label.
    """

    length: int
    vocabulary: int
    numbers: int
    per_token: bool


def sequence_form(model: str, shape: tuple[int, ...], tokens: Tokens | None) -> SequenceForm:
    """Return what samples of a shape are to a network for sequences.

    Args:
      shape: shape of one sample: `[T]` tokens, or `[T, F]` numbers; further axes are merged into F,
        so that the rows of an image are a sequence.
      tokens: what is known about them, if samples are tokens.

    Raises:
      ValueError: for samples that are not sequences.
    """
    if tokens is not None:
        return SequenceForm(shape[0], tokens.vocabulary, 0, tokens.every)
    if len(shape) < 2:
        raise ValueError(
            f"{model} needs sequences, tokens [T] (integers, `vocabulary` says of how many) or "
            f"numbers [T, features]; samples have shape {tuple(shape)}; use mlp"
        )
    return SequenceForm(shape[0], 0, math.prod(shape[1:]), False)


def sequence_network(form: SequenceForm, init: Callable, body: Callable) -> Model:
    """Return a network on sequences, without statistics, that ends in the affine layer `last`.

    Args:
      form: what its samples look like.
      init: key -> params.
      body: (params, x) -> features: from tokens `[B, T]` or numbers `[B, T, F]` to `[B, F']`, or to
        `[B, T, F']` if every token has a label.
    """

    def features(variables, x):
        if not form.vocabulary:
            x = x.reshape(len(x), form.length, form.numbers)
        return body(variables["params"], x)

    def head(variables, h):
        return positionwise(variables["params"]["last"], h)

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

    This is a gather and, in the gradient, a sum by index: one row of the table for each token. A
    product with unit vectors would read all rows (2 to 12 times slower on a CPU, also where every
    client has its own table).
    """
    return p["W"][tokens]


def positionwise(p, h):
    """An affine layer at every position: `[..., F]` -> `[..., out]`."""
    if h.ndim == 2:
        return affine(p, h)
    rows = h.reshape(-1, h.shape[-1])
    return _product_with(rows, p["W"]).reshape(*h.shape[:-1], -1) + p["b"]


@jax.custom_vjp
def _product(rows, W):
    """`rows @ W` for many rows; the gradient of W is a product over the rows without a transpose.

    `rows.T @ g` would transpose them in memory, together with what produced them (a step of a
    transformer: 1.2 times slower). Autodiff's is as fast for one lane, and 1.1 times slower for
    four.
    """
    return rows @ W


def _product_and_inputs(rows, W):
    rows = lax.optimization_barrier(rows)
    return rows @ W, (rows, W)


def _gradients(inputs, g):
    rows, W = inputs
    g = lax.optimization_barrier(g)
    over_rows = (((0,), (0,)), ((), ()))
    return g @ W.T, lax.dot_general(rows, g, over_rows)


_product.defvjp(_product_and_inputs, _gradients)
_product_with = takes_factors(_product)

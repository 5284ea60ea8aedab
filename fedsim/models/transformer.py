"""A small transformer."""

import math

import jax
import jax.numpy as jnp

from fedsim.compose import model
from fedsim.models.dense import Layers, Width, glorot, weights
from fedsim.models.normalisation import layer_norm, scale_and_shift
from fedsim.models.sequences import (
    SequenceBuild,
    embedded,
    everywhere,
    samples_of,
    sequence_network,
)
from fedsim.models.tokens import Tokens
from fedsim.types import Model

DEVIATION = 0.02  # of start values, GPT-2's
WIDER = 4  # times the width are the values inside a block's perceptron


@model
def transformer(layers: Layers = 2, heads: Width = 4, width: Width = 128) -> SequenceBuild:
    """Transformer for sequences, as GPT-2: blocks of attention and a perceptron, normalised before each, then classes.

    h = E[token] + P[position];  per block h ← h + A(LN(h)), h ← h + GELU(LN(h) W_1 + b_1) W_2 + b_2, 4·width wide inside;
    outputs = LN(h) W + b. A is softmax(Q Kᵀ/√d) V W_o + b_o over heads of d = width/heads numbers. Where every token has a
    label, a position sees itself and those before it (causal), and has outputs of its own; else all positions see one
    another, and the last position's outputs are those of the sample.

    Positions are learned (P `[T, width]`), GELU is the tanh form, the last layer W is not tied to E, there is no dropout.
    Start as GPT-2's: E, P and matrices normal with deviation 0.02, W_o and W_2 with 0.02/√(2·layers), biases at 0; the
    last layer as in `mlp`. With the defaults, 80 characters and T = 80: 427,600 parameters.

    `features` are LN(h) of the last position `[B, width]`, or of all `[B, T, width]`; `head` is the layer of classes.

    Needs: tokens `[T]`, or numbers `[T, features]`, for which E is an affine layer (more axes count as one). Shorter
    sequences are filled up in front, so that their last token is at the last position; where every token has a label, the
    end will do as well, as nothing before it sees it.

    Args:
      layers: blocks.
      heads: of attention, in each block; must divide width.
      width: numbers of a position.
    Raises:
      ValueError: for samples that are no sequences, or heads that do not divide the width.
    References:
      Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762; Radford et al. 2019, Language Models are
      Unsupervised Multitask Learners (GPT-2).
    """
    if width % heads:
        raise ValueError(f"heads: {heads} do not divide the width of {width}")

    def build(shape: tuple[int, ...], outputs: int, tokens: Tokens | None = None) -> Model:
        samples = samples_of("transformer", shape, tokens)

        def init(key):
            entrance, places, end, *blocks = (jax.random.fold_in(key, i) for i in range(3 + layers))
            if samples.vocabulary:
                embedding = {"W": _normal(entrance, (samples.vocabulary, width))}
            else:
                embedding = weights(
                    entrance, (samples.numbers, width), glorot(samples.numbers, width)
                )
            positions = {"W": _normal(places, (samples.length, width))}
            last = weights(end, (width, outputs), glorot(width, outputs))
            params = {
                "embedding": embedding,
                "positions": positions,
                "norm": scale_and_shift(width),
                "last": last,
            }
            for i, k in enumerate(blocks):
                params |= {
                    f"block{i}_{name}": p for name, p in _block_start(k, width, layers).items()
                }
            return params

        def body(params, x):
            enter = embedded if samples.vocabulary else everywhere
            h = enter(params["embedding"], x) + params["positions"]["W"]
            for i in range(layers):
                first = f"block{i}_"
                block = {
                    name.removeprefix(first): p
                    for name, p in params.items()
                    if name.startswith(first)
                }
                alone = i == layers - 1 and not samples.every
                h = _block(block, h, heads, samples.every, 1 if alone else samples.length)
            h = layer_norm(params["norm"], h)
            return h if samples.every else h[:, -1]

        return sequence_network(samples, init, body)

    return build


def _normal(key, shape: tuple[int, ...], deviation: float = DEVIATION):
    return deviation * jax.random.normal(key, shape)


def _block_start(key, width: int, layers: int) -> dict:
    """The layers of a block: Q, K and V side by side, what mixes the heads, the perceptron, and both normalisations."""
    small = DEVIATION / math.sqrt(2 * layers)
    sizes = {"attention": (width, 3 * width, DEVIATION), "mixed": (width, width, small)}
    sizes |= {"wide": (width, WIDER * width, DEVIATION), "narrow": (WIDER * width, width, small)}
    params = {"norm0": scale_and_shift(width), "norm1": scale_and_shift(width)}
    for i, (name, (fan_in, fan_out, deviation)) in enumerate(sizes.items()):
        W = _normal(jax.random.fold_in(key, i), (fan_in, fan_out), deviation)
        params[name] = {"W": W, "b": jnp.zeros(fan_out)}
    return params


def _block(p, h, heads: int, causal: bool, asked: int):
    """Attention and the perceptron, `[B, T, D]` -> `[B, asked, D]`: the last positions, as many as are asked for."""
    seen = _attention(everywhere(p["attention"], layer_norm(p["norm0"], h)), heads, causal, asked)
    h = h[:, -asked:] + everywhere(p["mixed"], seen)
    return h + everywhere(
        p["narrow"], jax.nn.gelu(everywhere(p["wide"], layer_norm(p["norm1"], h)))
    )


def _attention(parts, heads: int, causal: bool, asked: int):
    """softmax(Q Kᵀ/√d) V of every head, side by side: `[B, T, 3D]` (Q, K, V) -> `[B, asked, D]`."""
    B, T, _ = parts.shape
    Q, K, V = (part.reshape(B, T, heads, -1) for part in jnp.split(parts, 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", Q[:, -asked:], K) * (1 / math.sqrt(Q.shape[-1]))
    if causal:
        scores = jnp.where(jnp.tri(asked, T, T - asked, dtype=bool), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), V).reshape(B, asked, -1)

"""A small transformer."""

import math

import jax
import jax.numpy as jnp

from fedsim.compose import model
from fedsim.models.dense import Build, Width, glorot, weights
from fedsim.models.normalisation import layer_norm, scale_and_shift
from fedsim.models.sequences import embedded, everywhere, normal, samples_of, sequence_network
from fedsim.models.tokens import Tokens
from fedsim.types import Model

DEVIATION = 0.02  # of start values, GPT-2's
WIDER = 4  # times the width are the values inside a block's perceptron


@model
def transformer(layers: Width = 2, heads: Width = 4, width: Width = 128) -> Build:
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
        small = DEVIATION / math.sqrt(2 * layers)
        sizes = {"mix": (width, 3 * width, DEVIATION), "mixed": (width, width, small)}
        sizes |= {"wide": (width, WIDER * width, DEVIATION), "narrow": (WIDER * width, width, small)}

        def init(key):
            keys = iter(jax.random.split(key, 3 + len(sizes) * layers))
            entrance, place = next(keys), next(keys)
            if samples.vocabulary:
                params = {"embedding": {"W": normal(entrance, (samples.vocabulary, width), DEVIATION)}}
            else:
                size = (samples.numbers, width)
                params = {"embedding": weights(entrance, size, glorot(*size))}
            params["positions"] = {"W": normal(place, (samples.length, width), DEVIATION)}
            for i in range(layers):
                for name, (fan_in, fan_out, deviation) in sizes.items():
                    W = normal(next(keys), (fan_in, fan_out), deviation)
                    params[f"block{i}_{name}"] = {"W": W, "b": jnp.zeros(fan_out)}
                for name in ("norm0", "norm1"):
                    params[f"block{i}_{name}"] = scale_and_shift(width)
            params["norm"] = scale_and_shift(width)
            return {**params, "last": weights(next(keys), (width, outputs), glorot(width, outputs))}

        def body(params, x):
            enter = embedded if samples.vocabulary else everywhere
            h = enter(params["embedding"], x) + params["positions"]["W"]
            for i in range(layers):
                block = {name: params[f"block{i}_{name}"] for name in (*sizes, "norm0", "norm1")}
                last = i == layers - 1 and not samples.every
                h = _block(block, h, heads, samples.every, 1 if last else samples.length)
            h = layer_norm(params["norm"], h)
            return h if samples.every else h[:, -1]

        return sequence_network(samples, init, body)

    return build


def _block(p, h, heads: int, causal: bool, asked: int):
    """Attention and the perceptron, `[B, T, D]` -> `[B, asked, D]`: the last positions, as many as are asked for."""
    mix = everywhere(p["mix"], layer_norm(p["norm0"], h))
    h = h[:, -asked:]
    h = h + everywhere(p["mixed"], _attention(mix, heads, causal, asked))
    return h + everywhere(p["narrow"], jax.nn.gelu(everywhere(p["wide"], layer_norm(p["norm1"], h))))


def _attention(mix, heads: int, causal: bool, asked: int):
    """softmax(Q Kᵀ/√d) V of every head, side by side: `[B, T, 3D]` (Q, K, V) -> `[B, asked, D]`."""
    B, T, _ = mix.shape
    Q, K, V = (part.reshape(B, T, heads, -1) for part in jnp.split(mix, 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", Q[:, -asked:], K) * (1 / math.sqrt(Q.shape[-1]))
    if causal:
        scores = jnp.where(jnp.tri(asked, T, T - asked, dtype=bool), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), V).reshape(B, asked, -1)

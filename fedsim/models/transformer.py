"""A small transformer."""

import functools
import math

import jax
import jax.numpy as jnp

from fedsim.compose import model
from fedsim.models.computing import recomputed, widened
from fedsim.models.dense import Layers, Width, glorot, weights
from fedsim.models.normalisation import layer_norm, scale_and_shift
from fedsim.models.sequences import (
    SequenceBuild,
    embedded,
    positionwise,
    sequence_form,
    sequence_network,
)
from fedsim.models.sums import softmax
from fedsim.models.tokens import Tokens
from fedsim.types import Model

DEVIATION = 0.02  # of start values, as in GPT-2
WIDENING = 4  # width inside a block's perceptron, in multiples of the width


@model
def transformer(layers: Layers = 2, heads: Width = 4, width: Width = 128) -> SequenceBuild:
    """Transformer for sequences, as GPT-2: pre-normalised blocks of attention and a perceptron.

    h = E[token] + P[position];  per block h ← h + A(LN(h)), h ← h + GELU(LN(h) W_1 + b_1) W_2 +
    b_2, 4·width wide inside;  outputs = LN(h) W + b. A is softmax(Q Kᵀ/√d) V W_o + b_o over heads
    of d = width/heads numbers. If every token has a label, a position sees itself and those before
    it (causal), and has its own outputs; otherwise all positions see one another, and the outputs
    of a sample are those of the last position.

    Positions are learned (P `[T, width]`), GELU is the tanh form, the last layer W is not tied to
    E, and there is no dropout. Weights start like GPT-2's: E, P and matrices normal with deviation
    0.02, W_o and W_2 with 0.02/√(2·layers), biases at 0; the last layer as in `mlp`. With the
    defaults, 80 characters and T = 80: 427,600 parameters.

    `features` are LN(h) of the last position `[B, width]`, or of all `[B, T, width]`; `head` is the
    layer of classes.

    Needs: tokens `[T]`, or numbers `[T, features]`, for which E is an affine layer (further axes
    are merged into features). Shorter sequences are padded in front, so that their last token is at
    the last position; if every token has a label, they can be padded at the end as well, since no
    earlier position sees the end.

    Args:
      layers: number of blocks.
      heads: heads of attention in each block; must divide width.
      width: numbers per position.
    Raises:
      ValueError: for samples that are not sequences, or heads that do not divide the width.
    References:
      Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762; Radford et al. 2019,
      Language Models are Unsupervised Multitask Learners (GPT-2).
    """
    if width % heads:
        raise ValueError(f"heads: {heads} do not divide the width of {width}")

    def build(
        shape: tuple[int, ...], outputs: int, tokens: Tokens | None = None, remat: bool = False
    ) -> Model:
        form = sequence_form("transformer", shape, tokens)

        def init(key):
            keys = [jax.random.fold_in(key, i) for i in range(3 + layers)]
            embedding_key, position_key, last_key, *block_keys = keys
            if form.vocabulary:
                embedding = {"W": _normal(embedding_key, (form.vocabulary, width))}
            else:
                bound = glorot(form.numbers, width)
                embedding = weights(embedding_key, (form.numbers, width), bound)
            positions = {"W": _normal(position_key, (form.length, width))}
            last = weights(last_key, (width, outputs), glorot(width, outputs))
            params = {
                "embedding": embedding,
                "positions": positions,
                "norm": scale_and_shift(width),
                "last": last,
            }
            for i, block_key in enumerate(block_keys):
                block = _block_start(block_key, width, layers)
                params |= {f"block{i}_{name}": p for name, p in block.items()}
            return params

        def body(params, x):
            enter = embedded if form.vocabulary else positionwise
            h = enter(params["embedding"], x) + params["positions"]["W"]  # [B, T, D]
            if "prompt" in params:
                vectors = params["prompt"]  # [P, D], the same for each sample of h [B, T, D]
                prompts = jnp.broadcast_to(vectors, (len(h), *vectors.shape))
                h = jnp.concatenate([prompts, h], axis=1)
            for i in range(layers):
                # If the sample has one label, only the last position of the last block is needed.
                only_last = i == layers - 1 and not form.per_token
                queries = 1 if only_last else h.shape[1]
                block = functools.partial(
                    _block, heads=heads, causal=form.per_token, queries=queries
                )
                h = recomputed(block, remat)(_block_params(params, i), h)
            h = layer_norm(params["norm"], h)
            return h[:, -form.length :] if form.per_token else h[:, -1]

        def prompt(key, params, vectors):
            if not form.vocabulary:
                return _normal(key, (vectors, width))
            drawn = jax.random.randint(key, (vectors,), 0, form.vocabulary)
            return params["embedding"]["W"][drawn]

        network = sequence_network(form, init, body)
        return network._replace(products=("block*.W", "last.W"), prompt=prompt)

    return build


def _normal(key, shape: tuple[int, ...], deviation: float = DEVIATION):
    return deviation * jax.random.normal(key, shape)


def _block_start(key, width: int, layers: int) -> dict:
    """The start of a block's layers, by name.

    `attention` makes Q, K and V side by side, `mixed` combines the heads, `wide` and `narrow` are
    the perceptron, `norm0` and `norm1` the normalisations before both.
    """
    small = DEVIATION / math.sqrt(2 * layers)
    inner = WIDENING * width
    sizes = {
        "attention": (width, 3 * width, DEVIATION),
        "mixed": (width, width, small),
        "wide": (width, inner, DEVIATION),
        "narrow": (inner, width, small),
    }
    params = {"norm0": scale_and_shift(width), "norm1": scale_and_shift(width)}
    for i, (name, (fan_in, fan_out, deviation)) in enumerate(sizes.items()):
        W = _normal(jax.random.fold_in(key, i), (fan_in, fan_out), deviation)
        params[name] = {"W": W, "b": jnp.zeros(fan_out)}
    return params


def _block_params(params: dict, i: int) -> dict:
    """Return the parameters of a block, by name."""
    prefix = f"block{i}_"
    return {name.removeprefix(prefix): p for name, p in params.items() if name.startswith(prefix)}


def _block(p, h, heads: int, causal: bool, queries: int):
    """Attention and the perceptron of the last positions: `[B, T, D]` -> `[B, queries, D]`."""
    QKV = positionwise(p["attention"], layer_norm(p["norm0"], h))
    seen = _attention(QKV, heads, causal, queries)
    h = h[:, -queries:] + positionwise(p["mixed"], seen)

    wide = positionwise(p["wide"], layer_norm(p["norm1"], h))
    return h + positionwise(p["narrow"], jax.nn.gelu(wide))


def _attention(QKV, heads: int, causal: bool, queries: int):
    """softmax(Q Kᵀ/√d) V of every head, side by side: `[B, T, 3D]` -> `[B, queries, D]`."""
    B, T, _ = QKV.shape
    Q, K, V = (part.reshape(B, T, heads, -1) for part in jnp.split(QKV, 3, -1))
    d = Q.shape[-1]
    scores = jnp.einsum("bqhd,bkhd->bhqk", Q[:, -queries:], K) * (1 / math.sqrt(d))
    if causal:
        visible = jnp.tri(queries, T, T - queries, dtype=bool)
        scores = jnp.where(visible, scores, -jnp.inf)
    attention = softmax(widened(scores)).astype(V.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", attention, V).reshape(B, queries, -1)

"""Codecs on the wire: what a message becomes on its way, as a row-wise stage."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from fedsim import tree
from fedsim.compose.chains import folding
from fedsim.compose.shapes import ContractError
from fedsim.tree import Tree
from fedsim.types import (
    AggregateStage,
    Aim,
    Bits,
    Codec,
    Context,
    Defence,
    Info,
    Result,
    RowStage,
    Rule,
    Size,
    Stage,
    Updates,
    forgetful,
    no_row,
)

WRAPPED = "wrapped"  # what a codec whose payloads wrap reports


def codec_stage(codec: Codec) -> RowStage:
    """The stage that encodes the `params` of ONE message, counts its bytes, and decodes it.

    A linear codec's payload is not decoded here: the rule works on all payloads, and what it makes
    of them is decoded behind it. A message that is not finite stays as it is, and so does its
    sender's memory: the filter behind the wire finds it.
    """

    def memory(params: Tree, key: jax.Array) -> Tree:
        del key
        return initial_memory(codec, params, tree.zeros_like(params))

    def apply(row: Updates, context: Context) -> Updates:
        delta, bits, memory = send_through(codec, row.delta, row.memory, context.key)
        sent_bytes = row.bytes - tree.payload_bytes(row.delta) + in_bytes(bits)
        return row._replace(delta=delta, memory=memory, bytes=sent_bytes)

    def measure(row: Updates, context: Context) -> Info:
        x, _ = ravel_pytree(row.delta)
        sized = shaped(codec, row.delta)
        assert sized.entropy is not None
        payload, _, _ = sized.encode(x, row.memory, context.key)
        bits = sized.entropy(payload, len(x))
        return {"entropy_bytes": jnp.where(jnp.isfinite(x).all(), jnp.ceil(bits / 8), 0)}

    return RowStage(
        apply=apply,
        name=codec.name,
        memory=forgetful if codec.memory is no_row else memory,
        measure=None if codec.entropy is None else measure,
    )


def send_through(codec: Codec, sent: Tree, memory: Tree, key: jax.Array) -> tuple[Tree, Bits, Tree]:
    """Send a tree -> (what arrives, bits, the sender's memory).

    A tree that is not finite arrives as it is.
    """
    x, unravel = ravel_pytree(sent)
    codec = shaped(codec, sent)
    payload, bits, new = codec.encode(x, memory, key)
    finite = tree.finite_rows(x[None], 1)[0]
    if codec.linear:
        arrives = jax.tree.map(lambda leaf: _nan_unless(finite, leaf), payload)
    else:
        arrives = tree.select(finite, unravel(codec.decode(payload, len(x)).astype(x.dtype)), sent)
    return arrives, bits, tree.select(finite, new, memory)


def _nan_unless(finite: jax.Array, leaf: jax.Array) -> jax.Array:
    """The leaf, or NaN; integers have none."""
    if jnp.issubdtype(leaf.dtype, jnp.integer):
        return leaf
    return jnp.where(finite, leaf, jnp.nan)


def shaped(codec: Codec, sent: Tree) -> Codec:
    """The codec for a tree (shapes will do); one that encodes leaves apart depends on them."""
    if codec.shaped is None:
        return codec
    shapes = tuple(leaf.shape for leaf in jax.tree.leaves(sent))
    return codec.shaped(shapes)


def initial_memory(codec: Codec, sent: Tree, known: Tree) -> Tree:
    """The sender's memory at the start of the run, when receivers have the tree `known`."""
    return shaped(codec, sent).memory(ravel_pytree(known)[0])


def decoding(codec: Codec) -> Callable[[Tree, Tree], Tree]:
    """(what a rule made of a linear codec's payloads, params) -> a tree like the params."""

    def decode(aggregate: Tree, params: Tree) -> Tree:
        x, unravel = ravel_pytree(params)
        return unravel(shaped(codec, params).decode(aggregate, len(x)).astype(x.dtype))

    return decode


def decoding_step(codec: Codec) -> AggregateStage:
    """The step that decodes what a rule made of the payloads of a linear codec."""
    server = codec.server
    if server is None:
        decode = decoding(codec)

        def decode_aggregate(aggregate: Tree, state: Tree, context: Context) -> Result:
            return decode(aggregate, context.shared["params"]), state, {}

        return AggregateStage(decode_aggregate)

    def apply(aggregate: Tree, state: Tree, context: Context) -> Result:
        x, unravel = ravel_pytree(context.shared["params"])
        update, state, info = server.apply(aggregate, state, context)
        return unravel(update.astype(x.dtype)), state, info

    return server._replace(apply=apply)


def counting_wraps(rule: Rule, codec: Codec) -> Rule:
    """The rule, which also reports in how many coordinates the sum of payloads left its range."""
    fold = rule.fold
    wraps = codec.wraps
    assert fold is not None and wraps is not None

    def finish(total: Tree, state: Tree, context: Context) -> Result:
        aggregate, state, info = fold.finish(total, state, context)
        return aggregate, state, {**info, WRAPPED: wraps(total[0])}

    counting = folding(fold._replace(finish=finish), rule.weights, rule.init)
    return rule._replace(fold=counting.fold, apply=counting.apply)


def as_stage(link: Stage | RowStage | Codec | Aim, defence: Defence) -> Stage | RowStage:
    """A link of a wire as a stage: a codec encodes, and an attack is aimed at the defence."""
    if isinstance(link, Aim):
        return link.aim(defence)._replace(name=link.name)
    if isinstance(link, Codec):
        return codec_stage(link)
    return link


def in_bytes(bits: Bits) -> jax.Array:
    """⌈bits / 8⌉, of a Python integer and of a size without overflow."""
    if isinstance(bits, Size):
        return bits.bytes + -(-bits.bits // 8)
    return jnp.asarray(-(-bits // 8), jnp.int32)


def max_bytes(codec: Codec, sent: Tree) -> int:
    """The most bytes of a tree on its way (shapes will do): nothing is computed.

    Raises:
      ContractError: for a codec whose bits depend on the values, and that has no `most`.
    """
    leaves = jax.tree.leaves(sent)
    d = sum(leaf.size for leaf in leaves)
    dtype = jnp.result_type(*(leaf.dtype for leaf in leaves))
    codec = shaped(codec, sent)
    if codec.most is not None:
        return -(-codec.most(d) // 8)

    sizes: list[Bits] = []

    def encode(x, key):
        payload, bits, _ = codec.encode(x, codec.memory(jnp.zeros_like(x)), key)
        sizes.append(bits)
        return payload

    jax.eval_shape(encode, jax.ShapeDtypeStruct((d,), dtype), jax.eval_shape(jax.random.key, 0))
    bits = sizes[0]
    if not isinstance(bits, int):
        raise ContractError("encode: bits depend on x, and the codec does not say `most`")
    return -(-bits // 8)

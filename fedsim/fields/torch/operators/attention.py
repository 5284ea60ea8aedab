"""Scaled dot-product attention."""

import math

import jax
import jax.numpy as jnp

from fedsim.fields.torch.operators.random import dropout
from fedsim.fields.torch.operators.registry import operator


@operator("scaled_dot_product_attention.default", keyed=True)
def attention(
    query,
    key_,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
    *,
    key,
):
    """softmax(Q Kᵀ scale) V; a position that may see no other one gets zeros.

    Args:
      query: `[..., heads, T, d]`.
      key_: `[..., heads, S, d]`; with `enable_gqa` fewer heads, each for several of the queries.
      value: the same.
      attn_mask: True where a position may be seen, or what is added to the scores.
      dropout_p: share of the weights that are dropped.
      is_causal: whether a position sees only those before it, and itself.
      scale: None: 1/√d.
      enable_gqa: see above.
      key: of dropout.
    """
    if enable_gqa:
        times = query.shape[-3] // key_.shape[-3]
        key_, value = (jnp.repeat(each, times, -3) for each in (key_, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * scale) @ jnp.swapaxes(key_, -1, -2)

    seen = jnp.ones(scores.shape[-2:], bool)
    if is_causal:
        seen = jnp.tril(seen)
    elif attn_mask is not None and attn_mask.dtype == bool:
        seen = attn_mask
    elif attn_mask is not None:
        seen = attn_mask > -jnp.inf
        scores = scores + jnp.where(seen, attn_mask, 0)  # −∞ would make gradients NaN

    any_seen = jnp.any(seen, -1, keepdims=True)
    weights = jax.nn.softmax(scores, -1, where=jnp.where(any_seen, seen, True))
    weights = jnp.where(any_seen, weights, 0)
    if dropout_p > 0:
        weights, _ = dropout(weights, dropout_p, True, key=key)
    return weights @ value

"""Secure aggregation: the server learns the sum of the messages, as integers, and nothing else."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Le

from fedsim.codecs.modular import centred, modular, wraps
from fedsim.compose import codec
from fedsim.types import Codec


@codec
def secure_aggregation(
    bits: Annotated[int, Ge(2), Le(32)] = 32, scale: Annotated[float, Ge(1e-30), Le(1e30)] = 2.0**16
) -> Codec:
    """Sends integers modulo 2^b, of which the server sees only the sum.

    q_k = round(s Δ_k), to the nearest integer; the server gets Σ_k q_k mod 2^b, exactly and in
    whatever order, reads it as a number of [−2^(b−1), 2^(b−1)), divides by s, and by the number of
    messages. A coordinate whose sum is within this range has an error of at most 1/(2s) in the
    mean; one whose sum is not is off by a multiple of 2^b / s, and counted as
    `secure_aggregation/wrapped`. With K messages, |Δ| < 2^(b−1) / (s K) never wraps.

    The protocol itself (keys, masks, shares of secrets) is not run, and its bytes are not counted.

    Bits: b d.
    Cost: O(d).
    Needs: a rule that adds up whole messages: mean(weights: uniform) or mean_over_all; clients that
    send their update alone; nothing between the codec and the rule; schedule: sync. Weights would
    have to be part of the messages, and the sum of the weights a message of its own.

    Args:
      bits: b, of the integers.
      scale: s, integers for a difference of 1.

    References:
      Bonawitz et al. 2017, Practical Secure Aggregation for Privacy-Preserving Machine Learning,
      ACM CCS.
    """

    def encode(x, memory, key):
        del key
        whole = jnp.round(x * jnp.asarray(scale, x.dtype))
        return modular(whole, bits), bits * len(x), memory

    def decode(payload, d):
        del d
        return centred(payload.upper, bits) / scale

    return Codec(encode, decode, linear=True, wraps=lambda total: wraps(total, bits))

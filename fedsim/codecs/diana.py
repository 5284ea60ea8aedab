"""DIANA: differences from a shift that learns what a client sends."""

from typing import Annotated

from annotated_types import Gt, Le

from fedsim.codecs.inner import shifted, with_memory
from fedsim.compose import codec as as_codec
from fedsim.types import Codec


@as_codec
def diana(codec: Codec, alpha: Annotated[float, Gt(0), Le(1)]) -> Codec:
    """Sender and receiver store a shift; an unbiased codec sends the difference from it.

    h_i + Q(x_i − h_i) arrives;  h_i ← h_i + α Q(x_i − h_i), with h_i = 0 at the start; if a message
    does not arrive, h_i does not change. What arrives is as unbiased as Q, and its variance
    ω ‖x_i − h_i‖² vanishes as h_i approaches x_i. On the wire x_i = Δ_i; in a broadcast x is the
    server's model and h the clients' shift, at first the start model, and a client that missed
    messages gets them as well, or the model if that takes less.

    Bits: those of the codec.
    Cost: a vector of d numbers for every client that ever takes part; one in a broadcast.

    Args:
      codec: Q, an unbiased codec that is not linear, E ‖Q(x) − x‖² ≤ ω ‖x‖²; for biased ones take
        `ef21`.
      alpha: α, at most 1 / (1 + ω) in theory: k/d for `rand_k`, where ω = d/k − 1; with 1 it is
        `ef21`.

    References:
      Mishchenko, Gorbunov, Takáč, Richtárik 2019, Distributed Learning with Compressed Gradient
      Differences, arXiv:1901.09269, Algorithm 1 without its momentum; there for gradients.
    """
    return with_memory(codec, lambda inner: shifted(inner, alpha))

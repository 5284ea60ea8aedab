"""EF21: differences from what the receiver has."""

from fedsim.codecs.inner import shifted, with_memory
from fedsim.compose import codec as as_codec
from fedsim.types import Codec


@as_codec
def ef21(codec: Codec) -> Codec:
    """Sender and receiver store the last vector received; the codec sends the difference from it.

    g_i ← g_i + C(x_i − g_i), and g_i is what arrives; if a message does not arrive, g_i does not
    change. On the wire x_i = Δ_i and g_i = 0 at the start. In a broadcast x is the server's model
    and g the clients' copy, at first the start model; a client that missed messages gets them as
    well, or the model if that takes less.

    Bits: those of the codec.
    Cost: a vector of d numbers for every client that ever takes part; one in a broadcast.

    Args:
      codec: C, any codec that is not linear, `{kind: top_k, k: 100}`.

    References:
      Richtárik, Sokolov, Fatkhullin 2021, EF21: A New, Simpler, Theoretically Better, and
      Practically Faster Error Feedback, arXiv:2106.05203, Algorithm 2; there for gradients.
      Broadcast: Gruntkowska, Tyurin, Richtárik 2023, EF21-P and Friends, arXiv:2209.15218.
    """
    return with_memory(codec, shifted)

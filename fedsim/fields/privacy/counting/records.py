"""What an accountant must know of how noise is made."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

DISTRIBUTED = ("distributed_skellam", "distributed_discrete_gaussian")
"""Mechanisms whose noise clients add, in shares."""


class Mechanism(NamedTuple):
    """How the noise of one round is made of independent draws.

    Attributes:
      kind: `gaussian`: a draw of its own in every round; `tree`, `banded` and `blt`: correlated
        over rounds; those of DISTRIBUTED: integers that clients draw.
      restart: of `tree`: rounds after which a new tree begins; None: one tree for all rounds.
      bands: of `banded`: rounds whose draws are in the noise of one round, at least 1.
      buffers: of `blt`: models of memory, at least 1.
      decay: of `blt`: θ of each buffer; None: that of least loss.
      scale: of `blt`: ω of each buffer, likewise.
      bits: of integers that clients send.
      granularity: the difference that the integer 1 stands for, over the clip; None: such that sums
        seldom wrap.
      shares: clients whose noise together is that of z; None: all clients of a round.
      dimension: parameters that a client sends, with the padding of their rotation.
    """

    kind: Literal[
        "gaussian", "tree", "banded", "blt", "distributed_skellam", "distributed_discrete_gaussian"
    ] = "gaussian"
    restart: int | None = None
    bands: int = 1
    buffers: int = 1
    decay: Sequence[float] | None = None
    scale: Sequence[float] | None = None
    bits: int = 16
    granularity: float | None = None
    shares: int | None = None
    dimension: int | None = None

"""Prompt tuning: vectors in front of every sequence."""

from typing import Annotated

from annotated_types import Ge

from fedsim.compose import adapter
from fedsim.fields.adapters.adapted import PROMPT
from fedsim.types import Adapter


@adapter
def prompt(tokens: Annotated[int, Ge(1)] = 8) -> Adapter:
    """Vectors in front of every sequence of a frozen transformer (prompt tuning).

    They enter the first block, without positions; all positions see them, and they have no outputs.
    They start as embeddings of tokens that are drawn at random (among numbers: as `positions`
    starts): the adapted model starts as another one.

    Sends: tokens·width numbers, 4 bytes each.

    Args:
      tokens: number of vectors.

    Raises:
      ValueError: at build time, for other models than `transformer`.

    References:
      Lester, Al-Rfou, Constant 2021, The Power of Scale for Parameter-Efficient Prompt Tuning,
      arXiv:2104.08691, section 2.
    """
    return Adapter(leaves=(PROMPT,), prompt=tokens)

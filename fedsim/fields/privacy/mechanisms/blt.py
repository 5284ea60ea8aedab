"""Noise that all rounds after it take back in part, remembered in a few buffers."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Le

from fedsim.fields.privacy.mechanism import Mechanism, mechanism
from fedsim.fields.privacy.mechanisms.banded import correction
from fedsim.tree import Tree, along, normal, subtract
from fedsim.types import Context

MAX_BUFFERS = 12  # more make the optimisation unstable


class Buffers(NamedTuple):
    """What is remembered of the noise of all earlier rounds: leaves `[buffers, ...]`."""

    noise: Tree


@mechanism
def blt(
    buffers: Annotated[int, Ge(1), Le(MAX_BUFFERS)] = 4,
    decay: list[Annotated[float, Ge(0), Le(1)]] | None = None,
    scale: list[Annotated[float, Ge(0)]] | None = None,
) -> Mechanism:
    """Noise that all rounds after it take back in part (buffered linear Toeplitz).

    The noise of round t is w_t = (C⁻¹Z)_t, times zC/m, with the lower triangular Toeplitz matrix of
    c_0 = 1 and c_k = Σ_j ω_j θ_j^(k−1): w_t = Z_t − Σ_j ω_j s_j, then s_j ← θ_j s_j + w_t. θ and ω
    are by default those of least loss for the planned rounds and the cohort, by jax-privacy.

    Cost: O(buffers · D) per round.
    State: as many models as buffers.
    Needs: a cohort whose clients come at known intervals: all, cyclic or separated.

    Args:
      buffers: how many there are; more come nearer to the best matrix.
      decay: θ of each buffer; by default the best, which the resolved scenario fills in.
      scale: ω of each buffer, likewise.

    References:
      Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024, Efficient and Near-Optimal Noise
      Generation for Streaming Differential Privacy, arXiv:2404.16706.
    """

    def init(params: Tree) -> Buffers:
        return Buffers(jax.tree.map(lambda x: jnp.zeros((buffers, *x.shape), x.dtype), params))

    def draw(like: Tree, state: Buffers, context: Context) -> tuple[Tree, Buffers]:
        assert decay is not None and scale is not None
        noise = subtract(normal(like, context.key), correction(state.noise, np.asarray(scale)))

        def after(past, new):
            return along(jnp.asarray(decay, past.dtype), past) * past + new

        return noise, Buffers(jax.tree.map(after, state.noise, noise))

    return Mechanism(draw, init)

"""Noise that the rounds after it take back in part."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Le

from fedsim.fields.privacy.counting.strategies import banded_coefficients
from fedsim.fields.privacy.mechanism import Mechanism, mechanism
from fedsim.tree import Tree, normal, subtract, weighted_sum
from fedsim.types import Context


class Past(NamedTuple):
    """The noise of earlier rounds, the newest first: leaves `[bands − 1, ...]`."""

    noise: Tree


@mechanism
def banded(bands: Annotated[int, Ge(1), Le(10_000)] = 4) -> Mechanism:
    """Noise that the rounds after it take back in part (banded matrix factorisation).

    The noise of round t is w_t = (C⁻¹Z)_t, times zC/m, with the lower triangular Toeplitz matrix of
    c_k = binom(2k, k)/4^k for k < b, and 0 beyond: w_t = Z_t − Σ_{0<k<b} c_k w_{t−k}. With as many
    bands as rounds, C is the square root of the matrix of ones.

    Cost: O(bD) per round.
    State: b − 1 models.
    Needs: a cohort whose clients come at known intervals: all, cyclic or separated; or
    cyclic_poisson with at least b groups.

    Args:
      bands: b; 1 is `gaussian`.

    References:
      Kalinin and Lampert 2024, Banded Square Root Matrix Factorization for Differentially Private
      Model Training, arXiv:2405.13763; Choquette-Choo et al. 2023, (Amplified) Banded Matrix
      Factorization, arXiv:2306.08153.
    """
    coefficients = banded_coefficients(bands)[1:]

    def init(params: Tree) -> Past:
        return Past(jax.tree.map(lambda x: jnp.zeros((bands - 1, *x.shape), x.dtype), params))

    def draw(like: Tree, state: Past, context: Context) -> tuple[Tree, Past]:
        noise = normal(like, context.key)
        if bands == 1:
            return noise, state
        noise = subtract(noise, correction(state.noise, coefficients))
        shifted = jax.tree.map(
            lambda newest, past: jnp.concatenate([newest[None], past[:-1]]), noise, state.noise
        )
        return noise, Past(shifted)

    return Mechanism(draw, init)


def correction(stacked: Tree, weights: np.ndarray) -> Tree:
    """Return Σ_j weights[j] · row_j of a stack, for weights `[n]` that are not negative."""
    dtype = jax.tree.leaves(stacked)[0].dtype
    return weighted_sum(stacked, jnp.asarray(weights, dtype))

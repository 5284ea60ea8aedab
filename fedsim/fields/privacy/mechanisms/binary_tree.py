"""Noise on the nodes of a binary tree over the rounds."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, UInt

from fedsim.fields.privacy.mechanism import Mechanism, mechanism
from fedsim.tree import Tree, normal, subtract, zeros_like
from fedsim.types import Context

LEVELS = 31  # of a tree over as many rounds as an int32 can count


class Nodes(NamedTuple):
    """The nodes that cover the rounds so far, as what their noise is drawn from."""

    keys: UInt[Array, "levels words"]  # of each level's newest node


@mechanism
def tree(restart: Annotated[int, Ge(1)] | None = None) -> Mechanism:
    """Noise on the nodes of a binary tree over the rounds (DP-FTRL).

    Of the sum of the first t aggregates, the noise is Σ N(0, I) over the ones in the binary digits
    of t, times zC/m: log₂ t draws instead of t. The noise of round t is that sum less the one
    before: a new node over 2^ℓ rounds, where 2^ℓ is the largest power of two that divides t, less
    the ℓ nodes that it covers.

    Cost: O(D log T) in the worst round, two draws on average.
    State: log T random keys, from which nodes are drawn again.
    Needs: a cohort whose clients come at known intervals: all, cyclic or separated.

    Args:
      restart: rounds after which a new tree begins; by default one tree for all rounds.

    References:
      Kairouz, McMahan, Song, Thakkar, Thakurta, Xu 2021, Practical and Private (Deep) Learning
      without Sampling or Shuffling, arXiv:2103.00039; Dwork, Naor, Pitassi, Rothblum 2010,
      Differential Privacy under Continual Observation.
    """

    def init(params: Tree) -> Nodes:
        del params
        words = jax.random.key_data(jax.random.key(0))
        return Nodes(jnp.zeros((LEVELS, *words.shape), words.dtype))

    def draw(like: Tree, state: Nodes, context: Context) -> tuple[Tree, Nodes]:
        before = jnp.asarray(context.round, jnp.int32) - 1
        if restart is not None:
            before = before % restart

        # Rounds that end in ones, in binary, complete a node over as many levels.
        level = jnp.asarray(_trailing_ones(before), jnp.int32)

        def without(i, noise):
            return subtract(noise, normal(like, jax.random.wrap_key_data(state.keys[i])))

        new = normal(like, context.key)
        covered = jax.lax.fori_loop(0, level, without, zeros_like(like))
        noise = jax.tree.map(jnp.add, new, covered)
        return noise, Nodes(state.keys.at[level].set(jax.random.key_data(context.key)))

    return Mechanism(draw, init)


def _trailing_ones(number: Array) -> Array:
    """Return how many ones a number ends in, in binary."""
    lowest_zero = ~number & (number + 1)
    return jax.lax.population_count(lowest_zero - 1)

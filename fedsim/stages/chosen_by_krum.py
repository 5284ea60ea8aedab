"""How far along a line a point can be that Krum still chooses."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.stages.knowledge import dots
from fedsim.tree import Tree

HALVINGS = 60  # at most, for each number of copies


class Search(NamedTuple):
    """State of the search for λ."""

    scale: Float[Array, ""]  # λ
    copies: Int[Array, ""]  # of −λ s
    halvings: Int[Array, ""]  # of λ, for this number of copies
    chosen: Bool[Array, ""]  # whether Krum chooses −λ s


class Rows(NamedTuple):
    """What determines the distances between known rows and −λ s."""

    known: Bool[Array, " K"]
    squares: Float[Array, "K K"]  # squared distances between known rows, +∞ elsewhere
    lengths: Float[Array, " K"]  # ‖x_i‖₂, 0 for unknown rows
    along: Float[Array, " K"]  # ⟨x_i, s⟩, 0 for unknown rows
    square_of_signs: Float[Array, ""]  # ‖s‖₂²
    D: int


def largest_chosen(
    stacked: Tree,
    known: Bool[Array, " K"],
    signs: Tree,
    first: Int[Array, ""],
    last: Int[Array, ""],
    threshold: float,
) -> Float[Array, ""]:
    """The first λ, of the authors' bound and its halves, for which Krum prefers −λ s to all rows.

    The search counts `first` copies of −λ s, and one more each time that no λ down to the threshold
    will do.

    Args:
      known: the rows next to the copies.
      signs: s.
      first: how many copies to begin with.
      last: how many copies at most.
      threshold: the search for a number of copies ends with the first λ below it.
    """
    rows = _rows(stacked, known, signs)

    def exhausted(s: Search) -> Bool[Array, ""]:
        return (s.scale < threshold) | (s.halvings >= HALVINGS)

    def unfinished(s: Search) -> Bool[Array, ""]:
        return ~s.chosen & ~(exhausted(s) & (s.copies >= last))

    def step(s: Search) -> Search:
        restart = exhausted(s)
        copies = s.copies + restart
        scale = jnp.where(restart, _bound(rows, copies), s.scale / 2)
        halvings = jnp.where(restart, 0, s.halvings + 1)
        return Search(scale, copies, halvings, _is_chosen(rows, scale, copies))

    # λ = 0 is exhausted, so that the first step starts from the bound.
    start = Search(
        scale=jnp.zeros_like(rows.square_of_signs),
        copies=first - 1,
        halvings=jnp.zeros_like(first),
        chosen=jnp.asarray(False),
    )
    return lax.while_loop(unfinished, step, start).scale


def _rows(stacked: Tree, known: Bool[Array, " K"], signs: Tree) -> Rows:
    K = known.shape[0]
    squares = jnp.where(jnp.eye(K, dtype=bool), jnp.inf, tree.squared_distances(stacked, known))
    lengths = jnp.where(known, tree.norms(stacked, tree.zero_row(stacked)), 0)
    dtype = lengths.dtype
    return Rows(
        known=known,
        squares=squares.astype(dtype),
        lengths=lengths,
        along=jnp.where(known, dots(stacked, signs), 0).astype(dtype),
        square_of_signs=(tree.norm(signs) ** 2).astype(dtype),
        D=sum(leaf.size for leaf in jax.tree.leaves(signs)),
    )


def _neighbours(rows: Rows) -> Int[Array, ""]:
    """How many neighbours count in the score of a row: h + f − f − 2, at least 1."""
    return jnp.maximum(jnp.sum(rows.known) - 2, 1)


def _bound(rows: Rows, copies: Int[Array, ""]) -> Float[Array, ""]:
    """λ₀, the authors' bound."""
    K = rows.known.shape[0]
    dtype = rows.lengths.dtype
    distances = jnp.sort(jnp.sqrt(rows.squares), axis=0)
    counted = (jnp.arange(K) < _neighbours(rows)).astype(dtype)
    finite = jnp.where(jnp.isfinite(distances), distances, 0)  # a single row has no neighbours
    totals = tree.fold(jnp.zeros(K, dtype), finite, counted)
    least = jnp.min(jnp.where(rows.known, totals, jnp.inf))
    share = jnp.maximum(jnp.sum(rows.known) - copies - 1, 1).astype(dtype)
    bound = (least / share + jnp.max(rows.lengths)) / jnp.sqrt(jnp.asarray(rows.D, dtype))
    return jnp.minimum(bound, jnp.finfo(dtype).max)


def _is_chosen(rows: Rows, scale: Float[Array, ""], copies: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether copies of −λ s have a lower Krum score than every known row."""
    to_copy = rows.lengths**2 + 2 * scale * rows.along + scale**2 * rows.square_of_signs
    to_copy = jnp.where(rows.known, jnp.maximum(to_copy, 0), jnp.inf)
    n = _neighbours(rows)
    K = rows.known.shape[0]

    # Squared distances between rows and to a copy, and how often each counts; a copy has one other
    # copy less than there are.  [K + 1, K + 1]
    zero = jnp.zeros((1, 1), to_copy.dtype)
    values = jnp.block([[rows.squares, to_copy[:, None]], [to_copy[None, :], zero]])
    counts = jnp.ones((K + 1, K + 1), n.dtype).at[K].set(copies.astype(n.dtype))
    counts = counts.at[K, K].add(-1)

    scores = _least_sum(values, counts, n)
    return scores[K] < jnp.min(jnp.where(rows.known, scores[:K], jnp.inf))


def _least_sum(
    values: Float[Array, "V C"], counts: Int[Array, "V C"], n: Int[Array, ""]
) -> Float[Array, " C"]:
    """The sum of the n least values of every column, where each value counts `counts` times."""
    values, counts = lax.sort((values, counts), dimension=0, num_keys=1)
    before = jnp.cumsum(counts, axis=0) - counts
    used = jnp.clip(n - before, 0, counts)
    terms = jnp.where(used > 0, used.astype(values.dtype) * values, 0)
    V, C = values.shape
    return tree.fold(jnp.zeros(C, values.dtype), terms, jnp.ones(V, values.dtype))

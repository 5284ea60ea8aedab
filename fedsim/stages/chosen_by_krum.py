"""How far along a line a point may stand that Krum still chooses."""

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
    """On its way."""

    scale: Float[Array, ""]
    copies: Int[Array, ""]
    halvings: Int[Array, ""]
    chosen: Bool[Array, ""]


class Rows(NamedTuple):
    """What distances between known rows and −λ s follow from."""

    known: Bool[Array, " K"]
    squares: Float[Array, "K K"]  # between known rows, +∞ elsewhere
    lengths: Float[Array, " K"]  # ‖x_i‖₂, 0 of the others
    along: Float[Array, " K"]  # ⟨x_i, s⟩, likewise
    signs: Float[Array, ""]  # ‖s‖₂²
    D: int


def largest_chosen(
    stacked: Tree,
    known: Bool[Array, " K"],
    signs: Tree,
    first: Int[Array, ""],
    last: Int[Array, ""],
    threshold: float,
) -> Float[Array, ""]:
    """λ of the first −λ s that Krum prefers to the known rows, of the authors' bound and its halves.

    Args:
      stacked: rows.
      known: which of them stand beside the copies.
      signs: s.
      first: copies of −λ s, of which Krum is told; one more where no λ from the threshold on will do.
      last: at most.
      threshold: the search of a number of copies ends with the first λ below it.
    """
    rows = _rows(stacked, known, signs)
    ended = lambda s: (s.scale < threshold) | (s.halvings >= HALVINGS)
    unfinished = lambda s: ~s.chosen & ~(ended(s) & (s.copies >= last))

    def step(s: Search) -> Search:
        again = ended(s)
        copies = s.copies + again
        scale = jnp.where(again, _bound(rows, copies), s.scale / 2)
        return Search(
            scale, copies, jnp.where(again, 0, s.halvings + 1), _is_chosen(rows, scale, copies)
        )

    begun = Search(jnp.zeros_like(rows.signs), first - 1, jnp.zeros_like(first), jnp.asarray(False))
    return lax.while_loop(unfinished, step, begun).scale


def _rows(stacked: Tree, known: Bool[Array, " K"], signs: Tree) -> Rows:
    K = known.shape[0]
    squares = jnp.where(jnp.eye(K, dtype=bool), jnp.inf, tree.squared_distances(stacked, known))
    lengths = jnp.where(known, tree.norms(stacked, tree.zero_row(stacked)), 0)
    along = jnp.where(known, dots(stacked, signs), 0).astype(lengths.dtype)
    square = (tree.norm(signs) ** 2).astype(lengths.dtype)
    D = sum(leaf.size for leaf in jax.tree.leaves(signs))
    return Rows(known, squares.astype(lengths.dtype), lengths, along, square, D)


def _neighbours(rows: Rows) -> Int[Array, ""]:
    """Of a row that count in its score: h + f − f − 2, at least 1."""
    return jnp.maximum(jnp.sum(rows.known) - 2, 1)


def _bound(rows: Rows, copies: Int[Array, ""]) -> Float[Array, ""]:
    """λ₀."""
    K, dtype = rows.known.shape[0], rows.lengths.dtype
    distances = jnp.sort(jnp.sqrt(rows.squares), axis=0)
    counted = (jnp.arange(K) < _neighbours(rows)).astype(dtype)
    finite = jnp.where(jnp.isfinite(distances), distances, 0)  # a row alone has nobody beside it
    totals = tree.fold(jnp.zeros(K, dtype), finite, counted)
    least = jnp.min(jnp.where(rows.known, totals, jnp.inf))
    share = jnp.maximum(jnp.sum(rows.known) - copies - 1, 1).astype(dtype)
    bound = (least / share + jnp.max(rows.lengths)) / jnp.sqrt(jnp.asarray(rows.D, dtype))
    return jnp.minimum(bound, jnp.finfo(dtype).max)


def _is_chosen(rows: Rows, scale: Float[Array, ""], copies: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether copies of −λ s have a lower Krum score than every known row."""
    away = rows.lengths**2 + 2 * scale * rows.along + scale**2 * rows.signs
    away = jnp.where(rows.known, jnp.maximum(away, 0), jnp.inf)
    n, K = _neighbours(rows), rows.known.shape[0]
    values = jnp.block(
        [[rows.squares, away[:, None]], [away[None, :], jnp.zeros((1, 1), away.dtype)]]
    )
    counts = jnp.ones((K + 1, K + 1), n.dtype).at[K].set(copies.astype(n.dtype)).at[K, K].add(-1)
    scores = _least_sum(values, counts, n)  # of every row, and of a copy
    return scores[K] < jnp.min(jnp.where(rows.known, scores[:K], jnp.inf))


def _least_sum(
    values: Float[Array, "V C"], counts: Int[Array, "V C"], n: Int[Array, ""]
) -> Float[Array, " C"]:
    """In every column the sum of the n least values, each there so many times."""
    values, counts = lax.sort((values, counts), dimension=0, num_keys=1)
    taken = jnp.clip(n - (jnp.cumsum(counts, axis=0) - counts), 0, counts)
    terms = jnp.where(taken > 0, taken.astype(values.dtype) * values, 0)
    return tree.fold(
        jnp.zeros(values.shape[1], values.dtype), terms, jnp.ones(values.shape[0], values.dtype)
    )

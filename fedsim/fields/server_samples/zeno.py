"""Zeno: the updates that most lower the loss on the server's samples."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Le
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.selection import selection_report
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


@rule
def zeno(
    f: Annotated[int, Ge(0)],
    rho: Annotated[float, Ge(0)] = 5e-4,
    batch: Annotated[int, Ge(1), Le(1_000_000)] | None = None,
) -> Rule:
    """Plain mean of the updates that most lower the loss on the server's samples.

    agg = 1/(m−f) Σ_{i∈S} x_i,
    S = the m − f clients of highest score  f_r(x) − f_r(x + x_i) − ρ‖x_i‖₂².
    f_r is the mean loss over samples that the server holds (`data.server`), as a model is
    evaluated: over all of them, or over `batch` of them that are drawn in every round, with
    replacement. An update is added as it arrives: it contains the paper's γ, and ρ here is the
    paper's ρ/γ². Ties go to the lowest index. Sample counts and updates that are not finite are
    ignored.

    Resists: f malicious clients, for any f < m.
    Cost: O(K·D), and a pass over the samples of f_r for every update, one at a time.
    Needs: the whole stack, and `data.server`.

    Args:
      f: malicious clients to expect: f updates are left out.
      rho: ρ, the cost of length.
      batch: samples of f_r; default all that the server holds.

    Raises:
      ScenarioError: when not more than f clients can report (a round with fewer survivors is
        skipped), and when the server has no samples.

    References:
      Xie, Koyejo, Gupta 2019, Zeno: Distributed Stochastic Gradient Descent with Suspicion-based
      Fault-tolerance, arXiv:1805.10032, Algorithm 1.

    >>> import fedsim
    >>> rows = [[1.0], [2.0], [-9.0]]
    >>> loss = lambda x: (x[0] - 3.0) ** 2
    >>> fedsim.aggregate({"kind": "zeno", "f": 1}, rows, server_loss=loss).tolist()
    [1.5]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        assert context.server_loss is not None
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        loss = partial(context.server_loss, batch=batch, key=context.key)
        score = descents(updates.delta, context.shared["params"], loss, rho)
        score = jnp.where(jnp.isnan(score), -jnp.inf, score)
        score = jnp.where(usable, jnp.maximum(score, jnp.finfo(score.dtype).min), -jnp.inf)
        rank = jnp.argsort(jnp.argsort(-score, stable=True))
        accepted = usable & (rank < jnp.sum(usable) - f)
        mean = tree.weighted_mean(updates.delta, accepted.astype(updates.samples.dtype))
        return mean, state, selection_report(accepted, updates, context)

    return Rule(apply=apply, least=f + 1, needs=frozenset({"server_loss"}))


def descents(
    stacked: Tree, params: Tree, loss: Callable[[Tree], Array], rho: float
) -> Float[Array, " K"]:
    """Return `loss(x) − loss(x + row) − ρ‖row‖²` for every row.

    Rows come one at a time, so that memory holds a single model next to the stack.
    """
    before = loss(params)

    def of_row(row: Tree) -> Array:
        length = tree.norm(row)
        return before - loss(tree.add(params, row)) - rho * (length * length)

    return lax.map(of_row, stacked)

"""Zeno: the updates that lower a loss of the server's own most."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Le
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


@rule
def zeno(
    f: Annotated[int, Ge(0)],
    rho: Annotated[float, Ge(0)] = 5e-4,
    batch: Annotated[int, Ge(1), Le(1_000_000)] | None = None,
) -> Rule:
    """Plain mean of the updates that lower the loss on the server's own samples most, long ones least.

    agg = 1/(m−f) Σ_{i∈S} x_i,  S = the m − f clients of highest score  f_r(x) − f_r(x + x_i) − ρ‖x_i‖₂².
    f_r is the mean loss over samples of the server's own (`data.server`), as a model is evaluated: over all of them, or
    over `batch` of them that every round draws anew, with replacement. An update is added as it arrives: the paper's γ is
    in it, and ρ here is the paper's over γ². Ties go to the lowest index. Sample counts are ignored, and so are updates
    that are not finite.

    Resists: f malicious clients, f < m, however many that is.
    Cost: O(K·D), and a pass over the samples of f_r for every update, one after another.
    Needs: the whole stack, and `data.server`.

    Args:
      f: malicious clients to expect: so many updates are left out.
      rho: ρ, what length costs.
      batch: samples of f_r; all that the server keeps if left out.

    Raises:
      ScenarioError: when not more than f clients can report (a round with fewer survivors is skipped), and without
        samples of the server's own.

    References:
      Xie, Koyejo, Gupta 2019, Zeno: Distributed Stochastic Gradient Descent with Suspicion-based Fault-tolerance,
      arXiv:1805.10032, Algorithm 1.

    >>> import fedsim
    >>> away = lambda x: (x[0] - 3.0) ** 2
    >>> fedsim.aggregate({"kind": "zeno", "f": 1}, [[1.0], [2.0], [-9.0]], server_loss=away).tolist()
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
        kept = usable & (rank < jnp.sum(usable) - f)
        mean = tree.weighted_mean(updates.delta, kept.astype(updates.samples.dtype))
        return mean, state, selected(kept, updates, context)

    return Rule(apply=apply, least=f + 1, needs=frozenset({"server_loss"}))


def descents(
    stacked: Tree, params: Tree, loss: Callable[[Tree], Array], rho: float
) -> Float[Array, " K"]:
    """`loss(x) − loss(x + row) − ρ‖row‖²` of every row, one after another: there is one model beside the stack at a time."""
    before = loss(params)

    def of_row(row: Tree) -> Array:
        length = tree.norm(row)
        return before - loss(tree.add(params, row)) - rho * (length * length)

    return lax.map(of_row, stacked)

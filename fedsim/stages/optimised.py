"""An attack that optimises its strength against the current defence."""

from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, Lt
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.compose import attack as as_attack
from fedsim.stages.knowledge import known_rows, mean_of, std_of
from fedsim.tree import Tree
from fedsim.types import Aim, Context, Defence, Stage, Updates


class Search(NamedTuple):
    """State of a line search for the largest value."""

    best: Float[Array, ""]  # the best τ so far
    value: Float[Array, ""]  # the value at `best`
    step: Float[Array, ""]
    grows: Bool[Array, ""]  # whether steps still become longer


@as_attack
def optimised(
    attack: Literal["little_is_enough", "inner_product"] = "little_is_enough",
    evaluations: Annotated[int, Ge(2), Le(1000)] = 20,
    step: Annotated[float, Gt(0)] = 10.0,
    ratio: Annotated[float, Gt(0), Lt(1)] = 0.8,
) -> Aim:
    """All malicious clients send a + τ b, with the τ that moves the defence furthest.

    a = mean_H, and b = std_H for `little_is_enough`; a = 0 and b = −mean_H for `inner_product`;
    over the honest updates H of the round that arrived and are finite, std with n − 1. τ ≥ 0
    maximises ‖F(τ) − mean_H‖, where F(τ) is what the server's stages and rule, in their state of
    this round, make of the stack. From τ = 0, steps double while they help; from the first that
    does not, they shrink by `ratio`, each from the best τ so far.

    Knows: all updates of the round, and the server's links with their state.
    Cost: `evaluations` aggregations per round.
    Needs: the whole stack.
    Resists: no filter that the attacker knows; it predicts a defence with secrets less well.

    Args:
      attack: the direction b.
      evaluations: how often the defence is evaluated.
      step: the first step.
      ratio: the factor that shortens a step after one that did not help.

    References:
      Shejwalkar, Houmansadr 2021, Manipulating the Byzantine, NDSS; the search as in ByzFL,
      arXiv:2505.24802.
    """

    def aim(defence: Defence) -> Stage:
        def corrupt(updates: Updates, state: Tree, context: Context):
            # The server drops rows that are not finite.
            finite = tree.finite_rows(updates.delta, len(updates.arrived))
            usable = updates.arrived & (finite | context.malicious)
            honest = known_rows(updates, context, "cohort")
            mean = mean_of(updates, honest)
            start, direction = _line(attack, updates, mean, honest)

            def corrupted(tau: Array) -> Tree:
                point = lambda a, b: (a + tau.astype(a.dtype) * b)[None]
                row = jax.tree.map(point, start, direction)
                return tree.select(context.malicious, row, updates.delta)

            def distance(tau: Array) -> Array:
                stack = updates._replace(delta=corrupted(tau), arrived=usable)
                return tree.norm(tree.subtract(defence(stack, context), mean))

            tau = farthest(distance, evaluations, step, ratio, updates.samples.dtype)
            return updates._replace(delta=corrupted(tau)), state, {"tau": tau}

        return Stage(corrupt)

    return Aim(aim)


def farthest(distance: Any, evaluations: int, step: float, ratio: float, dtype: Any) -> Array:
    """Search for the τ ≥ 0 of the largest distance, by a number of evaluations."""
    zero = jnp.zeros((), dtype)
    start = Search(
        best=zero,
        value=distance(zero),
        step=jnp.asarray(step, dtype),
        grows=jnp.asarray(True),
    )

    def evaluate(_: Int[Array, ""], search: Search) -> Search:
        tau = search.best + search.step
        value = distance(tau)
        better = value > search.value  # NaN is not better
        grows = search.grows & better
        return Search(
            best=jnp.where(better, tau, search.best),
            value=jnp.where(better, value, search.value),
            step=search.step * jnp.where(grows, 2, ratio).astype(dtype),
            grows=grows,
        )

    return jax.lax.fori_loop(1, evaluations, evaluate, start).best


def _line(
    attack: str, updates: Updates, mean: Tree, honest: Bool[Array, " K"]
) -> tuple[Tree, Tree]:
    """Return the start and the direction of the search."""
    if attack == "inner_product":
        return tree.zeros_like(mean), jax.tree.map(jnp.negative, mean)
    return mean, std_of(updates, honest, mean)

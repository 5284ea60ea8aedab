"""An attack that searches its strength against the defence in force."""

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
    """A line search for the largest value, on its way."""

    best: Float[Array, ""]
    value: Float[Array, ""]  # at `best`
    step: Float[Array, ""]
    grows: Bool[Array, ""]  # steps still become longer


@as_attack
def optimised(
    attack: Literal["little_is_enough", "inner_product"] = "little_is_enough",
    evaluations: Annotated[int, Ge(2), Le(1000)] = 20,
    step: Annotated[float, Gt(0)] = 10.0,
    ratio: Annotated[float, Gt(0), Lt(1)] = 0.8,
) -> Aim:
    """Malicious clients all send a + τ b, with the τ ≥ 0 that takes the defence furthest from the honest mean.

    a = mean_H, and b = std_H for `little_is_enough`; a = 0 and b = −mean_H for `inner_product`; over the honest updates H of the
    round that arrived and are finite, std with n − 1. τ maximises ‖F(τ) − mean_H‖, where F(τ) is what stages and rule of the
    server, as they are in this round, make of the stack. From τ = 0, steps ahead double while they help; from the first that
    does not, they shrink by `ratio`, each from the best τ so far.

    Knows: all updates of the round, and the server's list with its state.    Cost: `evaluations` aggregations a round.
    Needs: the whole stack.    Resists: no filter that it is told of; a defence with secrets of its own it knows less well.

    Args:
      attack: the direction.
      evaluations: of the defence.
      step: the first one.
      ratio: by which a step that did not help is shortened.

    References:
      Shejwalkar, Houmansadr 2021, Manipulating the Byzantine, NDSS; the search as in ByzFL, arXiv:2505.24802.
    """

    def aim(defence: Defence) -> Stage:
        def corrupt(updates: Updates, state: Tree, context: Context):
            finite = tree.finite_rows(
                updates.delta, len(updates.arrived)
            )  # the others the server drops
            usable = updates.arrived & (finite | context.malicious)
            honest = known_rows(updates, context, "cohort")
            mean = mean_of(updates, honest)
            start, direction = _line(attack, updates, mean, honest)

            def corrupted(tau: Array) -> Tree:
                row = jax.tree.map(lambda a, b: a + tau.astype(a.dtype) * b, start, direction)
                return tree.select(
                    context.malicious, jax.tree.map(lambda r: r[None], row), updates.delta
                )

            def distance(tau: Array) -> Array:
                stack = updates._replace(delta=corrupted(tau), arrived=usable)
                return tree.norm(tree.subtract(defence(stack, context), mean))

            tau = farthest(distance, evaluations, step, ratio, updates.samples.dtype)
            return updates._replace(delta=corrupted(tau)), state, {"tau": tau}

        return Stage(corrupt)

    return Aim(aim)


def farthest(distance: Any, evaluations: int, step: float, ratio: float, dtype: Any) -> Array:
    """The τ ≥ 0 of the largest distance that so many evaluations find."""
    zero = jnp.zeros((), dtype)
    begun = Search(zero, distance(zero), jnp.asarray(step, dtype), jnp.asarray(True))

    def tried(_: Int[Array, ""], search: Search) -> Search:
        tau = search.best + search.step
        value = distance(tau)
        better = value > search.value
        grows = search.grows & better
        length = search.step * jnp.where(grows, 2, ratio).astype(dtype)
        best, most = (
            jnp.where(better, tau, search.best),
            jnp.where(better, value, search.value),
        )  # a NaN is no better
        return Search(best, most, length, grows)

    return jax.lax.fori_loop(1, evaluations, tried, begun).best


def _line(
    attack: str, updates: Updates, mean: Tree, honest: Bool[Array, " K"]
) -> tuple[Tree, Tree]:
    """Where the search starts, and where it goes."""
    if attack == "inner_product":
        return tree.zeros_like(mean), jax.tree.map(jnp.negative, mean)
    return mean, std_of(updates, honest, mean)

"""How far the aggregate of a round lies from the mean of its honest clients, on request (`evaluate.diagnostics`).

Over the honest clients H of a round whose messages reached the rule's side of the wire and are finite:

    honest_distance = ‖F − mean_H‖      kappa_ratio = ‖F − mean_H‖² / (κ · 1/|H| Σ_{i∈H} ‖x_i − mean_H‖²)

with F what the rule made of the round, before any step on it, and κ the bound of `fedsim.rules.bounds`: a ratio above 1
contradicts it. NaN where nothing is known, and where the bound is 0 and leaves no room for rounding.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim import tree
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase
from fedsim.engine.passage import Passage
from fedsim.engine.serving import Gathered, RoundInfo, ServerState
from fedsim.stages.knowledge import known_rows
from fedsim.tree import Tree
from fedsim.types import Bound, Context, Updates


class HonestSum(NamedTuple):
    """Sum over the honest clients of a round."""

    delta: Tree
    count: Float[Array, ""]


def add_honest(total: HonestSum | None, arrived: Updates, context: Context) -> HonestSum:
    """With the rows of a block, one after another."""
    w = known_rows(arrived, context, "cohort").astype(arrived.samples.dtype)
    so_far = total or HonestSum(tree.zero_row(arrived.delta), jnp.zeros_like(w[0]))
    return HonestSum(*tree.fold(tuple(so_far), (arrived.delta, jnp.ones_like(w)), w))


def mean_of(total: HonestSum) -> Tree:
    """NaN where nobody honest arrived."""
    return tree.over(total.delta, total.count)


class Deviation(NamedTuple):
    """Of an aggregate of rows that stand together."""

    distance: Float[Array, ""]  # from the mean of the honest rows, as parameters
    off: Float[Array, ""]  # likewise, as messages
    spread: Float[Array, ""]  # 1/|H| Σ ‖x_i − mean_H‖²
    honest: Int[Array, ""]  # rows
    malicious: Int[Array, ""]


class Deviations:
    """The program that measures rows that stand together: one for all rules behind the same wire.

    Args:
      passage: whose wire it is; the rule behind it counts only where a link of the wire asks for it.
    """

    def __init__(self, passage: Passage):
        self.passage = passage

    def of(self, total: Gathered, reduced: Tree, server: ServerState, info: RoundInfo) -> Deviation:
        """How far `reduced`, what a rule made of the rows, lies from the honest ones."""
        state = server.state if self.passage.aims else {"wire": server.state["wire"]}
        return self.measured(total, reduced, ServerState(server.shared, state), info)

    @jitted
    def measured(self, total: Gathered, reduced: Tree, server: ServerState, info: RoundInfo) -> Deviation:
        """`of`, given what it needs of the server."""
        arrived = self.passage.arrive(total.updates, server, total.slots, info)[0]
        context = self.passage.context(server, total.slots, info, Phase.RULE)
        mean = mean_of(add_honest(None, arrived, context))
        decoded = lambda message: self.passage.decoded(message, server.shared)
        distance = tree.norm(tree.subtract(decoded(reduced), decoded(mean)))
        return deviation_of(reduced, mean, arrived, context)._replace(distance=distance)


def deviation_of(aggregate: Tree, mean: Tree, arrived: Updates, context: Context) -> Deviation:
    """Of messages that stand together, of whose honest ones `mean` is the mean."""
    honest, malicious = known_rows(arrived, context, "cohort"), arrived.arrived & context.malicious
    away, off = tree.norms(arrived.delta, mean), tree.norm(tree.subtract(aggregate, mean))
    spread = jnp.sum(jnp.where(honest, away * away, 0)) / jnp.sum(honest)
    return Deviation(off, off, spread, jnp.sum(honest), jnp.sum(malicious))


def ratio_to_bound(deviation: Deviation, bound: Bound) -> Float[Array, ""]:
    """`kappa_ratio`."""
    _, off, spread, honest, malicious = deviation
    most = spread * bound(honest + malicious, malicious).astype(spread.dtype)
    return jnp.where(most > 0, off * off / most, jnp.nan)

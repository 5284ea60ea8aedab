"""How far the aggregate of a round lies from the mean of its honest clients, on request
(`evaluate.diagnostics`).

Over the honest clients H of a round whose messages reached the rule's side of the wire and are
finite:

    honest_distance = ‖F − mean_H‖
    kappa_ratio     = ‖F − mean_H‖² / (κ · 1/|H| Σ_{i∈H} ‖x_i − mean_H‖²)

with F what the rule made of the round, before any step on it, and κ the bound of
`fedsim.rules.bounds`: a ratio above 1 contradicts it. NaN where nothing is known, and where the
bound is 0 and leaves no room for rounding.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim import tree
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.serving import Messages, RoundStart, ServerState, contexts_of, received
from fedsim.engine.slots import Slots
from fedsim.engine.summing import Sum
from fedsim.stages.knowledge import known_rows
from fedsim.tree import Tree
from fedsim.types import Bound, Context, Info, Task, Updates


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
      pipeline: whose wire it is; the rule behind it counts only where a link of the wire asks for
        it.
      task: of the run.
    """

    def __init__(self, pipeline: Pipeline, task: Task):
        self.pipeline, self.task = pipeline, task

    def of(self, total: Messages, row: Tree, at: RoundStart) -> Deviation:
        """How far `row`, what a rule made of the messages, lies from the honest ones."""
        server = at.server
        state = server.state if self.pipeline.aims else {"wire": server.state["wire"]}
        return self.measured(total, row, at._replace(server=ServerState(server.shared, state)))

    @jitted
    def measured(self, total: Messages, row: Tree, at: RoundStart) -> Deviation:
        """`of`, given what it needs of the server."""
        pipeline, server = self.pipeline, at.server
        contexts = contexts_of(pipeline, self.task, at, total.slots)
        arrived = pipeline.arrive(received(total), server.state, contexts)[0]
        context = contexts(Phase.RULE)
        mean = mean_of(add_honest(None, arrived, context))
        decoded = lambda message: pipeline.decoded(message, server.shared)
        distance = tree.norm(tree.subtract(decoded(row), decoded(mean)))
        return deviation_of(row, mean, arrived, context)._replace(distance=distance)


class Distances:
    """How far the aggregate of a run's rounds lies from their honest clients: programs of their
    own, which change no bit.

    Args:
      pipeline: of the run.
      task: likewise.
      deviations: of rows that stand together behind its wire.
    """

    def __init__(self, pipeline: Pipeline, task: Task, deviations: Deviations):
        self.pipeline, self.task, self.deviations = pipeline, task, deviations

    @jitted
    def add(self, total: HonestSum | None, messages: Messages, at: RoundStart) -> HonestSum:
        """With the honest rows of a block that is summed and forgotten."""
        contexts = contexts_of(self.pipeline, self.task, at, messages.slots)
        arrived = self.pipeline.arrive(received(messages), at.server.state, contexts)[0]
        return add_honest(total, arrived, contexts(Phase.RULE))

    def of(
        self,
        total: Sum | Messages,
        row: Tree | None,
        honest: HonestSum | None,
        slots: Slots,
        at: RoundStart,
    ) -> Info:
        """What is reported of a round.

        Args:
          total: its messages, summed or gathered.
          row: what the rule made of gathered ones; a sum is divided once more.
          honest: the sum of the honest rows, where messages are summed.
          slots: of the last block.
          at: the round.
        """
        if isinstance(total, Sum):
            return {"honest_distance": self.of_sum(total, honest, slots, at)}
        deviation = self.deviations.of(total, row, at)
        ratio = {} if self.pipeline.bound is None else {"kappa_ratio": self.kappa_ratio(deviation)}
        return {"honest_distance": deviation.distance, **ratio}

    @jitted
    def of_sum(self, total: Sum, honest: HonestSum | None, slots: Slots, at: RoundStart) -> Array:
        """`honest_distance` where messages are summed."""
        pipeline, server = self.pipeline, at.server
        assert pipeline.rule.fold is not None and honest is not None
        context = contexts_of(pipeline, self.task, at, slots)(Phase.RULE)
        aggregate = pipeline.rule.fold.finish(total.rule, server.state["rule"], context)[0]
        decoded = lambda message: pipeline.decoded(message, server.shared)
        return tree.norm(tree.subtract(decoded(aggregate), decoded(mean_of(honest))))

    @jitted
    def kappa_ratio(self, deviation: Deviation) -> Array:
        """Of the published bound, where there is one."""
        assert self.pipeline.bound is not None
        return ratio_to_bound(deviation, self.pipeline.bound)


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

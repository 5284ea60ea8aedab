"""How far a round's aggregate lies from the mean of its honest clients (`evaluate.diagnostics`).

Over the honest clients H of a round whose messages arrived behind the wire and are finite:

    honest_distance = ‖F − mean_H‖
    kappa_ratio     = ‖F − mean_H‖² / (κ · 1/|H| Σ_{i∈H} ‖x_i − mean_H‖²)

F is what the rule made of the round, before any step on it. κ is the bound of
`fedsim.rules.bounds`: a ratio above 1 contradicts it. The ratio is NaN where no bound is known, and
where the bound is 0 and leaves no margin for rounding.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim import tree
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.server_records import (
    Messages,
    RoundStart,
    ServerState,
    contexts_of,
    sent_updates,
)
from fedsim.engine.slots import Slots
from fedsim.engine.summing import Sum
from fedsim.stages.knowledge import known_rows
from fedsim.tree import Tree
from fedsim.types import Bound, Context, Info, Updates


class HonestSum(NamedTuple):
    """Sum over the honest clients of a round."""

    delta: Tree
    count: Float[Array, ""]


def add_honest(total: HonestSum | None, arrived: Updates, context: Context) -> HonestSum:
    """Add the honest rows of a block, one after another."""
    weights = known_rows(arrived, context, "cohort").astype(arrived.samples.dtype)
    if total is None:
        total = HonestSum(tree.zero_row(arrived.delta), jnp.zeros_like(weights[0]))
    rows = (arrived.delta, jnp.ones_like(weights))
    return HonestSum(*tree.fold(tuple(total), rows, weights))


def mean_of(total: HonestSum) -> Tree:
    """Return the mean of the honest rows; NaN where none arrived."""
    return tree.over(total.delta, total.count)


class Deviation(NamedTuple):
    """How far the aggregate of a stack lies from the stack's honest rows."""

    distance: Float[Array, ""]  # from their mean, as parameters
    message_distance: Float[Array, ""]  # from their mean, as messages
    spread: Float[Array, ""]  # 1/|H| Σ ‖x_i − mean_H‖²
    honest: Int[Array, ""]  # rows
    malicious: Int[Array, ""]  # rows


class Deviations:
    """The program that measures a stack: one for all rules behind the same wire.

    Args:
      pipeline: whose wire it is; its rule counts only where a link of the wire asks for it.
    """

    def __init__(self, pipeline: Pipeline):
        self.pipeline = pipeline

    def measure(self, gathered: Messages, reduced: Tree, start: RoundStart) -> Deviation:
        """Return how far what a rule made of the messages lies from the honest ones."""
        server = start.server
        state = server.state
        if not self.pipeline.aims:  # the wire does not read the states of other links
            state = {"wire": state["wire"]}
        start = start._replace(server=ServerState(server.shared, state))
        return self.deviation(gathered, reduced, start)

    @jitted
    def deviation(self, gathered: Messages, reduced: Tree, start: RoundStart) -> Deviation:
        """Return `measure`, with only those states of the server that it needs."""
        pipeline = self.pipeline
        server = start.server
        contexts = contexts_of(pipeline, start, gathered.slots)
        arrived = pipeline.arrive(sent_updates(gathered), server.state, contexts).updates
        context = contexts(Phase.RULE)
        mean = mean_of(add_honest(None, arrived, context))

        aggregate = pipeline.decoded(reduced, server.shared)
        honest = pipeline.decoded(mean, server.shared)
        distance = tree.norm(tree.subtract(aggregate, honest))
        return deviation_of(reduced, mean, arrived, context)._replace(distance=distance)


class Distances:
    """How far the aggregates of a run lie from its honest clients.

    The programs are separate from the training and change no bit of it.

    Args:
      pipeline: the run's pipeline.
    """

    def __init__(self, pipeline: Pipeline, deviations: Deviations):
        self.pipeline = pipeline
        self.deviations = deviations

    @jitted
    def add(self, total: HonestSum | None, messages: Messages, start: RoundStart) -> HonestSum:
        """Add the honest rows of a block that is summed and forgotten."""
        contexts = contexts_of(self.pipeline, start, messages.slots)
        updates = sent_updates(messages)
        arrived = self.pipeline.arrive(updates, start.server.state, contexts).updates
        return add_honest(total, arrived, contexts(Phase.RULE))

    def report(
        self,
        received: Sum | Messages,
        reduced: Tree | None,
        honest: HonestSum | None,
        slots: Slots,
        start: RoundStart,
    ) -> Info:
        """Return what is reported of a round.

        Args:
          received: its messages, summed or gathered.
          reduced: what the rule made of gathered messages; for a sum, the rule is applied again.
          honest: the sum of the honest rows, where messages are summed.
        """
        if isinstance(received, Sum):
            return {"honest_distance": self.honest_distance(received, honest, slots, start)}

        deviation = self.deviations.measure(received, reduced, start)
        info = {"honest_distance": deviation.distance}
        if self.pipeline.bound is not None:
            info["kappa_ratio"] = self.kappa_ratio(deviation)
        return info

    @jitted
    def honest_distance(
        self, total: Sum, honest: HonestSum | None, slots: Slots, start: RoundStart
    ) -> Float[Array, ""]:
        """Return `honest_distance` where messages are summed."""
        pipeline = self.pipeline
        server = start.server
        assert pipeline.rule.fold is not None
        assert honest is not None
        context = contexts_of(pipeline, start, slots)(Phase.RULE)
        reduced = pipeline.rule.fold.finish(total.rule, server.state["rule"], context)[0]
        aggregate = pipeline.decoded(reduced, server.shared)
        mean = pipeline.decoded(mean_of(honest), server.shared)
        return tree.norm(tree.subtract(aggregate, mean))

    @jitted
    def kappa_ratio(self, deviation: Deviation) -> Float[Array, ""]:
        """Return the ratio to the published bound."""
        assert self.pipeline.bound is not None
        return ratio_to_bound(deviation, self.pipeline.bound)


def deviation_of(aggregate: Tree, mean: Tree, arrived: Updates, context: Context) -> Deviation:
    """Return how far an aggregate lies from the honest rows of a stack."""
    honest = known_rows(arrived, context, "cohort")
    malicious = arrived.arrived & context.malicious
    distances = tree.norms(arrived.delta, mean)  # [K]
    message_distance = tree.norm(tree.subtract(aggregate, mean))

    squares = jnp.where(honest, distances * distances, 0)
    spread = jnp.sum(squares) / jnp.sum(honest)
    return Deviation(
        distance=message_distance,
        message_distance=message_distance,
        spread=spread,
        honest=jnp.sum(honest),
        malicious=jnp.sum(malicious),
    )


def ratio_to_bound(deviation: Deviation, bound: Bound) -> Float[Array, ""]:
    """Return `kappa_ratio`."""
    rows = deviation.honest + deviation.malicious
    spread = deviation.spread
    largest = spread * bound(rows, deviation.malicious).astype(spread.dtype)
    is_bounded = largest > 0
    square = deviation.message_distance * deviation.message_distance
    return jnp.where(is_bounded, square / largest, jnp.nan)

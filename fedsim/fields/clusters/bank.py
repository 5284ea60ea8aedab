"""Several models at the server: which of them a client trains, and how each takes its step.

The server of a method with a `Bank` has a leading axis: its variables, and the states of wire,
stages, rule and optimisers, are `[k, ...]`. Every program of the server for a single model is
mapped over this axis, one model after another, so that each has the bits that it would have alone;
for each, the messages of clients that trained another one have not arrived. A round trains all
clients together, from a bank with all models.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from fedsim import tree
from fedsim.engine.close import Kept
from fedsim.engine.jitted import Jitted, jitted_with
from fedsim.engine.memory import Memory
from fedsim.engine.models import one_model
from fedsim.engine.server import Server
from fedsim.engine.server_records import (
    Aggregated,
    Messages,
    RoundReport,
    RoundStart,
    ServerState,
    ServerUpdate,
    TrainStats,
    is_finite,
    sent_updates,
)
from fedsim.engine.slots import Slots
from fedsim.engine.stacking import Stacking
from fedsim.engine.summing import Summing
from fedsim.tree import Tree
from fedsim.types import Bank, Info, Shared, Work

GROUPS = "groups"  # the entry of the server's state that says which model every client has
OF_MODELS = ("wire", "stages", "rule", "steps", "optimiser")  # entries that every model has


def _own_cluster(groups: Any, work: Work) -> Int[Array, " block"]:
    return groups.cluster[work.id]


@functools.partial(jax.jit, static_argnums=0)
def _chosen(choose: Callable, groups: Any, work: Work) -> Int[Array, " block"]:
    return choose(groups, work)


def choices_of_groups(bank: Bank, server: ServerState, slots: Slots) -> Int[Array, " block"]:
    """Return the models that the server has decided on for the clients of a block."""
    assert bank.grouping is not None
    choose = bank.grouping.choose or _own_cluster
    return _chosen(choose, server.state[GROUPS], slots.work)


unstacked = jax.jit(tree.unstack)  # variables [k, ...] -> those of every model


def _of_model(messages: Messages, model: Int[Array, ""], models: int) -> Messages:
    """Return a round's messages; those of clients that trained another model have not arrived."""
    slots = messages.slots
    trained = slots.start % models == model
    of_model = slots._replace(
        weight=jnp.where(trained, slots.weight, 0),
        count=jnp.where(trained, slots.count, 0),
    )
    return messages._replace(slots=of_model)


class ModelAggregator:
    """An aggregator as `Summing` or `Stacking`, once for each model.

    Attributes:
      add: adds the messages of a block, as that of `one`; clients remember nothing.
    """

    def __init__(self, one: Summing | Stacking, bank: Bank):
        self.one = one
        self.bank = bank
        self.gathers = isinstance(one, Stacking)
        self.add = one.add if self.gathers else self.add_rows
        self.add_program: Jitted = one.add_program if self.gathers else self.add_rows

    def zero(self, messages: Messages, start: RoundStart) -> Any:
        """Return what is received before any message: `[k, ...]` sums, or one empty stack."""
        if self.gathers:
            return self.one.zero(messages, start)

        def zero(server: ServerState) -> Any:
            return self.one.zero(messages, start._replace(server=server))

        return jax.lax.map(zero, _of_models(start.server)[0])

    @jitted_with(donate=(0, 1))
    def add_rows(
        self,
        received: Any,
        memory: Memory,
        messages: Messages,
        start: RoundStart,
        first_slot: Int[Array, ""] | int,
    ) -> tuple[Any, Memory, TrainStats]:
        """Add the messages of a block to the sum of every model."""
        one = self.one
        assert isinstance(one, Summing)

        def add(of_model):
            total, server, model = of_model
            of_model = _of_model(messages, model, self.bank.models)
            model_start = start._replace(server=server)
            total, _, stats = one.add(total, memory, of_model, model_start, first_slot)
            return total, stats

        models = jnp.arange(self.bank.models)
        total, stats = jax.lax.map(add, (received, _of_models(start.server)[0], models))

        # What a client's training reports does not depend on the model: all copies are equal.
        return total, memory, tree.take(stats, 0)

    def aggregate(
        self, received: Any, model: Int[Array, ""], memory: Memory, slots: Slots, start: RoundStart
    ) -> Aggregated:
        """Apply the rule to what was received for ONE model, out of what was received for all."""
        if self.gathers:
            reported = jnp.sum(received.slots.weight > 0, dtype=jnp.int32)
            received = _of_model(received, model, self.bank.models)
        else:
            reported = jnp.sum(received.counts.reported, dtype=jnp.int32)
            received = tree.take(received, model)

        aggregated = self.one.aggregate(received, memory, slots, start)
        if not self.bank.over_round:
            return aggregated
        share = aggregated.counts.usable / jnp.maximum(reported, 1)
        output = aggregated.output
        step = jax.tree.map(lambda a: a * share.astype(a.dtype), output.aggregate)
        return aggregated._replace(output=output._replace(aggregate=step))


class BankServer(Server):
    """The programs of a server with several models; arguments as in `Server`."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        assert self.client.bank is not None
        self.bank: Bank = self.client.bank
        if self.bank.grouping is not None:
            self.kept.append(Kept(GROUPS, self._first_groups))
        self.aggregator: Any = ModelAggregator(self.aggregator, self.bank)

    def new_states(self, shared: Shared, present: Any) -> dict[str, Tree]:
        """Return the states of links and optimisers for every model `[k, ...]`."""
        one = super().new_states
        return jax.lax.map(lambda model: one(model, present), shared)

    def _first_groups(self, shared: Shared, present: Any) -> Tree:
        assert self.bank.grouping is not None
        params = one_model(self.client, shared)["params"]
        return self.bank.grouping.init(self.task, params, present, self.bank.models)

    def close(
        self, received: Any, memory: Memory, slots: Slots, start: RoundStart
    ) -> tuple[ServerUpdate, Array]:
        """Return the next server, with one report, and the weights of every model `[k]`."""
        server, of_all = _of_models(start.server)
        info: Info = {}
        if self.bank.regroups:
            received, server, of_all[GROUPS], info = self._regrouped(received, start)

        def of_model(server_and_number) -> tuple[ServerState, RoundReport, Array]:
            server, model = server_and_number
            model_start = start._replace(server=server)
            aggregated = self.aggregator.aggregate(received, model, memory, slots, model_start)
            update, weight = self.closed(aggregated, model_start)
            return update.server, update.report, weight

        numbers = jnp.arange(self.bank.models)
        models, reports, weights = jax.lax.map(of_model, (server, numbers))
        report = _joined(reports)
        shared = models.shared
        if self.bank.mix is not None:
            shared = self.bank.mix(server.shared, shared, ~reports.skipped)
            report = report._replace(finite=is_finite(shared["params"]))
        update = ServerUpdate(
            server=ServerState(shared, {**models.state, **of_all}),
            memory=memory,
            report=report._replace(info={**report.info, **info}),
            reduced=None,
        )
        return update, weights

    def _regrouped(
        self, received: Messages, start: RoundStart
    ) -> tuple[Messages, ServerState, Tree, Info]:
        """Divide the clients anew by what arrived.

        Returns:
          The messages with the models that they count for now; the server, whose models begin where
          their parents are; the server's state of the groups; and what is reported.
        """
        grouping = self.bank.grouping
        assert grouping is not None and grouping.apply is not None
        work = received.slots.work
        updates = sent_updates(received)
        finite = tree.finite_rows((updates.delta, updates.stats), len(work.id))
        updates = updates._replace(arrived=updates.arrived & finite)
        groups, parents, models, info = grouping.apply(
            updates, work, start.round, start.server.state[GROUPS]
        )

        server = tree.take(_of_models(start.server)[0], parents)
        slots = received.slots._replace(start=models)
        return received._replace(slots=slots), server, groups, info


def _of_models(server: ServerState) -> tuple[ServerState, dict[str, Tree]]:
    """Return what the server has of every model `[k, ...]`, and what it keeps of all of them."""
    of_all = dict(server.state)
    state = {name: of_all.pop(name) for name in OF_MODELS}
    return server._replace(state=state), of_all


def _joined(reports: RoundReport) -> RoundReport:
    """Return the report of a round from those of its models `[k]`.

    Of what links report, integers are summed, and floats averaged over the models that moved.
    """
    moved = ~reports.skipped
    info = {}
    for name, values in reports.info.items():
        if jnp.issubdtype(values.dtype, jnp.floating):
            total = jnp.sum(jnp.where(moved, values, 0))
            info[name] = total / jnp.maximum(jnp.sum(moved), 1).astype(values.dtype)
        else:
            info[name] = jnp.sum(values, dtype=values.dtype)
    return RoundReport(
        reported=jnp.sum(reports.reported, dtype=jnp.int32),
        nonfinite=jnp.sum(reports.nonfinite, dtype=jnp.int32),
        usable=jnp.sum(reports.usable, dtype=jnp.int32),
        skipped=jnp.all(reports.skipped),
        finite=jnp.all(reports.finite),
        info=info,
        bytes=jnp.sum(reports.bytes, axis=0, dtype=jnp.int32),
    )

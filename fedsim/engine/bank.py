"""Several models at the server: which of them a client trains, and how each takes its step.

The server of a method with a `Bank` has a leading axis: its variables, and the states of wire,
stages, rule and optimisers, are `[k, ...]`. Every program of the server for a single model is
mapped over this axis, one model after another, so that each has the bits that it would have alone;
for each, the messages of clients that trained another one have not arrived. A round trains all
clients together, from a bank with all models.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from fedsim import tree
from fedsim.engine.cloud import Cloud
from fedsim.engine.jitted import Jitted, jitted_with
from fedsim.engine.kept import Kept, without_kept
from fedsim.engine.memory import Memory
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
from fedsim.types import Bank, Client, Grouping, Info, Shared, Task, Work

GROUPS = "groups"  # the entry of the server's state that says which model every client has


class Received(NamedTuple):
    """What was received for ONE model."""

    of_model: Any  # a `Sum`, or `Messages` of which those of other models have not arrived
    reported: Int[Array, ""]  # clients that reported in the round, whichever model they trained


def models_of(client: Client) -> int:
    """Return the number of the server's models."""
    return 1 if client.bank is None else client.bank.models


def one_model(client: Client, shared: Shared) -> Shared:
    """Return the variables of the first model, or their shapes; all of them without a bank."""
    if client.bank is None:
        return shared
    return jax.tree.map(_first, shared)


def shapes_of_models(client: Client, shapes: Shared) -> Shared:
    """Return the shapes of the variables of all models from those of one."""
    if client.bank is None:
        return shapes
    k = client.bank.models
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((k, *leaf.shape), leaf.dtype), shapes)


def _first(leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)
    return leaf[0]


def choice_bytes(client: Client) -> int:
    """Return the bytes of the number of a model, ⌈log2 k⌉ bits; 0 where clients send none."""
    if client.bank is None or client.bank.choice is None:
        return 0
    bits = (client.bank.models - 1).bit_length()
    return -(-bits // 8)


@jax.jit
def choices_of_losses(losses: Tree) -> Int[Array, " block"]:
    """Return the model of least loss of every client `[block, k] -> [block]`; ties: the first."""
    return jnp.argmin(losses, axis=1).astype(jnp.int32)


def _own_cluster(groups: Any, work: Work) -> Int[Array, " block"]:
    return groups.cluster[work.id]


@functools.partial(jax.jit, static_argnums=0)
def _chosen(choose: Callable, groups: Any, work: Work) -> Int[Array, " block"]:
    return choose(groups, work)


unstacked = jax.jit(tree.unstack)  # variables [k, ...] -> those of every model


class Groups(Kept):
    """Which model every client has, where the server decides on it.

    Args:
      bank: the models.
      grouping: how the server divides its clients between them.
      task: model and loss.
    """

    name = GROUPS

    def __init__(self, bank: Bank, grouping: Grouping, task: Task):
        self.bank = bank
        self.grouping = grouping
        self.task = task

    def init(self, shared: Shared, present: Any) -> Tree:
        """Return the groups at the start of a run, when all models are alike."""
        params = tree.take(shared["params"], 0)
        return self.grouping.init(self.task, params, present, self.bank.models)

    def before(
        self, state: Tree, received: Any, start: RoundStart
    ) -> tuple[Tree, Any, RoundStart, Info]:
        """Divide the clients anew by what arrived, where the server does.

        Messages then come with the models that they count for now, and models begin where their
        parents are.
        """
        if self.grouping.apply is None:
            return state, received, start, {}
        work = received.slots.work
        updates = sent_updates(received)
        finite = tree.finite_rows((updates.delta, updates.stats), len(work.id))
        updates = updates._replace(arrived=updates.arrived & finite)
        state, parents, models, info = self.grouping.apply(updates, work, start.round, state)

        start = start._replace(server=tree.take(start.server, parents))
        slots = received.slots._replace(start=models)
        return state, received._replace(slots=slots), start, info


def choices_of_groups(bank: Bank, server: ServerState, slots: Slots) -> Int[Array, " block"]:
    """Return the models that the server has decided on for the clients of a block."""
    assert bank.grouping is not None
    choose = bank.grouping.choose or _own_cluster
    return _chosen(choose, server.state[GROUPS], slots.work)


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

    Args:
      one: aggregates the messages of one model.
      bank: the models.

    Attributes:
      add_program: the program behind `add`.
    """

    def __init__(self, one: Summing | Stacking, bank: Bank):
        self.one = one
        self.bank = bank
        self.gathers = isinstance(one, Stacking)
        self.add_program: Jitted = one.add_program if isinstance(one, Stacking) else self.add_rows

    def zero(self, messages: Messages, start: RoundStart) -> Any:
        """Return what is received before any message: `[k, ...]` sums, or one empty stack."""
        if self.gathers:
            return self.one.zero(messages, start)

        def zero(server: ServerState) -> Any:
            return self.one.zero(messages, start._replace(server=server))

        return jax.lax.map(zero, without_kept(start.server)[0])

    def add(
        self,
        received: Any,
        memory: Memory,
        messages: Messages,
        start: RoundStart,
        first_slot: Int[Array, ""] | int,
    ) -> tuple[Any, Memory, TrainStats]:
        """Add the messages of a block, as `Summing.add`; clients remember nothing."""
        if self.gathers:
            return self.one.add(received, memory, messages, start, first_slot)
        return self.add_rows(received, memory, messages, start, first_slot)

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
            total, _, stats = one.added(total, memory, of_model, model_start, first_slot)
            return total, stats

        models = jnp.arange(self.bank.models)
        total, stats = jax.lax.map(add, (received, without_kept(start.server)[0], models))

        # What a client's training reports does not depend on the model: all copies are equal.
        return total, memory, tree.take(stats, 0)

    def received(self, received: Any, model: Int[Array, ""]) -> Received:
        """Return what was received for ONE model, from what was received for all of them."""
        if self.gathers:
            reported = jnp.sum(received.slots.weight > 0, dtype=jnp.int32)
            return Received(_of_model(received, model, self.bank.models), reported)
        reported = jnp.sum(received.counts.reported, dtype=jnp.int32)
        return Received(tree.take(received, model), reported)

    def aggregate(
        self, received: Received, memory: Memory, slots: Slots, start: RoundStart
    ) -> Aggregated:
        """Apply the rule to what was received for ONE model."""
        aggregated = self.one.aggregate(received.of_model, memory, slots, start)
        if not self.bank.over_round:
            return aggregated
        share = aggregated.counts.usable / jnp.maximum(received.reported, 1)
        output = aggregated.output
        step = jax.tree.map(lambda a: a * share.astype(a.dtype), output.aggregate)
        return aggregated._replace(output=output._replace(aggregate=step))


class BankServer(Server):
    """The programs of a server with several models; arguments as in `Server`.

    Args:
      cloud: the server of edges, whose models these are; None: they stay apart.
    """

    def __init__(self, *arguments: Any, cloud: Cloud | None = None, **options: Any):
        super().__init__(*arguments, **options)
        assert self.client.bank is not None
        self.bank: Bank = self.client.bank
        if self.bank.grouping is not None:
            self.kept.append(Groups(self.bank, self.bank.grouping, self.task))
        if cloud is not None:
            self.kept.append(cloud)
        self.aggregator: Any = ModelAggregator(self.aggregator, self.bank)

    def new_states(self, shared: Shared, present: Any) -> dict[str, Tree]:
        """Return the states of links and optimisers for every model `[k, ...]`."""
        one = super().new_states
        return jax.lax.map(lambda model: one(model, present), shared)

    def close(
        self, received: Any, memory: Memory, slots: Slots, start: RoundStart
    ) -> tuple[ServerUpdate, Array]:
        """Return the next server and the weights of every model `[k]`, with one report."""
        one = super().close

        def of_model(server_and_number) -> tuple[ServerState, RoundReport, Array]:
            server, model = server_and_number
            received_for_it = self.aggregator.received(received, model)
            update, weight = one(received_for_it, memory, slots, start._replace(server=server))
            return update.server, update.report, weight

        numbers = jnp.arange(self.bank.models)
        models, reports, weights = jax.lax.map(of_model, (start.server, numbers))
        report = _joined(reports)
        if self.bank.mix is not None:
            shared = self.bank.mix(start.server.shared, models.shared, ~reports.skipped)
            models = models._replace(shared=shared)
            report = report._replace(finite=is_finite(shared["params"]))
        return ServerUpdate(models, memory, report, reduced=None), weights


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

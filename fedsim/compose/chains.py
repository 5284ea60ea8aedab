"""Composition: how links become a chain."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.kinds import tag_of, unique_names
from fedsim.tree import Tree
from fedsim.types import (
    AggregateStage,
    Context,
    Fold,
    Info,
    RowStage,
    Rule,
    Stage,
    Updates,
    stateless,
)

# The entry of a row-wise stage's reports that says which rows arrived; in sums, how many.
ROWS = ""


def lift(stage: RowStage, width: int | None = None) -> Stage:
    """A stage for ONE row as a stage for K rows: `vmap` over `width` rows at a time.

    Each row sees the context with its own id, `malicious` and key. XLA's bits depend on the width
    of a vmapped axis; with that of the lanes, a row's bits do not depend on how many rows are in
    its block.

    Args:
      width: rows at a time; None: all of them.
    """

    def per_row(row: Updates, id, malicious, key, context: Context) -> tuple[Updates, Info]:
        context = context._replace(ids=id, malicious=malicious, key=jax.random.fold_in(key, id))
        changed = stage.apply(row, context)
        measured = {} if stage.measure is None else stage.measure(row, context)
        return changed, measured

    def apply(updates: Updates, state: Tree, context: Context):
        context = context._replace(state=state)
        K = updates.samples.shape[0]
        size = width or K
        chunks = -(-K // size)  # rounded up

        def cut(leaf):  # [K, ...] -> [chunks, size, ...]
            row_padding = (0, chunks * size - K)
            padded = jnp.pad(leaf, [row_padding] + [(0, 0)] * (leaf.ndim - 1))
            return padded.reshape(chunks, size, *leaf.shape[1:])

        def join(leaf):  # [chunks, size, ...] -> [K, ...]
            return leaf.reshape(chunks * size, *leaf.shape[2:])[:K]

        def one_chunk(chunk):
            rows, ids, malicious = chunk
            return jax.vmap(per_row, in_axes=(0, 0, 0, None, None))(
                rows, ids, malicious, context.key, context
            )

        inputs = jax.tree.map(cut, (updates, context.ids, context.malicious))
        changed, measured = jax.tree.map(join, jax.lax.map(one_chunk, inputs))
        if not measured:
            return changed, state, {}
        info = {name: _countable(values) for name, values in measured.items()}
        return changed, state, {**info, ROWS: updates.arrived}

    return Stage(
        apply=apply,
        init=stage.init,
        least=0,
        name=stage.name,
        after=stage.after,
        memory=stage.memory,
    )


def in_parts(
    step: Callable[[Tree, Tree], tuple[Tree, Tree]], carry: Tree, rows: Tree, parts: int
) -> tuple[Tree, Tree]:
    """Take equal parts of rows one after another: (what the last step carries, what all return).

    What a step makes of its part can stay in the processor's cache, and is gone before the next.

    Args:
      step: (carry, part of the rows) -> (carry, rows).
      carry: what the first step is given.
      rows: leaves `[K, ...]`.
      parts: how many; they divide K.
    """
    if parts == 1:
        return step(carry, rows)
    size = tree.rows(rows) // parts

    # Rows that are cut beforehand, as [parts, size, ...], XLA would copy all at once.
    def cut(leaf, part):
        return jax.lax.dynamic_slice_in_dim(leaf, part * size, size)

    def next_part(carry, part):
        return step(carry, jax.tree.map(lambda leaf: cut(leaf, part), rows))

    carry, returned = jax.lax.scan(next_part, carry, jnp.arange(parts))
    return carry, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), returned)


def _countable(values: Array) -> Array:
    """Truth values as integers, which can be summed."""
    return values.astype(jnp.int32) if values.dtype == bool else values


def no_reports(info: Info) -> Info:
    """The sums over no rows, for what the stages of a chain report."""

    def zero(values):
        return jnp.zeros((), values.dtype)

    def no_rows(report: Info) -> Info:
        sums = {name: zero(values) for name, values in report.items() if name != ROWS}
        return sums | {ROWS: jnp.zeros((), jnp.int32)}

    return {
        index: no_rows(report) if ROWS in report else jax.tree.map(zero, report)
        for index, report in info.items()
    }


def add_reports(total: Info, info: Info) -> Info:
    """The sums with a block of rows added; what a stage reports of a whole stack replaces them."""
    return {
        index: _with_rows(total[index], report) if ROWS in report else report
        for index, report in info.items()
    }


def _with_rows(total: Info, measured: Info) -> Info:
    """Sums over rows with the rows added that arrived `[K]`; the entry `ROWS` counts them."""
    arrived = measured[ROWS]
    sums = {ROWS: total[ROWS] + jnp.sum(arrived, dtype=jnp.int32)}
    for name, values in measured.items():
        if name == ROWS:
            continue
        if jnp.issubdtype(values.dtype, jnp.floating):
            sums[name] = tree.fold(total[name], values, arrived.astype(values.dtype))
        else:
            sums[name] = total[name] + jnp.sum(jnp.where(arrived, values, 0), dtype=jnp.int32)
    return sums


def finished_report(info: Info) -> Info:
    """A stage's report of a round, from sums over its rows: integers as sums, floats as means."""
    if ROWS not in info:
        return info
    rows = info[ROWS]

    def finished(total):
        if jnp.issubdtype(total.dtype, jnp.integer):
            return total
        return total / jnp.maximum(rows, 1).astype(total.dtype)

    return {name: finished(total) for name, total in info.items() if name != ROWS}


def labels(links: Sequence[Any]) -> list[str]:
    """The names under which the links of a round report: their kinds; a second `clip` is `clip[1]`.

    >>> labels([RowStage(abs, "clip"), RowStage(abs, "clip"), RowStage(abs, "other")])
    ['clip', 'clip[1]', 'other']
    """
    return unique_names([link.name for link in links])


def chain(
    stages: Sequence[Stage | RowStage],
    width: int | None = None,
    owners: Sequence[str] | None = None,
) -> Stage:
    """Several stages as one; inserting another stage does not disturb the noise of any.

    Its info has the report of every stage under the stage's index; a row-wise stage reports every
    row `[K]`.

    Args:
      stages: stages that see one row, or all rows.
      width: as in `lift`.
      owners: names under which `updates.memory` holds the stages' rows; None: their `labels`.
    """
    lifted = [lift(stage, width) if isinstance(stage, RowStage) else stage for stage in stages]
    owners = labels(stages) if owners is None else owners
    names = [stage.name for stage in lifted]
    keys = key_functions(names)

    def init(params, present):
        return tuple(stage.init(params, present) for stage in lifted)

    def apply(updates, state, context):
        states = []
        info = {}
        for index, (stage, key_of, owner) in enumerate(zip(lifted, keys, owners, strict=True)):
            memory = dict(updates.memory)
            shown = updates._replace(memory=memory.get(owner, ()))
            stage_context = context._replace(key=key_of(context.key))
            updates, stage_state, report = stage.apply(shown, state[index], stage_context)

            # The stage saw its own rows alone: put them back among those of all owners.
            if owner in memory:
                memory[owner] = updates.memory
            updates = updates._replace(memory=memory)
            states.append(stage_state)
            if report:
                info[index] = report
        return updates, tuple(states), info

    def after(states, info):
        new_states = list(states)
        for index, report in info.items():
            stage_after = lifted[index].after
            if stage_after is None:
                continue
            new_state = stage_after(states[index], finished_report(report))
            if ROWS in report:  # where no row arrived, nothing was measured
                new_state = tree.select(report[ROWS] > 0, new_state, states[index])
            new_states[index] = new_state
        return tuple(new_states)

    least = max((stage.least for stage in lifted), default=0)
    return Stage(apply=apply, init=init, least=least, name="+".join(names), after=after)


def with_row_stage(stages: Sequence[Stage | RowStage], rule: Rule) -> list[Stage | RowStage]:
    """The stages in front of a rule, followed by the rule's own row-wise stage if it has one."""
    if rule.before is None:
        return list(stages)
    return [*stages, rule.before]


def reads_updates_alone(rule: Rule) -> bool:
    """Whether a rule asks for nothing but updates: so that it fits groups, edges and nodes."""
    asks = rule.needs or rule.evaluated or rule.adapter.leaves or rule.client or rule.before
    return not asks


def plain_updates(delta: Tree, arrived: Bool[Array, " K"], samples: Float[Array, " K"]) -> Updates:
    """Return rows that no client sent: differences of models and their weights, nothing else."""
    ones = jnp.ones_like(samples)
    K = len(samples)
    return Updates(
        delta=delta,
        stats={},
        aux={},
        arrived=arrived,
        samples=samples,
        count=ones,
        loss=jnp.full_like(samples, jnp.nan),
        steps=ones,
        effort=ones,
        memory={},
        bytes=jnp.zeros(K, jnp.int32),
        age=jnp.zeros(K, jnp.int32),
    )


def plain_context(key: Any, params: Tree, ids: Any, dtype: Any) -> Context:
    """Return what links know in the first round of senders that all take part, and are honest.

    Args:
      key: of the links.
      params: what the senders were sent.
      ids: of the senders `[K]`.
      dtype: of the floats.
    """
    # NumPy makes the constants: every operation of JAX would be one more program to compile. They
    # are typed as Any because `Context` annotates its fields as JAX arrays.
    numpy: Any = np
    number: Any = np.dtype(dtype).type
    K = len(ids)
    return Context(
        key=key,
        round=numpy.int32(1),
        N=number(K),
        lr=number(1),
        shared={"params": params},
        ids=ids,
        malicious=numpy.zeros(K, bool),
    )


def fresh_rows(stages: Mapping[str, Stage | RowStage], context: Context) -> dict[str, Tree]:
    """What stages remember of clients that never took part `[K, ...]`, by the stages' names."""
    params = context.shared["params"]

    def rows_of(stage: Stage | RowStage) -> Tree:
        def row(id):
            return stage.memory(params, jax.random.fold_in(context.key, id))

        return jax.vmap(row)(context.ids)

    return {name: rows_of(stage) for name, stage in stages.items()}


def key_functions(names: Sequence[str]) -> list[Callable[[Any], Any]]:
    """For every link, a function from the list's key to the link's.

    Keys depend on a link's name and on how often it came before, so that inserting another link
    disturbs none.
    """

    def key_of(tag: int, repeat: int) -> Callable[[Any], Any]:
        return lambda key: jax.random.fold_in(jax.random.fold_in(key, tag), repeat)

    return [key_of(tag_of(name), list(names[:i]).count(name)) for i, name in enumerate(names)]


def aggregate_chain(stages: Sequence[AggregateStage]) -> AggregateStage:
    """Several steps on the aggregate as one; its info has every step's report under its index."""
    names = [stage.name for stage in stages]
    keys = key_functions(names)

    def init(params, present):
        return tuple(stage.init(params, present) for stage in stages)

    def apply(aggregate, state, context):
        states = []
        info = {}
        for index, (stage, key_of) in enumerate(zip(stages, keys, strict=True)):
            stage_context = context._replace(key=key_of(context.key))
            aggregate, stage_state, report = stage.apply(aggregate, state[index], stage_context)
            states.append(stage_state)
            if report:
                info[index] = report
        return aggregate, tuple(states), info

    return AggregateStage(apply, init, "+".join(names))


def folding(
    fold: Fold,
    weights: Callable[[Updates], Float[Array, " K"]],
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless,
) -> Rule:
    """A rule from its fold: `apply` over a whole stack is the fold of one block."""

    def apply(updates: Updates, state: Tree, context: Context):
        total = fold.add(fold.zero(updates), updates, context._replace(state=state))
        return fold.finish(total, state, context)

    return Rule(apply=apply, init=init, fold=fold, weights=weights)


class ServerStep(NamedTuple):
    """What makes the step that is added to the shared parameters out of the rule's aggregate."""

    init: Callable[[Tree], Tree]  # (params) -> state
    # (aggregate, state, params) -> (step, state)
    apply: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]


def server_step(*optimisers: optax.GradientTransformation) -> ServerStep:
    """Chain the optimisers behind a rule; without any, the aggregate is the step.

    They see the pseudo-gradient −Δ̄ (so `optax.sgd(1.)` is the plain rule) and the parameters that
    were sent out.
    """
    if not optimisers:
        return ServerStep(
            init=lambda params: (),
            apply=lambda aggregate, state, params: (aggregate, state),
        )
    optimiser = optax.chain(*optimisers)

    def apply(aggregate, state, params):
        return optimiser.update(jax.tree.map(lambda a: -a, aggregate), state, params)

    return ServerStep(optimiser.init, apply)


class Scheduled(NamedTuple):
    """State of an optimiser whose learning rate changes."""

    count: Int[Array, ""]  # steps taken; a server takes one a round
    inner: Tree


def scheduled(
    factory: Callable[..., Any], rate: Callable[[Any], Any]
) -> optax.GradientTransformation:
    """An optimiser that is made again for every step, with the learning rate of that step.

    Args:
      factory: `lr -> optax.GradientTransformation`, as the keyword `lr`.
      rate: steps taken so far -> learning rate.
    """

    def optimiser(count):
        return factory(lr=rate(count.astype(jnp.result_type(float))))

    def init(params):
        count = jnp.zeros((), jnp.int32)
        return Scheduled(count, optimiser(count).init(params))

    def update(updates, state, params=None):
        updates, inner = optimiser(state.count).update(updates, state.inner, params)
        return updates, Scheduled(state.count + 1, inner)

    return optax.GradientTransformation(init, update)

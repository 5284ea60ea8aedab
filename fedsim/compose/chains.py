"""Composition: how links become a chain."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.kinds import named, tag_of
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

ROWS = ""  # among what a row-wise stage reports: the rows that arrived, and in sums how many


def lift(stage: RowStage, width: int | None = None) -> Stage:
    """A stage for ONE row as a stage for K rows: `vmap` over exactly `width` rows at a time (over all if left out).

    Each row sees the context with its own id, its own `malicious` and its own key. The width is that of the lanes: XLA's
    bits depend on the width of a vmapped axis, and so a row's do not depend on how many rows stand in its block.
    """

    def per_row(row: Updates, id, malicious, key, context: Context) -> tuple[Updates, Info]:
        context = context._replace(ids=id, malicious=malicious, key=jax.random.fold_in(key, id))
        return stage.apply(row, context), {} if stage.measure is None else stage.measure(
            row, context
        )

    def apply(updates: Updates, state: Tree, context: Context):
        K, context = updates.samples.shape[0], context._replace(state=state)
        size = width or K
        chunks = -(-K // size)

        def cut(leaf):
            padded = jnp.pad(leaf, [(0, chunks * size - K)] + [(0, 0)] * (leaf.ndim - 1))
            return padded.reshape(chunks, size, *leaf.shape[1:])

        def join(leaf):
            return leaf.reshape(chunks * size, *leaf.shape[2:])[:K]

        def one_chunk(chunk):
            rows, ids, malicious = chunk
            return jax.vmap(per_row, in_axes=(0, 0, 0, None, None))(
                rows, ids, malicious, context.key, context
            )

        changed = jax.lax.map(
            one_chunk, jax.tree.map(cut, (updates, context.ids, context.malicious))
        )
        changed, measured = jax.tree.map(join, changed)
        measured = {n: v.astype(jnp.int32) if v.dtype == bool else v for n, v in measured.items()}
        return changed, state, {**measured, ROWS: updates.arrived} if measured else {}

    return Stage(
        apply=apply,
        init=stage.init,
        least=0,
        name=stage.name,
        after=stage.after,
        memory=stage.memory,
    )


def no_reports(info: Info) -> Info:
    """The sums over no rows, of what the stages of a line report."""
    zero = lambda values: jnp.zeros((), values.dtype)
    sums = lambda more: (
        {n: zero(v) for n, v in more.items() if n != ROWS} | {ROWS: jnp.zeros((), jnp.int32)}
    )
    return {
        place: sums(more) if ROWS in more else jax.tree.map(zero, more)
        for place, more in info.items()
    }


def add_reports(total: Info, info: Info) -> Info:
    """The sums with a block of rows added, one after another; what a stage reports of a whole stack is that."""
    return {
        place: _with_rows(total[place], more) if ROWS in more else more
        for place, more in info.items()
    }


def _with_rows(total: Info, measured: Info) -> Info:
    """Sums over rows with those added that arrived `[K]`; how many they are is the entry `ROWS`."""
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


def settled(info: Info) -> Info:
    """What a stage reports of a round, from the sums over its rows: integers as sums, floats as means."""
    if ROWS not in info:
        return info
    rows = info[ROWS]
    mean = lambda value: value / jnp.maximum(rows, 1).astype(value.dtype)
    whole = lambda value: jnp.issubdtype(value.dtype, jnp.integer)
    return {
        name: value if whole(value) else mean(value) for name, value in info.items() if name != ROWS
    }


def labels(links: Sequence[Any]) -> list[str]:
    """What the links of a round are called where they report: by their kinds, `clip`, and a second one `clip[1]`.

    >>> labels([RowStage(abs, "clip"), RowStage(abs, "clip"), RowStage(abs, "other")])
    ['clip', 'clip[1]', 'other']
    """
    return named([link.name for link in links])


def line(
    stages: Sequence[Stage | RowStage],
    width: int | None = None,
    owners: Sequence[str] | None = None,
) -> Stage:
    """Stages one after another, as one stage; each has its own noise, which inserting another stage does not disturb.

    Its info is that of every stage, by the stage's place among them; of a row-wise stage, what every row reports `[K]`.

    Args:
      stages: those that see a row, or all.
      width: as of `lift`.
      owners: names under which `updates.memory` holds their rows; `labels` of the stages if left out.
    """
    lifted = [lift(stage, width) if isinstance(stage, RowStage) else stage for stage in stages]
    owners = labels(stages) if owners is None else owners
    names = [stage.name for stage in lifted]
    keys = noises(names)

    def init(params, present):
        return tuple(stage.init(params, present) for stage in lifted)

    def apply(updates, state, context):
        states, info = [], {}
        for place, (stage, key_of, old) in enumerate(zip(lifted, keys, state, strict=True)):
            known, owner = dict(updates.memory), owners[place]
            shown = updates._replace(memory=known.get(owner, ()))
            updates, new, more = stage.apply(shown, old, context._replace(key=key_of(context.key)))
            updates = updates._replace(
                memory={**known, owner: updates.memory} if owner in known else known
            )
            states.append(new)
            info |= {place: more} if more else {}
        return updates, tuple(states), info

    def after(states, info):
        done = list(states)
        for place, more in info.items():
            update = lifted[place].after
            if update is not None:
                moved = update(states[place], settled(more))
                done[place] = (
                    tree.select(more[ROWS] > 0, moved, states[place]) if ROWS in more else moved
                )
        return tuple(done)

    least = max((stage.least for stage in lifted), default=0)
    return Stage(apply=apply, init=init, least=least, name="+".join(names), after=after)


def with_before(stages: Sequence[Stage | RowStage], rule: Rule) -> list[Stage | RowStage]:
    """The stages in front of a rule, and what the rule does to every row itself."""
    return [*stages, *([rule.before] if rule.before else [])]


def fresh_rows(stages: Mapping[str, Stage | RowStage], context: Context) -> dict[str, Tree]:
    """What stages remember of clients that never took part `[K, ...]`, by the names of the stages."""
    params = context.shared["params"]
    row = lambda stage: jax.vmap(
        lambda id: stage.memory(params, jax.random.fold_in(context.key, id))
    )(context.ids)
    return {name: row(stage) for name, stage in stages.items()}


def noises(names: Sequence[str]) -> list[Callable[[Any], Any]]:
    """Key of a list of links -> key of each: by name, so that inserting another link disturbs none."""

    def key_of(tag: int, repeat: int) -> Callable[[Any], Any]:
        return lambda key: jax.random.fold_in(jax.random.fold_in(key, tag), repeat)

    return [key_of(tag_of(name), list(names[:i]).count(name)) for i, name in enumerate(names)]


def aggregate_line(stages: Sequence[AggregateStage]) -> AggregateStage:
    """Steps on the aggregate one after another, as one; its info is that of every step, by its place among them."""
    keys = noises([stage.name for stage in stages])

    def init(params, present):
        return tuple(stage.init(params, present) for stage in stages)

    def apply(aggregate, state, context):
        states, info = [], {}
        for place, (stage, key_of, old) in enumerate(zip(stages, keys, state, strict=True)):
            aggregate, new, more = stage.apply(
                aggregate, old, context._replace(key=key_of(context.key))
            )
            states.append(new)
            info |= {place: more} if more else {}
        return aggregate, tuple(states), info

    return AggregateStage(apply, init, "+".join(stage.name for stage in stages))


def folding(
    fold: Fold,
    weights: Callable[[Updates], Float[Array, " K"]],
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless,
) -> Rule:
    """A rule from its fold: `apply` over a whole stack is the fold of one block, never written twice."""

    def apply(updates: Updates, state: Tree, context: Context):
        total = fold.add(fold.zero(updates), updates, context)
        return fold.finish(total, state, context)

    return Rule(apply=apply, init=init, fold=fold, weights=weights)


class ServerStep(NamedTuple):
    """What stands behind the rule: its aggregate becomes the step that is added to the shared parameters."""

    init: Callable[[Tree], Tree]  # (params) -> state
    apply: Callable[
        [Tree, Tree, Tree], tuple[Tree, Tree]
    ]  # (aggregate, state, params) -> (step, state)


def server_step(*optimisers: optax.GradientTransformation) -> ServerStep:
    """The optimisers behind a rule, one after another; with none of them the aggregate is the step.

    They see the pseudo-gradient −Δ̄ (so `optax.sgd(1.)` is the plain rule) and the parameters sent out.
    """
    if not optimisers:
        return ServerStep(lambda params: (), lambda aggregate, state, params: (aggregate, state))
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
    """An optimiser that is made anew for every step, with the learning rate of that step.

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

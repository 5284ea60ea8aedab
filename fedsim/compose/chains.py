"""Composition: how links become a chain."""

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from fedsim.tree import Tree
from fedsim.types import Context, Fold, RowStage, Rule, Stage, Updates


def lift(stage: RowStage, width: int | None = None) -> Stage:
    """A stage for ONE row as a stage for K rows: `vmap` over exactly `width` rows at a time (over all if left out).

    Each row sees the context with its own id, its own `malicious` and its own key. The width is that of the lanes: XLA's
    bits depend on the width of a vmapped axis, and so a row's do not depend on how many rows stand in its block.
    """

    def per_row(row: Updates, id, malicious, key, context: Context) -> Updates:
        return stage.apply(row, context._replace(ids=id, malicious=malicious, key=jax.random.fold_in(key, id)))

    def apply(updates: Updates, state: Tree, context: Context):
        K = updates.weight.shape[0]
        wide = width or K
        chunks = -(-K // wide)

        def cut(leaf):
            return jnp.pad(leaf, [(0, chunks * wide - K)] + [(0, 0)] * (leaf.ndim - 1)).reshape(
                chunks, wide, *leaf.shape[1:]
            )

        def chunk(rows):
            block, ids, malicious = rows
            return jax.vmap(per_row, in_axes=(0, 0, 0, None, None))(block, ids, malicious, context.key, context)

        done = jax.lax.map(chunk, jax.tree.map(cut, (updates, context.ids, context.malicious)))
        return jax.tree.map(lambda leaf: leaf.reshape(chunks * wide, *leaf.shape[2:])[:K], done), state, {}

    return Stage(apply, name=stage.name)


def line(stages: Sequence[Stage | RowStage], width: int | None = None) -> Stage:
    """Stages one after another, as one stage; each has its own noise, which inserting another stage does not disturb."""
    lifted = [lift(s, width) if isinstance(s, RowStage) else s for s in stages]
    names = [s.name for s in lifted]
    tags = [(zlib.crc32(name.encode()), names[:i].count(name)) for i, name in enumerate(names)]

    def init(params, present):
        return tuple(s.init(params, present) for s in lifted)

    def apply(updates, state, context):
        states, info = [], {}
        for s, (tag, again), own in zip(lifted, tags, state, strict=True):
            key = jax.random.fold_in(jax.random.fold_in(context.key, tag), again)
            updates, own, said = s.apply(updates, own, context._replace(key=key))
            states.append(own)
            info |= said
        return updates, tuple(states), info

    return Stage(apply, init, max((s.least for s in lifted), default=1), "+".join(names))


def folding(fold: Fold, weights: Callable[[Updates], Any], init: Callable = Rule._field_defaults["init"]) -> Rule:
    """A rule from its fold: `apply` over a whole stack is the fold of one block, never written twice."""

    def apply(updates: Updates, state: Tree, context: Context):
        total = fold.add(fold.zero(updates), updates, context)
        return fold.finish(total, state, context)

    return Rule(apply=apply, init=init, fold=fold, weights=weights)


class ServerStep(NamedTuple):
    """What stands behind the rule: its aggregate becomes the step that is added to the shared parameters."""

    init: Callable[[Tree], Tree]  # (params) -> state
    apply: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]  # (aggregate, state, params) -> (step, state)


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


def chain(rule: Rule, *optimisers: optax.GradientTransformation) -> Rule:
    """Rule, then optax: one rule again, so chains nest."""
    if not optimisers:
        return rule
    behind = server_step(*optimisers)

    def init(params, present):
        return rule.init(params, present), behind.init(params)

    def finish(aggregate, inner, outer, info, context):
        step, outer = behind.apply(aggregate, outer, context.shared["params"])
        return step, (inner, outer), info

    def apply(updates, state, context):
        aggregate, inner, info = rule.apply(updates, state[0], context)
        return finish(aggregate, inner, state[1], info, context)

    fold = rule.fold
    if fold is not None:
        folded = fold.finish

        def close(total, state, context):
            aggregate, inner, info = folded(total, state[0], context)
            return finish(aggregate, inner, state[1], info, context)

        fold = Fold(fold.zero, fold.add, close)
    shown = rule.evaluated
    evaluated = shown and (lambda params, state: shown(params, state[0]))
    return rule._replace(apply=apply, init=init, fold=fold, evaluated=evaluated)


class Scheduled(NamedTuple):
    """State of an optimizer whose learning rate changes."""

    count: Int[Array, ""]  # steps taken; a server takes one a round
    inner: Tree


def scheduled(factory: Callable[..., Any], rate: Callable[[Any], Any]) -> optax.GradientTransformation:
    """An optimizer that is made anew for every step, with the learning rate of that step.

    Args:
      factory: `lr -> optax.GradientTransformation`, as the keyword `lr`.
      rate: steps taken so far -> learning rate.
    """

    def now(count):
        return factory(lr=rate(count.astype(jnp.result_type(float))))

    def init(params):
        count = jnp.zeros((), jnp.int32)
        return Scheduled(count, now(count).init(params))

    def update(updates, state, params=None):
        updates, inner = now(state.count).update(updates, state.inner, params)
        return updates, Scheduled(state.count + 1, inner)

    return optax.GradientTransformation(init, update)

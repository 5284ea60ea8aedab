"""The decorators of the families whose kinds change messages and aggregates: links of `broadcast`, `wire` and `server`.

Their factories may return a noun, or a plain function that is wrapped as one.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.compose.shapes import ContractError, require_like
from fedsim.kinds import register
from fedsim.tree import Tree
from fedsim.types import AggregateStage, Aim, Codec, Context, RowStage, Rule, Stage, Updates

P = ParamSpec("P")
Reduce = Callable[[Updates, Context], Tree]
Change = Callable[[Updates, Context], Updates]
NOUNS = (Rule, Stage, RowStage, Codec, Aim, AggregateStage)


def rule(factory: Callable[P, Rule | Reduce]) -> Callable[P, Rule]:
    """Decorator: your own rule, as a kind that ends the first part of `server`, and as a `method`.

    Example::

        @fedsim.rule
        def midrange():
            def reduce(updates, context):
                reported = updates.arrived
                row = lambda x: reported.reshape(-1, *[1] * (x.ndim - 1))
                low = lambda x: jnp.min(jnp.where(row(x), x, jnp.inf), axis=0)
                return jax.tree.map(lambda x: (low(x) - low(-x)) / 2, updates.delta)

            return reduce

    Args:
      factory: `(hyper-parameters) -> reduce`, and `reduce(updates, context) -> tree` makes one tree from the stacked
        `updates.delta` `[K, ...]`. Rows where `updates.arrived` `[K]` is False did not report and may hold anything. A rule
        with memory, one that is a sum, or one that `needs` more than the context has, returns a `fedsim.types.Rule`.

    Returns:
      The factory, which returns a `Rule` now.
    """
    return _wrapped(
        "rule",
        factory,
        lambda f: Rule(apply=lambda updates, state, context: (f(updates, context), state, {})),
    )


def stage(factory: Callable[P, Stage | RowStage | Change]) -> Callable[P, Stage | RowStage]:
    """Decorator: your own stage before the rule, as a kind of `server` and of `wire`.

    Example::

        @fedsim.stage
        def halve():
            def change(updates, context):
                return updates._replace(delta=jax.tree.map(lambda x: x / 2, updates.delta))

            return change

    Args:
      factory: `(hyper-parameters) -> change`, and `change(updates, context) -> updates`, stacked `[K, ...]`. One that
        needs no other row returns a `fedsim.types.RowStage`, written for ONE row; one with memory a `Stage`.

    Returns:
      The factory, which returns a `Stage` or a `RowStage` now.
    """
    return _wrapped("stage", factory, _stage)


def attack(
    factory: Callable[P, Stage | RowStage | Aim | Reduce],
) -> Callable[P, Stage | RowStage | Aim]:
    """Decorator: your own attack on messages, as a kind of `wire`.

    Example::

        @fedsim.attack
        def echo():
            def corrupt(updates, context):
                return jax.tree.map(lambda x: jnp.broadcast_to(x[:1], x.shape), updates.delta)

            return corrupt

    Args:
      factory: `(hyper-parameters) -> corrupt`, and `corrupt(updates, context) -> delta` `[K, ...]`, of which only the
        rows of malicious clients are taken. One that needs no other row returns `fedsim.row_attack(f)`; one that knows the
        defence `fedsim.types.Aim(aim)`, where `aim(defence) -> Stage` and `defence(updates, context) -> tree` is what the
        server's stages and rule would make of a stack.

    Returns:
      The factory, which returns a `Stage` or a `RowStage` now.
    """
    return _wrapped("attack", factory, lambda corrupt: _stage(_corrupting(corrupt)))


def aggregate_stage(
    factory: Callable[P, AggregateStage | Callable[[Tree, Context], Tree]],
) -> Callable[P, AggregateStage]:
    """Decorator: your own step on the aggregate, as a kind of `server` between the rule and the optimisers.

    Example::

        @fedsim.aggregate_stage
        def bounded(most: float = 1.0):
            def change(aggregate, context):
                return jax.tree.map(lambda a: jnp.clip(a, -most, most), aggregate)

            return change

    Args:
      factory: `(hyper-parameters) -> change`, and `change(aggregate, context) -> aggregate` sees what the rule made, once a
        round; `context.key` is its own. One with memory returns a `fedsim.types.AggregateStage`.

    Returns:
      The factory, which returns an `AggregateStage` now.
    """
    wrap = lambda change: AggregateStage(
        lambda aggregate, state, context: (change(aggregate, context), state, {})
    )
    return _wrapped("aggregate_stage", factory, wrap)


def codec(factory: Callable[P, Codec]) -> Callable[P, Codec]:
    """Decorator: your own compression of messages, as a kind of `wire` and of `broadcast`.

    Example::

        @fedsim.codec
        def halves():
            def encode(x, memory, key):
                return x.astype(jnp.float16), 16 * len(x), memory

            return fedsim.types.Codec(encode, lambda payload, d: payload.astype(jnp.float32))

    Args:
      factory: `(hyper-parameters) -> fedsim.types.Codec`; its `encode(x, memory, key) -> (payload, bits, memory)` sees the
        `params` of ONE message as a vector `[d]`, `decode(payload, d) -> y` `[d]` makes of it what an honest receiver can.
        Bits are a Python integer, or an array where they depend on `x`; then `most(d)` says how many they may be.

    Returns:
      The factory, whose codecs bear its name now.
    """
    return _wrapped("codec", factory, None)


def row_attack(corrupt: Callable[[Tree, Context], Tree]) -> RowStage:
    """An attack on one message that needs no other one: what a factory under `fedsim.attack` may return.

    Example::

        @fedsim.attack
        def louder(factor: float = 10.0):
            return fedsim.row_attack(lambda delta, context: jax.tree.map(lambda x: factor * x, delta))

    Args:
      corrupt: `(delta, context) -> delta` for ONE malicious client: no axis for clients anywhere, `context.key` its own.

    Returns:
      A stage that changes the rows of malicious clients alone.
    """
    return RowStage(apply=_corrupting(lambda row, context: corrupt(row.delta, context)))


def _wrapped(
    family: str, factory: Callable[P, Any], wrap: Callable[[Any], Any] | None
) -> Callable[P, Any]:
    """For families whose factories may return a noun, or a plain function that is wrapped as one; it gets the kind's name."""

    @functools.wraps(factory)
    def build(*args: P.args, **kwargs: P.kwargs) -> Any:
        returned = factory(*args, **kwargs)
        if wrap is None and not isinstance(returned, Codec):
            raise ContractError(f"made {type(returned).__name__}, needed is a fedsim.types.Codec")
        if not isinstance(returned, NOUNS) and not callable(returned):
            raise ContractError(
                f"made {type(returned).__name__}, needed is a function of (updates, context)"
            )
        noun = returned if wrap is None or isinstance(returned, NOUNS) else wrap(returned)
        return noun._replace(name=factory.__name__)

    return register(family, build)


def _stage(change: Change) -> Stage:
    return Stage(apply=lambda updates, state, context: (change(updates, context), state, {}))


def _corrupting(corrupt: Reduce) -> Change:
    """Honest rows stay as they are, bit by bit; malicious ones become what the attacker computed."""

    def change(updates: Updates, context: Context) -> Updates:
        delta = jax.tree.map(jnp.asarray, corrupt(updates, context))
        require_like(delta, updates.delta, "what was sent", types=False, spread=True)
        return updates._replace(delta=tree.select(context.malicious, delta, updates.delta))

    return change

"""The decorators of the links of `broadcast`, `wire` and `server`.

Their factories may return a noun of `fedsim.types`, or a plain function that is wrapped as one.
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
    """Decorator: your own rule, as a kind of `server`, and as a `method`.

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
      factory: `(hyper-parameters) -> reduce`, and `reduce(updates, context) -> tree` makes one tree
        from the stacked `updates.delta` `[K, ...]`. Rows where `updates.arrived` `[K]` is False did
        not report and may hold anything. A rule with memory, one that is a sum, or one that `needs`
        more than the context has, returns a `fedsim.types.Rule`.

    Returns:
      The factory, which returns a `Rule` now.
    """

    def wrap(reduce: Reduce) -> Rule:
        return Rule(apply=lambda updates, state, context: (reduce(updates, context), state, {}))

    return _wrapped("rule", factory, wrap)


def stage(factory: Callable[P, Stage | RowStage | Change]) -> Callable[P, Stage | RowStage]:
    """Decorator: your own stage before the rule, as a kind of `server` and of `wire`.

    Example::

        @fedsim.stage
        def halve():
            def change(updates, context):
                return updates._replace(delta=jax.tree.map(lambda x: x / 2, updates.delta))

            return change

    Args:
      factory: `(hyper-parameters) -> change`, and `change(updates, context) -> updates`, stacked
        `[K, ...]`. A stage that needs no other row returns a `fedsim.types.RowStage`, written for
        ONE row; one with memory returns a `Stage`.

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
      factory: `(hyper-parameters) -> corrupt`, and `corrupt(updates, context) -> delta` `[K, ...]`,
        of which only the rows of malicious clients are used. An attack that needs no other row
        returns `fedsim.row_attack(f)`. One that knows the defence returns
        `fedsim.types.Aim(aim)`, where `aim(defence) -> Stage` and
        `defence(updates, context) -> tree` is what the server's stages and rule would make of a
        stack.

    Returns:
      The factory, which returns a `Stage` or a `RowStage` now.
    """
    return _wrapped("attack", factory, lambda corrupt: _stage(_corrupting(corrupt)))


def aggregate_stage(
    factory: Callable[P, AggregateStage | Callable[[Tree, Context], Tree]],
) -> Callable[P, AggregateStage]:
    """Decorator: your own step on the aggregate, as a kind of `server` between rule and optimisers.

    Example::

        @fedsim.aggregate_stage
        def bounded(most: float = 1.0):
            def change(aggregate, context):
                return jax.tree.map(lambda a: jnp.clip(a, -most, most), aggregate)

            return change

    Args:
      factory: `(hyper-parameters) -> change`, and `change(aggregate, context) -> aggregate` sees
        what the rule made, once a round, with a `context.key` for it alone. A step with memory
        returns a `fedsim.types.AggregateStage`.

    Returns:
      The factory, which returns an `AggregateStage` now.
    """

    def wrap(change: Callable[[Tree, Context], Tree]) -> AggregateStage:
        def apply(aggregate, state, context):
            return change(aggregate, context), state, {}

        return AggregateStage(apply)

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
      factory: `(hyper-parameters) -> fedsim.types.Codec`. Its
        `encode(x, memory, key) -> (payload, bits, memory)` sees the `params` of ONE message as a
        vector `[d]`, and `decode(payload, d) -> y` `[d]` makes of it what an honest receiver can.
        Bits are a Python integer, or an array where they depend on `x`; then `most(d)` says how
        many they may be.

    Returns:
      The factory, whose codecs have its name now.
    """
    return _wrapped("codec", factory, None)


def row_attack(corrupt: Callable[[Tree, Context], Tree]) -> RowStage:
    """An attack on one message that needs no other one, for a factory under `fedsim.attack`.

    Example::

        @fedsim.attack
        def louder(factor: float = 10.0):
            def corrupt(delta, context):
                return jax.tree.map(lambda x: factor * x, delta)

            return fedsim.row_attack(corrupt)

    Args:
      corrupt: `(delta, context) -> delta` for ONE malicious client, without an axis for clients;
        `context.key` is for this client alone.

    Returns:
      A stage that changes the rows of malicious clients alone.
    """
    return RowStage(apply=_corrupting(lambda row, context: corrupt(row.delta, context)))


def _wrapped(
    family: str, factory: Callable[P, Any], wrap: Callable[[Any], Any] | None
) -> Callable[P, Any]:
    """Register a factory whose result becomes a noun with the kind's name.

    Args:
      factory: returns a noun, or a plain function.
      wrap: plain function -> noun; None: the factory must return a codec.
    """

    @functools.wraps(factory)
    def build(*args: P.args, **kwargs: P.kwargs) -> Any:
        returned = factory(*args, **kwargs)
        kind = type(returned).__name__
        if wrap is None and not isinstance(returned, Codec):
            raise ContractError(f"returned {kind}; expected a fedsim.types.Codec")
        if not isinstance(returned, NOUNS) and not callable(returned):
            raise ContractError(f"returned {kind}; expected a function of (updates, context)")

        noun = returned
        if wrap is not None and not isinstance(returned, NOUNS):
            noun = wrap(returned)
        return noun._replace(name=factory.__name__)

    return register(family, build)


def _stage(change: Change) -> Stage:
    return Stage(apply=lambda updates, state, context: (change(updates, context), state, {}))


def _corrupting(corrupt: Reduce) -> Change:
    """Honest rows keep their bits; malicious rows become what the attacker computed."""

    def change(updates: Updates, context: Context) -> Updates:
        delta = jax.tree.map(jnp.asarray, corrupt(updates, context))
        require_like(delta, updates.delta, "what was sent", types=False, spread=True)
        return updates._replace(delta=tree.select(context.malicious, delta, updates.delta))

    return change

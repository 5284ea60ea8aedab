"""Names and composition: how a function becomes a link, and how links become a chain.

Every family is a dictionary from name to annotated factory; the factory's signature is the schema of its section in a
scenario, its docstring what `fedsim explain` prints. Plug-ins use the same decorators as the built-ins.
"""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import optax

from fedsim.tree import Tree
from fedsim.types import Context, Fold, Rule, Updates

FAMILIES: dict[str, dict[str, Callable]] = {
    family: {} for family in ("dataset", "partition", "model", "cohort", "client", "rule", "optimizer")
}


class RegistrationError(TypeError):
    """A factory that cannot serve as the schema of its own section."""


def register(family: str) -> Callable[[Callable], Callable]:
    """Decorator: the factory's name becomes a `kind` of the family.

    Raises:
      RegistrationError: for a hyper-parameter without annotation, or a name taken by another factory.
    """

    def keep(factory: Callable) -> Callable:
        name = factory.__name__
        for parameter in inspect.signature(factory).parameters.values():
            if parameter.annotation is inspect.Parameter.empty:
                raise RegistrationError(f"{family} {name}: hyper-parameter '{parameter.name}' needs a type annotation")
        known = FAMILIES[family].get(name)
        if known is not None and known.__module__ != factory.__module__:
            raise RegistrationError(f"{family} '{name}' is already defined in {known.__module__}")
        FAMILIES[family][name] = factory
        return factory

    return keep


dataset = register("dataset")
partition = register("partition")
model = register("model")
cohort = register("cohort")
client = register("client")
rule = register("rule")
optimizer = register("optimizer")


def folding(fold: Fold, weights: Callable[[Updates], Any], init: Callable = Rule._field_defaults["init"]) -> Rule:
    """A rule from its fold: `apply` over a whole stack is the fold of one block, never written twice."""

    def apply(updates: Updates, carry: Tree, context: Context):
        total = fold.add(fold.zero(updates), updates, context)
        return fold.finish(total, carry, context)

    return Rule(apply=apply, init=init, fold=fold, weights=weights)


def chain(rule: Rule, *tail: optax.GradientTransformation) -> Rule:
    """Rule, then optax: one rule again, so chains nest.

    The optimisers see the pseudo-gradient −Δ̄ (so `optax.sgd(1.)` is the plain rule) and the parameters sent out.
    """
    if not tail:
        return rule
    optimiser = optax.chain(*tail)

    def init(params, N):
        return rule.init(params, N), optimiser.init(params)

    def finish(aggregate, inner, outer, info, context):
        descent = jax.tree.map(lambda a: -a, aggregate)
        step, outer = optimiser.update(descent, outer, context.shared["params"])
        return step, (inner, outer), info

    def apply(updates, carry, context):
        aggregate, inner, info = rule.apply(updates, carry[0], context)
        return finish(aggregate, inner, carry[1], info, context)

    fold = rule.fold
    if fold is not None:
        folded = fold.finish

        def close(total, carry, context):
            aggregate, inner, info = folded(total, carry[0], context)
            return finish(aggregate, inner, carry[1], info, context)

        fold = Fold(fold.zero, fold.add, close)
    return Rule(apply=apply, init=init, fold=fold, weights=rule.weights)

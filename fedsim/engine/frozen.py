"""Frozen leaves: parameters that nobody trains, sends or stores.

A run holds them once, apart from what its server sends. Messages, client memory, optimisers and
checkpoints have the trained leaves alone, with None in place of the frozen ones. Whoever passes
samples through the model adds the frozen leaves to its variables.
"""

from collections.abc import Sequence
from typing import Any

import jax

from fedsim.models.freezing import FROZEN
from fedsim.tree import Tree
from fedsim.types import Shared, Task

NOTHING = ()  # the frozen leaves of a model that is trained as a whole


def without_frozen(start: Shared) -> tuple[Shared, Tree]:
    """Return start variables as the server has them, and the frozen leaves."""
    shared = {name: section for name, section in start.items() if name != FROZEN}
    return shared, start.get(FROZEN, NOTHING)


def with_frozen(variables: Any, frozen: Tree) -> Any:
    """Return variables with the frozen leaves, as the model takes them."""
    if not jax.tree.leaves(frozen):
        return variables
    return {**variables, FROZEN: frozen}


def bound(task: Task, frozen: Tree) -> Task:
    """Return a task on variables without the frozen leaves, which it adds wherever it needs them.

    Under `vmap` over lanes they are constants, which all lanes share.
    """
    if not jax.tree.leaves(frozen):
        return task

    def value_and_grad(variables, batch, objective=None):
        return task.value_and_grad(with_frozen(variables, frozen), batch, objective)

    def per_sample(variables, batch, objective=None):
        return task.per_sample(with_frozen(variables, frozen), batch, objective)

    def apply(variables, x, **options):
        return task.apply(with_frozen(variables, frozen), x, **options)

    features = task.features
    return task._replace(
        value_and_grad=value_and_grad,
        per_sample=per_sample,
        apply=apply,
        features=features and (lambda variables, x: features(with_frozen(variables, frozen), x)),
    )


def same_frozen(trees: Sequence[Tree]) -> bool:
    """Return whether runs hold the very same frozen leaves, so that they can train side by side."""
    identities = {tuple(map(id, jax.tree.leaves(frozen))) for frozen in trees}
    return len(identities) == 1

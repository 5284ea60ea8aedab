"""Frozen leaves: parameters that nobody trains or sends.

A run holds them once, apart from what its server sends. Messages, client memory, optimisers and
checkpoints have the trained leaves alone, with None in place of the frozen ones. Whoever passes
samples through the model adds the frozen leaves to its variables.

A rule may move some of them (`AdapterLeaves.merges`). These are the section `merged` of the shared
variables, and so in checkpoints; clients read them as they read all frozen leaves.
"""

from collections.abc import Sequence
from typing import Any

import jax

from fedsim import tree
from fedsim.models.freezing import FROZEN
from fedsim.tree import Tree
from fedsim.types import MERGED, Shared, Task

NOTHING = ()  # the frozen leaves of a model that is trained as a whole


def without_frozen(start: Shared) -> tuple[Shared, Tree]:
    """Return start variables as the server has them, and the frozen leaves that nobody moves."""
    shared = {name: section for name, section in start.items() if name != FROZEN}
    return shared, start.get(FROZEN, NOTHING)


def merged_section(shared: Shared) -> dict[str, Tree]:
    """Return the section of the frozen leaves that the server moves, where there is one."""
    return {MERGED: shared[MERGED]} if MERGED in shared else {}


def with_frozen(variables: Any, frozen: Tree, shared: Shared | None = None) -> Any:
    """Return variables with the frozen leaves, as the model takes them.

    Args:
      shared: the server's variables, of which a client's lack those that the server moves.
    """
    return {**variables, **_frozen_sections(frozen, shared)}


def bound(task: Task, frozen: Tree, shared: Shared) -> Task:
    """Return a task on variables without the frozen leaves, which it adds wherever it needs them.

    Under `vmap` over lanes they are constants, which all lanes share.

    Args:
      task: on variables with all leaves.
      shared: the server's variables, with those that it moves.
    """
    sections = _frozen_sections(frozen, shared)
    if not sections:
        return task

    def value_and_grad(variables, batch, objective=None):
        return task.value_and_grad({**variables, **sections}, batch, objective)

    def per_sample(variables, batch, objective=None):
        return task.per_sample({**variables, **sections}, batch, objective)

    def apply(variables, x, **options):
        return task.apply({**variables, **sections}, x, **options)

    features = task.features
    return task._replace(
        value_and_grad=value_and_grad,
        per_sample=per_sample,
        apply=apply,
        features=features and (lambda variables, x: features({**variables, **sections}, x)),
    )


def _frozen_sections(frozen: Tree, shared: Shared | None) -> dict[str, Tree]:
    sections = {} if shared is None else merged_section(shared)
    if jax.tree.leaves(frozen):
        sections = {**sections, FROZEN: frozen}
    return sections


def with_merged(params: Tree, shared: Shared) -> Tree:
    """Return parameters with the frozen leaves that the server moves."""
    return tree.fill_leaves(params, shared[MERGED]) if MERGED in shared else params


def apart(params: Tree, shared: Shared) -> tuple[Tree, dict[str, Tree]]:
    """Return what `with_merged` joined: the parameters, and the section of those leaves."""
    if MERGED not in shared:
        return params, {}
    merged = tree.leaves_like(shared[MERGED], params)
    others = jax.tree.map(
        lambda leaf, moved: leaf if moved is None else None,
        params,
        merged,
        is_leaf=lambda leaf: leaf is None,
    )
    return others, {MERGED: merged}


def same_frozen(trees: Sequence[Tree]) -> bool:
    """Return whether runs hold the very same frozen leaves, so that they can train side by side."""
    identities = {tuple(map(id, jax.tree.leaves(frozen))) for frozen in trees}
    return len(identities) == 1

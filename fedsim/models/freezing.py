"""Models of which only some leaves are trained."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import MERGED, Model

FROZEN = "frozen"  # the section of the variables that holds the frozen leaves
SECTIONS = (FROZEN, MERGED)  # of leaves that clients do not train


def freezing(
    model: Model,
    freeze: Sequence[str] | None,
    train: Sequence[str],
    adapter_leaves: Sequence[str] = (),
    merged: Sequence[str] = (),
) -> Model:
    """Return a model whose variables have the frozen leaves in a section of their own.

    `params` has the trained leaves alone, and `frozen` the others; each has None where the other
    one has a leaf. Frozen leaves that the server moves are in the section `merged`. Values are
    those of the model itself.

    Args:
      freeze: patterns over the names of leaves, as `tree.matches_any` takes them. None: all leaves
        where `train` names some and there is no adapter, else none.
      train: exceptions: leaves that are trained although `freeze` names them.
      adapter_leaves: names of the leaves of an adapter. All others are frozen, too, unless `train`
        names them.
      merged: patterns over the names of frozen leaves that the server moves.

    Raises:
      ValueError: when it is started, for a pattern that no leaf has, and where all leaves are
        frozen.
    """
    if freeze is None:
        freeze = ["*"] if train and not adapter_leaves else []

    def init(key):
        variables = model.init(key)
        params = variables["params"]
        is_frozen = frozen_mask(params, freeze, train, adapter_leaves)
        section_of = _section_by_leaf(params, is_frozen, merged)

        def leaves_of(section: str) -> Tree:
            in_section = jax.tree.map(lambda name: name == section, section_of)
            return tree.select_leaves(params, in_section)

        sections = ["params", FROZEN, *([MERGED] if merged else [])]
        return {**variables, **{name: leaves_of(name) for name in sections}}

    def view(variables, key):
        del key
        return with_all_leaves(variables)

    return viewing(model, view)._replace(init=init)


def _section_by_leaf(params: Tree, is_frozen: Tree, merged: Sequence[str]) -> Tree:
    """The section that every leaf is in."""
    sections = []
    for name, frozen in zip(tree.leaf_names(params), jax.tree.leaves(is_frozen), strict=True):
        if not frozen:
            sections.append("params")
        elif tree.matches_any(name, merged):
            sections.append(MERGED)
        else:
            sections.append(FROZEN)
    return jax.tree.unflatten(jax.tree.structure(params), sections)


def viewing(model: Model, view: Callable[[Any, Any], Any]) -> Model:
    """Return a model that computes with other variables than those that it is given.

    Args:
      view: (variables, key) -> the variables that the model sees; the key is None but in training.
    """

    def apply(variables, x, *, mask=None, key=None, train=False):
        seen = view(variables, key if train else None)
        return model.apply(seen, x, mask=mask, key=key, train=train)

    features = model.features
    head = model.head
    return model._replace(
        apply=apply,
        features=features and (lambda variables, x: features(view(variables, None), x)),
        head=head and (lambda variables, h: head(view(variables, None), h)),
    )


def frozen_mask(
    params: Tree, freeze: Sequence[str], train: Sequence[str], adapter_leaves: Sequence[str]
) -> Tree:
    """Return a bool for every leaf: whether it is frozen; arguments as of `freezing`.

    Raises:
      ValueError: for a pattern that no leaf has, and where all leaves are frozen.
    """
    names = tree.leaf_names(params)
    tree.require_leaves(names, freeze, key="freeze")
    tree.require_leaves(names, train, key="train")

    def is_frozen(name: str) -> bool:
        if tree.matches_any(name, train):
            return False
        is_base = bool(adapter_leaves) and name.split(".")[-1] not in adapter_leaves
        return is_base or tree.matches_any(name, freeze)

    if all(map(is_frozen, names)):
        remedy = "write in train which leaves are trained"
        raise ValueError(f"freeze: every leaf is frozen; {remedy}: {tree.listed(names)}")
    return tree.mask_by_name(params, is_frozen)


def with_params(variables: Any, params: Tree) -> Any:
    """Return variables with other values for all leaves, whichever section holds them.

    Args:
      variables: as `freezing` makes them, or those of a model that is trained as a whole.
      params: all leaves, in the model's own structure.
    """
    if FROZEN not in variables:
        return {**variables, "params": params}
    sections = ["params", *(section for section in SECTIONS if section in variables)]
    of_sections = {name: tree.leaves_like(variables[name], params) for name in sections}
    return {**variables, **of_sections}


def with_all_leaves(variables: Any) -> Any:
    """Return variables as the model itself has them: with all leaves in `params`."""
    params = variables["params"]
    for section in SECTIONS:
        if section in variables:
            params = tree.fill_leaves(params, variables[section])
    others = {name: section for name, section in variables.items() if name not in SECTIONS}
    return {**others, "params": params}

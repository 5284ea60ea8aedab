"""Names of leaves, and patterns over them: `layer0.W`, `last`, `*.b`."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import jax

from fedsim.errors import nearest
from fedsim.tree.arithmetic import Tree

MAX_LISTED = 8  # names in a message


def leaf_names(params: Tree) -> list[str]:
    """Return the leaves' names: the keys on the way to each, with dots between them.

    >>> leaf_names({"layer0": {"W": 1.0, "b": 2.0}, "scale": 3.0})
    ['layer0.W', 'layer0.b', 'scale']
    """
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]


def mask_by_name(params: Tree, marks: Callable[[str], bool]) -> Tree:
    """Return a bool for every leaf: what `marks` says of its name."""
    marked = [marks(name) for name in leaf_names(params)]
    return jax.tree.unflatten(jax.tree.structure(params), marked)


def map_by_name(
    function: Callable[[str, Any], Any],
    params: Tree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Tree:
    """Return a tree with `function(name, leaf)` in place of every leaf, as `is_leaf` sees leaves.

    >>> map_by_name(lambda name, leaf: f"{name}={leaf}", {"layer0": {"W": 1, "b": None}})
    {'layer0': {'W': 'layer0.W=1', 'b': None}}
    """

    def named(path, leaf):
        return function(jax.tree_util.keystr(path, simple=True, separator="."), leaf)

    return jax.tree_util.tree_map_with_path(named, params, is_leaf=is_leaf)


def matches_any(name: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns matches a leaf's name, as `matches` says."""
    return any(matches(name, pattern) for pattern in patterns)


def matches(name: str, pattern: str) -> bool:
    """Return whether a dotted pattern matches consecutive parts of a leaf's name.

    >>> matches("net.last.W", "last"), matches("net.last.W", "*.W"), matches("blast.W", "last")
    (True, True, False)
    """
    parts = name.split(".")
    patterns = pattern.split(".")
    for first in range(len(parts) - len(patterns) + 1):
        window = parts[first : first + len(patterns)]
        if all(map(fnmatchcase, window, patterns)):
            return True
    return False


def require_leaves(names: Sequence[str], patterns: Sequence[str], key: str) -> None:
    """Refuse a pattern that matches no leaf.

    Args:
      names: of all leaves.
      patterns: over them.
      key: where the patterns were written.

    Raises:
      ValueError: naming the first such pattern, a name like it, and the leaves.
    """
    for pattern in patterns:
        if any(matches(name, pattern) for name in names):
            continue
        parts = {part for name in names for part in name.split(".")}
        near = nearest(pattern, [*names, *sorted(parts)])
        guess = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"{key}: no leaf is named {pattern!r}{guess}; {listed(names)}")


def listed(names: Sequence[str]) -> str:
    """Return the first names in words."""
    shown = ", ".join(name or "one array" for name in names[:MAX_LISTED])
    if len(names) > MAX_LISTED:
        shown += ", ..."
    return f"leaves are {shown}"

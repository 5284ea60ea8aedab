"""Some leaves of a tree, with None in place of the others.

None holds no array: whatever maps over a tree, counts it or measures it skips the missing leaves.
"""

import jax

from fedsim.tree.arithmetic import Tree


def select_leaves(full: Tree, mask: Tree) -> Tree:
    """The leaves of `full` that `mask` marks, None in place of the others.

    Args:
      full: a tree.
      mask: a tree of bools with the same structure.

    >>> select_leaves({"W": 1.0, "b": 2.0}, {"W": True, "b": False})
    {'W': 1.0, 'b': None}
    """
    return jax.tree.map(lambda marked, leaf: leaf if marked else None, mask, full)


def fill_leaves(selected: Tree, full: Tree) -> Tree:
    """The tree `selected` with the leaves of `full` where it has None.

    >>> fill_leaves({"W": 1.0, "b": None}, {"W": 7.0, "b": 2.0})
    {'W': 1.0, 'b': 2.0}
    """

    def fill(leaf, full_leaf):
        return full_leaf if leaf is None else leaf

    return jax.tree.map(fill, selected, full, is_leaf=lambda x: x is None)


def leaves_like(selected: Tree, full: Tree) -> Tree:
    """The leaves of `full` where `selected` has one, None in place of the others.

    >>> leaves_like({"W": 1.0, "b": None}, {"W": 7.0, "b": 2.0})
    {'W': 7.0, 'b': None}
    """

    def like(leaf, full_leaf):
        return None if leaf is None else full_leaf

    return jax.tree.map(like, selected, full, is_leaf=lambda x: x is None)

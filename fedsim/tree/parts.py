"""Parts of a tree: some of its leaves, with None in place of the others.

None holds no array: whatever maps over a tree, counts it or measures it skips the missing leaves.
"""

import jax

from fedsim.tree.arithmetic import Tree


def part(whole: Tree, mask: Tree) -> Tree:
    """The leaves of `whole` that `mask` marks, None in place of the others.

    Args:
      whole: a tree.
      mask: a tree of bools with the same structure.

    >>> part({"W": 1.0, "b": 2.0}, {"W": True, "b": False})
    {'W': 1.0, 'b': None}
    """
    return jax.tree.map(lambda marked, leaf: leaf if marked else None, mask, whole)


def filled(part: Tree, whole: Tree) -> Tree:
    """`part` with the leaves of `whole` where it has None.

    >>> filled({"W": 1.0, "b": None}, {"W": 7.0, "b": 2.0})
    {'W': 1.0, 'b': 2.0}
    """

    def fill(leaf, whole_leaf):
        return whole_leaf if leaf is None else leaf

    return jax.tree.map(fill, part, whole, is_leaf=lambda x: x is None)

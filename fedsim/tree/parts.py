"""Parts of a tree: some of its leaves, with None in place of the others.

None holds no array, so that whatever maps over a tree, counts it or measures it passes over the leaves that are not there.
"""

import jax

from fedsim.tree.arithmetic import Tree


def part(whole: Tree, mask: Tree) -> Tree:
    """The leaves of `whole` that `mask` (a tree of bools of its structure) marks, None in place of the others.

    >>> part({"W": 1.0, "b": 2.0}, {"W": True, "b": False})
    {'W': 1.0, 'b': None}
    """
    return jax.tree.map(lambda marked, leaf: leaf if marked else None, mask, whole)


def filled(part: Tree, whole: Tree) -> Tree:
    """`part` with the leaves of `whole` where it has None.

    >>> filled({"W": 1.0, "b": None}, {"W": 7.0, "b": 2.0})
    {'W': 1.0, 'b': 2.0}
    """
    return jax.tree.map(
        lambda leaf, other: other if leaf is None else leaf,
        part,
        whole,
        is_leaf=lambda x: x is None,
    )

"""Random trees."""

import jax
from jaxtyping import Array, Float, Key

from fedsim.tree.arithmetic import Tree, scale
from fedsim.tree.exact import norm


def normal(tree: Tree, key: Key[Array, ""]) -> Tree:
    """Independent N(0, 1) in the shapes and dtypes of a tree."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    draws = [
        jax.random.normal(key, leaf.shape, leaf.dtype)
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, draws)


def direction(tree: Tree, key: Key[Array, ""]) -> Tree:
    """A uniformly random direction in the shapes and dtypes of a tree: a tree of norm 1."""
    draw = normal(tree, key)
    return scale(draw, 1 / norm(draw))


def noised(tree: Tree, key: Key[Array, ""], std: Float[Array, ""]) -> Tree:
    """The tree with independent N(0, std²) added to every coordinate."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.tree.unflatten(structure, list(jax.random.split(key, len(leaves))))

    def add(leaf, key):
        return leaf + std.astype(leaf.dtype) * jax.random.normal(key, leaf.shape, leaf.dtype)

    return jax.tree.map(add, tree, keys)

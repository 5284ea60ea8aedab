"""Updates that a Python caller passes, as arrays of floats, and results in the caller's types."""

from numbers import Number
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path

from fedsim import tree
from fedsim.assemble.stack_inputs import argument_error
from fedsim.tree import Tree


def stack_of(command: str, deltas: Any) -> Tree:
    """Return the updates of K ≥ 1 clients as arrays of the types that they have."""
    stack = _arrays_of(command, "deltas", deltas)
    try:
        K = tree.rows(stack) if jax.tree.leaves(stack) else 0
    except ValueError as error:
        raise argument_error(command, "deltas", str(error)) from None
    if not K:
        text = "there are no rows; pass at least one update, stacked on the leading axis [K, ...]"
        raise argument_error(command, "deltas", text)
    return stack


def as_floats(stack: Tree) -> Tree:
    """Return a stack in the types that links compute in, at least float32.

    Half precision becomes float32, integers and booleans become float64.
    """
    return jax.tree.map(lambda leaf: _cast(leaf, _computing_type(leaf)), stack)


def in_types_of(stack: Tree, result: Tree) -> Tree:
    """Return what links made of the floats of a stack, in the caller's types."""
    return jax.tree.map(lambda leaf, like: _cast(leaf, _result_type(like)), result, stack)


def message_bytes(stack: Tree) -> int:
    """Return the bytes of a row that travels in the type of a result."""
    row = lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], _result_type(leaf))
    return tree.payload_bytes(jax.tree.map(row, stack))


def like_a_row(command: str, argument: str, given: Any, stack: Tree) -> Tree | None:
    """Return a tree of the caller's in the types of a row of the stack; None for None."""
    if given is None:
        return None
    arrays = _arrays_of(command, argument, given)
    row = tree.row_shapes(stack)
    expected = _shapes_in_words(row)
    shapes = _shapes_in_words(arrays)
    if jax.tree.structure(row) != jax.tree.structure(arrays) or expected != shapes:
        text = f"must be a tree like a row of the updates, {', '.join(expected)}"
        raise argument_error(command, argument, f"{text}; found {', '.join(shapes)}")
    return jax.tree.map(lambda leaf, like: _cast(leaf, like.dtype), arrays, row)


def _shapes_in_words(tree: Tree) -> list[str]:
    """Name and shape of every leaf; a leaf at the top has no name."""
    words = []
    for path, leaf in tree_leaves_with_path(tree):
        name = keystr(path, simple=True, separator=".")
        shape = list(np.shape(leaf))
        words.append(f"{name} {shape}".strip())
    return words


def _arrays_of(command: str, argument: str, trees: Any) -> Tree:
    """Return a PyTree of arrays, in which a nested list of numbers is one array."""

    def as_array(path: tuple, leaf: Any) -> Any:
        try:
            return _as_array(leaf)
        except (RuntimeError, TypeError, ValueError) as error:
            name = keystr(path, simple=True, separator=".")
            leaf_name = f"leaf {name} " if name else ""
            reason = str(error).splitlines()[0]
            text = f"{leaf_name}is no array of numbers: {reason}"
            raise argument_error(command, argument, text) from None

    return jax.tree_util.tree_map_with_path(as_array, trees, is_leaf=_is_of_numbers)


def _is_of_numbers(node: Any) -> bool:
    """Whether a node of a tree is a number, or a list that starts with one at some depth."""
    while isinstance(node, list | tuple) and len(node):
        node = next((child for child in node if child is not None), None)
    return isinstance(node, Number | np.generic)


def _as_array(leaf: Any) -> Any:
    """Return a leaf as an array of numbers.

    Raises:
      TypeError: for other things than numbers.
      ValueError: for a ragged list, masked or missing values.
    """
    if isinstance(leaf, np.ma.MaskedArray):
        raise ValueError("it is masked; fill what is missing")
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    if isinstance(array, np.ndarray) and array.dtype.hasobject:
        if any(value is None for value in array.flat):
            raise ValueError("a value is None")
        return array.astype(np.float64)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in (np.bool_, np.integer, np.floating)):
        raise TypeError(f"its type is {array.dtype}")
    return array


def _is_float(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, np.floating)


def _computing_type(leaf: Any) -> np.dtype:
    is_narrow = _is_float(leaf.dtype) and leaf.dtype.itemsize <= 4
    return np.dtype(np.float32 if is_narrow else np.float64)


def _result_type(leaf: Any) -> np.dtype:
    """The type of what is made of a leaf.

    Half precision stays so. For integers and booleans it is float64, or the widest float that JAX
    is set to, for an array of JAX.
    """
    dtype = leaf.dtype
    if _is_float(dtype) and dtype.itemsize < 4:
        return dtype
    if isinstance(leaf, jax.Array) and not _is_float(dtype):
        return np.dtype(jnp.result_type(float))
    return _computing_type(leaf)


def _cast(leaf: Any, dtype: np.dtype) -> Any:
    """Return an array in a type; without x64 also from and to float64."""
    if leaf.dtype == dtype:
        return leaf
    with jax.enable_x64(True):
        return leaf.astype(dtype)

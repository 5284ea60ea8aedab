"""Shapes in place of values: what a user's function returns, compared with what is needed.

`jax.eval_shape` traces the function. What does not fit is a `ContractError` with one line such as
`returned [5, 40, 10]; one row is [40, 10]`. Errors raised inside the function become one as well,
with its file and line.
"""

import contextlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from fedsim.errors import Failure, LinkError, shortened
from fedsim.tree import Tree

MAX_CHARACTERS = 100  # of a list of leaves


class ContractError(ValueError):
    """A hook that does not return what its caller takes.

    Attributes:
      raised: whether it failed by itself, in a line of its file.
    """

    def __init__(self, text: str, raised: bool = False):
        self.raised = raised
        super().__init__(text)


class OutputsError(ContractError):
    """A model whose outputs do not fit the labels."""


@contextlib.contextmanager
def reported(file: str, hook: str = "") -> Iterator[None]:
    """Turn whatever goes wrong inside into a `ContractError` that names the hook.

    An error that was raised in `file` has its line.
    """
    try:
        yield
    except (Failure, LinkError, MemoryError, jax.errors.JaxRuntimeError):
        raise
    except ContractError as error:
        text = f"{hook} {error}" if hook else str(error)
        raise type(error)(text, error.raised) from error.__cause__
    except Exception as error:  # whatever a user's function does
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        messages = str(error).strip().splitlines()
        text = f"{type(error).__name__}: {messages[0] if messages else ''}"
        if lines:
            text = f"{Path(file).name}:{lines[-1]}: {text}"
        if hook:
            text = f"{hook}: {text}"
        raise ContractError(text, raised=bool(lines)) from error


def traced(hook: Callable, *shapes: Any) -> Any:
    """Return the shapes of what a hook returns.

    Raises:
      ContractError: for a leaf that is not an array or a number.
    """

    def checked(*arguments: Any) -> Any:
        returned = hook(*arguments)
        for leaf in jax.tree.leaves(returned):
            if not (hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)):
                raise ContractError(f"returned {type(leaf).__name__}, which is not an array")
        return returned

    return jax.eval_shape(checked, *shapes)


def require_like(
    returned: Tree,
    expected: Tree,
    reference: str,
    part: str = "",
    types: bool = True,
    spread: bool = False,
) -> None:
    """Refuse a tree of another structure, shape or dtype than expected.

    Args:
      returned: shapes.
      expected: shapes.
      reference: what is expected, as `one row`.
      part: which part of what was returned it is, as `stats`.
      types: whether the dtype matters.
      spread: whether a shape is enough that broadcasts to the expected one.

    Raises:
      ContractError: naming the first difference.
    """
    leaves = _leaves(returned)
    expected_leaves = _leaves(expected)
    prefix = f"returned {part} " if part else "returned "
    if leaves.keys() != expected_leaves.keys():
        expected_names = _names_in_words(expected_leaves)
        raise ContractError(f"{prefix}{_names_in_words(leaves)}; {reference} has {expected_names}")

    structure = jax.tree.structure(returned)
    expected_structure = jax.tree.structure(expected)
    if structure != expected_structure:
        returned_text = shortened(str(structure), MAX_CHARACTERS)
        expected_text = shortened(str(expected_structure), MAX_CHARACTERS)
        raise ContractError(f"{prefix}{returned_text}; {reference} has {expected_text}")

    for name, leaf in leaves.items():
        like = expected_leaves[name]
        label = f" for {name}" if name else ""
        fits = _broadcasts(leaf.shape, like.shape) if spread else leaf.shape == like.shape
        if not fits:
            sides = f"{_sides(leaf)}{label}; {reference} is {_sides(like)}"
            raise ContractError(f"{prefix}{sides}")
        if types and leaf.dtype != like.dtype:
            raise ContractError(f"{prefix}{leaf.dtype}{label}; {reference} is {like.dtype}")


def require_parts(returned: Any, parts: tuple[str, ...]) -> None:
    """Refuse anything but a tuple of these parts.

    Raises:
      ContractError: naming what was returned.
    """
    is_tuple = type(returned) is tuple
    if not is_tuple or len(returned) != len(parts):
        text = f"a tuple of {len(returned)}" if is_tuple else kind_of(returned)
        raise ContractError(f"returned {text}; expected ({', '.join(parts)})")


def kind_of(returned: Any) -> str:
    """What sort of thing was returned, in words."""
    if hasattr(returned, "dtype"):
        return f"one array {_sides(returned)}"
    return type(returned).__name__


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    missing_axes = len(to) - len(shape)
    if missing_axes < 0:
        return False
    pairs = zip(shape, to[missing_axes:], strict=True)
    return all(side in (1, full_side) for side, full_side in pairs)


def _leaves(tree: Tree) -> dict[str, Any]:
    """The leaves of a tree by name; the leaf of a tree that is one array has an empty name."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _names_in_words(leaves: dict[str, Any]) -> str:
    if not leaves:
        return "nothing"
    if list(leaves) == [""]:
        return f"one array {_sides(leaves[''])}"
    return f"leaves {shortened(', '.join(leaves), MAX_CHARACTERS)}"


def _sides(leaf: Any) -> str:
    """The shape of a leaf, as `[40, 10]`."""
    return f"[{', '.join(map(str, leaf.shape))}]"

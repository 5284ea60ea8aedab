"""Shapes in place of values: what a user's function returns, traced by `jax.eval_shape`, against what is needed.

What does not fit is a `ContractError` with one line such as `returned [5, 40, 10], one row is [40, 10]`. Errors raised
inside the function become one as well, with its file and line.
"""

import contextlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from fedsim.errors import Failure, LinkError, shortened
from fedsim.tree import Tree

LONGEST = 100  # characters of a list of leaves


class ContractError(ValueError):
    """A hook that does not return what its caller takes.

    Attributes:
      raised: whether it failed by itself, in a line of its own file.
    """

    def __init__(self, text: str, raised: bool = False):
        self.raised = raised
        super().__init__(text)


@contextlib.contextmanager
def reported(file: str, hook: str = "") -> Iterator[None]:
    """Whatever goes wrong inside is a `ContractError` that names the hook, and the line of its file where there is one."""
    name = f"{hook}: " if hook else ""
    try:
        yield
    except (Failure, LinkError, MemoryError, jax.errors.JaxRuntimeError):
        raise
    except ContractError as error:
        raise ContractError(
            f"{hook} {error}" if hook else str(error), error.raised
        ) from error.__cause__
    except Exception as error:  # whatever a user's function does
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == file
        ]
        place = f"{Path(file).name}:{lines[-1]}: " if lines else ""
        message = (str(error).strip().splitlines() or [""])[0]
        raise ContractError(
            f"{name}{place}{type(error).__name__}: {message}", bool(lines)
        ) from error


def traced(hook: Callable, *shapes: Any) -> Any:
    """Shapes of what a hook returns."""

    def checked(*arguments: Any) -> Any:
        returned = hook(*arguments)
        for leaf in jax.tree.leaves(returned):
            if not (hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)):
                raise ContractError(f"returned {type(leaf).__name__}, which is no array")
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
      reference: what is expected, `one row`.
      part: which part of what was returned, `stats`.
      types: whether the dtype matters.
      spread: whether a shape will do that broadcasts to the one expected.
    """
    leaves, wanted = _leaves(returned), _leaves(expected)
    prefix = f"returned {part} " if part else "returned "
    if leaves.keys() != wanted.keys():
        raise ContractError(f"{prefix}{_names(leaves)}, {reference} has {_names(wanted)}")
    if jax.tree.structure(returned) != jax.tree.structure(expected):
        one, other = (
            shortened(str(jax.tree.structure(tree)), LONGEST) for tree in (returned, expected)
        )
        raise ContractError(f"{prefix}{one}, {reference} has {other}")
    for name, leaf in leaves.items():
        label, want = f" for {name}" if name else "", wanted[name]
        if not (_broadcasts(leaf.shape, want.shape) if spread else leaf.shape == want.shape):
            raise ContractError(f"{prefix}{_sides(leaf)}{label}, {reference} is {_sides(want)}")
        if types and leaf.dtype != want.dtype:
            raise ContractError(f"{prefix}{leaf.dtype}{label}, {reference} is {want.dtype}")


def require_parts(returned: Any, parts: tuple[str, ...]) -> None:
    """Refuse what is no tuple of these parts."""
    if type(returned) is not tuple or len(returned) != len(parts):
        text = f"a tuple of {len(returned)}" if type(returned) is tuple else kind_of(returned)
        raise ContractError(f"returned {text}, needed is ({', '.join(parts)})")


def kind_of(returned: Any) -> str:
    """What sort of thing was returned."""
    return (
        f"one array {_sides(returned)}" if hasattr(returned, "dtype") else type(returned).__name__
    )


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    ahead = len(to) - len(shape)
    return ahead >= 0 and all(
        side in (1, full) for side, full in zip(shape, to[ahead:], strict=True)
    )


def _leaves(tree: Tree) -> dict[str, Any]:
    named = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in named}


def _names(leaves: dict[str, Any]) -> str:
    if list(leaves) == [""]:
        return f"one array {_sides(leaves[''])}"
    return f"leaves {shortened(', '.join(leaves), LONGEST)}" if leaves else "nothing"


def _sides(leaf: Any) -> str:
    return f"[{', '.join(map(str, leaf.shape))}]"

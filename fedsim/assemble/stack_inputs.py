"""What a Python caller hands to `fedsim.aggregate` and `fedsim.transmit`: links, stacks, weights and masks."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial, tree_leaves_with_path
from pydantic import BaseModel, TypeAdapter, ValidationError

from fedsim.errors import Problem, ScenarioError
from fedsim.scenario.diagnostics import problems_of
from fedsim.scenario.reader import Document
from fedsim.scenario.sections import LISTS_OF_LINKS
from fedsim.scenario.shorthand import mappings_of
from fedsim.tree import Tree
from fedsim.types import ServerLoss


def weights_of(of: str, weights: Any, K: int) -> np.ndarray:
    """Sample counts of K rows, 1 each where none are given.

    Raises:
      ScenarioError: for another number of them, or one that is negative or not finite.
    """
    if weights is None:
        return np.ones(K)
    try:
        w = np.asarray(weights, float)
    except (TypeError, ValueError) as error:
        raise ScenarioError([Problem("weights", f"are no numbers: {error}")], of) from None
    if w.shape != (K,):
        raise ScenarioError(
            [Problem("weights", f"{K} rows need {K} weights, found shape {list(w.shape)}")], of
        )
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if len(bad):
        text = f"the weight of row {bad[0]} is {w[bad[0]]}; sample counts are finite and at least 0"
        raise ScenarioError([Problem("weights", text)], of)
    return w


def mask_of(malicious: Any, K: int) -> np.ndarray:
    """Mask `[K]` of the rows an attack controls, from a mask or from row numbers.

    Raises:
      ScenarioError: for a mask of another length, or a row that is not there.
    """
    given = np.asarray([] if malicious is None else malicious)
    if given.dtype == bool and given.shape != (K,):
        text = f"a mask of {K} rows has {K} values, found shape {list(given.shape)}"
        raise ScenarioError([Problem("malicious", text)], "transmit")
    if (
        given.dtype != bool
        and given.size
        and not (given.dtype.kind in "iu" and given.min() >= 0 and given.max() < K)
    ):
        text = f"rows are 0 to {K - 1}, found {given.tolist()}"
        raise ScenarioError([Problem("malicious", text)], "transmit")
    mask = np.zeros(K, bool)
    mask[given if given.size else []] = True
    return mask


def arrays_of(trees: Any) -> Tree:
    """A nested list of numbers as an array; PyTrees of arrays as they are."""
    leaves = jax.tree.leaves(trees)
    if leaves and not any(hasattr(leaf, "dtype") for leaf in leaves):
        return np.asarray(trees, float)
    return trees


def own_update(of: str, reference: Any, stack: Tree) -> Tree | None:
    """The server's own update, in the dtype of a row of the stack.

    Raises:
      ScenarioError: for one that is not like a row.
    """
    if reference is None:
        return None
    given = arrays_of(reference)
    row = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), stack)
    name = lambda path: jax.tree_util.keystr(path, simple=True)
    shapes = lambda x: [
        f"{name(path)} {[*np.shape(leaf)]}".strip() for path, leaf in tree_leaves_with_path(x)
    ]
    if jax.tree.structure(row) != jax.tree.structure(given) or shapes(row) != shapes(given):
        text = f"is to be a tree like a row of the updates, {', '.join(shapes(row))}; found {', '.join(shapes(given))}"
        raise ScenarioError([Problem("reference", text)], of)
    return jax.tree.map(lambda leaf, like: np.asarray(leaf, like.dtype), given, row)


@functools.lru_cache(64)
def as_server_loss(loss: Callable[[Tree], Any]) -> ServerLoss:
    """A function of the parameters alone as `Context.server_loss`; which samples it is over is its own affair."""

    def of_params(params: Tree, batch: int | None = None, key: Any = None) -> Any:
        del batch, key
        value = loss(params)
        if np.shape(value):
            text = f"is to return a number, and returned shape {list(np.shape(value))}"
            raise ScenarioError([Problem("server_loss", text)], "aggregate")
        return value

    return Partial(of_params)


def checked_links(section: str, written: Any) -> list[BaseModel]:
    """A kind, a link or a list of links, read as the section of that name.

    Raises:
      ScenarioError: with every problem of it.
    """
    links = LISTS_OF_LINKS[section]
    listed = mappings_of([written] if isinstance(written, str | dict) else list(written), links)
    try:
        return TypeAdapter(links).validate_python(listed)
    except ValidationError as error:
        document = Document({section: listed}, {}, section)
        raise ScenarioError(
            problems_of(document, links, listed, error.errors(), (section,)), section
        ) from None

"""Stages and rules on somebody's own stack: `fedsim.aggregate` and `fedsim.transmit`."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from fedsim import tree
from fedsim.build.links import server_of, stages_of
from fedsim.build.programs import KEPT, Written
from fedsim.compose import chain, line
from fedsim.errors import OrderError, Problem, ScenarioError
from fedsim.scenario.diagnostics import explain
from fedsim.scenario.reader import Document
from fedsim.scenario.schema import links_type
from fedsim.tree import Tree
from fedsim.types import Context, Updates


def aggregate(
    server: Any,
    deltas: Tree,
    *,
    weights: Any = None,
    seed: int = 0,
    reference: Tree | None = None,
    params: Tree | None = None,
    lr: float = 1.0,
    loss: Any = None,
) -> Tree:
    """Any server list on your own stacked updates: what a fresh server would add to the shared parameters.

    Args:
      server: a kind (`"median"`), a link (`{"kind": "krum", "f": 2}`), or a list of stages, one rule, and optimisers.
      deltas: updates stacked on the leading axis, a PyTree with leaves `[K, ...]`, an array, or a nested list.
      weights: sample counts `[K]`; 0 = did not report; 1 for everybody if left out.
      seed: of rules and stages that draw.
      reference: the server's own update, for rules that trust one.
      params: the shared parameters, for optimisers that look at them; zeros if left out.
      lr: client learning rate, for rules that use it.
      loss: of every client at the shared parameters `[K]`, for rules that ask for it.

    Returns:
      One tree of the structure, dtype and kind (NumPy or JAX) of a row.

    Raises:
      ScenarioError: for a list that cannot run, fewer reporting rows than it needs, or no losses where it asks for them.

    >>> aggregate("median", [[1.0], [2.0], [30.0]]).tolist()
    [2.0]
    """
    try:
        reduce, least, needs = _reducing(tuple(map(Written, _checked("server", server))))
    except OrderError as error:
        raise ScenarioError([Problem("server", str(error))], "aggregate") from None
    stack = _arrays(deltas)
    w = _weights("aggregate", weights, tree.rows(stack))
    if 0 < (w > 0).sum() < least:
        what = f"{int((w > 0).sum())} rows reported, at least {least} are needed"
        raise ScenarioError([Problem("", what)], "aggregate")
    if "loss" in needs and loss is None:
        what = "a rule of the list asks for every client's loss; pass loss="
        raise ScenarioError([Problem("server", what)], "aggregate")
    if loss is not None and np.shape(loss) != w.shape:
        what = f"{len(w)} rows need {len(w)} losses, found shape {list(np.shape(loss))}"
        raise ScenarioError([Problem("loss", what)], "aggregate")
    return _on_device(reduce, stack, w, seed, params=params, reference=reference, lr=lr, loss=loss)


def transmit(
    wire: Any, deltas: Tree, *, weights: Any = None, malicious: Any = None, seed: int = 0, params: Tree | None = None
) -> tuple[Tree, np.ndarray]:
    """Any wire list on your own stacked updates: what arrives of them, and what it takes.

    Args:
      wire: a kind, a link, or a list of attacks and stages.
      deltas: as in `aggregate`.
      weights: sample counts `[K]`; 0 = does not take part.
      malicious: mask `[K]` (or ids) of the rows an attack controls; nobody if left out.
      seed: of links that draw.
      params: the shared parameters; zeros if left out.

    Returns:
      The updates as they arrive, stacked as they were, and the bytes of each client's message `[K]`.

    Raises:
      ScenarioError: for a list that cannot run.

    >>> arrived, sent = transmit({"kind": "sign_flip", "scale": 2}, [[1.0, 2.0], [3.0, 4.0]], malicious=[1])
    >>> arrived.tolist(), sent.tolist()
    ([[1.0, 2.0], [-6.0, -8.0]], [16, 16])
    """
    send = _sending(tuple(map(Written, _checked("wire", wire))))
    stack = _arrays(deltas)
    K = tree.rows(stack)
    w, mask = _weights("transmit", weights, K), _mask(malicious, K)
    arrived = _on_device(send, stack, w, seed, params=params, malicious=mask)
    return arrived, np.full(K, tree.payload_bytes(tree.take(stack, 0)))


@functools.lru_cache(KEPT)
def _reducing(server: tuple[Written, ...]) -> tuple[Callable, int, frozenset[str]]:
    """A server list as one compiled function, the rows that it needs, and what else; made once per list."""
    stages, rule, tail = server_of([w.section for w in server])
    before, rule = line(stages), chain(rule, *tail)
    least = max(rule.least, before.least)

    def reduce(updates: Updates, context: Context) -> Tree:
        shared, present = context.shared["params"], jnp.ones_like(updates.weight, bool)
        updates, _, _ = before.apply(updates, before.init(shared, present), context)
        step, _, _ = rule.apply(updates, rule.init(shared, present), context)
        moved = jnp.sum(updates.weight > 0) >= least
        return jax.tree.map(lambda leaf: jnp.where(moved, leaf, 0), step)

    return jax.jit(reduce), least, rule.needs


@functools.lru_cache(KEPT)
def _sending(wire: tuple[Written, ...]) -> Callable:
    """A wire list as one compiled function."""
    before = line(stages_of([w.section for w in wire]))

    def send(updates: Updates, context: Context) -> Tree:
        present = jnp.ones_like(updates.weight, bool)
        return before.apply(updates, before.init(context.shared["params"], present), context)[0].delta

    return jax.jit(send)


def _on_device(
    function: Callable,
    stack: Tree,
    weights,
    seed: int,
    *,
    params=None,
    reference=None,
    malicious=None,
    lr=1.0,
    loss=None,
) -> Tree:
    """Run `(updates, context) -> tree` in the stack's own float type; NumPy in, NumPy out."""
    host = not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(stack))
    double = any(np.dtype(leaf.dtype) == np.float64 for leaf in jax.tree.leaves(stack))
    with jax.enable_x64(double):
        dtype = jnp.float64 if double else jnp.float32
        stack = jax.tree.map(jnp.asarray, stack)
        K = tree.rows(stack)
        w = jnp.asarray(weights, dtype)
        one = jnp.ones_like(w)
        shared = tree.zeros_like(tree.take(stack, 0)) if params is None else jax.tree.map(jnp.asarray, params)
        mask = jnp.zeros(K, bool) if malicious is None else jnp.asarray(malicious)
        own = None if reference is None else jax.tree.map(jnp.asarray, _arrays(reference))
        losses = jnp.full_like(w, jnp.nan) if loss is None else jnp.asarray(loss, dtype)
        updates = Updates(stack, {}, {}, w, one, losses, one, one)
        context = Context(
            jax.random.key(seed),
            jnp.int32(1),
            jnp.asarray(K, dtype),
            jnp.asarray(lr, dtype),
            {"params": shared},
            jnp.arange(K),
            mask,
            own,
        )
        out = function(updates, context)
        return jax.tree.map(np.asarray, out) if host else out


def _weights(of: str, weights: Any, K: int) -> np.ndarray:
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
        raise ScenarioError([Problem("weights", f"{K} rows need {K} weights, found shape {list(w.shape)}")], of)
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if len(bad):
        what = f"the weight of row {bad[0]} is {w[bad[0]]}; sample counts are finite and at least 0"
        raise ScenarioError([Problem("weights", what)], of)
    return w


def _mask(malicious: Any, K: int) -> np.ndarray:
    """Mask `[K]` of the rows an attack controls, from a mask or from row numbers.

    Raises:
      ScenarioError: for a mask of another length, or a row that is not there.
    """
    given = np.asarray([] if malicious is None else malicious)
    if given.dtype == bool and given.shape != (K,):
        what = f"a mask of {K} rows has {K} values, found shape {list(given.shape)}"
        raise ScenarioError([Problem("malicious", what)], "transmit")
    if given.dtype != bool and given.size and not (given.dtype.kind in "iu" and given.min() >= 0 and given.max() < K):
        what = f"rows are 0 to {K - 1}, found {given.tolist()}"
        raise ScenarioError([Problem("malicious", what)], "transmit")
    mask = np.zeros(K, bool)
    mask[given if given.size else []] = True
    return mask


def _arrays(trees: Any) -> Tree:
    """A nested list of numbers as an array; PyTrees of arrays as they are."""
    leaves = jax.tree.leaves(trees)
    if leaves and not any(hasattr(leaf, "dtype") for leaf in leaves):
        return np.asarray(trees, float)
    return trees


def _checked(section: str, written: Any) -> list[BaseModel]:
    listed = [written] if isinstance(written, str | dict) else list(written)
    try:
        return TypeAdapter(links_type(section)).validate_python(listed)
    except ValidationError as error:
        document = Document({section: listed}, {}, section)
        raise ScenarioError(explain(document, links_type(section), error.errors(), (section,)), section) from None

"""Evaluation: one batched forward over samples that stay on the device, by several threads side by side."""

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from fedsim.data import Federation
from fedsim.engine.jitted import Jitted
from fedsim.engine.task import counted, per_label
from fedsim.engine.threads import in_threads, jit_for_threads
from fedsim.machine import platform
from fedsim.sources.arrays import per_token
from fedsim.types import Shared

BATCH_BYTES = 200_000  # of the samples in an evaluation batch on a CPU: caches hold the model and its columns beside
WIDE = 4096  # rows of an evaluation batch, at most
SEQUENCES = 16  # of an evaluation batch, at least: each passes the whole model
SEQUENCE_BYTES = 1 << 28  # of an evaluation batch of sequences on an accelerator

Scores = list[
    dict[str, Array]
]  # of stacks of batches, `[n, E]` each: `loss`, and what `measured` adds
Stack = tuple[np.ndarray, np.ndarray]  # x [n, E, ...], y [n, E]
Evaluate = Jitted[[Shared, Any, Any], dict[str, Array]]


class Forward(Protocol):
    """A model's `apply`."""

    def __call__(
        self, variables: Any, x: Any, *, mask: Any, key: Any, train: bool
    ) -> tuple[Array, Any]:
        """-> (outputs, stats)."""
        ...


def evaluator(forward: Forward, loss: Callable[[Array, Array], Array], labelled: bool) -> Evaluate:
    """A model's `apply` and a loss per row -> compiled `(shared, x [n, E, ...], y [n, E]) -> {"loss": [n, E], ...}`.

    One plain forward per batch, no gradient; what `measured` says of a row stands beside its loss. Where tokens have the
    labels, a row's scores are sums over them.
    """

    def evaluate(shared, x, y):
        return lax.map(lambda pair: scored(forward, loss, labelled, shared, *pair), (x, y))

    return jit_for_threads(evaluate)


def scored(
    forward: Forward,
    loss: Callable[[Array, Array], Array],
    labelled: bool,
    variables: Any,
    x: Array,
    y: Array,
) -> dict[str, Array]:
    """A batch of `evaluator` -> scores of its rows, `[E]` each."""
    outputs, _ = forward(
        variables, x, mask=jnp.ones(len(x), bool), key=jax.random.key(0), train=False
    )
    each = per_label(loss(outputs, y), y)
    if per_token(y):
        each = jnp.sum(jnp.where(counted(jnp.ones(len(y), bool), y), each, 0), axis=1)
    return {"loss": each, **measured(outputs, y, labelled)}


def measured(outputs: Array, y: Array, labelled: bool) -> dict[str, Array]:
    """What a row shows beside its loss, `[E]` each.

    With labels, whether the largest output is the row's (`hit`), or for how many of its tokens; with targets, sums over
    their numbers of squared and absolute differences (`squares`, `distance`), or nothing where a loss of the user's own
    takes other outputs.
    """
    if labelled:
        hit = outputs.argmax(-1) == y
        return {"hit": hit.sum(1) if per_token(y) else hit}
    if outputs.size != y.size:
        return {}
    difference = outputs.reshape(len(y), -1) - y.reshape(len(y), -1)
    return {
        "squares": jnp.sum(difference * difference, axis=1),
        "distance": jnp.sum(jnp.abs(difference), axis=1),
    }


def scores(
    evaluate: Evaluate, threads: int, shared: Shared, stacks: Iterable[Stack], wait: bool = False
) -> Scores:
    """Scores of stacks of batches, the threads side by side.

    Args:
      evaluate: the program.
      threads: how many.
      shared: the variables that are evaluated.
      stacks: of batches.
      wait: for the results before more stacks are taken, so that few are held at a time.
    """
    stacks, results = iter(stacks), []
    while calls := [(shared, *stack) for stack in itertools.islice(stacks, threads)]:
        results += in_threads(evaluate, calls)
        if wait:
            jax.block_until_ready(results)
    return results


class HeldOut(dict[str, list[Stack]]):
    """Samples that nobody trains on, by name, on the device for as long as some run asks for them."""

    arrays: tuple = ()  # whose ids are the key


_on_device: weakref.WeakValueDictionary[tuple, HeldOut] = weakref.WeakValueDictionary()


def lent(stacks: dict[str, list[Stack]], federation: Federation, threads: int) -> HeldOut:
    """What `held_out` gives, on the device once for all runs over the same arrays: many train side by side."""
    f = federation
    arrays = tuple(itertools.chain(*f.scored.values()))
    key = (*map(id, arrays), threads, str(jax.config.values["jax_default_device"]))
    held = _on_device.get(key)
    if held is None:
        held = HeldOut(jax.device_put(stacks))
        held.arrays = arrays
        _on_device[key] = held
    return held


def held_out(
    federation: Federation, threads: int
) -> tuple[dict[str, list[Stack]], dict[str, int], int]:
    """The samples that nobody trains on, as the threads evaluate them -> (stacks of batches, rows, rows of a batch)."""
    f = federation
    E = even(len(f.test.x) or len(f.train.x), rows_of(f))
    sets = {name: pair for name, pair in f.scored.items() if len(pair[0])}
    stacks = {
        name: list(in_batches(x, y, E, -(-len(x) // (E * threads))))
        for name, (x, y) in sets.items()
    }
    return stacks, {name: len(x) for name, (x, _) in sets.items()}, E


def rows_of(f: Federation) -> int:
    """Rows of an evaluation batch, at most. Of a sequence, not the tokens count, but what a model makes of each of them."""
    size = (
        max(f.train.x.dtype.itemsize, 4) * int(np.prod(f.train.x.shape[1:])) * max(f.vocabulary, 1)
    )
    if platform() != "cpu":
        return max(min(SEQUENCE_BYTES // size, WIDE), SEQUENCES) if f.vocabulary else WIDE
    return max(min(BATCH_BYTES // size, WIDE), SEQUENCES if f.vocabulary else 1)


def even(rows: int, most: int) -> int:
    """Rows of a batch, at most `most`, so that batches of `rows` rows are about equally full."""
    return -(-rows // max(-(-rows // most), 1))


def in_batches(
    x: np.ndarray, y: np.ndarray, E: int, n: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stacks of n batches of E rows, the last one filled up with row 0: one shape, one compilation."""
    for first in range(0, len(x), n * E):
        index = np.arange(first, first + n * E)
        index = np.where(index < len(x), index, 0).reshape(n, E)
        yield x[index], y[index]


def gathered(results: Scores, n: int) -> dict[str, np.ndarray]:
    """Scores of the rows of stacks of batches as float64 `[n]`, the filling cut off."""
    names = results[0] if results else ()
    return {
        name: np.concatenate([np.asarray(part[name], np.float64).ravel() for part in results])[:n]
        for name in names
    }


def labels_of(y: np.ndarray) -> np.ndarray:
    """How many labels each row has `[n]`: one, or one for each of its tokens that has one."""
    return np.sum(y >= 0, axis=1) if per_token(y) else np.ones(len(y), np.int64)


def metrics(rows: dict[str, np.ndarray], y: np.ndarray) -> dict[str, float | None]:
    """The means of a set from the scores of its rows: `loss`, and `accuracy`, or `r2` and `mae`.

    Means are over rows, or over the tokens that have a label.

    R² = 1 − Σ‖o − y‖² / Σ‖y − ȳ‖² with the mean ȳ of this set; several targets count together, each by its variance. It is
    None where all targets are alike. MAE is the mean of |o − y| over rows and targets.

    Args:
      rows: as `gathered` gives them, `[n]` each.
      y: labels `[n]`, those of tokens `[n, T]`, or targets `[n, ...]`.
    """
    total = lambda values: np.cumsum(values, axis=0)[-1]  # one order of summation everywhere
    labels = int(labels_of(y).sum())
    values: dict[str, float | None] = {"loss": float(total(rows["loss"]) / labels)}
    if "hit" in rows:
        values["accuracy"] = float(rows["hit"].sum() / labels)
    if "squares" in rows:
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        alike = bool((targets == targets[0]).all())
        with np.errstate(over="ignore", invalid="ignore"):
            spread = total(np.sum((targets - total(targets) / len(y)) ** 2, axis=1))
            values["r2"] = None if alike else float(1 - total(rows["squares"]) / spread)
        values["mae"] = float(total(rows["distance"]) / targets.size)
    return values

"""Evaluation: one batched forward over samples that stay on the device, by several threads side by side."""

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim.data import Federation
from fedsim.engine.jitted import Jitted
from fedsim.engine.machine import platform
from fedsim.engine.threads import in_threads, jit_for_threads
from fedsim.types import Shared

BATCH_BYTES = 800_000  # of the samples in an evaluation batch on a CPU: what a core's cache holds beside the model
WIDE = 4096  # rows of an evaluation batch, at most

Marks = Bool[Array, "n E"] | Float[Array, "n E T"]  # hits; of T targets, prediction less target (T = 0: none)
Scores = list[tuple[Float[Array, "n E"], Marks]]  # losses and marks of stacks of batches
Stack = tuple[np.ndarray, np.ndarray]  # x [n, E, ...], y [n, E, ...]
Evaluate = Jitted[[Shared, Any, Any], tuple[Float[Array, "n E"], Marks]]


class Forward(Protocol):
    """A model's `apply`."""

    def __call__(self, variables: Any, x: Any, *, mask: Any, key: Any, train: bool) -> tuple[Array, Any]:
        """-> (outputs, stats)."""
        ...


def evaluator(forward: Forward, loss: Callable[[Array, Array], Array], labelled: bool) -> Evaluate:
    """A model's `apply` and a loss per row -> compiled `(shared, x [n, E, ...], y [n, E]) -> (loss [n, E], marks)`.

    One plain forward per batch, no gradient. Marks are hits `[n, E]` where there are labels, else residuals `[n, E, T]`,
    of outputs that have another shape than the targets none.
    """

    def evaluate(shared, x, y):
        def batch(pair):
            x, y = pair
            outputs, _ = forward(shared, x, mask=jnp.ones(len(x), bool), key=jax.random.key(0), train=False)
            return loss(outputs, y), outputs.argmax(-1) == y if labelled else residuals(outputs, y)

        return lax.map(batch, (x, y))

    return jit_for_threads(evaluate)


def scores(evaluate: Evaluate, threads: int, shared: Shared, stacks: Iterable[Stack], wait: bool = False) -> Scores:
    """Losses and marks of stacks of batches, the threads side by side.

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
    arrays = (f.x_test, f.y_test, f.x_validation, f.y_validation)
    key = (*map(id, arrays), threads, str(jax.config.values["jax_default_device"]))
    held = _on_device.get(key)
    if held is None:
        held = HeldOut(jax.device_put(stacks))
        held.arrays = arrays
        _on_device[key] = held
    return held


def held_out(federation: Federation, threads: int) -> tuple[dict[str, list[Stack]], dict[str, int], int]:
    """The samples that nobody trains on, as the threads evaluate them -> (stacks of batches, rows, rows of a batch)."""
    f = federation
    narrow = BATCH_BYTES * len(f.x) // f.x.nbytes if platform() == "cpu" else WIDE
    E = even(len(f.x_test) or len(f.x), min(max(narrow, 1), WIDE))
    sets = {"test": (f.x_test, f.y_test), "validation": (f.x_validation, f.y_validation)}
    stacks = {name: list(in_batches(x, y, E, -(-len(x) // (E * threads)))) for name, (x, y) in sets.items() if len(x)}
    return stacks, {name: len(x) for name, (x, _) in sets.items()}, E


def even(rows: int, most: int) -> int:
    """Rows of a batch, at most `most`, so that batches of `rows` rows are about equally full."""
    return -(-rows // max(-(-rows // most), 1))


def in_batches(x: np.ndarray, y: np.ndarray, E: int, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stacks of n batches of E rows, the last one filled up with row 0: one shape, one compilation."""
    for first in range(0, len(x), n * E):
        index = np.arange(first, first + n * E)
        index = np.where(index < len(x), index, 0).reshape(n, E)
        yield x[index], y[index]


def residuals(outputs: Array, y: Array) -> Array:
    """Prediction less target `[E, T]`, for outputs of the targets' shape; else none, `[E, 0]`."""
    flat, targets = outputs.reshape(len(y), -1), y.reshape(len(y), -1)
    return flat - targets if flat.shape == targets.shape else jnp.zeros((len(y), 0), flat.dtype)


def gathered(results: list, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Losses `[n]` and marks `[n]` or `[n, T]` of stacks of batches as float64, the filling cut off."""
    loss, marks = (
        np.concatenate([np.concatenate(np.asarray(part, np.float64)) for part in parts])[:n]
        for parts in zip(*results, strict=True)
    )
    return loss, marks


def fit(residual: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    """How well targets are predicted: `r2` and `mae`; nothing without residuals.

    R² = 1 − Σ r² / Σ (y − ȳ)², with ȳ the mean of each target over these very samples, sums over samples and targets; None
    where all targets are constant. MAE is the mean of |r| over samples and targets.

    Args:
      residual: prediction less target `[n, T]`.
      y: targets `[n, ...]`.

    >>> fit(np.array([[0.0], [1.0]]), np.array([1.0, 3.0]))
    {'r2': 0.5, 'mae': 0.5}
    """
    if not residual.size:
        return {}
    y = y.reshape(residual.shape).astype(np.float64)
    constant = (y == y[0]).all()
    with np.errstate(over="ignore", invalid="ignore"):
        spread = in_order((y - np.cumsum(y, axis=0)[-1] / len(y)) ** 2)
        r2 = None if constant else 1 - in_order(residual**2) / spread
        return {"r2": r2, "mae": in_order(np.abs(residual)) / residual.size}


def in_order(values: np.ndarray) -> float:
    """Their sum in float64, one after another: one order of summation everywhere."""
    return float(np.cumsum(values)[-1])

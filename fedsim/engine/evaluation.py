"""Evaluation: one batched forward pass over samples that stay on the device, by several threads."""

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

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
from fedsim.sources.arrays import is_per_token
from fedsim.types import Shared

# Limits of an evaluation batch.
BATCH_BYTES = 200_000  # of samples on a CPU, so that caches also hold the model and its columns
WIDE = 4096  # rows at most
SEQUENCES = 16  # sequences at least: each passes the whole model
SEQUENCE_BYTES = 1 << 28  # of sequences on an accelerator

# Scores of a row of which clients and nodes have means -> the names of the means.
MEANS = {"loss": "loss", "hit": "accuracy", "distance": "mae"}

Scores = list[dict[str, Array]]
"""Scores of stacks of batches, `[n, E]` each: `loss`, and what `row_metrics` adds."""

Stack = tuple[np.ndarray, np.ndarray]
"""x `[n, E, ...]` and y `[n, E]`."""

Evaluate = Jitted[[Shared, Any, Any], dict[str, Array]]
"""(shared, x `[n, E, ...]`, y `[n, E]`) -> scores by name `[n, E]`."""


class Forward(Protocol):
    """A model's `apply`."""

    def __call__(
        self, variables: Any, x: Any, *, mask: Any, key: Any, train: bool
    ) -> tuple[Array, Any]:
        """Return the outputs and the statistics."""
        ...


class Scoring(NamedTuple):
    """How the rows of a batch are scored: by a plain forward pass, without a gradient."""

    forward: Forward
    loss: Callable[[Array, Array], Array]  # (outputs, y) -> a loss per row, or per token
    labelled: bool  # whether y are labels; else targets

    def score(self, variables: Any, x: Array, y: Array) -> dict[str, Array]:
        """Return the scores of a batch's rows `[E]`: the loss, and what `row_metrics` adds.

        Where tokens have the labels, a row's scores are sums over them.
        """
        outputs, _ = self.forward(
            variables, x, mask=jnp.ones(len(x), bool), key=jax.random.key(0), train=False
        )
        losses = per_label(self.loss(outputs, y), y)
        if is_per_token(y):
            has_label = counted(jnp.ones(len(y), bool), y)
            losses = jnp.sum(jnp.where(has_label, losses, 0), axis=1)
        return {"loss": losses, **row_metrics(outputs, y, self.labelled)}


def evaluator(forward: Forward, loss: Callable[[Array, Array], Array], labelled: bool) -> Evaluate:
    """Return the compiled evaluation of a model on stacks of batches.

    Args:
      forward: the model's `apply`.
      loss: (outputs, y) -> a loss per row, or per token.
      labelled: whether y are labels; else targets.

    Returns:
      (shared, x `[n, E, ...]`, y `[n, E]`) -> scores by name `[n, E]`, as `Scoring.score`.
    """
    scoring = Scoring(forward, loss, labelled)

    def evaluate(shared, x, y):
        return lax.map(lambda batch: scoring.score(shared, *batch), (x, y))

    return jit_for_threads(evaluate)


def bank_evaluator(
    forward: Forward, loss: Callable[[Array, Array], Array], labelled: bool
) -> Evaluate:
    """Return the compiled evaluation of all models `[k, ...]` of a server.

    Arguments as in `evaluator`.

    Returns:
      (shared, x `[n, E, ...]`, y `[n, E]`) -> scores `[n, E]`, those of model j as `loss/j`.
    """
    scoring = Scoring(forward, loss, labelled)

    def evaluate(shared, x, y):
        models = {"params": shared["params"], "stats": shared["stats"]}

        def of_batch(batch):
            by_name = lax.map(lambda model: scoring.score(model, *batch), models)  # [k, E]
            scores = {}
            for name, values in by_name.items():
                for j, of_model in enumerate(values):
                    scores[of_model_name(name, j)] = of_model
            return scores

        return lax.map(of_batch, (x, y))

    return jit_for_threads(evaluate)


def of_model_name(name: str, model: int) -> str:
    """Return the name of a score of one of several models."""
    return f"{name}/{model}"


def scores_of_model(scores: dict[str, Any], model: int) -> dict[str, Any]:
    """Return the scores of one of several models, by their plain names."""
    ending = of_model_name("", model)
    of_model = {}
    for name, values in scores.items():
        if name.endswith(ending):
            of_model[name.removesuffix(ending)] = values
    return of_model


def mean_of_models(scores: dict[str, np.ndarray], models: int) -> dict[str, np.ndarray]:
    """Return the means of the scores over the first models of a server, by their plain names."""
    by_model = [scores_of_model(scores, model) for model in range(models)]
    return {name: np.mean([of[name] for of in by_model], axis=0) for name in by_model[0]}


def row_metrics(outputs: Array, y: Array, labelled: bool) -> dict[str, Array]:
    """Return what a row shows besides its loss `[E]`.

    With labels: `hit`, whether the largest output is the row's label, or for how many of its
    tokens. With targets: `squares` and `distance`, the sums over a row's numbers of squared and
    absolute differences; nothing where a user's loss takes outputs of another size.
    """
    if labelled:
        hit = outputs.argmax(-1) == y
        return {"hit": hit.sum(1) if is_per_token(y) else hit}
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
    """Return the scores of stacks of batches, which the threads evaluate side by side.

    Args:
      evaluate: the program.
      threads: number of threads.
      shared: the variables that are evaluated.
      stacks: stacks of batches.
      wait: wait for the results before taking more stacks, so that few are held at a time.
    """
    stacks = iter(stacks)
    results = []
    while group := list(itertools.islice(stacks, threads)):
        results += in_threads(evaluate, [(shared, x, y) for x, y in group])
        if wait:
            jax.block_until_ready(results)
    return results


class DeviceStacks(dict[str, list[Stack]]):
    """Samples that nobody trains on, by name, on the device as long as a run refers to them."""

    arrays: tuple = ()  # the host's arrays, whose ids are the key


_on_device: weakref.WeakValueDictionary[tuple, DeviceStacks] = weakref.WeakValueDictionary()


def stacks_on_device(
    stacks: dict[str, list[Stack]], federation: Federation, threads: int
) -> DeviceStacks:
    """Return the stacks of `evaluation_stacks` on the device, once for all runs of the same arrays.

    Args:
      stacks: as `evaluation_stacks` returns them.
      federation: whose samples they are.
      threads: threads that evaluate side by side.
    """
    arrays = tuple(itertools.chain(*federation.scored.values()))
    device = str(jax.config.values["jax_default_device"])
    key = (*map(id, arrays), threads, device)
    on_device = _on_device.get(key)
    if on_device is None:
        on_device = DeviceStacks(jax.device_put(stacks))
        on_device.arrays = arrays
        _on_device[key] = on_device
    return on_device


def evaluation_stacks(
    federation: Federation, threads: int
) -> tuple[dict[str, list[Stack]], dict[str, int], int]:
    """Return the samples that nobody trains on, as the threads evaluate them.

    Args:
      federation: the samples.
      threads: threads that evaluate side by side.

    Returns:
      By name of the set, its stacks of batches and its rows; and the rows of a batch.
    """
    f = federation
    E = even_batch(len(f.test.x) or len(f.train.x), largest_batch(f))
    stacks = {}
    rows = {}
    for name, (x, y) in f.scored.items():
        if len(x):
            batches = -(-len(x) // (E * threads))
            stacks[name] = list(in_batches(x, y, E, batches))
            rows[name] = len(x)
    return stacks, rows, E


def largest_batch(f: Federation) -> int:
    """Return the rows of an evaluation batch, at most.

    What a model makes of each token takes memory, not the token: a sequence counts its vocabulary.
    """
    numbers = int(np.prod(f.train.x.shape[1:])) * max(f.vocabulary, 1)
    size = max(f.train.x.dtype.itemsize, 4) * numbers
    least = SEQUENCES if f.vocabulary else 1
    if platform() == "cpu":
        return max(min(BATCH_BYTES // size, WIDE), least)
    if f.vocabulary:
        return max(min(SEQUENCE_BYTES // size, WIDE), least)
    return WIDE


def even_batch(rows: int, largest: int) -> int:
    """Return the rows of a batch, at most `largest`, so that batches are about equally full.

    Args:
      rows: rows of all batches together.
      largest: rows of a batch, at most.
    """
    batches = max(-(-rows // largest), 1)
    return -(-rows // batches)


def in_batches(
    x: np.ndarray, y: np.ndarray, E: int, n: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield stacks of n batches of E rows.

    The last one is filled up with row 0: stacks of one shape are compiled once.
    """
    for first in range(0, len(x), n * E):
        index = np.arange(first, first + n * E)
        index = np.where(index < len(x), index, 0).reshape(n, E)
        yield x[index], y[index]


def scores_by_row(results: Scores, n: int) -> dict[str, np.ndarray]:
    """Return the scores of n rows as float64 `[n]`, without those of the filling."""
    scores = {}
    for name in results[0] if results else ():
        by_stack = [np.asarray(stack[name], np.float64).ravel() for stack in results]
        scores[name] = np.concatenate(by_stack)[:n]
    return scores


def labels_of(y: np.ndarray) -> np.ndarray:
    """Return the number of labels of each row `[n]`: one, or one for each labelled token."""
    if is_per_token(y):
        return np.sum(y >= 0, axis=1)
    return np.ones(len(y), np.int64)


def metrics(rows: dict[str, np.ndarray], y: np.ndarray) -> dict[str, float | None]:
    """Return the means of a set: `loss`, and `accuracy`, or `r2` and `mae`.

    Means are over rows, or over the tokens that have a label. Tokens also have a `perplexity`,
    exp(loss): among how many equally likely tokens the model is in doubt.

    R² = 1 − Σ‖o − y‖² / Σ‖y − ȳ‖² with the mean ȳ of this set; several targets count together, each
    by its variance. It is None where all targets are alike. MAE is the mean of |o − y| over rows
    and targets.

    Args:
      rows: scores as `scores_by_row` returns them, `[n]` each.
      y: labels `[n]`, those of tokens `[n, T]`, or targets `[n, ...]`.
    """
    labels = int(labels_of(y).sum())
    loss = float(_total(rows["loss"]) / labels)
    values: dict[str, float | None] = {"loss": loss}
    if "hit" in rows:
        values["accuracy"] = float(rows["hit"].sum() / labels)
        if is_per_token(y):
            with np.errstate(over="ignore"):
                values["perplexity"] = float(np.exp(loss))
    if "squares" in rows:
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        values["r2"] = _r2(rows["squares"], targets)
        values["mae"] = float(_total(rows["distance"]) / targets.size)
    return values


def _r2(squares: np.ndarray, targets: np.ndarray) -> float | None:
    """Return R² from every row's squared differences `[n]` and its targets `[n, d]`."""
    if (targets == targets[0]).all():
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _total(targets) / len(targets)
        spread = _total(np.sum((targets - mean) ** 2, axis=1))
        return float(1 - _total(squares) / spread)


def _total(values: np.ndarray) -> np.ndarray:
    """Return the sum over rows, added in the same order on every machine."""
    return np.cumsum(values, axis=0)[-1]

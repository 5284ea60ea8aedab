"""How a model does on rows: a batched forward pass, by several threads, and a set's metrics."""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from fedsim.engine.jitted import Jitted
from fedsim.engine.scoring.sets import Stack
from fedsim.engine.task import counted, per_label
from fedsim.engine.threads import in_threads, jit_for_threads
from fedsim.sources.arrays import is_per_token
from fedsim.types import Loss, Shared, Task

MAX_CACHED = 64  # compiled programs of a kind

MEASURED = ("test", "validation")  # sets of which there is a column for every metric

OUTPUTS = "outputs"  # of rows, where a score takes those of a whole set at once

# Scores of a row of which clients and nodes have means -> the names of the means.
MEANS = {"loss": "loss", "hit": "accuracy", "distance": "mae"}

Scores = list[dict[str, Array]]
"""Scores of stacks of batches, `[n, E]` each: `loss`, and what `row_metrics` adds.

Where a program `measures`, also the model's outputs `[n, E, ...]`."""

Tests = dict[str, list[Scores]]
"""Scores by each of a server's models, by name of the set."""

Rows = dict[str, np.ndarray]
"""Scores of rows by name, float64 `[n]` each; outputs are `[n, ...]`, in the model's float type."""

Evaluate = Jitted[[Shared, Any, Any], dict[str, Array]]
"""(shared, x `[n, E, ...]`, y `[n, E]`) -> scores by name `[n, E]`."""


class Measures(NamedTuple):
    """Scores that are no means over rows, but take the outputs of a whole set, or of a client's.

    Attributes:
      names: of the scores, as columns have them behind `test_`.
      of: (outputs `[n, ...]`, y `[n, ...]`) -> the scores by name; None where there is none.
      loss: (outputs, y) -> the loss, where it is no mean over rows either (`Loss.of_set`).
    """

    names: tuple[str, ...]
    of: Callable[[np.ndarray, np.ndarray], dict[str, float | None]]
    loss: Callable[[np.ndarray, np.ndarray], float] | None = None

    def all_of(self, outputs: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
        """Return the scores by name, with the loss if it is one of them."""
        loss = {}
        if self.loss is not None:
            loss["loss"] = self.loss(outputs.astype(np.float64), y)
        return {**loss, **self.of(outputs, y)}


def with_loss_of_set(measures: Measures | None, loss: Loss) -> Measures | None:
    """Return what is measured of a whole set, with the loss where it is no mean over rows."""
    if loss.of_set is None:
        return measures
    if measures is None:
        measures = Measures((), lambda outputs, y: {})
    return measures._replace(loss=loss.of_set)


class Scoring(NamedTuple):
    """How the rows of a batch are scored: by a plain forward pass, without a gradient."""

    forward: Callable  # a model's `apply`
    loss: Loss
    labelled: bool  # whether y are classes; else targets
    keeps_outputs: bool = False  # whether the model's outputs are among the scores

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
        predicted = outputs if self.labelled else self.loss.predicts(outputs)
        kept = {OUTPUTS: predicted} if self.keeps_outputs else {}
        if "sets" in self.loss.targets:
            return {"loss": losses, "hit": share_of_hits(outputs, y), **kept}
        return {"loss": losses, **row_metrics(predicted, y, self.labelled), **kept}

    def score_stack(self, variables: Any, x: Array, y: Array) -> dict[str, Array]:
        """Return the scores of a stack of batches `[n, E]`, batch after batch, as `score`."""
        return lax.map(lambda batch: self.score(variables, *batch), (x, y))


def scoring_of(task: Task, measures: Measures | None = None) -> Scoring:
    """Return how a task's model is scored, with what else is measured of its outputs."""
    labelled = task.classes > 0
    return Scoring(task.apply, task.loss, labelled, keeps_outputs=measures is not None)


@functools.lru_cache(MAX_CACHED)
def evaluator(scoring: Scoring) -> Evaluate:
    """Return the compiled `score_stack` of a model; it is the same whoever trains the model."""
    return jit_for_threads(scoring.score_stack)


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


def share_of_hits(outputs: Array, y: Array) -> Array:
    """Return for how many of its labels each row's output has the right sign, as a share `[E]`.

    Args:
      outputs: logits of the labels `[E, ...]`.
      y: a 0 or 1 for each `[E, ...]`.
    """
    hits = (outputs.reshape(len(y), -1) > 0) == (y.reshape(len(y), -1) > 0)
    return hits.mean(axis=1)


def scores(
    evaluate: Evaluate,
    threads: int,
    models: Sequence[Shared],
    stacks: Iterable[Stack],
    wait: bool = False,
) -> list[Scores]:
    """Return the scores of stacks of batches by each model; the threads work side by side.

    Args:
      wait: wait for the results before taking more stacks, so that few are held at a time.
    """
    calls = ((model, x, y) for x, y in stacks for model in models)
    results = []
    while group := list(itertools.islice(calls, threads)):
        results += in_threads(evaluate, group)
        if wait:
            jax.block_until_ready(results)
    return [results[model :: len(models)] for model in range(len(models))]


def scores_by_row(results: Scores, n: int) -> Rows:
    """Return the scores of n rows as float64 `[n]`, and outputs, without those of the filling."""
    scores = {}
    for name in results[0] if results else ():
        by_stack = []
        for stack in results:
            values = np.asarray(stack[name])
            by_stack.append(values.reshape(-1, *values.shape[2:]))
        rows = by_stack[0] if len(by_stack) == 1 else np.concatenate(by_stack)
        scores[name] = rows[:n] if name == OUTPUTS else rows[:n].astype(np.float64)
    return scores


def labels_of(y: np.ndarray) -> np.ndarray:
    """Return the number of labels of each row `[n]`: one, or one for each labelled token."""
    if is_per_token(y):
        return np.sum(y >= 0, axis=1)
    return np.ones(len(y), np.int64)


def columns_of_set(
    name: str, rows: Rows, y: np.ndarray, measures: Measures | None = None
) -> dict[str, float | None]:
    """Return the columns of a set: its metrics, or how often an aim is met."""
    means = metrics(rows, y, measures if name.endswith(MEASURED) else None)
    if not name.endswith(MEASURED):
        return {name: means.get("accuracy")}
    return {f"{name}_{metric}": value for metric, value in means.items()}


def metrics(rows: Rows, y: np.ndarray, measures: Measures | None = None) -> dict[str, float | None]:
    """Return the means of a set: `loss`, and `accuracy`, or `r2` and `mae`; and what is measured.

    Means are over rows, or over the tokens that have a label. Tokens also have a `perplexity`,
    exp(loss): among how many equally likely tokens the model is in doubt.

    R² = 1 − Σ‖o − y‖² / Σ‖y − ȳ‖² with the mean ȳ of this set; several targets count together, each
    by its variance. It is None where all targets are alike. MAE is the mean of |o − y| over rows
    and targets.

    Args:
      rows: scores as `scores_by_row` returns them, `[n]` each.
      y: labels `[n]`, those of tokens `[n, T]`, or targets `[n, ...]`.
      measures: what is measured besides.
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
    return values if measures is None else values | measures.all_of(rows[OUTPUTS], y)


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

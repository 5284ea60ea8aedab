"""The scores of the nodes of a graph, each of which has a model of its own."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from fedsim.engine.evaluation import MEANS, Forward, Scoring, Stack, labels_of
from fedsim.engine.jitted import Jitted
from fedsim.engine.threads import jit_for_threads

NODES = "node"  # what columns of these scores begin with

LARGER_IS_BETTER = ("accuracy",)

NodeEvaluate = Jitted[[Any, Any, Any, Any, Any], dict[str, Array]]
"""(params of all nodes `[n, ...]`, stats, x `[b, E, ...]`, y `[b, E]`, rows that count) -> sums of
the scores of each batch's rows by name `[n, b]`: batches do not depend on the number of threads."""


def node_evaluator(
    forward: Forward, loss: Callable[[Array, Array], Array], labelled: bool
) -> NodeEvaluate:
    """Return the compiled evaluation of many models; arguments as of `evaluation.evaluator`."""
    scoring = Scoring(forward, loss, labelled)

    def evaluate(params, stats, x, y, rows):
        batches = x.shape[:2]
        counts = (jnp.arange(batches[0] * batches[1]) < rows).reshape(batches)

        def of_node(params):
            variables = {"params": params, "stats": stats}
            scores = lax.map(lambda batch: scoring.score(variables, *batch), (x, y))  # [b, E]
            return {
                name: jnp.sum(jnp.where(counts, values, 0), axis=1)
                for name, values in scores.items()
                if name in MEANS
            }

        return lax.map(of_node, params)

    return jit_for_threads(evaluate)


def node_scores(
    evaluate: NodeEvaluate, params: Any, stats: Any, stacks: list[Stack], rows: int
) -> list[dict[str, Array]]:
    """Return the sums of all nodes' scores over each batch, stack by stack `[n, b]`.

    Args:
      evaluate: the program.
      params: of all nodes `[n, ...]`.
      stats: the model's statistics.
      stacks: the set to score on.
      rows: samples of the set; batches after them are filled up.
    """
    sums = []
    left = rows
    for x, y in stacks:
        size = x.shape[0] * x.shape[1]
        sums.append(evaluate(params, stats, x, y, min(left, size)))
        left = max(left - size, 0)
    return sums


def node_columns(sums: list[dict[str, Array]], y: np.ndarray) -> dict[str, float]:
    """Return mean, worst and standard deviation over the nodes of their mean scores.

    Args:
      sums: as `node_scores` returns them.
      y: labels or targets of the set.
    """
    counts = {"loss": int(labels_of(y).sum()), "hit": int(labels_of(y).sum()), "distance": y.size}
    columns = {}
    for name in sums[0]:
        of_batches = [np.asarray(of_stack[name], np.float64) for of_stack in sums]
        total = np.cumsum(np.concatenate(of_batches, axis=1), axis=1)[:, -1]  # batch after batch
        means = total / counts[name]  # [n]
        metric = MEANS[name]
        worst = means.min() if metric in LARGER_IS_BETTER else means.max()
        columns[f"{NODES}_{metric}_mean"] = float(means.mean())
        columns[f"{NODES}_{metric}_worst"] = float(worst)
        columns[f"{NODES}_{metric}_std"] = float(means.std())
    return columns

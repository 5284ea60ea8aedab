"""The nodes of a graph, each with a model of its own; the server holds their mean."""

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fedsim.disk.distribution import worst_of
from fedsim.engine.forms.one import OneModel
from fedsim.engine.jitted import Jitted
from fedsim.engine.memory import CLIENT, Memory
from fedsim.engine.scoring.rows import (
    MAX_CACHED,
    MEANS,
    Scores,
    Scoring,
    Tests,
    labels_of,
    scoring_of,
)
from fedsim.engine.scoring.sets import ScoredSets
from fedsim.engine.server_records import RoundStart, ServerState
from fedsim.engine.slots import RunCohort
from fedsim.engine.threads import jit_for_threads
from fedsim.fields.graphs.clients.nodes import NODE_MODEL
from fedsim.fields.graphs.network import active_nodes

if TYPE_CHECKING:
    from fedsim.engine.run import Run


NODES = "node"  # what columns of the nodes' scores begin with


class Graph(OneModel):
    """Nodes that mix, whoever trains: a round has the rows of all."""

    def begin(self, run: "Run") -> None:
        """Give every node its first row."""
        memories = run.program.server.memories
        run.store.fill(partial(memories.fresh, run.initial, run.key))

    def rows_of_round(self, cohort: int, N: int) -> int:
        """Return the rows of all nodes, or of full blocks of them."""
        return max(cohort, N)

    def load(self, run: "Run", run_cohort: RunCohort) -> tuple[np.ndarray, Memory, np.ndarray]:
        """Load the rows of all nodes, as `OneModel.load`."""
        members = run_cohort.plan.survey.members
        memory, rows = run.store.load(members)
        return members, memory, rows[run_cohort.cohort.ids]

    def start(self, run: "Run", run_cohort: RunCohort, start: RoundStart) -> RoundStart:
        """Return the start of a round with its edges."""
        plan = run_cohort.plan
        work = run_cohort.cohort
        assert plan.network is not None
        edges = plan.network.table(work.round, active_nodes(plan, work), run.program.dtype)
        return start._replace(edges=edges)

    def evaluate(self, run: "Run", server: ServerState) -> Tests:
        """Dispatch the evaluation of every node's own model on the test set.

        Returns:
          The sums of all nodes' scores over each batch, stack by stack `[n, b]`.
        """
        test = run.scorer.sets.get("test")
        if test is None:
            return {}
        memory, _ = run.store.load(run.plan.survey.members)
        nodes = run.plan.federation.N
        params = jax.tree.map(lambda leaf: leaf[:nodes], memory.rows[CLIENT][NODE_MODEL])
        evaluate = node_evaluator(scoring_of(run.program.task))
        sums = []
        left = test.rows  # batches after them are filled up
        for x, y in test.stacks:
            size = x.shape[0] * x.shape[1]
            sums.append(evaluate(params, server.shared["stats"], x, y, min(left, size)))
            left = max(left - size, 0)
        return {NODES: [sums]}

    def columns(self, server: ServerState, sets: ScoredSets, tests: Tests) -> dict[str, Any]:
        """Return the columns of the mean model, then those of the nodes; as `OneModel.columns`."""
        columns = super().columns(server, sets, tests)
        if NODES in tests:
            columns |= node_columns(tests[NODES][0], sets["test"].y)
        return columns


@lru_cache(MAX_CACHED)
def node_evaluator(scoring: Scoring) -> Jitted[[Any, Any, Any, Any, Any], dict[str, Array]]:
    """Return the compiled evaluation of the models of all nodes.

    Returns:
      (params of all nodes `[n, ...]`, stats, x `[b, E, ...]`, y `[b, E]`, rows that count) -> sums
      of the scores of each batch's rows by name `[n, b]`: batches do not depend on the number of
      threads.
    """

    def evaluate(params, stats, x, y, rows):
        batches = x.shape[:2]
        counts = (jnp.arange(batches[0] * batches[1]) < rows).reshape(batches)

        def of_node(params):
            scores = scoring.score_stack({"params": params, "stats": stats}, x, y)  # [b, E]
            return {
                name: jnp.sum(jnp.where(counts, values, 0), axis=1)
                for name, values in scores.items()
                if name in MEANS
            }

        return jax.lax.map(of_node, params)

    return jit_for_threads(evaluate)


def node_columns(sums: Scores, y: np.ndarray) -> dict[str, float]:
    """Return mean, worst and standard deviation over the nodes of their mean scores.

    Args:
      sums: as `Graph.evaluate` returns them.
    """
    labels = int(labels_of(y).sum())
    counts = {"loss": labels, "hit": labels, "distance": y.size}
    columns = {}
    for name in sums[0]:
        of_batches = [np.asarray(of_stack[name], np.float64) for of_stack in sums]
        total = np.cumsum(np.concatenate(of_batches, axis=1), axis=1)[:, -1]  # batch after batch
        means = total / counts[name]  # [n]
        metric = MEANS[name]
        columns[f"{NODES}_{metric}_mean"] = float(means.mean())
        columns[f"{NODES}_{metric}_worst"] = worst_of(metric, means)
        columns[f"{NODES}_{metric}_std"] = float(means.std())
    return columns

"""The nodes of a graph, each with a model of its own; the server holds their mean."""

from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from fedsim.clients.nodes import NODE_MODEL
from fedsim.engine.evaluation import Scores
from fedsim.engine.forms.one import OneModel
from fedsim.engine.memory import CLIENT, Memory
from fedsim.engine.node_scores import NODES, node_scores
from fedsim.engine.server_records import RoundStart, ServerState
from fedsim.engine.slots import RunCohort

if TYPE_CHECKING:
    from fedsim.engine.run import Run


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
        """Return the start of a round with its links."""
        links = run_cohort.plan.links_of(run_cohort.cohort, run.program.dtype)
        return start._replace(edges=links)

    def evaluate(self, run: "Run", server: ServerState) -> dict[str, Scores]:
        """Dispatch the evaluation of every node's own model on the test set."""
        evaluate = run.program.evaluate_nodes
        stacks = run.scorer.stacks.get("test")
        if evaluate is None or stacks is None:
            return {}
        memory, _ = run.store.load(run.plan.survey.members)
        nodes = run.plan.federation.N
        params = jax.tree.map(lambda leaf: leaf[:nodes], memory.rows[CLIENT][NODE_MODEL])
        rows = run.scorer.rows["test"]
        return {NODES: node_scores(evaluate, params, server.shared["stats"], stacks, rows)}

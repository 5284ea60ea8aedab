"""The nodes of a graph, each with a model of its own; the server holds their mean."""

from typing import TYPE_CHECKING

import numpy as np

from fedsim.engine.forms.one import OneModel
from fedsim.engine.memory import Memory
from fedsim.engine.server_records import RoundStart
from fedsim.engine.slots import RunCohort

if TYPE_CHECKING:
    from fedsim.engine.records import RunState


class Graph(OneModel):
    """Nodes that mix, whoever trains: a round has the rows of all."""

    def load(self, run: "RunState", run_cohort: RunCohort) -> tuple[np.ndarray, Memory, np.ndarray]:
        """Load the rows of all nodes, as `OneModel.load`."""
        members = run_cohort.plan.survey.members
        memory, rows = run.store.load(members)
        return members, memory, rows[run_cohort.cohort.ids]

    def start(self, run: "RunState", run_cohort: RunCohort, start: RoundStart) -> RoundStart:
        """Return the start of a round with its links."""
        links = run_cohort.plan.links_of(run_cohort.cohort, run.samples.dtype)
        return start._replace(edges=links)

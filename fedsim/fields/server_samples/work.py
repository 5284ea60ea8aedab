"""What the server does with its own samples: train on them, and score any model on them."""

from typing import Any

import jax
from jax.tree_util import Partial

from fedsim import tree
from fedsim.engine.footprint import of_lanes, shapes_of
from fedsim.engine.layout import shapes_of_layout
from fedsim.engine.mesh import Mesh
from fedsim.engine.own_work import OwnShapes
from fedsim.engine.program import Program
from fedsim.engine.run import Run
from fedsim.fields.server_samples.loss import server_loss, server_samples
from fedsim.fields.server_samples.training import (
    ALONE,
    ServerTraining,
    capacity_of_server,
    server_plan,
)
from fedsim.fleet import Plan
from fedsim.types import Shared


class Work:
    """The work that a rule asks for.

    Args:
      mesh: a lane of plain `sgd`, where the rule asks for the server's own update.
      scores: whether it asks for losses on the server's samples.
    """

    def __init__(self, mesh: Mesh | None, scores: bool):
        self.mesh = mesh
        self.scores = scores

    def server_loss(self, plan: Plan) -> Any:
        """Return the loss on the server's samples, with these on the device."""
        if not self.scores:
            return None
        return Partial(server_loss, jax.device_put(server_samples(plan.federation)))

    def training(self, run: Run) -> ServerTraining | None:
        """Return the training of a run's server."""
        if self.mesh is None:
            return None
        return ServerTraining(self.mesh, run.plan, run.program.dtype, run.key, run.frozen)

    def shapes(self, program: Program, plan: Plan, shared: Shared, frozen: Any) -> OwnShapes:
        """Return what all of it takes; arguments as of `OwnWork.shapes`."""
        loss = None
        if self.scores:
            loss = Partial(server_loss, shapes_of(server_samples(plan.federation)))
        if self.mesh is None:
            return OwnShapes(server_loss=loss)
        own_plan = server_plan(plan)
        capacity = capacity_of_server(own_plan)
        queues, slots = shapes_of_layout(ALONE, capacity, program.dtype, own_plan)
        sent = {**shared, "aux": {}}
        lane, row = of_lanes(self.mesh, sent, memory=(), queues=queues, slots=slots, frozen=frozen)
        update = row.message.delta
        train = own_plan.federation.train
        return OwnShapes(
            samples=tree.nbytes((train.x, train.y)),
            held=tree.nbytes((lane, row, update)),
            reference=update,
            server_loss=loss,
        )

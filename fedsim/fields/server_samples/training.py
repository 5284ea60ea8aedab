"""The server's own training, like that of one more client, which gives its own update."""

import jax
import numpy as np
from jaxtyping import Array, Key

from fedsim import tree
from fedsim.data import Federation, Holders
from fedsim.engine.frozen import merged_section
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.layout import lay_out
from fedsim.engine.loop import Loop
from fedsim.engine.mesh import Buffers, Mesh
from fedsim.engine.pack import Capacity, Width, rounded_up
from fedsim.engine.pieces import Pieces
from fedsim.engine.records import RoundState
from fedsim.engine.slots import RunCohort
from fedsim.fleet import Plan
from fedsim.fleet.selection import all as everybody
from fedsim.fleet.streams import Stream
from fedsim.tree import Tree
from fedsim.types import Shared

ALONE = Width(lanes=1, block=1)  # of a single client


class ServerTraining:
    """The server's own training: in every round, the work of one more client."""

    def __init__(
        self, mesh: Mesh, plan: Plan, dtype: np.dtype, root: Key[Array, ""], frozen: Tree = ()
    ):
        self.mesh = mesh
        self.plan = server_plan(plan)
        self.dtype = dtype
        self.capacity = capacity_of_server(self.plan)
        self.root = round_key(root, 0, Phase.REFERENCE)
        train = self.plan.federation.train
        self.data = mesh.replicate((train.x, train.y))
        self.frozen = mesh.replicate(frozen)

    def before(self, loop: Loop, state: RoundState) -> RoundState:
        """Return the state of a round with the server's own update."""
        assert state.cohort is not None
        reference, loop.buffers[self.mesh] = self.update(
            state.broadcast.shared,
            state.cohort.round,
            loop.buffers.get(self.mesh),
            loop.server_pieces,
        )
        return state._replace(start=state.start._replace(reference=reference))

    def update(
        self, sent: Shared, round: int, previous: Buffers | None, pieces: Pieces
    ) -> tuple[Tree, Buffers]:
        """Return the server's own update of a round, and the buffers that it was made in.

        Args:
          previous: buffers of a round before, which are reused.
        """
        cohort, _ = self.plan.round(round)
        cohorts = [RunCohort(self.plan, cohort)]
        layout = lay_out(cohorts, 0, width=ALONE, capacity=self.capacity, dtype=self.dtype)
        variables = {"params": sent["params"], "stats": sent["stats"], "aux": {}}
        bank = ({**variables, **merged_section(sent)},)
        keys = ((self.root,), round)
        inputs = self.mesh.inputs(
            bank, memory=(), layout=layout, data=self.data, keys=keys, frozen=self.frozen
        )
        buffers = self.mesh.train_block(inputs, previous, layout, pieces)
        return _first_row(buffers.rows[0].message.delta), buffers


_first_row = jax.jit(lambda stack: tree.take(stack, 0))


def capacity_of_server(plan: Plan) -> Capacity:
    """Return the shapes of a single client's training, whose steps are the same in every round."""
    return Capacity(
        blocks=1,
        steps=rounded_up(int(plan.steps[0])),
        members=1,
        shards=1,
        seats=1,
        samples=len(plan.federation.train.y),
    )


def server_plan(plan: Plan) -> Plan:
    """Return the plan of the server's own training: it is the only client of a federation.

    Its batches are drawn from their own random stream.
    """
    return Plan(
        federation=_server_as_client(plan.federation),
        cohort=everybody(),
        local=plan.unclipped_local._replace(phases=()),
        seed=plan.seed,
        rounds=plan.rounds,
        stream=Stream.REFERENCE,
    )


def _server_as_client(f: Federation) -> Federation:
    """The server's own samples, as those of a single client."""
    n = len(f.server.y)
    nothing = f.test_holders.indices[:0]
    return f._replace(
        train=f.server,
        holders=Holders(np.arange(n, dtype=np.int32), np.array([0, n])),
        test_holders=Holders(nothing, np.zeros(2, np.int64)),
        label_shift_periods=(),
    )

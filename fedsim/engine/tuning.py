"""Training before a score: clients take steps on their own samples, and nothing is sent.

It is the one local loop on lanes of its own, in blocks of as many clients as those of a round.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from fedsim import tree
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.layout import compacted, lay_out
from fedsim.engine.pack import capacity
from fedsim.engine.pieces import Pieces
from fedsim.engine.program import Program
from fedsim.engine.slots import RunCohort
from fedsim.fleet import Plan
from fedsim.tree import Tree
from fedsim.types import Shared


class Tuner:
    """The training before a score of one run.

    Args:
      program: the run's program, whose method has a `tuning`.
    """

    def __init__(self, program: Program, plan: Plan, root: Key[Array, ""], frozen: Tree):
        client = program.server.client
        assert client.scored.tune_steps is not None
        assert client.scored.personal is not None
        assert program.tuning_mesh is not None
        self.personal = client.scored.personal
        self.program = program
        self.mesh = program.tuning_mesh
        self.frozen = self.mesh.replicate(frozen)
        self.plan = plan.tuning_plan(client.scored.tune_steps)
        self.root = round_key(root, 0, Phase.TUNING)
        self.capacity = capacity(
            [[self.plan]], program.width, pack=program.pack, shards=self.mesh.shards
        )
        self.pieces = Pieces()

    @property
    def block(self) -> int:
        """Clients that are trained together."""
        return self.program.width.block

    def models(self, shared: Shared, memory: Tree, ids: np.ndarray, round: int) -> Tree:
        """Return clients' models after their training `[block, ...]`.

        Args:
          shared: the variables that the clients receive.
          memory: the rows of their memory `[block, ...]`; those beyond the clients are not read.
          ids: rising ids of at most `block` clients.
          round: the round whose labels they train on.
        """
        program = self.program
        cohort = RunCohort(self.plan, self.plan.work_of(ids, round))
        layout = lay_out(
            [cohort],
            first_slot=0,
            width=program.width,
            capacity=self.capacity,
            dtype=program.dtype,
            pack=program.pack,
        )

        # The samples of the block alone go to the device.
        train = self.plan.federation.train
        index, samples = compacted(
            layout.queues.index,
            x=train.x,
            y=train.y,
            samples=self.capacity.samples,
            readers=[slice(None)],
        )
        layout = layout._replace(queues=layout.queues._replace(index=index))
        inputs = self.mesh.inputs(
            (shared,),
            memory,
            layout=layout,
            data=self.mesh.put_samples(samples),
            keys=((self.root,), round),
            frozen=self.frozen,
        )
        buffers = self.mesh.train_block(inputs, None, layout, self.pieces)
        stack, _ = self.mesh.collect(buffers, inputs)
        return self._where_trained(shared, memory, stack.message.memory, layout.slots.steps)

    @jitted
    def _where_trained(
        self, shared: Shared, memory: Tree, trained: Tree, steps: Int[Array, " block"]
    ) -> Tree:
        """Return the trained models; a client that takes no step keeps the one it has."""
        of_block = jax.vmap(self.personal, in_axes=(None, 0), axis_size=len(steps))
        untrained = of_block(shared, memory)
        return tree.select(jnp.asarray(steps) > 0, trained, untrained)

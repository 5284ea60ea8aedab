"""What leaves the server: what the clients of a round receive, and what is evaluated."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Array, Int, Key

from fedsim import tree
from fedsim.engine.close import Kept
from fedsim.engine.jitted import jitted
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.server_records import ServerState
from fedsim.types import Shared


class Broadcast(NamedTuple):
    """What the clients of a round receive."""

    shared: Shared  # as it arrives; after a pass at the global model, with its mean in `aux`
    bytes: Int[Array, ""] | int | None = None  # to one client; None: those of the variables


class Sender:
    """The programs by which variables leave the server.

    Attributes:
      kept: states that the server has because of what it sends.
    """

    kept: Sequence[Kept] = ()

    def __init__(self, pipeline: Pipeline):
        self.pipeline = pipeline

    def broadcast(
        self, server: ServerState, root: Key[Array, ""], round: int
    ) -> tuple[ServerState, Broadcast]:
        """Return the server after its broadcast, and what the clients of a round receive."""
        del root, round
        return server, Broadcast(server.shared)

    def shown(self, server: ServerState) -> Shared:
        """Return the variables that are evaluated: the server's, unless the rule reports others."""
        if self.pipeline.rule.evaluated is None:
            return server.shared
        return self.evaluated(server)

    @jitted
    def evaluated(self, server: ServerState) -> Shared:
        """Return the variables that the rule reports."""
        evaluated = self.pipeline.rule.evaluated
        assert evaluated is not None
        params = evaluated(self.pipeline.shared_params(server.shared), server.state["rule"])
        return {**server.shared, "params": tree.fill_leaves(params, server.shared["params"])}

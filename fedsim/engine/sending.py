"""What leaves the server: what the clients of a round get, and what is evaluated."""

from typing import NamedTuple

from jaxtyping import Array, Int, Key

from fedsim import tree
from fedsim.compose import in_bytes, row_of, through
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.serving import ServerState
from fedsim.tree import Tree
from fedsim.types import Codec, Shared


class Sent(NamedTuple):
    """What the clients of a round got."""

    shared: Shared  # as it arrived; after a pass at the global model, with its mean in `aux`
    bytes: Int[Array, ""] | int | None = None  # to one client; None: those of the variables


class Sender:
    """The programs by which variables leave the server.

    Args:
      pipeline: of the run.
      codec: by which the parameters are sent out; None: as they are.
    """

    def __init__(self, pipeline: Pipeline, codec: Codec | None = None):
        self.pipeline = pipeline
        self.codec = codec and codec._replace(linear=False)  # there is no sum to decode

    def init(self, params: Tree) -> dict[str, Tree]:
        """What the server remembers of what it sent."""
        return {} if self.codec is None else {"broadcast": row_of(self.codec, params, params)}

    def sent(
        self, server: ServerState, root: Key[Array, ""], round: int
    ) -> tuple[ServerState, Sent]:
        """What the clients of a round get, and the server that sent it; without a codec its
        variables themselves.
        """
        return (
            (server, Sent(server.shared)) if self.codec is None else self.send(server, root, round)
        )

    @jitted
    def send(
        self, server: ServerState, root: Key[Array, ""], round: int
    ) -> tuple[ServerState, Sent]:
        """`sent` by way of the codec; parameters that are not finite are sent as they are."""
        assert self.codec is not None
        old, before = self.pipeline.travelling(server.shared), server.state["broadcast"]
        arrives, bits, memory = through(
            self.codec, old, before, round_key(root, round, Phase.BROADCAST)
        )
        server = server._replace(state={**server.state, "broadcast": memory})
        saved = tree.payload_bytes(old) - in_bytes(bits)
        shared = {**server.shared, "params": tree.filled(arrives, server.shared["params"])}
        return server, Sent(shared, tree.payload_bytes({**server.shared, "params": old}) - saved)

    def shown(self, server: ServerState) -> Shared:
        """The variables that are evaluated: those sent, unless the rule reports others."""
        return server.shared if self.pipeline.rule.evaluated is None else self.evaluated(server)

    @jitted
    def evaluated(self, server: ServerState) -> Shared:
        """`shown` where it is another program than handing the variables through."""
        evaluated = self.pipeline.rule.evaluated
        assert evaluated is not None
        params = evaluated(self.pipeline.travelling(server.shared), server.state["rule"])
        return {**server.shared, "params": tree.filled(params, server.shared["params"])}

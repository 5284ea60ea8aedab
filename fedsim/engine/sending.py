"""What leaves the server: what the clients of a round receive, and what is evaluated."""

from typing import Any, NamedTuple

from jaxtyping import Array, Int, Key

from fedsim import tree
from fedsim.compose import in_bytes, initial_memory, send_through
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.server_records import ServerState
from fedsim.tree import Tree
from fedsim.types import Codec, Shared

BROADCAST = "broadcast"  # the entry of the server's state that says what it sent


class Broadcast(NamedTuple):
    """What the clients of a round receive."""

    shared: Shared  # as it arrives; after a pass at the global model, with its mean in `aux`
    bytes: Int[Array, ""] | int | None = None  # to one client; None: those of the variables


class Sender:
    """The programs by which variables leave the server; with a codec, it keeps what it sent.

    Args:
      pipeline: the run's pipeline.
      codec: encodes the parameters; None: they are sent as they are.
    """

    def __init__(self, pipeline: Pipeline, codec: Codec | None = None):
        self.pipeline = pipeline

        # A broadcast has a single message: there is no sum of payloads to decode.
        self.codec = codec and codec._replace(linear=False)

    def init(self, shared: Shared, present: Any) -> Tree:
        """Return what the server remembers of what it sent."""
        del present
        assert self.codec is not None
        params = self.pipeline.shared_params(shared)
        return initial_memory(self.codec, params, params)

    def broadcast(
        self, server: ServerState, root: Key[Array, ""], round: int
    ) -> tuple[ServerState, Broadcast]:
        """Return the server after its broadcast, and what the clients of a round receive.

        Without a codec, they receive the server's variables.
        """
        if self.codec is None:
            return server, Broadcast(server.shared)
        return self.encode(server, root, round)

    @jitted
    def encode(
        self, server: ServerState, root: Key[Array, ""], round: int
    ) -> tuple[ServerState, Broadcast]:
        """Return `broadcast` with a codec; parameters that are not finite are sent as they are."""
        assert self.codec is not None
        params = self.pipeline.shared_params(server.shared)
        memory = server.state[BROADCAST]
        key = round_key(root, round, Phase.BROADCAST)
        arriving, bits, memory = send_through(self.codec, params, memory, key)
        server = server._replace(state={**server.state, BROADCAST: memory})

        saved = tree.payload_bytes(params) - in_bytes(bits)
        shared = {**server.shared, "params": tree.fill_leaves(arriving, server.shared["params"])}
        size = tree.payload_bytes({**server.shared, "params": params}) - saved
        return server, Broadcast(shared, size)

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

"""What leaves a server that encodes its model."""

from typing import Any

from jaxtyping import Array, Key

from fedsim import tree
from fedsim.compose import in_bytes, initial_memory, send_through
from fedsim.engine.close import Kept
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.sending import Broadcast, Sender
from fedsim.engine.server_records import ServerState
from fedsim.tree import Tree
from fedsim.types import Codec, Shared

BROADCAST = "broadcast"  # the entry of the server's state that says what it sent


class Encoding(Sender):
    """The programs by which variables leave the server through a codec; it keeps what it sent."""

    def __init__(self, pipeline: Pipeline, codec: Codec):
        super().__init__(pipeline)

        # A broadcast has a single message: there is no sum of payloads to decode.
        self.codec = codec._replace(linear=False)
        self.kept = [Kept(BROADCAST, self.init)]

    def init(self, shared: Shared, present: Any) -> Tree:
        """Return what the server remembers of what it sent."""
        del present
        params = self.pipeline.shared_params(shared)
        return initial_memory(self.codec, params, params)

    @jitted
    def broadcast(
        self, server: ServerState, root: Key[Array, ""], round: int
    ) -> tuple[ServerState, Broadcast]:
        """Return as of `Sender.broadcast`; parameters that are not finite are sent as they are."""
        params = self.pipeline.shared_params(server.shared)
        memory = server.state[BROADCAST]
        key = round_key(root, round, Phase.BROADCAST)
        arriving, bits, memory = send_through(self.codec, params, memory, key)
        server = server._replace(state={**server.state, BROADCAST: memory})

        saved = tree.payload_bytes(params) - in_bytes(bits)
        shared = {**server.shared, "params": tree.fill_leaves(arriving, server.shared["params"])}
        size = tree.payload_bytes({**server.shared, "params": params}) - saved
        return server, Broadcast(shared, size)

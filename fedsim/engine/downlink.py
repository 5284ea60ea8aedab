"""Bytes that clients get, exactly."""

import numpy as np
from jaxtyping import Int

from fedsim import tree
from fedsim.disk.checkpoint import fitted
from fedsim.engine.shared_leaves import sent, travelling
from fedsim.types import Client, Codec, Shared


class Downlink:
    """Counts what every client got.

    A codec that sends differences needs every message since a client's last one. A client that missed some gets them all,
    or the model itself where that is less; so does one that comes for the first time.

    Args:
      clients: N.
      whole: bytes of all variables that are sent to a client, without a codec.
      model: bytes of the parameters among them.
      recursive: whether messages build on those before.

    Attributes:
      received: bytes that each client got so far `[N]`.
    """

    def __init__(self, clients: int, whole: int, model: int, recursive: bool = False):
        self.whole, self.model, self.recursive = whole, model, recursive
        self.received = np.zeros(clients, np.int64)
        self.sent = np.zeros((), np.int64)  # bytes of all messages so far
        self.last = np.full(
            clients, -1, np.int64
        )  # `sent` when a client got its last one; -1: it never came

    def deliver(self, ids: Int[np.ndarray, " K"], size: int | None) -> Int[np.ndarray, " K"]:
        """The clients of a round get the variables, in `size` bytes (None: they are sent as they are) -> bytes of each."""
        bytes_ = np.full(len(ids), self.whole if size is None else size, np.int64)
        if self.recursive and size is not None:
            self.sent = self.sent + (size - (self.whole - self.model))
            missed = np.where(
                self.last[ids] < 0, self.model, np.minimum(self.sent - self.last[ids], self.model)
            )
            bytes_ = self.whole - self.model + missed
            self.last[ids] = self.sent
        np.add.at(self.received, ids, bytes_)
        return bytes_

    def arrays(self) -> dict[str, np.ndarray]:
        """What a commit keeps."""
        kept = {"received": self.received}
        return kept | ({"sent_down": self.sent, "last_down": self.last} if self.recursive else {})

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what a commit kept."""
        self.received = fitted("received", arrays, self.received).copy()
        if self.recursive:
            self.sent, self.last = (
                fitted("sent_down", arrays, self.sent).copy(),
                fitted("last_down", arrays, self.last).copy(),
            )


def downlink(client: Client, codec: Codec | None, shared: Shared, clients: int) -> Downlink:
    """The count for a method and the codec of its broadcast; `shared` may be shapes."""
    whole = tree.payload_bytes(sent(client, shared))
    model = tree.payload_bytes(travelling(client, shared["params"]))
    return Downlink(clients, whole, model, codec is not None and codec.recursive)

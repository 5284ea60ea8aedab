"""Exact counts of the bytes that clients receive."""

import numpy as np
from jaxtyping import Int

from fedsim import tree
from fedsim.disk.checkpoint import restore_tree
from fedsim.engine.shared_leaves import bytes_at_server, sent_variables, shared_leaves
from fedsim.fleet import Plan, RoundPlan
from fedsim.types import Client, Info, Shared

NEVER = -1  # `last` of a client that has received nothing yet


class Downlink:
    """Counts the bytes that every client receives.

    With a codec that sends differences, a client needs every message since its last one. A client
    that missed some receives all of them, or the model itself where that is smaller. So does a
    client that takes part for the first time.

    Args:
      clients: N.
      all_bytes: bytes of all variables sent to a client, without a codec.
      model_bytes: bytes of the parameters among them.
      recursive: whether messages build on those before.
      left_out: bytes of the parameters that each client does not receive `[N]`; None: 0.

    Attributes:
      received: bytes that each client has received `[N]`.
    """

    def __init__(
        self,
        clients: int,
        all_bytes: int,
        model_bytes: int,
        recursive: bool = False,
        left_out: np.ndarray | None = None,
    ):
        self.all_bytes = all_bytes
        self.model_bytes = model_bytes
        self.recursive = recursive
        self.left_out = left_out
        self.received = np.zeros(clients, np.int64)
        self.sent = np.zeros((), np.int64)  # bytes of all messages so far
        self.last = np.full(clients, NEVER, np.int64)  # `sent` at a client's last message

    def deliver(self, ids: Int[np.ndarray, " K"], size: int | None) -> Int[np.ndarray, " K"]:
        """Count what the clients of a round receive.

        Args:
          ids: the clients `[K]`.
          size: bytes of the encoded variables; None: they are sent without a codec.

        Returns:
          Bytes that each of them receives `[K]`.
        """
        message = self.all_bytes if size is None else size
        bytes_ = np.full(len(ids), message, np.int64)
        if self.recursive and size is not None:
            rest = self.all_bytes - self.model_bytes  # the variables that the codec does not encode
            self.sent = self.sent + (size - rest)
            bytes_ = rest + self.missed(ids)
            self.last[ids] = self.sent
        if self.left_out is not None:
            bytes_ -= self.left_out[ids]
        np.add.at(self.received, ids, bytes_)
        return bytes_

    def after(self, info: Info) -> None:
        """Learn what the links reported of a round, of which nothing is sent."""
        del info

    def foresee(self, plan: Plan, work: RoundPlan) -> Int[np.ndarray, " K"]:
        """Count the most that the clients of a planned round receive, as `deliver`."""
        del plan
        return self.deliver(work.receivers, None)

    def missed(self, ids: np.ndarray) -> np.ndarray:
        """Return the bytes of the messages since each client's last one `[K]`.

        They are at most those of the model.
        """
        last = self.last[ids]
        since_last = np.minimum(self.sent - last, self.model_bytes)
        return np.where(last == NEVER, self.model_bytes, since_last)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint stores."""
        arrays = {"received": self.received}
        if self.recursive:
            arrays["sent_down"] = self.sent
            arrays["last_down"] = self.last
        return arrays

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.received = restore_tree("received", arrays, self.received).copy()
        if self.recursive:
            self.sent = restore_tree("sent_down", arrays, self.sent).copy()
            self.last = restore_tree("last_down", arrays, self.last).copy()


def bytes_of(client: Client, shared: Shared) -> tuple[int, int]:
    """Return the bytes of all variables sent to a client, and of the parameters among them.

    Args:
      shared: the shared variables, or their shapes; of one model, where there are several.
    """
    sent = tree.payload_bytes(sent_variables(client, shared))
    all_bytes = client.travel.models * (sent - bytes_at_server(client, shared["params"]))
    return all_bytes, tree.payload_bytes(shared_leaves(client, shared["params"]))

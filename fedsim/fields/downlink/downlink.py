"""Exact counts of what clients receive through a codec."""

import numpy as np
from jaxtyping import Int

from fedsim.compose import max_bytes
from fedsim.engine.downlink import Downlink, bytes_of
from fedsim.engine.shared_leaves import shared_leaves
from fedsim.fields.downlink.sending import Encoding
from fedsim.fleet import Plan, RoundPlan
from fedsim.types import Shared


class EncodedDownlink(Downlink):
    """Counts the bytes that every client receives of an encoded model."""

    def __init__(self, sender: Encoding, plan: Plan, shared: Shared):
        client = sender.pipeline.client
        super().__init__(
            plan.federation.N,
            *bytes_of(client, shared),
            recursive=sender.codec.recursive,
            left_out=plan.left_out,
        )
        self.codec = sender.codec
        self.params = shared_leaves(client, shared["params"])

    def foresee(self, plan: Plan, work: RoundPlan) -> Int[np.ndarray, " K"]:
        """Count the most that the clients of a planned round receive, as `deliver`."""
        encoded = max_bytes(self.codec, self.params)
        return self.deliver(work.receivers, self.all_bytes - self.model_bytes + encoded)

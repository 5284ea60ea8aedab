"""Exact counts of what clients receive where the server moves frozen weights."""

import numpy as np
from jaxtyping import Int

from fedsim import tree
from fedsim.engine.downlink import Downlink
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.shared_leaves import sent_variables
from fedsim.fleet import Plan, RoundPlan
from fedsim.tree import Tree
from fedsim.types import MERGED, MERGED_BYTES, Info, Shared


class MergedDownlink(Downlink):
    """Counts the bytes that every client receives where the server moves frozen weights.

    Clients have the weights at the start of the run, and draw their adapters. A client receives all
    that was added to the weights since its last round, or the weights where these are smaller; and
    whatever else is shared.

    Args:
      pipeline: of the server, whose rule reports the bytes that it added.
    """

    def __init__(self, pipeline: Pipeline, shared: Shared, clients: int):
        sent = sent_variables(pipeline.client, shared)
        drawn = adapter_leaves(sent["params"], shared[MERGED])
        weights = tree.payload_bytes(shared[MERGED])
        self.rest = tree.payload_bytes(sent) - tree.payload_bytes(drawn)
        super().__init__(clients, self.rest + weights, weights, recursive=True)
        self.pairs = tree.payload_bytes(adapter_leaves(shared["params"], shared[MERGED]))
        self.column = f"{pipeline.rule_name}/{MERGED_BYTES}"
        self.last = np.zeros(clients, np.int64)

    def deliver(self, ids: Int[np.ndarray, " K"], size: int | None) -> Int[np.ndarray, " K"]:
        """Count what the clients of a round receive, as `Downlink.deliver`."""
        del size
        bytes_ = self.rest + self.missed(ids)
        self.last[ids] = self.sent
        np.add.at(self.received, ids, bytes_)
        return bytes_

    def after(self, info: Info) -> None:
        """Count what a round added to the weights, as its adapters are sent."""
        self.sent = self.sent + int(info.get(self.column, 0))

    def foresee(self, plan: Plan, work: RoundPlan) -> Int[np.ndarray, " K"]:
        """Count the most that the clients of a planned round receive, and add to the weights."""
        received = self.deliver(work.receivers, None)
        left_out = 0 if plan.left_out is None else int(plan.left_out[work.senders].sum())
        self.sent = self.sent + len(work.senders) * self.pairs - left_out
        return received


def adapter_leaves(params: Tree, merged: Tree) -> Tree:
    """Return the leaves of parameters that are next to a frozen leaf that the server moves."""
    nodes = {name.rpartition(".")[0] for name in tree.leaf_names(merged)}
    is_next = tree.mask_by_name(params, lambda name: name.rpartition(".")[0] in nodes)
    return tree.select_leaves(params, is_next)

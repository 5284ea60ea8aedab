"""Step 4 of a round without a server: every node mixes its row with those of its neighbours.

What the server holds is then the mean of the nodes' models, which nobody sends anywhere: it is what
scores and results are about.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import in_bytes
from fedsim.engine import sections
from fedsim.engine.keys import Phase
from fedsim.engine.memory import CLIENT, Memory
from fedsim.engine.pipeline import WireOutput
from fedsim.engine.server_records import (
    Aggregated,
    Counts,
    Messages,
    RoundStart,
    contexts_of,
    is_finite,
    sent_updates,
)
from fedsim.engine.slots import Slots
from fedsim.engine.stacking import Stacking
from fedsim.topology import EdgeTable
from fedsim.tree import Tree
from fedsim.types import Sent

MODEL = "x"  # a node's model in its row


class Mixing(Stacking):
    """Mixes the models of all nodes; arguments as of `Stacking`.

    Memory has a row for every node, in the order of ids, that of a node without samples too.
    """

    def aggregate(
        self, gathered: Messages, memory: Memory, slots: Slots, start: RoundStart
    ) -> Aggregated:
        """Mix the nodes' rows; the aggregate is how far their mean has moved.

        Args:
          gathered: the messages of all nodes that trained.
          memory: the nodes' rows before the round.
          slots: not used, as in `Stacking.aggregate`.
          start: the round's start, with the round's links.
        """
        del slots
        pipeline = self.pipeline
        edges = start.edges
        assert edges is not None
        slots = gathered.slots
        state = start.server.state
        shared = start.server.shared
        contexts = contexts_of(pipeline, self.task, start, slots)
        updates = sent_updates(gathered)
        wire = pipeline.arrive(updates, state, contexts)
        arrived = wire.updates.arrived
        counts = _counts(wire, updates.arrived)

        # The nodes' rows before the round, after the training, and as neighbours hear of them.
        nodes = edges.own.shape[0]
        before = jax.tree.map(lambda leaf: leaf[:nodes], memory.rows[CLIENT])
        node = jnp.where(arrived, slots.work.id, nodes)  # a place beyond the last writes nothing
        trained = tree.put(before, node, gathered.rows.message.memory)

        key = contexts(Phase.MIXING).key
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(nodes))
        gossip = pipeline.client.gossip
        assert gossip is not None
        own = jax.vmap(gossip.send)(before, trained, keys)
        sent = own
        if pipeline.wire_names:  # neighbours may hear something else than what the node holds
            x = before[MODEL]
            step = tree.put(tree.zeros_like(x), node, wire.updates.delta)
            sent = jax.vmap(gossip.send)(before, {**trained, MODEL: tree.add(x, step)}, keys)
        mixed = mix(edges, own.values, sent.values)
        after = jax.vmap(gossip.receive)(before, trained, own.values, mixed)

        # Once the mean is not finite, nothing changes any more.
        skipped = pipeline.skips(counts.usable)
        alive = is_finite(shared["params"])
        after = tree.select(edges.there & ~skipped & alive, after, before)

        x_mean = mean_of(after[MODEL])
        moved = tree.subtract(x_mean, shared["params"])
        output = pipeline.reduce(
            lambda state, context: (moved, state, {}),
            state,
            row_state={"wire": wire.state, "stages": state["stages"]},
            info=wire.info,
            contexts=contexts,
        )
        rows = jax.tree.map(
            lambda stored, new: stored.at[:nodes].set(new), memory.rows[CLIENT], after
        )
        of_stages = {
            name: tree.put(memory.rows[name], slots.memory_row, remembered)
            for name, remembered in wire.updates.memory.items()
        }
        return Aggregated(
            reduced=None,
            aggregate=output.aggregate,
            state=output.state,
            sections=sections.zero(updates, pipeline.client),
            counts=counts,
            memory=memory._replace(rows={CLIENT: rows, **of_stages}),
            info={**output.info, "consensus": consensus(after[MODEL], x_mean)},
            bytes=message_bytes(sent, nodes),
        )


def mix(edges: EdgeTable, own: Tree, sent: Tree) -> Tree:
    """Return Σ_j W_ij sent_j of every node, where the node itself counts with `own`.

    Links are added in the order of the senders' ids. Cost: O(ED), and as many steps as a node has
    neighbours at most.

    Args:
      edges: the round's links.
      own: what each node holds `[n, ...]`.
      sent: what its neighbours hear of it `[n, ...]`.
    """

    def scaled(weight: Array, leaf: Array) -> Array:
        return tree.along(weight.astype(leaf.dtype), leaf) * leaf

    def add_row(s, total: Tree) -> Tree:
        source = edges.source[s]
        target = edges.target[s]
        weight = edges.weight[s]

        def add(total: Array, sent: Array) -> Array:
            return total.at[target].add(scaled(weight, sent[source]), mode="drop")

        return jax.tree.map(add, total, sent)

    total = jax.tree.map(lambda leaf: scaled(edges.own, leaf), own)
    return lax.fori_loop(0, edges.source.shape[0], add_row, total)


def mean_of(stacked: Tree) -> Tree:
    """Return the mean of all rows of a stack."""
    n = tree.rows(stacked)
    ones = jnp.ones(n, jax.tree.leaves(stacked)[0].dtype)
    return tree.weighted_mean(stacked, ones)


def consensus(stacked: Tree, mean: Tree) -> Float[Array, ""]:
    """Return the mean over all rows of the squared distance to their mean."""
    squares = jax.tree.map(
        lambda leaf, mean: jnp.sum((leaf - mean) ** 2, axis=tuple(range(1, leaf.ndim))),
        stacked,
        mean,
    )
    return jnp.mean(sum(jax.tree.leaves(squares)))


def message_bytes(sent: Sent, nodes: int):
    """Return the bytes of every node's message, which each who hears it receives `[n]`."""
    if sent.bits is not None:
        return jax.vmap(in_bytes)(sent.bits)
    size = tree.payload_bytes(sent.values) // nodes
    return jnp.full(nodes, size, jnp.int32)


def _counts(wire: WireOutput, reported: Bool[Array, " rows"]) -> Counts:
    count = lambda mask: jnp.sum(mask, dtype=jnp.int32)
    return Counts(
        usable=count(wire.updates.arrived),
        nonfinite=count(wire.nonfinite),
        reported=count(reported),
    )

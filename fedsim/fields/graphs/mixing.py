"""Step 4 of a round without a server: every node mixes its row with those of its neighbours.

What the server holds is then the mean of the nodes' models, which nobody sends anywhere: it is what
scores and results are about.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from fedsim import tree
from fedsim.engine import sections
from fedsim.engine.keys import Phase
from fedsim.engine.memory import CLIENT, Memory
from fedsim.engine.pipeline import Contexts
from fedsim.engine.server_records import (
    Aggregated,
    Messages,
    RoundStart,
    contexts_of,
    count_rows,
    is_finite,
    sent_updates,
)
from fedsim.engine.slots import Slots
from fedsim.engine.stacking import Stacking
from fedsim.fields.graphs.clients.nodes import NODE_MODEL
from fedsim.fields.graphs.neighbourhoods import mix_by_rule
from fedsim.fields.graphs.topology import EdgeTable
from fedsim.tree import Tree
from fedsim.types import Updates


class NodeMixing(Stacking):
    """Mixes the models of all nodes; arguments as of `Stacking`.

    Memory has a row for every node, in the order of ids, that of a node without samples too.
    """

    def aggregate(
        self, gathered: Messages, memory: Memory, slots: Slots, start: RoundStart
    ) -> Aggregated:
        """Mix the nodes' rows; the aggregate is how far their mean has moved."""
        del slots
        pipeline = self.pipeline
        edges = start.edges
        assert edges is not None
        slots = gathered.slots
        state = start.server.state
        shared = start.server.shared
        contexts = contexts_of(pipeline, start, slots)
        updates = sent_updates(gathered)
        wire = pipeline.arrive(updates, state, contexts)
        counts = count_rows(wire.updates, wire.nonfinite, slots)

        # The nodes' rows before the round, and after it. Once the mean is not finite, or with too
        # few messages for the rule, nothing changes.
        nodes = edges.own.shape[0]
        before = jax.tree.map(lambda leaf: leaf[:nodes], memory.rows[CLIENT])
        after, sent_bytes = self._mixed(before, gathered, wire.updates, edges, contexts)
        unchanged = pipeline.skips(counts.usable) | ~is_finite(shared["params"])
        after = tree.select(edges.active & ~unchanged, after, before)

        x_mean = mean_of(after[NODE_MODEL])
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

        # What stages remember of the nodes whose message arrived; beyond the last row nothing is
        # written.
        row = jnp.where(wire.updates.arrived, slots.memory_row, memory.seen.shape[0])
        of_stages = {
            name: tree.put(memory.rows[name], row, remembered)
            for name, remembered in wire.updates.memory.items()
        }
        reports = {**output.info, "consensus": consensus(after[NODE_MODEL], x_mean)}
        return Aggregated(
            output=output._replace(reduced=None, info=reports),
            sections=sections.zero(updates, pipeline.client),
            counts=counts,
            memory=memory._replace(rows={CLIENT: rows, **of_stages}),
            bytes=sent_bytes,
        )

    def _mixed(
        self,
        before: Tree,
        gathered: Messages,
        heard: Updates,
        edges: EdgeTable,
        contexts: Contexts,
    ) -> tuple[Tree, Int[Array, " n"]]:
        """Return the nodes' rows after they have mixed, and the bytes of each one's message.

        Args:
          heard: these messages behind the wire, as neighbours hear of them.
        """
        pipeline = self.pipeline
        gossip = pipeline.client.gossip
        assert gossip is not None
        nodes = edges.own.shape[0]
        send = jax.vmap(gossip.send)

        # A node without a message keeps its model. A place beyond the last node writes nothing.
        node = jnp.where(heard.arrived, gathered.slots.work.id, nodes)
        trained = tree.put(before, node, gathered.rows.message.memory)
        key = contexts(Phase.MIXING).key
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(nodes))
        own, own_bytes = send(before, trained, keys)

        sent = own
        if pipeline.wire_names:  # an attacker may send something else than it holds
            x = before[NODE_MODEL]
            step = tree.put(tree.zeros_like(x), node, heard.delta)
            sent, _ = send(before, {**trained, NODE_MODEL: tree.add(x, step)}, keys)

        if edges.near is not None:
            mixed = mix_by_rule(pipeline, edges.near, own, sent, contexts)
        else:
            mixed = mix(edges, own, sent)
        after = jax.vmap(gossip.receive)(before, trained, own, mixed)
        if gossip.rests:
            after = tree.select(edges.mixes, after, trained)
        if own_bytes is None:
            own_bytes = jnp.full(nodes, tree.payload_bytes(own) // nodes, jnp.int32)
        return after, own_bytes


def mix(edges: EdgeTable, own: Tree, sent: Tree) -> Tree:
    """Return Σ_j W_ij sent_j of every node, where the node itself counts with `own`.

    Edges are added in the order of the senders' ids. Cost: O(ED), and as many steps as a node has
    neighbours at most.

    Args:
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

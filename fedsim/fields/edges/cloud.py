"""A cloud: the server of edges, whose models it makes one of every so many rounds."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import plain_context, plain_updates, server_step
from fedsim.engine.close import Kept, close_rows
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.pipeline import Contexts, Pipeline, State
from fedsim.engine.server_records import RoundStart, ServerState
from fedsim.tree import Tree
from fedsim.types import Client, Info, ServerLinks, Shared

# What it reports: edges that sent their models in a round, and edges that received its own.
SENT = "cloud/edges_sent"
RECEIVED = "cloud/edges_received"


class CloudState(NamedTuple):
    """What a cloud remembers."""

    cloud: Tree  # the parameters of its model, which the edges began with
    edge_weight: Float[Array, " k"]  # of the updates that each edge has used since
    links: State
    optimiser: Tree


class Cloud:
    """The server of k edges.

    Args:
      every: rounds from one of its own to the next.
      drops_nonfinite: whether it leaves out an edge whose model is not finite.
    """

    def __init__(
        self, links: ServerLinks, every: int, edges: int, client: Client, drops_nonfinite: bool
    ):
        self.every = every
        self.edges = edges
        self.optimiser = server_step(*links.optimisers)
        self.pipeline = Pipeline([], links, client, drops_nonfinite=drops_nonfinite)
        self.kept = Kept("cloud", self.init, self.after)

    def init(self, shared: Shared, present: Any) -> CloudState:
        """Return the state at the start of a run, when all edges are alike `[k, ...]`."""
        del present
        params = tree.take(shared["params"], 0)
        return CloudState(
            cloud=params,
            edge_weight=jnp.zeros(self.edges, jax.tree.leaves(params)[0].dtype),
            links=self.pipeline.init(params, jnp.ones(self.edges, bool)),
            optimiser=self.optimiser.init(params),
        )

    def after(
        self, state: CloudState, shared: Shared, weight: Float[Array, " k"], start: RoundStart
    ) -> tuple[CloudState, Shared, Info]:
        """Return the cloud and the edges' variables after a round, for `Kept.after`.

        In a round that is not the cloud's, and where too few edges have a model for its rule, they
        stay as they are.
        """
        meets = jnp.asarray(start.round) % self.every == 0
        weight = state.edge_weight + weight
        sent = meets & (weight > 0)
        delta = jax.tree.map(lambda edge, cloud: edge - cloud, shared["params"], state.cloud)
        updates = plain_updates(delta, sent, weight)._replace(stats=shared["stats"])

        variables = {"params": state.cloud, "stats": tree.take(shared["stats"], 0)}
        server = ServerState(variables, {**state.links, "optimiser": state.optimiser})
        contexts = self._contexts(state.cloud, start)
        closed = close_rows(self.pipeline, self.optimiser, server, updates, contexts)

        variables, links = closed.server
        optimiser = links.pop("optimiser")
        after = CloudState(variables["params"], jnp.zeros_like(weight), links, optimiser)
        to_edges = lambda leaf: jnp.broadcast_to(leaf, (self.edges, *leaf.shape))
        of_cloud = {**shared, **jax.tree.map(to_edges, variables)}
        steps = meets & ~closed.skipped
        info = {
            SENT: jnp.sum(sent, dtype=jnp.int32),
            RECEIVED: jnp.where(steps, self.edges, 0).astype(jnp.int32),
        }
        unchanged = state._replace(edge_weight=weight)
        return tree.select(steps, after, unchanged), tree.select(steps, of_cloud, shared), info

    def _contexts(self, params: Tree, start: RoundStart) -> Contexts:
        """Return what its links may know: they are about edges, not about clients."""
        key = round_key(start.root, start.round, Phase.CLOUD)
        ids = jnp.arange(self.edges, dtype=jnp.int32)
        context = plain_context(key, params, ids, start.samples.dtype)
        context = context._replace(
            round=start.round, lr=jnp.zeros_like(start.samples), samples=start.samples
        )
        return lambda phase: context._replace(key=jax.random.fold_in(key, int(phase)))

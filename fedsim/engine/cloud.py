"""A cloud: the server of edges, whose models it makes one of every so many rounds."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import plain_updates, server_step
from fedsim.engine import sections
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.pipeline import Contexts, Pipeline, State
from fedsim.engine.server_records import RoundStart
from fedsim.tree import Tree
from fedsim.types import Client, Context, Info, ServerLinks, Shared

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
      links: what it does with the edges' updates.
      every: rounds from one of its own to the next.
      edges: k.
      client: the client method.
      drops_nonfinite: whether it leaves out an edge whose model is not finite.
    """

    def __init__(
        self, links: ServerLinks, every: int, edges: int, client: Client, drops_nonfinite: bool
    ):
        self.every = every
        self.edges = edges
        self.optimiser = server_step(*links.optimisers)
        self.pipeline = Pipeline(
            wire=[],
            stages=links.stages,
            rule=links.rule,
            steps=links.steps,
            client=client,
            drops_nonfinite=drops_nonfinite,
        )

    def init(self, shared: Shared) -> CloudState:
        """Return the state at the start of a run; `shared`: of all edges `[k, ...]`, alike."""
        params = tree.take(shared["params"], 0)
        return CloudState(
            cloud=params,
            edge_weight=jnp.zeros(self.edges, jax.tree.leaves(params)[0].dtype),
            links=self.pipeline.init(params, jnp.ones(self.edges, bool)),
            optimiser=self.optimiser.init(params),
        )

    def step(
        self, shared: Shared, state: CloudState, weights: Float[Array, " k"], start: RoundStart
    ) -> tuple[Shared, CloudState, Info]:
        """Return the edges' variables after a round, inside of a program.

        In a round that is not the cloud's, and where too few edges have a model for its rule, they
        stay as they are.

        Args:
          shared: of all edges, after their own step `[k, ...]`.
          state: before the round.
          weights: Σ of the weights of the updates that each edge has used in the round.
          start: the round's start.
        """
        meets = jnp.asarray(start.round) % self.every == 0
        weight = state.edge_weight + weights
        sent = meets & (weight > 0)
        delta = jax.tree.map(lambda edge, cloud: edge - cloud, shared["params"], state.cloud)
        updates = plain_updates(delta, sent, weight)._replace(stats=shared["stats"])

        rows, output = self.pipeline.apply(updates, state.links, self._contexts(state.cloud, start))
        change, optimiser = self.optimiser.apply(output.aggregate, state.optimiser, state.cloud)
        cloud = tree.add(state.cloud, change)
        after = CloudState(cloud, jnp.zeros_like(weight), output.state, optimiser)

        # Statistics, which the rule does not touch, are a mean by its weights.
        sums = sections.add_rows(
            sections.zero(updates, self.pipeline.client),
            staged=rows.staged,
            arrived=rows.arrived,
            weights=self.pipeline.rule.weights(rows.staged),
            lr_sum=jnp.zeros_like(weight),
        )
        steps = meets & ~self.pipeline.skips(jnp.sum(rows.staged.arrived))
        before = tree.take(shared["stats"], 0)
        stats = sections.stats_after(sums, before, ~steps, self.pipeline.client)

        of_cloud = {**shared, **_to_all({"params": cloud, "stats": stats}, self.edges)}
        info = {
            SENT: jnp.sum(sent, dtype=jnp.int32),
            RECEIVED: jnp.where(steps, self.edges, 0).astype(jnp.int32),
        }
        unchanged = state._replace(edge_weight=weight)
        return tree.select(steps, of_cloud, shared), tree.select(steps, after, unchanged), info

    def _contexts(self, params: Tree, start: RoundStart) -> Contexts:
        """Return what its links may know: they are about edges, not about clients."""
        key = round_key(start.root, start.round, Phase.CLOUD)
        zero = jnp.zeros_like(start.samples)

        def context(phase: Phase) -> Context:
            return Context(
                key=jax.random.fold_in(key, int(phase)),
                round=start.round,
                N=jnp.full_like(start.samples, self.edges),
                lr=zero,
                shared={"params": params, "stats": {}, "aux": {}},
                ids=jnp.arange(self.edges, dtype=jnp.int32),
                malicious=jnp.zeros(self.edges, bool),
                samples=start.samples,
                expected=zero,
                expected_samples=zero,
                share=jnp.zeros(self.edges, zero.dtype),
            )

        return context


def _to_all(variables: Tree, edges: int) -> Tree:
    """Return the same variables for every edge `[k, ...]`."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (edges, *leaf.shape)), variables)

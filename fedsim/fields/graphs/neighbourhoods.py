"""Mixing by a rule: every node applies it to what it hears, as a server would to its cohort."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from fedsim import tree
from fedsim.compose import plain_updates
from fedsim.engine.keys import Phase
from fedsim.engine.pipeline import Contexts, Pipeline
from fedsim.fields.graphs.topology import Neighbourhoods
from fedsim.tree import Tree
from fedsim.types import Context

# Nodes whose neighbours are gathered at a time.
WIDTH = 8


def mix_by_rule(
    pipeline: Pipeline, near: Neighbourhoods, own: Tree, sent: Tree, contexts: Contexts
) -> Tree:
    """Return x_i + A({s_j − x_i}) of every node, over the neighbours that it hears and itself.

    A is what the pipeline's stages and rule make of these rows. W_ij stands for the samples of j,
    so that the mean is Σ_j W_ij s_j. A node that hears too few for the rule keeps its model.

    Args:
      own: what each node holds `[n, ...]`.
      sent: what its neighbours hear of it `[n, ...]`.
    """
    nodes = near.own.shape[0]
    malicious = malicious_nodes(contexts(Phase.RULE), nodes)

    def of_node(i) -> Tree:
        x = tree.take(own, i)
        ids = jnp.concatenate([i[None], near.source[i]])  # [1 + S]
        weight = jnp.concatenate([near.own[i][None], near.weight[i]])
        heard = weight > 0
        rows = tree.take(sent, jnp.minimum(ids, nodes - 1))
        delta = jax.tree.map(lambda row, x: row - x, rows, x)
        delta = jax.tree.map(lambda leaf: leaf.at[0].set(0), delta)  # a node knows its own model
        updates = plain_updates(delta, heard, weight)

        def context(phase: Phase) -> Context:
            of_round = contexts(phase)
            return of_round._replace(
                key=jax.random.fold_in(of_round.key, i),
                ids=ids,
                malicious=malicious[jnp.minimum(ids, nodes - 1)] & heard,
                share=jnp.zeros_like(weight),
            )

        present = jnp.ones(nodes, bool)
        state = pipeline.init(x, present)
        staged, _, _ = pipeline.stages.apply(updates, state["stages"], context(Phase.SERVER))
        step, _, _ = pipeline.rule.apply(staged, state["rule"], context(Phase.RULE))
        moved = tree.add(x, step)
        return tree.select(pipeline.skips(jnp.sum(staged.arrived)), x, moved)

    return lax.map(of_node, jnp.arange(nodes), batch_size=WIDTH)


def malicious_nodes(context: Context, nodes: int) -> Bool[Array, " n"]:
    """Return which nodes the attacker controls, of those that trained in the round."""
    target = jnp.where(context.malicious, context.ids, nodes)
    return jnp.zeros(nodes, bool).at[target].set(True, mode="drop")

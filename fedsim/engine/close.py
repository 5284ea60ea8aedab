"""The close of a round: what became of its rows moves the variables, or the round is skipped.

It is the same for a server of clients, for the cloud of edges, and for coalitions of clients.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.compose import ServerStep
from fedsim.engine import sections
from fedsim.engine.frozen import apart
from fedsim.engine.pipeline import Contexts, Pipeline, ProcessedRows, RuleOutput
from fedsim.engine.sections import SectionSums
from fedsim.engine.server_records import RoundStart, ServerState
from fedsim.tree import Tree
from fedsim.types import Info, Shared, Updates


class Kept(NamedTuple):
    """A state on the device that only some servers have, one for all of their models.

    It is an entry of `ServerState.state`: rounds and stretches carry it, and checkpoints store it.

    Attributes:
      name: of the entry.
      init: (variables, mask of the clients that can take part `[N]`) -> the state at the start of a
        run; inside of a program, like `after`.
      after: (state, variables after a round, Σ of the weights of the updates that moved them, start
        of the round) -> (state, variables, what is reported); None: it changes nothing. Of several
        models, variables and weights are `[k, ...]`.
    """

    name: str
    init: Callable[[Shared, Any], Tree]
    after: Callable[[Any, Shared, Array, RoundStart], tuple[Any, Shared, Info]] | None = None


class Closed(NamedTuple):
    """A server after a round."""

    server: ServerState  # its `aux` is that of before
    skipped: Bool[Array, ""]  # nothing changed
    weight: Float[Array, ""]  # Σ of the weights of the updates that moved it


def close_round(
    pipeline: Pipeline,
    optimiser: ServerStep,
    server: ServerState,
    output: RuleOutput,
    sums: SectionSums,
    usable: Int[Array, ""],
) -> Closed:
    """Return the server after a round.

    In a skipped round, parameters, statistics and the server's state do not change.

    Args:
      server: before the round, or after its broadcast.
      sums: the sections of the rows that the rule does not touch.
    """
    shared = server.shared

    # The optimisers turn the aggregate into a step on the parameters that clients send, and on
    # frozen ones that the rule moves.
    old = pipeline.moved_params(shared)
    step, optimiser_state = optimiser.apply(output.aggregate, server.state["optimiser"], old)
    new_state = {**output.state, "optimiser": optimiser_state}

    # With too few rows, or more than a rule over subsets can enumerate, skip the round.
    skipped = pipeline.skips(usable)
    params, state = tree.select(skipped, (old, server.state), (tree.add(old, step), new_state))
    stats = sections.stats_after(sums, shared["stats"], skipped, pipeline.client)

    # Parameters that clients do not send keep their values.
    params, merged = apart(params, shared)
    params = tree.fill_leaves(params, shared["params"])
    return Closed(
        server=ServerState({**shared, "params": params, "stats": stats, **merged}, state),
        skipped=skipped,
        weight=jnp.where(skipped, 0, sums.weight),
    )


def close_rows(
    pipeline: Pipeline,
    optimiser: ServerStep,
    server: ServerState,
    updates: Updates,
    contexts: Contexts,
) -> Closed:
    """Return the server after a round with these rows; other arguments as of `close_round`."""
    rows, output = pipeline.apply(updates, server.state, contexts)
    sums = sums_of(pipeline, rows, lr_sum=jnp.zeros_like(updates.samples))
    return close_round(
        pipeline, optimiser, server, output, sums, usable=jnp.sum(rows.staged.arrived)
    )


def sums_of(pipeline: Pipeline, rows: ProcessedRows, lr_sum: Float[Array, " K"]) -> SectionSums:
    """Return the sections that the rule does not touch, summed over all rows of a round.

    Args:
      lr_sum: for each row, the sum of its learning rates.
    """
    return sections.add_rows(
        sections.zero(rows.staged, pipeline.client),
        staged=rows.staged,
        arrived=rows.arrived,
        weights=pipeline.rule.weights(rows.staged),
        lr_sum=lr_sum,
    )

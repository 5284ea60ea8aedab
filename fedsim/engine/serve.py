"""What the server does with a round's rows: drop, reduce, optimise; a fold over blocks, then one step.

The sections of the shared variables close together: `params` by the rule (and optax after it), `state` by the weights
that the rule used.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.lanes import Rows
from fedsim.engine.pack import Jobs
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


class Server(NamedTuple):
    """What the server sends and what it remembers; leaves carry the bank's axis `[W, ...]`."""

    bank: Tree  # the shared variables
    carry: Tree  # states of rule and optimisers


class Total(NamedTuple):
    """Accumulator over the blocks of a round."""

    rule: Tree
    state: Tree
    weight: Float[Array, ""]  # Σ of the rule's weights
    reported: Int[Array, ""]
    nonfinite: Int[Array, ""]


class Met(NamedTuple):
    """What a block's clients met while training, for the round's row."""

    loss: Float[Array, " block"]  # Σ batch loss · valid rows
    seen: Float[Array, " block"]  # Σ valid rows


class Outcome(NamedTuple):
    """What a round did, in numbers that the host reads later."""

    reported: Int[Array, ""]
    nonfinite: Int[Array, ""]
    skipped: Bool[Array, ""]  # nothing usable arrived: model and optimisers stay as they were
    finite: Bool[Array, ""]  # are the shared params


class Serve(NamedTuple):
    """The server's program: a cohort is folded block by block, then closed."""

    init: Callable  # (shared) -> Server
    zero: Callable  # (rows, jobs) -> Total
    add: Callable  # (total, server, rows, jobs, key) -> (Total, Met)
    close: Callable  # (total, server, jobs, key) -> (Server, Outcome)


def serve(rule: Rule, on_nonfinite: str, N: int, K: int) -> Serve:
    """The program of steps 3 to 5 of a round.

    Args:
      rule: the reducing rule with the optimisers chained behind it.
      on_nonfinite: `keep` lets a row that is not finite pass; otherwise it is dropped (and the host may stop the run).
      N: clients in all.
      K: nominal cohort.
    """
    fold = rule.fold
    assert fold is not None

    def context(server: Server, jobs: Jobs, key) -> Context:
        root, r = key
        return Context(round_key(root, r, Phase.SERVER), r, N, K, jobs.lr[0], tree.take(server.bank, 0), jobs.id)

    def updates(rows: Rows, jobs: Jobs) -> tuple[Updates, Bool[Array, " block"]]:
        sent = rows.message
        bad = (jobs.weight > 0) & ~tree.finite_rows((sent.delta, sent.state, sent.aux), jobs.weight.shape[0])
        weight = jobs.weight if on_nonfinite == "keep" else jnp.where(bad, 0, jobs.weight)
        loss = jnp.full_like(weight, jnp.nan)
        steps = jobs.steps.astype(weight.dtype)
        return Updates(sent.delta, sent.state, sent.aux, weight, jobs.count, loss, steps, sent.effort), bad

    @jax.jit
    def init(shared: Tree) -> Server:
        carry = rule.init(shared["params"], N)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], Server(shared, carry))

    @jax.jit
    def zero(rows: Rows, jobs: Jobs) -> Total:
        block, _ = updates(rows, jobs)
        none = jnp.zeros((), jnp.int32)
        state = tree.zeros_like(tree.take(block.state, 0))
        return Total(fold.zero(block), state, jnp.zeros_like(block.weight[0]), none, none)

    @jax.jit
    def add(total: Total, server: Server, rows: Rows, jobs: Jobs, key) -> tuple[Total, Met]:
        block, bad = updates(rows, jobs)
        weights = rule.weights(block)
        state, weight = tree.fold((total.state, total.weight), (block.state, jnp.ones_like(weights)), weights)
        aggregate = fold.add(total.rule, block, context(server, jobs, key))
        reported = total.reported + jnp.sum(jobs.weight > 0, dtype=jnp.int32)
        nonfinite = total.nonfinite + jnp.sum(bad, dtype=jnp.int32)
        trained = jobs.steps > 0
        met = Met(jnp.where(trained, rows.loss, 0), jnp.where(trained, rows.seen, 0))
        return Total(aggregate, state, weight, reported, nonfinite), met

    @jax.jit
    def close(total: Total, server: Server, jobs: Jobs, key) -> tuple[Server, Outcome]:
        old = tree.take(server, 0)
        step, carry, _ = fold.finish(total.rule, old.carry, context(server, jobs, key))
        params, state = tree.add(old.bank["params"], step), tree.divide(total.state, total.weight)
        skipped = ~(total.weight > 0)
        new = tree.select(skipped, old, Server({**old.bank, "params": params, "state": state}, carry))
        stacked = jax.tree.map(lambda leaf: leaf[None], new)
        finite = tree.finite_rows(stacked.bank["params"], 1)[0]
        return stacked, Outcome(total.reported, total.nonfinite, skipped, finite)

    return Serve(init, zero, add, close)

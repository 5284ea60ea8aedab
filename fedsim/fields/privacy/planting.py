"""What canaries send, by which an audit tests privacy."""

import jax

from fedsim import tree
from fedsim.compose import lift
from fedsim.kinds import tag_of
from fedsim.tree import Tree
from fedsim.types import Context, RowStage, Stage, Updates

LENGTH = 2  # of what a canary sends, over the clipping bound: the clip is audited as well


def canary_direction(like: Tree, id: jax.Array) -> Tree:
    """Return the direction of a canary, the same in every round and under every seed.

    Args:
      like: an update, of which shapes and dtypes count.
    """
    key = jax.random.fold_in(jax.random.key(tag_of("canary")), id)
    return tree.direction(like, key)


def planting(width: int | None) -> Stage:
    """Return the stage in which canaries send their direction in place of an update.

    Its state is the bound C that the rule clips by. Random directions are nearly orthogonal to each
    other and to other updates, so that a canary leaves its own trace.

    References:
      Andrew et al. 2023, One-shot Empirical Privacy Estimation for Federated Learning,
      arXiv:2302.03098, algorithm 2.
    """

    def send_direction(row: Updates, context: Context) -> Updates:
        direction = canary_direction(row.delta, context.ids)
        return row._replace(delta=tree.scale(direction, LENGTH * context.state))

    every_row = lift(RowStage(apply=send_direction), width)

    def apply(updates: Updates, state: Tree, context: Context):
        assert context.marked is not None  # clients have slots, which say so
        sent, _, _ = every_row.apply(updates, state, context)
        delta = tree.select(context.marked, sent.delta, updates.delta)
        return updates._replace(delta=delta), state, {}

    return Stage(apply=apply, least=0)

"""The mean of clipped updates with noise: the rule that the section `privacy` makes of `mean`."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import folding, lift
from fedsim.fields.privacy.mechanism import Mechanism
from fedsim.fields.privacy.planting import planting
from fedsim.kinds import tag_of
from fedsim.rules.mean import mean
from fedsim.tree import Tree
from fedsim.types import Context, Fold, RowStage, Rule, Updates, reported

NAME = "privacy"  # the rule reports under it
COUNTS_PER_STD = 20  # σ_b = m/20, unless it is given


class Bound(NamedTuple):
    """C, the longest update that passes unchanged, and how it follows the updates.

    Attributes:
      initial: C in the first round.
      quantile: γ, the share of updates that should pass unchanged.
      lr: η_C; None: C does not change.
      count_std: σ_b, the deviation of the noise on the count of updates within C; None: m/20.
    """

    initial: float
    quantile: float = 0.5
    lr: float | None = None
    count_std: float | None = None


class PrivateState(NamedTuple):
    """What the rule remembers."""

    clip: Float[Array, ""]  # C of the next round
    noise: Tree  # of the mechanism
    trace: Tree = ()  # where privacy is audited: what canaries and noise added so far, over C/m


class ClippedSum(NamedTuple):
    """The sum over the rows so far."""

    delta: Tree
    above: Float[Array, ""]  # Σ (b_i − ½), where b_i says whether row i was within C
    others: Tree = ()  # where privacy is audited: the sum without canaries


def private_mean(
    bound: Bound,
    noise_multiplier: float,
    mechanism: Mechanism,
    width: int | None = None,
    audited: bool = False,
) -> Rule:
    """Return (Σ_i x_i · min(1, C / ‖x_i‖₂) + zC·noise) / m for the m clients expected in a round.

    No round is skipped: one in which nobody came has the noise alone. The rule is both the stage
    that clips and the noise behind the mean, because the noise depends on C, and C on the rows
    before they were clipped.

    Args:
      noise_multiplier: z; 0 draws no noise.
      mechanism: how the noise of one round depends on that of the rounds before.
      width: rows that are clipped at a time, as in `lift`.
      audited: whether canaries send what an audit looks for, and the state has their trace: all
        that the rule returned, without what other clients added to it.

    Reports: `privacy/clip`, the C of the round.
    """

    def init(params, present):
        del present
        clip = jnp.asarray(bound.initial, jax.tree.leaves(params)[0].dtype)
        trace = tree.zeros_like(params) if audited else ()
        return PrivateState(clip, mechanism.init(params), trace)

    def clip_row(row: Updates, context: Context) -> Updates:
        return row._replace(delta=tree.clipped(row.delta, context.state))

    def is_within(row: Updates, context: Context):
        scale, rest = tree.scaled_norm(row.delta)
        return {"within": (scale * rest <= context.state).astype(context.state.dtype)}

    clipping = lift(RowStage(apply=clip_row, measure=is_within), width)
    canaries = planting(width)

    def zero(updates):
        nothing = tree.zero_row(updates.delta)
        above = tree.zero_row(updates.samples)
        return ClippedSum(nothing, above, others=nothing if audited else ())

    def add(total, updates, context):
        clip = context.state.clip
        if audited:
            updates, _, _ = canaries.apply(updates, clip, context)
        clipped, _, info = clipping.apply(updates, clip, context)
        counted = reported(updates)
        rows = (clipped.delta, info["within"] - 0.5)
        delta, above = tree.fold((total.delta, total.above), rows, counted)
        others = total.others
        if audited:
            others = tree.fold(others, clipped.delta, jnp.where(context.marked, 0, counted))
        return ClippedSum(delta, above, others)

    def finish(total, state, context):
        m = context.expected
        aggregate = tree.divide(total.delta, m)
        noise_state = state.noise
        if noise_multiplier > 0:
            assert mechanism.draw is not None
            noise_context = context._replace(key=_key(context, "noise"))
            noise, noise_state = mechanism.draw(aggregate, state.noise, noise_context)
            std = _update_multiplier(noise_multiplier, bound, m) * state.clip / m
            aggregate = tree.add(aggregate, tree.scale(noise, std))

        trace = state.trace
        if audited:
            left = tree.subtract(aggregate, tree.divide(total.others, m))
            trace = tree.add(trace, tree.scale(left, m / state.clip))

        clip = state.clip
        if bound.lr is not None:
            count_noise = jax.random.normal(_key(context, "count"), (), clip.dtype)
            within = 0.5 + (total.above + _count_std(bound, m) * count_noise) / m
            clip = clip * jnp.exp(-bound.lr * (within - bound.quantile)).astype(clip.dtype)
        return aggregate, PrivateState(clip, noise_state, trace), {"clip": state.clip}

    rule = folding(Fold(zero=zero, add=add, finish=finish), reported, init)
    return rule._replace(least=0, needs=frozenset({"expected"}), noises=True, name=NAME)


def private_sum(clip: float, least: int) -> Rule:
    """Return the mean over the clients expected in a round, of updates that have noise already.

    Args:
      least: messages that a round needs; with fewer it is skipped.

    Reports: `privacy/clip`, C.
    """
    averaging = mean(weights="uniform", denominator="expected")
    fold = averaging.fold
    assert fold is not None

    def finish(total, state, context):
        aggregate, state, _ = fold.finish(total, state, context)
        return aggregate, state, {"clip": jnp.asarray(clip, context.expected.dtype)}

    rule = folding(fold._replace(finish=finish), reported)
    return rule._replace(least=least, needs=averaging.needs, noises=True, name=NAME)


def _key(context: Context, name: str):
    """Return the round's key of one of the rule's draws."""
    return jax.random.fold_in(context.key, tag_of(name))


def _count_std(bound: Bound, m: Float[Array, ""]):
    return m / COUNTS_PER_STD if bound.count_std is None else bound.count_std


def _update_multiplier(noise_multiplier: float, bound: Bound, m: Float[Array, ""]):
    """Return the noise multiplier of the updates: z, or z_Δ where the count is noised as well.

    z_Δ = (z⁻² − (2σ_b)⁻²)^(−½), so that both releases together cost what one with z does.
    """
    if bound.lr is None:
        return noise_multiplier
    z = jnp.asarray(noise_multiplier, m.dtype)
    return (z**-2 - (2 * _count_std(bound, m)) ** -2) ** -0.5

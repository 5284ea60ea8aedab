"""Two levels: a rule for every group of clients, and one for what the groups make."""

import jax
import jax.numpy as jnp
from jax import lax

from fedsim import tree
from fedsim.compose import plain_updates, reads_updates_alone, rule
from fedsim.compose.groups import Groups, group_of, require_disjoint
from fedsim.rules.mean import mean
from fedsim.types import Rule, by_samples


@rule
def hierarchical(
    groups: Groups,
    inner: Rule | None = None,
    outer: Rule | None = None,
) -> Rule:
    """A rule over the clients of each group, and a rule over the groups' results.

    Δ̄_g = inner({Δ_i : i ∈ g}) ;  Δ̄ = outer({Δ̄_g}), where Δ̄_g weighs as the samples of its group's
    clients that reported. With means by samples on both levels, it is their flat mean. A group in
    which too few report for the inner rule has no result.

    Resists: nothing with means; else what the rules resist, inside a group and among groups.
    Cost: that of the inner rule for each group.
    Needs: the whole stack.

    Args:
      groups: a number, for groups of consecutive clients, as even as possible; or the clients of
        each group, `[[0, 1], [2, 3]]`, each in one of them.
      inner: the rule of a group, one that asks for nothing but updates; by default the mean by
        samples.
      outer: the rule over groups, likewise; by default the mean by samples.

    References:
      Liu, Zhang, Song, Letaief 2020, Client-Edge-Cloud Hierarchical Federated Learning,
      arXiv:1905.06641, Algorithm 1 with κ₂ = 1.
    """
    inner_rule = _usable("inner", inner)
    outer_rule = _usable("outer", outer)
    count = groups if isinstance(groups, int) else len(groups)
    require_disjoint(groups)

    def init(params, present):
        states = jax.vmap(lambda _: inner_rule.init(params, present))(jnp.arange(count))
        return {
            "group": jnp.asarray(group_of(groups, present.shape[0])),
            "inner": states,
            "outer": outer_rule.init(params, jnp.ones(count, bool)),
        }

    def apply(updates, state, context):
        group = state["group"][context.ids]  # [K]

        def reduced(number_and_state):
            number, before = number_and_state
            arrived = updates.arrived & (group == number)
            members = updates._replace(arrived=arrived)
            result, after, _ = inner_rule.apply(members, before, context)
            enough = arrived.sum() >= inner_rule.least
            after = tree.select(enough, after, before)
            return result, after, enough, by_samples(members).sum()

        results, inner_states, enough, samples = lax.map(
            reduced, (jnp.arange(count), state["inner"])
        )
        state = {**state, "inner": inner_states}
        if count == 1 and outer is None:  # the mean of one row is that row
            return tree.take(results, 0), state, {}

        rows = plain_updates(results, enough, samples)
        of_groups = context._replace(
            key=jax.random.fold_in(context.key, count),
            ids=jnp.arange(count),
            malicious=jnp.zeros(count, bool),
            share=jnp.zeros_like(samples),
        )
        aggregate, after, _ = outer_rule.apply(rows, state["outer"], of_groups)
        arrived = enough.sum() >= outer_rule.least
        aggregate = tree.select(arrived, aggregate, tree.zeros_like(aggregate))
        return aggregate, {**state, "outer": tree.select(arrived, after, state["outer"])}, {}

    return Rule(apply, init, weights=by_samples)


def _usable(level: str, chosen: Rule | None) -> Rule:
    """Return the rule of a level.

    Raises:
      ValueError: for one that asks for more than updates.
    """
    if chosen is None:
        return mean()
    if not reads_updates_alone(chosen):
        text = f"the rule {chosen.name} asks for more than the updates of a group"
        raise ValueError(f"{level}: {text}; use mean, median or another one without")
    return chosen

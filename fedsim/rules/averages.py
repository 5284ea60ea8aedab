"""Means that know more of how the updates came about: how much work is in them, how far apart they are, what was before."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.tree import Tree
from fedsim.types import Fold, Rule, Updates, reported


class Iterate(NamedTuple):
    """What FedExP's server remembers."""

    before: Tree


class Dynamics(NamedTuple):
    """What FedDyn's server remembers."""

    h: Tree


def _by_samples(updates: Updates) -> jax.Array:
    return updates.weight * updates.count


def _zero(updates: Updates) -> jax.Array:
    return jnp.zeros((), updates.weight.dtype)


@rule
def nova() -> Rule:
    """FedNova's rule: updates per unit of local work, times the mean work; so who trains longer does not pull harder.

    x ← x + τ_eff Σ p_i Δ_i / ‖a_i‖₁  with  τ_eff = Σ p_i ‖a_i‖₁ and p_i = n_i / Σ n_j over the clients that reported.
    ‖a_i‖₁ is the effort that the client method reports: the local steps, unless it is `fednova`, which measures it.

    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), one pass.    Needs: one block at a time.
    With equal efforts: `mean`.

    References:
      Wang et al. 2020, Tackling the Objective Inconsistency Problem, arXiv:2007.07481, Theorem 1.
    """

    def zero(updates):
        return tree.zero_row(updates.delta), _zero(updates), _zero(updates)

    def add(total, updates, context):
        del context
        moved, effort, weight = total
        w = _by_samples(updates)
        there = jnp.where((w > 0) & (updates.effort > 0), w / jnp.where(updates.effort > 0, updates.effort, 1), 0)
        each = (updates.effort, jnp.ones_like(w))
        return tree.fold(moved, updates.delta, there), *tree.fold((effort, weight), each, w)

    def finish(total, state, context):
        del context
        moved, effort, weight = total
        return tree.divide(tree.scale(moved, effort / jnp.where(weight > 0, weight, 1)), weight), state, {}

    return folding(Fold(zero, add, finish), _by_samples)


@rule
def fedexp(eps: Annotated[float, Ge(0)] = 1e-3, average: bool = True) -> Rule:
    """FedExP's rule: the uniform mean, and a longer step where the updates point apart.

    x ← x + η_g Δ̄  with  η_g = max{1, Σ‖Δ_i‖² / (2 m (‖Δ̄‖² + ε))} over the m clients that reported. Long steps swing to
    and fro, so what is evaluated is (x + x')/2 with the x' before it; clients train on x, which is also the model kept.

    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), one pass.    State: x', one model.
    Needs: one block at a time.    With equal updates: `mean(uniform)`, but for what is evaluated.

    Args:
      eps: ε, keeps the step finite where the mean vanishes.
      average: evaluate the mean of the last two iterates, as the paper does; else the last one.

    References:
      Jhunjhunwala et al. 2023, FedExP, arXiv:2301.09604, equation 8.
    """

    def zero(updates):
        return tree.zero_row(updates.delta), _zero(updates), _zero(updates)

    def add(total, updates, context):
        del context
        w = reported(updates)
        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))
        return tree.fold(total, (updates.delta, lengths * lengths, jnp.ones_like(w)), w)

    def finish(total, state, context):
        moved, squares, m = total
        mean = tree.divide(moved, m)
        length = tree.norm(mean)
        room = 2 * jnp.where(m > 0, m, 1) * (length * length + eps)
        step = jnp.maximum(1, squares / jnp.where(room > 0, room, 1))
        return tree.scale(mean, step), Iterate(context.shared["params"]) if average else state, {}

    if not average:
        return folding(Fold(zero, add, finish), reported)
    middle = lambda params, state: tree.mix(params, state.before, 0.5)
    return folding(Fold(zero, add, finish), reported, lambda params, present: Iterate(params))._replace(
        evaluated=middle
    )


@rule
def mean_over_all() -> Rule:
    """The sum of what arrived, divided by the number of all clients: absent ones count as unchanged.

    x ← x + (1/N) Σ_{i∈S} Δ_i, with N clients that can take part. Where clients send how something of theirs
    changed, and x starts as the mean of it, x stays the mean over all of them, whoever takes part.

    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), one pass.    Needs: one block at a time.
    Where everybody reports: `mean(uniform)`.

    References:
      Gong, Li, Freris 2022, FedADMM, arXiv:2204.03529, Algorithm 1 with η = |S|/N.
    """

    def add(total, updates, context):
        del context
        return tree.fold(total, updates.delta, reported(updates))

    def finish(total, state, context):
        return tree.scale(total, 1 / context.N), state, {}

    return folding(Fold(lambda updates: tree.zero_row(updates.delta), add, finish), reported)


@rule
def horvitz_thompson() -> Rule:
    """The unbiased estimate, from a uniform cohort, of the sample-weighted mean over all clients.

    Δ̄ = (N/m) Σ_{i∈S} (n_i/n) Δ_i, with n samples of all N clients that can take part, and m that reported.
    `mean(samples)` behind the cohort `uniform` divides by the samples of the cohort instead, which is biased and varies
    less; `mean(uniform)` behind the cohort `weighted`, which draws clients by their samples, with replacement, is unbiased
    as well.

    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), one pass.    Needs: one block at a time.
    Where everybody reports: `mean(samples)`.

    References:
      Horvitz, Thompson 1952, A Generalization of Sampling Without Replacement from a Finite Universe, JASA 47.
    """

    def zero(updates):
        return tree.zero_row(updates.delta), _zero(updates), _zero(updates)

    def add(total, updates, context):
        del context
        moved, samples, m = total
        w, each = _by_samples(updates), jnp.ones_like(updates.weight)
        return *tree.fold((moved, samples), (updates.delta, each), w), tree.fold(m, each, reported(updates))

    def finish(total, state, context):
        moved, here, m = total
        each = here / jnp.where(m > 0, m, 1)
        n = jnp.where(context.samples > 0, context.samples, context.N * each).astype(m.dtype)
        return tree.scale(moved, jnp.where(m > 0, context.N / jnp.where(m > 0, m * n, 1), 0)), state, {}

    return folding(Fold(zero, add, finish), _by_samples)


@rule
def dyn(alpha: Annotated[float, Gt(0)] = 0.1) -> Rule:
    """FedDyn's rule: the uniform mean, corrected by what all clients have drifted so far.

    h ← h − (α/N) Σ_{i∈S} Δ_i ;  x ← mean_S (x + Δ_i) − h/α, with h = 0 at the start and N clients that can take part.

    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), one pass.    State: h, one model.
    Needs: one block at a time, and the client method `feddyn` with the same α.

    Args:
      alpha: α, of the clients' regulariser.

    References:
      Acar et al. 2021, Federated Learning Based on Dynamic Regularization, arXiv:2111.04263, Algorithm 1.
    """

    def zero(updates):
        return tree.zero_row(updates.delta), _zero(updates)

    def add(total, updates, context):
        del context
        w = reported(updates)
        return tree.fold(total, (updates.delta, jnp.ones_like(w)), w)

    def finish(total, state, context):
        moved, m = total
        h = jax.tree.map(lambda h, d: h - alpha / context.N * d, state.h, moved)
        step = jax.tree.map(lambda d, h: d - h / alpha, tree.divide(moved, m), h)
        return step, Dynamics(h), {}

    made = folding(Fold(zero, add, finish), reported, lambda params, present: Dynamics(tree.zeros_like(params)))
    return made._replace(client=("feddyn", {"alpha": alpha}))

"""FLTrust: updates count as far as they point in the direction of the server's update."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import alias, folding, rule
from fedsim.rules.selection import SelectionCounts, count_selection, rates
from fedsim.tree import Tree
from fedsim.types import Context, Fold, Rule, Updates, reported

alias(fltrust="trust")


@rule
def trust() -> Rule:
    """FLTrust: mean of the updates at the length of the server's update, weighted by cosine to it.

    agg = ‖g₀‖₂ Σ_i s_i · x_i/‖x_i‖₂ / Σ_j s_j,  s_i = max(0, ⟨x_i, g₀⟩/(‖x_i‖₂‖g₀‖₂));
    zero where all s_i are 0.
    g₀ is the server's update, made from samples that the server holds (`data.server`) as a client
    would: by plain `sgd` from the model that was sent, with the optimiser, learning rate, batches
    and steps of the `client` section, whatever its method. Sample counts and updates that are not
    finite are ignored.

    Resists: any number of malicious clients, as far as the server's samples show what is honest.
    Cost: O(K·D), one pass, and training on the server in every round.
    Needs: one block at a time, and `data.server`.

    Raises:
      ScenarioError: when the server has no samples.

    References:
      Cao, Fang, Liu, Gong 2021, FLTrust: Byzantine-robust Federated Learning via Trust
      Bootstrapping, arXiv:2012.13995, Algorithm 2.

    >>> import fedsim
    >>> rows = [[3.0, 0.0], [0.0, 9.0], [-5.0, 0.0]]
    >>> fedsim.aggregate("trust", rows, reference=[1.0, 0.0]).tolist()
    [1.0, 0.0]
    """

    def zero(updates: Updates):
        row = tree.zero_row((updates.delta, updates.samples))
        zero = jnp.zeros((), updates.samples.dtype)
        counts = SelectionCounts(
            malicious_rejected=zero,
            malicious_accepted=jnp.zeros((), jnp.int32),
            rejected=zero,
            malicious=zero,
        )
        return row, counts

    def add(total, updates: Updates, context: Context):
        sums, counts = total
        lengths, cosines = against(updates.delta, context.reference)
        w = reported(updates) * jnp.maximum(cosines, 0)
        unit = jnp.where(w > 0, w / jnp.where(w > 0, lengths, 1), 0).astype(w.dtype)
        sums = tree.fold(sums, (updates.delta, lengths.astype(w.dtype)), unit)
        block = count_selection(updates.arrived & (cosines > 0), updates, context)
        return sums, jax.tree.map(jnp.add, counts, block)

    def finish(total, state, context: Context):
        (directions, weight), counts = total
        scaled = tree.scale(directions, tree.norm(context.reference))
        return tree.divide(scaled, weight), state, rates(counts)

    trusting = folding(Fold(zero=zero, add=add, finish=finish), reported)
    return trusting._replace(needs=frozenset({"reference"}))


def against(stacked: Tree, reference: Tree) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """Return the lengths of the rows, and the cosines of their angles with the reference.

    The cosine is 0 where either vector has length zero or is not finite. Rows come one at a time
    (3. in `fedsim.tree.exact`).
    """
    inverse_of_reference = inverse_length(tree.norm(reference))

    def of_row(row: Tree) -> tuple[Array, Array]:
        length = tree.norm(row)
        inverse = inverse_length(length)
        products = jax.tree.map(
            lambda x, y: jnp.sum((x * inverse) * (y * inverse_of_reference)), row, reference
        )
        cosine = sum(jax.tree.leaves(products))
        return length, jnp.where((inverse > 0) & (inverse_of_reference > 0), cosine, 0)

    return lax.map(of_row, stacked)


def inverse_length(length: Float[Array, ""]) -> Float[Array, ""]:
    """`1/length`; 0 where the length or its inverse is not finite."""
    usable = jnp.isfinite(length) & (length >= jnp.finfo(length.dtype).tiny)
    return jnp.where(usable, 1 / jnp.where(usable, length, 1), 0)

"""FLTrust: updates count as far as they point where the server's own points."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import alias, folding, rule
from fedsim.rules.selection import Met, met, rates
from fedsim.tree import Tree
from fedsim.types import Context, Fold, Rule, Updates, reported

alias(fltrust="trust")


@rule
def trust() -> Rule:
    """FLTrust: mean of the updates at the length of the server's own, weighted by the cosine to it.

    agg = ‖g₀‖₂ Σ_i s_i · x_i/‖x_i‖₂ / Σ_j s_j,  s_i = max(0, ⟨x_i, g₀⟩/(‖x_i‖₂‖g₀‖₂));  zero where all s_i are 0.
    g₀ is the update that the server makes of samples of its own (`data.server`): as one more client, by plain `sgd` from
    the model that was sent, with the optimiser, learning rate, batches and steps of the `client` section, whatever its
    method. Sample counts are ignored, and so are updates that are not finite.

    Resists: any number of malicious clients, as far as the server's samples show what is honest.
    Cost: O(K·D), one pass, and the server's own training in every round.
    Needs: one block at a time, and `data.server`.

    Raises:
      ScenarioError: without samples of the server's own.

    References:
      Cao, Fang, Liu, Gong 2021, FLTrust: Byzantine-robust Federated Learning via Trust Bootstrapping, arXiv:2012.13995,
      Algorithm 2.

    >>> import fedsim
    >>> fedsim.aggregate("trust", [[3.0, 0.0], [0.0, 9.0], [-5.0, 0.0]], reference=[1.0, 0.0]).tolist()
    [1.0, 0.0]
    """

    def zero(updates: Updates):
        row = tree.zero_row((updates.delta, updates.samples))
        none = jnp.zeros((), updates.samples.dtype)
        return row, Met(none, jnp.zeros((), jnp.int32), none, none)

    def add(total, updates: Updates, context: Context):
        so_far, sums = total
        lengths, cosines = against(updates.delta, context.reference)
        w = reported(updates) * jnp.maximum(cosines, 0)
        unit = jnp.where(w > 0, w / jnp.where(w > 0, lengths, 1), 0)
        so_far = tree.fold(so_far, (updates.delta, lengths.astype(w.dtype)), unit.astype(w.dtype))
        more = met(updates.arrived & (cosines > 0), updates, context)
        return so_far, jax.tree.map(jnp.add, sums, more)

    def finish(total, state, context: Context):
        (directions, weight), sums = total
        long = tree.scale(directions, tree.norm(context.reference))
        return tree.divide(long, weight), state, rates(sums)

    return folding(Fold(zero=zero, add=add, finish=finish), reported)._replace(
        needs=frozenset({"reference"})
    )


def against(stacked: Tree, reference: Tree) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """Lengths of the rows, and cosines of their angles with another one, row by row (3. in `fedsim.tree.exact`).

    The cosine is 0 beside a vector of length zero, and beside one that is not finite.
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
    """`1/length`, 0 for zero, for what is not finite, and where it would not be finite itself."""
    usable = jnp.isfinite(length) & (length >= jnp.finfo(length.dtype).tiny)
    return jnp.where(usable, 1 / jnp.where(usable, length, 1), 0)

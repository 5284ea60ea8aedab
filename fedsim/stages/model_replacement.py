"""Boosted updates: the attacker's model in place of the shared one."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Gt

from fedsim import tree
from fedsim.compose import attack, row_attack
from fedsim.tree import Tree
from fedsim.types import Context, RowStage, Updates, by_samples, reported


@attack
def model_replacement(
    boost: Annotated[float, Gt(0)] | None = None, weights: Literal["samples", "uniform"] = "samples"
):
    """Sends the update scaled up, so that the mean of all becomes the attacker's model.

    x_i ← γ x_i. The default is γ = Σ_j w_j / Σ_{j malicious} w_j over those that arrived: where
    honest updates cancel out, the mean is then that of the malicious clients. For a server step
    η ≠ 1 use γ / η.

    Knows: the weights of the round, unless `boost` is given.
    Defence: anything that bounds lengths; a mean does not.
    Cost: O(K·D).    Needs: the whole stack.

    Args:
      boost: γ.
      weights: the weights of the rule: `samples` or `uniform`.

    References:
      Bagdasaryan et al. 2020, How To Backdoor Federated Learning, arXiv:1807.00459, section IV-B
      (there γ = n / η).

    >>> import fedsim
    >>> fedsim.transmit("model_replacement", [[1.0], [-1.0], [2.0]], malicious=[2])[0].tolist()
    [[1.0], [-1.0], [6.0]]
    """

    def corrupt(updates: Updates, context: Context) -> Tree:
        w = by_samples(updates) if weights == "samples" else reported(updates)
        malicious = tree.sum_weights(jnp.where(context.malicious, w, 0))
        if boost is None:
            factor = tree.sum_weights(w) / jnp.where(malicious > 0, malicious, 1)
        else:
            factor = jnp.asarray(boost)
        return jax.tree.map(lambda x: factor.astype(x.dtype) * x, updates.delta)

    return corrupt


@attack
def constrain_and_scale(
    norm: Annotated[float, Gt(0)], boost: Annotated[float, Gt(0)] = 100.0
) -> RowStage:
    """Sends the update scaled up as far as a bound on its length allows.

    x_i ← min(γ, S / ‖x_i‖₂) x_i: the paper's train-and-scale, against servers that reject or
    shorten long updates. Its constrain-and-scale also adds a term to the loss, which would be part
    of the client method.

    Knows: the bound.
    Defence: rules that look at directions.
    Cost: O(D) per client.
    Needs: one row at a time.

    Args:
      norm: S, the longest update that passes.
      boost: γ, the largest factor.

    References:
      Bagdasaryan et al. 2020, How To Backdoor Federated Learning, arXiv:1807.00459, section IV-B.

    >>> import fedsim
    >>> link = {"kind": "constrain_and_scale", "norm": 10.0}
    >>> fedsim.transmit(link, [[1.0, 0.0], [3.0, 4.0]], malicious=[1])[0].tolist()
    [[1.0, 0.0], [6.0, 8.0]]
    """

    def corrupt(delta: Tree, context: Context) -> Tree:
        del context
        length = tree.norm(delta)
        return tree.scale(delta, jnp.minimum(boost, norm / jnp.where(length > 0, length, 1)))

    return row_attack(corrupt)

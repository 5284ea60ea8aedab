"""Gaussian noise that makes a client's message private before it leaves."""

from typing import Annotated, Literal

import jax.numpy as jnp
from annotated_types import Gt

from fedsim import tree
from fedsim.compose import stage
from fedsim.fields.privacy.counting.gaussian import local_gaussian_std
from fedsim.limits import Delta, Epsilon
from fedsim.types import Context, RowStage, Updates


@stage
def local_gaussian(
    norm: Annotated[float, Gt(0)],
    epsilon: Epsilon,
    delta: Delta,
    calibration: Literal["exact", "classic"] = "exact",
) -> RowStage:
    """Shortens every update to a bound and adds Gaussian noise: each message is (ε, δ)-private.

    x_i ← x_i · min(1, C / ‖x_i‖₂) + N(0, σ² I). Any two messages are neighbours, so that their
    distance is up to Δ = 2C. `exact`: the least σ with Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) ≤ δ;
    `classic`: σ = Δ √(2 ln(1.25/δ)) / ε, for ε up to 1.

    ε is that of one message; those of a client over several rounds add up. What a server knows of a
    client besides, such as its sample count, is not covered: `mean(weights: uniform)` needs none.

    Resists: inference from a message about its client, by anybody.
    Cost: O(D) per client.
    Needs: one row at a time.

    Args:
      norm: C, the longest update that passes unchanged but for the noise.
      epsilon: ε of a message.
      delta: δ of a message.
      calibration: how σ is computed.

    References:
      Balle and Wang 2018, Improving the Gaussian Mechanism for Differential Privacy,
      arXiv:1805.06530 (exact); Dwork and Roth 2014, The Algorithmic Foundations of Differential
      Privacy, theorem A.1 (classic).
    """
    std = local_gaussian_std(norm, epsilon, delta, calibration)

    def apply(updates: Updates, context: Context) -> Updates:
        clipped = tree.clipped(updates.delta, norm)
        return updates._replace(delta=tree.noised(clipped, context.key, jnp.asarray(std)))

    return RowStage(apply=apply, noises=True)

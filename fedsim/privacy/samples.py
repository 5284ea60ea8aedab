"""ε of a client's own samples: steps on batches that chance draws and a cap cuts."""

import math

from fedsim.errors import PrivacyError
from fedsim.privacy.extra import dp_accounting
from fedsim.privacy.gaussian import require_delta


def sample_epsilon_after(
    steps: int, *, noise_multiplier: float, samples: int, rate: float, cap: int, delta: float
) -> float:
    """Return ε of the samples of one client after steps of DP-SGD, by the privacy loss.

    Every sample is in a batch with probability `rate`, by itself; of a batch with more than `cap`,
    `cap` are drawn. Neighbours differ in whether one sample is there; where a batch is cut, another
    sample takes its place, which moves the sum by twice the bound.

    Args:
      steps: how many.
      noise_multiplier: z, the std of the noise on the sum of gradients over their bound.
      samples: of the client.
      rate: probability of a sample to be in a batch, in (0, 1].
      cap: samples of a batch at most, at least 1.
      delta: δ, in (0, 1).

    Returns:
      ε: 0 for no steps, ∞ without noise.

    Raises:
      PrivacyError: for numbers that mean nothing, or where dp-accounting is not installed.
    """
    require_delta(delta)
    if not 0 < rate <= 1:
        raise PrivacyError("rate", f"expected a number in (0, 1], found {rate:g}")
    if cap < 1:
        raise PrivacyError("cap", f"expected an integer of at least 1, found {cap}")
    dp = dp_accounting()
    if steps == 0:
        return 0.0
    if noise_multiplier == 0:
        return math.inf
    step = dp.TruncatedSubsampledGaussianDpEvent(
        dataset_size=samples,
        sampling_probability=rate,
        truncated_batch_size=cap,
        noise_multiplier=noise_multiplier,
    )
    accountant = dp.pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(step, steps)
    return float(accountant.get_epsilon(delta))

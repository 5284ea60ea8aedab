"""ε of a client's own samples: steps on batches that chance draws and a cap cuts."""

import math

from fedsim.fields.privacy.counting import gaussian, losses
from fedsim.fields.privacy.counting.extra import dp_accounting

# Share of δ up to which a cut of any batch may count as a loss of ∞: it moves ε by less than a
# thousandth.
SMALL_SHARE = 0.01
INTERVAL = 1e-3  # of the grid of losses where batches are cut, in units of ε


def sample_epsilon_after(
    steps: int, *, noise_multiplier: float, samples: int, rate: float, cap: int, delta: float
) -> float:
    """Return ε of the samples of one client after steps of DP-SGD, by the privacy loss.

    Every sample is in a batch with probability `rate`, by itself; of a batch with more than `cap`,
    `cap` are drawn. Neighbours differ in whether one sample is there; where a batch is cut, another
    sample takes its place, which moves the sum by twice the bound.

    Where hardly any batch is cut, a cut counts as a loss of ∞: ε is then a little above that of
    dp-accounting, in a hundredth of the time.

    Args:
      noise_multiplier: z, the std of the noise on the sum of gradients over their bound.
      rate: probability of a sample to be in a batch, in (0, 1].

    Returns:
      ε: 0 for no steps, ∞ without noise.
    """
    dp = dp_accounting()
    if steps == 0:
        return 0.0
    if noise_multiplier == 0:
        return math.inf
    cut = steps * _chance_of_cut(samples, rate, cap)
    if cut <= SMALL_SHARE * delta:
        return _epsilon_of_whole_batches(steps, noise_multiplier, rate, delta - cut)
    step = dp.TruncatedSubsampledGaussianDpEvent(
        dataset_size=samples,
        sampling_probability=rate,
        truncated_batch_size=cap,
        noise_multiplier=noise_multiplier,
    )
    accountant = dp.pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, INTERVAL)
    accountant.compose(step, steps)
    return float(accountant.get_epsilon(delta))


def _chance_of_cut(samples: int, rate: float, cap: int) -> float:
    """Return the probability that a sample finds no room: `cap` others are in the batch."""
    from scipy.special import bdtrc

    others = samples - 1
    return 0.0 if cap > others else float(bdtrc(cap - 1, others, rate))


def _epsilon_of_whole_batches(
    steps: int, noise_multiplier: float, rate: float, delta: float
) -> float:
    """Return ε of steps on batches that are never cut."""
    if rate == 1:
        return gaussian.epsilon_of(math.sqrt(steps) / noise_multiplier, delta)
    return losses.epsilon_after(noise_multiplier, rate, delta, steps)

"""One Gaussian release, exactly; and Gaussian noise of clients that trust no server.

A release is (ε, δ)-private with μ = sensitivity over std if

  δ = Φ(μ/2 − ε/μ) − exp(ε) Φ(−μ/2 − ε/μ)

(Balle and Wang 2018, Improving the Gaussian Mechanism for Differential Privacy, arXiv:1805.06530).
"""

import math
from collections.abc import Callable
from typing import Literal

from fedsim.errors import PrivacyError

MAX_CLASSIC = 1.0  # the ε up to which the classic calibration is valid


def delta_of(mu: float, epsilon: float) -> float:
    """Return the least δ of a Gaussian release at an ε.

    >>> round(delta_of(0.5, 1.993091), 9)
    1e-05
    """
    from scipy.special import log_ndtr

    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return -math.exp(upper) * math.expm1(min(lower - upper, 0.0))


def epsilon_of(mu: float, delta: float) -> float:
    """Return the least ε ≥ 0 of a Gaussian release at a δ.

    Args:
      mu: sensitivity over std; 0: nothing is released.

    >>> round(epsilon_of(1 / 5, 1e-5), 6)
    0.725522
    """
    if mu == 0 or delta_of(mu, 0.0) <= delta:
        return 0.0
    if math.isinf(mu):
        return math.inf
    # δ(ε) ≤ Φ(μ/2 − ε/μ) < exp(−(ε/μ − μ/2)² / 2)
    highest = mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta)))
    return root(lambda e: delta_of(mu, e) - delta, 0.0, highest)


def root(function: Callable[[float], float], low: float, high: float, xtol: float = 1e-13) -> float:
    """Return where a function is 0 that has different signs at both ends."""
    from scipy.optimize import root_scalar

    solution = root_scalar(function, bracket=(low, high), method="brentq", xtol=xtol, rtol=1e-14)
    return float(solution.root)


def local_gaussian_std(
    norm: float,
    epsilon: float,
    delta: float,
    calibration: Literal["exact", "classic"] = "exact",
) -> float:
    """Return the std of the noise that makes a message of a client private by itself.

    Any two messages are neighbours, so that the sensitivity is Δ = 2 · `norm`. `exact` is the least
    std; `classic` is Δ √(2 ln(1.25/δ)) / ε, which is valid up to ε = 1.

    Raises:
      PrivacyError: for `classic` above ε = 1.

    References:
      Balle and Wang 2018, Improving the Gaussian Mechanism for Differential Privacy,
      arXiv:1805.06530; Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy,
      theorem A.1.

    >>> round(local_gaussian_std(0.5, 1.0, 1e-5), 4)
    3.7306
    """
    sensitivity = 2 * norm
    if calibration == "exact":
        return sensitivity / _mu_of(epsilon, delta)
    if epsilon > MAX_CLASSIC:
        raise PrivacyError(
            "calibration",
            f"classic holds up to epsilon 1, and epsilon is {epsilon:g}; write calibration: exact",
        )
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def adaptive_noise_split(noise_multiplier: float, count_std: float) -> float:
    """Return z_Δ, the noise multiplier of updates that are clipped to a bound that adapts.

    The count of the updates within the bound, centred so that a client moves it by ½, gets noise of
    std σ_b; the two releases together spend what one with z does:

      z_Δ = (z⁻² − (2σ_b)⁻²)^(−½)

    Args:
      noise_multiplier: z of both together, at least 0.
      count_std: σ_b, above 0.

    Raises:
      PrivacyError: where the count alone spends more than z allows.

    References:
      Andrew et al. 2021, Differentially Private Learning with Adaptive Clipping, arXiv:1905.03871,
      theorem 1.

    >>> round(adaptive_noise_split(1.0, count_std=5.0), 6)
    1.005038
    """
    if noise_multiplier >= 2 * count_std:
        text = f"noise of std {count_std:g} on the count alone spends more than noise_multiplier"
        remedy = f"write more than {noise_multiplier / 2:g}, or draw more clients"
        raise PrivacyError("clip.count_std", f"{text} {noise_multiplier:g} allows; {remedy}")
    if noise_multiplier == 0:
        return 0.0
    return (noise_multiplier**-2 - (2 * count_std) ** -2) ** -0.5


def _mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ of a Gaussian release that is (ε, δ)-private."""
    highest = 1.0
    while delta_of(highest, epsilon) < delta:
        highest *= 2
    lowest = highest
    while delta_of(lowest, epsilon) > delta:
        lowest /= 2
    mu = root(lambda mu: delta_of(mu, epsilon) - delta, lowest, highest)
    while delta_of(mu, epsilon) > delta:
        mu = math.nextafter(mu * (1 - 1e-15), 0.0)
    return mu

"""ε of many releases of Poisson samples, by the distribution of the privacy loss.

One release's distribution is that of dp-accounting, on a grid, rounded such that ε is never too
small (Doroshenko et al. 2022, Connect the Dots: Tighter Discrete Approximations of Privacy Loss
Distributions, arXiv:2207.04380). The loss of t releases is a sum of t independent losses, whose
distribution is the t-th power in the Fourier domain; so ε after any round costs one transform,
however many rounds came before.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from fedsim.privacy.extra import dp_accounting

INTERVAL = 1e-4  # of the grid, in units of ε, unless the losses need more points
MAX_POINTS = 1 << 20
TAIL = 1e-15  # probability that may be cut off at either end; it counts as a loss of ∞
ROUNDING = 1e-16  # error of the transforms, per release; likewise
# Orders λ at which E exp(λ · loss) bounds the tails.
TAIL_ORDERS = np.geomspace(0.03, 3000.0, 40)


class Losses(NamedTuple):
    """The privacy loss of one release, in one direction: a client is added, or removed.

    Attributes:
      probability: of every loss on the grid `[n]`.
      lowest: the first of these losses, in intervals.
      infinite: probability of a loss of ∞.
      upper: log E exp(λ · (loss − the lowest)) for the orders λ.
      lower: likewise for −λ.
    """

    probability: np.ndarray
    lowest: int
    infinite: float
    upper: np.ndarray
    lower: np.ndarray


def epsilon_after(noise_multiplier: float, rate: float, delta: float, releases: int) -> float:
    """Return ε after Gaussian releases of Poisson samples, add-or-remove.

    Args:
      noise_multiplier: std of the noise over the sensitivity, above 0.
      rate: probability of a client to be in a sample.
      delta: δ, in (0, 1).
      releases: how many, at least 1.
    """
    return _epsilon_after(float(noise_multiplier), float(rate), float(delta), int(releases))


@functools.lru_cache(1 << 17)
def _epsilon_after(z: float, rate: float, delta: float, releases: int) -> float:
    interval = _least_interval(z)
    while True:
        directions = _one_release(z, rate, interval)
        windows = [_window(losses, releases, interval) for losses in directions]
        if max(last - first for first, last in windows) < MAX_POINTS:
            break
        interval *= 2
    by_direction = []
    for index, window in enumerate(windows):
        losses = directions[index]
        probability = _power(z, rate, interval, index, releases, window)
        lowest = losses.lowest * releases + window[0]
        finite = releases * math.log1p(-losses.infinite)
        infinite = -math.expm1(finite) + 2 * TAIL + releases * ROUNDING
        by_direction.append(_epsilon_of(probability, lowest, infinite, interval, delta))
    return max(0.0, *by_direction)


def _least_interval(z: float) -> float:
    """Return the interval at which the losses of one release fit on the grid."""
    largest = 1 / (2 * z * z) + 9 / z
    interval = INTERVAL
    while 2 * largest > interval * MAX_POINTS:
        interval *= 2
    return interval


@functools.lru_cache(8)
def _one_release(z: float, rate: float, interval: float) -> tuple[Losses, Losses]:
    """Return the losses where a client is removed, and where one is added."""
    both = dp_accounting().pld.privacy_loss_distribution.from_gaussian_mechanism(
        z, sampling_prob=rate, value_discretization_interval=interval
    )
    # dp-accounting keeps what it computed to itself; its own powers start anew for every round.
    removed, added = (_losses_of(pmf.to_dense_pmf(), interval) for pmf in _pmfs(both))
    return removed, added


def _pmfs(both) -> tuple:
    return both._pmf_remove, both._pmf_add


def _losses_of(pmf, interval: float) -> Losses:
    probability = np.asarray(pmf._probs)
    steps = np.arange(len(probability)) * interval
    with np.errstate(divide="ignore"):
        logs = np.log(probability)
    return Losses(
        probability=probability,
        lowest=int(pmf._lower_loss),
        infinite=float(pmf._infinity_mass),
        upper=_log_moments(logs, steps, TAIL_ORDERS),
        lower=_log_moments(logs, steps, -TAIL_ORDERS),
    )


def _log_moments(logs: np.ndarray, steps: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return log E exp(λ · step) for every order λ."""
    moments = []
    for order in orders:
        exponents = logs + order * steps
        highest = exponents.max()
        moments.append(highest + math.log(np.exp(exponents - highest).sum()))
    return np.array(moments)


def _window(losses: Losses, releases: int, interval: float) -> tuple[int, int]:
    """Return the first and the last point that matter of the grid of a sum of losses.

    Points are counted from the least possible sum. By Markov's inequality, more than `TAIL` lies
    neither above nor below.
    """
    log_tail = math.log(TAIL)
    highest = ((releases * losses.upper - log_tail) / TAIL_ORDERS).min()
    lowest = ((log_tail - releases * losses.lower) / TAIL_ORDERS).max()
    last = min(math.ceil(highest / interval), releases * (len(losses.probability) - 1))
    first = max(math.floor(lowest / interval), 0)
    return first, max(last, first)


def _power(
    z: float, rate: float, interval: float, index: int, releases: int, window: tuple[int, int]
) -> np.ndarray:
    """Return the probabilities of a sum of losses in a window."""
    from scipy.fft import irfft

    first, last = window
    n = len(_one_release(z, rate, interval)[index].probability)
    points = 1 << max(last - first, n - 1).bit_length()
    transform = _transform(z, rate, interval, index, points)
    # What lies outside the window wraps around, and is no more than `TAIL`.
    wrapped = irfft(_to_the(transform, releases), points)
    probability = np.roll(wrapped, -(first % points))[: last - first + 1]
    return np.maximum(probability, 0.0)


@functools.lru_cache(16)
def _transform(z: float, rate: float, interval: float, index: int, points: int) -> np.ndarray:
    from scipy.fft import rfft

    return rfft(_one_release(z, rate, interval)[index].probability, points)


def _to_the(transform: np.ndarray, power: int) -> np.ndarray:
    """Return a power by repeated squares, which is faster and more accurate than by logarithms."""
    result = None
    square = transform
    while True:
        if power & 1:
            result = square if result is None else result * square
        power >>= 1
        if not power:
            assert result is not None
            return result
        square = square * square


def _epsilon_of(
    probability: np.ndarray, lowest: int, infinite: float, interval: float, delta: float
) -> float:
    """Return the least ε whose δ(ε) = P(∞) + Σ_l p(l) max(0, 1 − exp(ε − l)) is at most `delta`.

    Args:
      probability: of losses on the grid.
      lowest: the first of them, in intervals.
      infinite: P(∞).
      interval: of the grid.
      delta: δ.
    """
    from scipy.signal import lfilter

    if infinite >= delta:
        return math.inf
    from_top = probability[::-1]
    # At ε = l_i: the mass at and above l_i, and Σ_{j ≥ i} p_j exp(l_i − l_j).
    above = np.cumsum(from_top)
    weighted = np.asarray(lfilter([1.0], [1.0, -math.exp(-interval)], from_top))
    exceeds = infinite + above - weighted > delta
    if not exceeds.any():
        # ε is below the lowest loss, where δ(ε) = P(∞) + 1 − exp(ε) Σ_j p_j exp(−l_j).
        i = len(from_top) - 1
    else:
        i = int(exceeds.argmax()) - 1
    loss = (lowest + len(from_top) - 1 - i) * interval
    # Between l_{i − 1} and l_i, δ(ε) = P(∞) + above − exp(ε − l_i) · weighted.
    rest = infinite + above[i] - delta
    if rest <= 0:
        return -math.inf
    return loss + math.log(rest / weighted[i])

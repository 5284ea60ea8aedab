"""ε of noise that clients add themselves, as integers, before secure aggregation sums them.

A client's clipped update is rotated, divided by the granularity γ and rounded to integers. It is
rounded again until its norm is at most

  Δ₂ = √(c² + d/4 + c + √d/2),  c = clip/γ,

for d coordinates (Kairouz, Liu and Steinke 2021, The Distributed Discrete Gaussian Mechanism for
Federated Learning with Secure Aggregation, arXiv:2102.06387, theorem 1 with β = exp(−½)). Δ₂ is the
sensitivity, in place of c. In units of γ the noise of all shares together has the std zc.

Neighbours differ in whether a client sends its update or 0, with its share of the noise in either
case; behind the cohort `uniform`, in one client that is replaced by another.
"""

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedsim.errors import PrivacyError
from fedsim.fields.privacy.counting import renyi
from fedsim.fields.privacy.counting.records import DISTRIBUTED, Mechanism
from fedsim.fleet.sampling import Sampling

if TYPE_CHECKING:  # keys need the scenario, which needs the mechanisms
    from fedsim.fields.privacy.keys import Privacy

DEVIATIONS = 4  # k: so many standard deviations of a coordinate's sum lie within the integers
MAX_STD = 2.0**13  # of a client's noise, in units of γ: its probabilities are a table
MIN_STD = 0.5  # below it, nothing is known about sums of discrete Gaussians
LEAST_GRANULARITY = 2.0**-28  # over the clip: a client's integers are an int32


class Lattice(NamedTuple):
    """The integers of a distributed mechanism.

    Attributes:
      granularity: γ, the difference that 1 stands for, over the clip.
      slack: Δ₂² − c², by how much rounding may lengthen an update, squared.
      norm: Δ₂, that of a client's integers at most.
      std: of one client's share of the noise.
    """

    granularity: float
    slack: float
    norm: float
    std: float


def lattice_of(mechanism: Mechanism, noise_multiplier: float) -> Lattice:
    """Return the integers of a mechanism whose shares and dimension are known.

    Raises:
      PrivacyError: for too few bits, or integers so fine that the noise cannot be drawn.
    """
    shares = mechanism.shares
    d = mechanism.dimension
    assert shares is not None and d is not None
    granularity = mechanism.granularity
    if granularity is None:
        granularity = _granularity(mechanism.bits, noise_multiplier, shares, d)
    c = 1 / granularity
    slack = d / 4 + c + math.sqrt(d) / 2
    std = noise_multiplier * c / math.sqrt(shares)
    if std > MAX_STD * (1 + 1e-9):
        text = f"a client's noise has the std {std:g} in units of it; at most {MAX_STD:g}"
        least = granularity * std / MAX_STD
        raise PrivacyError("mechanism.granularity", f"{text}; write at least {least:.3g}")
    return Lattice(granularity, slack, norm=math.sqrt(c * c + slack), std=std)


def _granularity(bits: int, noise_multiplier: float, shares: int, d: int) -> float:
    """Return γ over the clip for which sums seldom leave the integers.

    A coordinate of the sum of n clipped and rotated updates is about N(0, n²/d), in units of the
    clip, where the updates are alike; rounding adds the variance nγ²/4 and the noise z². k standard
    deviations of the three together are half of the range 2^bits γ, as in the paper's experiments.
    """
    room = 4.0**bits - DEVIATIONS**2 * shares
    if room <= 0:
        text = f"{bits} bits are too few for the rounding of {shares} messages"
        raise PrivacyError("mechanism.bits", f"{text}; write more")
    spread = math.sqrt(shares**2 / d + noise_multiplier**2)
    granularity = 2 * DEVIATIONS * spread / math.sqrt(room)
    least = noise_multiplier / (math.sqrt(shares) * MAX_STD)
    return max(granularity, least, LEAST_GRANULARITY)


def require_known_noise(section: "Privacy", sampling: Sampling, clients: int) -> None:
    """Refuse shares of noise of whose sum no ε is known."""
    z = section.noise_multiplier
    if section.mechanism.kind not in DISTRIBUTED or not z:
        return
    std = lattice_of(with_counts(section.mechanism, sampling, clients), z).std
    if _is_unknown(section.mechanism.kind, std):
        text = f"a client's noise has the std {std:.3g} in integers, and its sums are known from"
        remedy = "write more bits or a smaller granularity, or use distributed_skellam"
        raise PrivacyError("mechanism", f"{text} {MIN_STD:g}; {remedy}")


def _is_unknown(kind: str, std: float) -> bool:
    """Whether nothing is known about the sum of a client's noise with others'."""
    return kind == "distributed_discrete_gaussian" and std < MIN_STD


def with_counts(mechanism: Mechanism, sampling: Sampling, clients: int) -> Mechanism:
    """Return the mechanism with its shares; by default those of all clients of a round."""
    size = cohort_size(sampling, clients)
    if mechanism.dimension is None:
        text = f"is needed for {mechanism.kind}: the number of parameters that a client sends"
        raise PrivacyError("mechanism.dimension", f"{text}; write it")
    shares = mechanism.shares
    if shares is not None and shares > size:
        text = f"is {shares}, and a round has {size} clients"
        raise PrivacyError("mechanism.shares", f"{text}; write at most {size}")
    return Mechanism(
        kind=mechanism.kind,
        bits=mechanism.bits,
        granularity=mechanism.granularity,
        shares=size if shares is None else shares,
        dimension=mechanism.dimension,
    )


def cohort_size(sampling: Sampling, clients: int) -> int:
    """Return the clients of a round."""
    if sampling.kind == "all":
        return clients
    return min(sampling.size, clients)


def of_one_round(
    section: "Privacy", sampling: Sampling, noise_multiplier: float, clients: int
) -> np.ndarray:
    """Return the Rényi divergences of a round, for the orders of the section."""
    mechanism = with_counts(section.mechanism, sampling, clients)
    orders = np.ceil(renyi.orders_of(section)).astype(int)
    size = cohort_size(sampling, clients)
    key = (mechanism, float(noise_multiplier), size)
    if sampling.kind != "uniform":
        return _divergences(tuple(orders), *key, moved=1)
    return _of_subsets(tuple(orders), *key, clients)


@functools.lru_cache(64)
def _of_subsets(
    orders: tuple[int, ...], mechanism: Mechanism, z: float, size: int, clients: int
) -> np.ndarray:
    """Return the divergences of a round with a random subset of the clients."""
    all_orders = tuple(range(2, max(orders) + 1))
    whole = _divergences(all_orders, mechanism, z, size, moved=2)
    amplified = [renyi.of_subset(order, whole, size / clients) for order in orders]
    return np.minimum(amplified, whole[np.array(orders) - 2])


@functools.lru_cache(64)
def _divergences(
    orders: tuple[int, ...], mechanism: Mechanism, z: float, size: int, moved: int
) -> np.ndarray:
    """Return the divergences of a round in which all clients take part.

    Args:
      orders: whole orders, at least 2.
      size: clients of a round: more than the shares where some may be missing.
      moved: by how many times Δ₂ neighbours differ.
    """
    lattice = lattice_of(mechanism, z)
    d = mechanism.dimension
    shares = mechanism.shares
    assert d is not None and shares is not None
    l2 = moved * lattice.norm
    l1 = min(math.sqrt(d) * l2, l2 * l2)  # of integers
    std = lattice.std * math.sqrt(shares)
    if _is_unknown(mechanism.kind, lattice.std):
        return np.full(len(orders), np.inf)
    if mechanism.kind == "distributed_skellam":
        return skellam(np.array(orders), l1, l2, std)
    tau = sum_divergence(lattice.std, size)
    return discrete_gaussians(np.array(orders), l1 / std, l2 / std, tau, d)


def skellam(orders: np.ndarray, l1: float, l2: float, std: float) -> np.ndarray:
    """Return the divergences of Skellam noise on integers.

    α Δ₂²/2μ + min(((2α − 1) Δ₂² + 6Δ₁)/4μ², 3Δ₁/2μ), with the variance μ; a sum of shares is
    Skellam noise as well.

    Args:
      l1: Δ₁, by how much neighbours differ in L1.
      l2: Δ₂, likewise in L2.

    References:
      Agarwal, Kairouz and Liu 2021, The Skellam Mechanism for Differentially Private Federated
      Learning, arXiv:2110.04995, corollary 3.6.
    """
    variance = std * std
    excess = ((2 * orders - 1) * l2**2 + 6 * l1) / (4 * variance**2)
    return orders * l2**2 / (2 * variance) + np.minimum(excess, 3 * l1 / (2 * variance))


def discrete_gaussians(
    orders: np.ndarray, l1: float, l2: float, tau: float, dimension: int
) -> np.ndarray:
    """Return the divergences of a sum of discrete Gaussians on integers.

    min(α Δ₂²/2 + τd, α (Δ₂² + 2Δ₁τ + τ²d)/2, α (Δ₂ + τ√d)²/2), with Δ₁ and Δ₂ in units of the std
    of the sum.

    Args:
      l1: Δ₁, by how much neighbours differ in L1.
      l2: Δ₂, likewise in L2.
      tau: τ, how far the sum is from one discrete Gaussian.

    References:
      Kairouz, Liu and Steinke 2021, The Distributed Discrete Gaussian Mechanism for Federated
      Learning with Secure Aggregation, arXiv:2102.06387, proposition 14.
    """
    d = dimension
    first = orders * l2**2 / 2 + tau * d
    second = orders * (l2**2 + 2 * l1 * tau + tau**2 * d) / 2
    third = orders * (l2 + tau * math.sqrt(d)) ** 2 / 2
    return np.minimum(np.minimum(first, second), third)


def sum_divergence(std: float, summands: int) -> float:
    """Return τ = 10 Σ_{0<k<n} exp(−2π²σ² k/(k + 1)) of n discrete Gaussians with std parameter σ.

    >>> f"{sum_divergence(1.0, 3):.7f}"
    '0.0005365'
    """
    k = np.arange(1, summands)
    return 10 * math.fsum(np.exp(-2 * math.pi**2 * std**2 * k / (k + 1)))


def require_distributed(section: "Privacy", sampling: Sampling) -> None:
    """Refuse what noise of clients gives no guarantee for."""
    kind = section.mechanism.kind
    if kind not in DISTRIBUTED:
        return
    if not isinstance(section.clip, int | float):
        text = f"an adaptive clip needs a count with noise of its own, and {kind} has none"
        raise PrivacyError("clip", f"{text}; write a number")
    if section.accountant == "pld":
        text = f"pld knows no sums of the noise {kind}"
        raise PrivacyError("accountant", f"{text}; write rdp")
    if sampling.kind in ("poisson", "cyclic_poisson"):
        text = f"{sampling.kind} draws fewer clients at times, and so fewer shares of the noise"
        raise PrivacyError("cohort", f"{text}; use uniform, all, cyclic or separated")

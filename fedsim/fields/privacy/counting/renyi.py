"""ε by Rényi divergences: those of releases add up, order by order."""

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.fields.privacy.counting.extra import dp_accounting

if TYPE_CHECKING:  # keys need the scenario, which needs the mechanisms
    from fedsim.fields.privacy.keys import Privacy


def epsilon_of(section: "Privacy", rdp: np.ndarray) -> float:
    """Return ε of Rényi divergences, by the conversion of the section.

    `classic` is min over the orders α of rdp(α) + log(1/δ)/(α − 1) (Mironov 2017, Rényi
    Differential Privacy, arXiv:1702.07476); `improved` is that of Canonne et al. 2020, The Discrete
    Gaussian for Differential Privacy, arXiv:2004.00010, proposition 12.

    Args:
      rdp: divergences of all releases together, one per order.
    """
    orders = orders_of(section)
    if section.conversion == "improved":
        epsilon, _ = dp_accounting().rdp.compute_epsilon(orders, rdp, section.delta)
        return float(epsilon)
    return float(np.min(rdp + math.log(1 / section.delta) / (orders - 1)))


def orders_of(section: "Privacy") -> np.ndarray:
    """Return the orders of the section, by default those of dp-accounting."""
    if section.orders is not None:
        return np.asarray(section.orders, float)
    return dp_accounting().rdp.RdpAccountant().orders


def gaussian(orders: np.ndarray, squared: float) -> np.ndarray:
    """Return the divergences of a Gaussian release: α μ² / 2."""
    return orders * squared / 2


def poisson(orders: np.ndarray, noise_multiplier: float, rate: float) -> np.ndarray:
    """Return the divergences of one Gaussian release of a Poisson sample, add-or-remove."""
    dp = dp_accounting()
    event = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise_multiplier))
    return _divergences(tuple(orders), dp.NeighboringRelation.ADD_OR_REMOVE_ONE, event)


def uniform(orders: np.ndarray, noise_multiplier: float, size: int, clients: int) -> np.ndarray:
    """Return the divergences of one Gaussian release of a sample of fixed size, replace-one.

    A client that is replaced by another moves the sum by twice the norm that it is clipped to, and
    these divergences take the std relative to that.

    Args:
      noise_multiplier: z, the std of the noise over the *norm* that updates are clipped to.
    """
    dp = dp_accounting()
    release = dp.GaussianDpEvent(noise_multiplier / 2)
    event = dp.SampledWithoutReplacementDpEvent(clients, size, release)
    return _divergences(tuple(orders), dp.NeighboringRelation.REPLACE_ONE, event)


def of_subset(order: int, rdp: np.ndarray, rate: float) -> float:
    """Return the divergence of any release of a sample of fixed size, replace-one.

    Args:
      order: a whole order α, at least 2.
      rdp: divergences of the release of the whole sample, for the orders 2, 3, ... up to α.
      rate: clients of the sample over those it is drawn from.

    References:
      Wang, Balle and Kasiviswanathan 2019, Subsampled Rényi Differential Privacy and Analytical
      Moments Accountant, arXiv:1808.00087, theorem 9, without its bound for ε(∞).
    """
    from scipy.special import gammaln, logsumexp

    j = np.arange(2, order + 1)
    binomials = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    factors = np.full(len(j), math.log(2))
    factors[0] = min(math.log(4) + _log_expm1(float(rdp[0])) - rdp[0], math.log(2))
    logs = j * math.log(rate) + binomials + (j - 1) * rdp[: len(j)] + factors
    total: Any = logsumexp([0.0, *logs])
    return float(total) / (order - 1)


def _log_expm1(x: float) -> float:
    """Return log(exp(x) − 1) for x > 0."""
    return x + math.log(-math.expm1(-x))


@functools.lru_cache(256)
def _divergences(orders: tuple[float, ...], relation: Any, event: Any) -> np.ndarray:
    """Return the divergences of one release by dp-accounting."""
    accountant = dp_accounting().rdp.RdpAccountant(list(orders), relation)
    return np.array(accountant.compose(event).rdp)

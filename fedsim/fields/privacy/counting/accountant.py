"""ε of a private run after any of its rounds, and the noise that an ε asks for."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedsim.errors import PrivacyError
from fedsim.fields.privacy.counting import distributed, gaussian, losses, renyi
from fedsim.fields.privacy.counting.extra import dp_accounting
from fedsim.fields.privacy.counting.records import DISTRIBUTED
from fedsim.fields.privacy.counting.refusals import require_accountable
from fedsim.fields.privacy.counting.strategies import pattern_of, releases_of, squared_sensitivities
from fedsim.fleet.sampling import Sampling
from fedsim.limits import LEAST_NOISE, MOST_NOISE

if TYPE_CHECKING:  # keys need the scenario, which needs the mechanisms
    from fedsim.fields.privacy.keys import Privacy


def spending(
    section: "Privacy", sampling: Sampling | None, *, clients: int, rounds: int
) -> Callable[[int], float]:
    """Return t -> ε after t rounds, of which empty ones are spent like any other.

    It has no rounds without spending, and ∞ without noise. Under `accountant: pld`, Poisson samples
    take about a hundredth of a second for each new number of rounds; all else takes less.

    Args:
      rounds: the largest t, for which the noise of `blt` is optimised.

    Raises:
      PrivacyError: for what cannot be accounted for, or an accountant that is not installed.
    """
    require_accountable(section, sampling)
    assert sampling is not None
    z = section.noise_multiplier
    assert z is not None
    distributed.require_known_noise(section, sampling, clients)
    dp_accounting()
    spent = _spending(section, sampling, clients, rounds)
    return lambda t: spent(z, t)


def by_dp_accounting(
    section: "Privacy", sampling: Sampling, *, clients: int, rounds: int
) -> Callable[[int], float] | None:
    """Return what `spending` does, by dp-accounting and for a noise multiplier above 0.

    It takes some seconds where clients are sampled. None where ε is of Rényi divergences:
    dp-accounting counts those, and knows no others.
    """
    if section.accountant != "pld":
        return None
    z = section.noise_multiplier
    assert z is not None
    dp = dp_accounting()
    if not _is_sampled(sampling):
        squared = squared_sensitivities(section.mechanism, sampling, clients, rounds)
        return lambda t: dp.get_epsilon_gaussian(z / math.sqrt(squared(t)), section.delta)

    releases, norm = releases_of(section.mechanism, sampling)

    def of_samples(t: int) -> float:
        count = releases(t)
        interval = losses.interval_of(z / norm, sampling.rate, count)
        accountant = dp.pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, interval)
        one = dp.PoissonSampledDpEvent(sampling.rate, dp.GaussianDpEvent(z / norm))
        accountant.compose(one, count)
        return float(accountant.get_epsilon(section.delta))

    return of_samples


def _is_sampled(sampling: Sampling) -> bool:
    """Whether chance draws a client or not, by itself."""
    return sampling.kind in ("poisson", "cyclic_poisson") and sampling.rate < 1


def solve_noise_multiplier(
    section: "Privacy", sampling: Sampling | None, *, clients: int, rounds: int
) -> float:
    """Return the smallest noise multiplier z of six digits whose ε is at most `section.epsilon`.

    For no rounds it is 0.

    Raises:
      PrivacyError: for what cannot be accounted for, or an ε that no noise reaches.
    """
    require_accountable(section, sampling)
    assert sampling is not None and section.epsilon is not None
    dp_accounting()
    if rounds == 0:
        return 0.0
    spent = _spending(section, sampling, clients, rounds)
    return least_noise(lambda z: spent(z, rounds), section.epsilon)


def least_noise(epsilon_of: Callable[[float], float], target: float) -> float:
    """Return the smallest z of six digits whose ε is at most a target."""
    too_little, enough = _bracket(epsilon_of, target)
    if too_little == enough:
        return enough

    # In logarithms, ε over z is nearly a line.
    def excess(log_z: float) -> float:
        epsilon = epsilon_of(math.exp(log_z))
        return math.log(min(max(epsilon, 1e-30), 1e30) / target)

    z = math.exp(gaussian.root(excess, math.log(too_little), math.log(enough), xtol=1e-7))

    # The root lies between two numbers of six digits, or it is one up to rounding.
    digit = 10.0 ** (math.floor(math.log10(z)) - 5)
    steps = math.ceil(z / digit)
    while epsilon_of(_six_digits(steps * digit)) > target:
        steps += 1
    while epsilon_of(_six_digits((steps - 1) * digit)) <= target:
        steps -= 1
    return _six_digits(steps * digit)


def _bracket(epsilon_of: Callable[[float], float], target: float) -> tuple[float, float]:
    """Return a z whose ε is above a target, and one whose ε is not; both are the least if it is."""
    z = 1.0
    epsilon = epsilon_of(z)
    if epsilon > target:
        while epsilon > target:
            too_little = z
            z *= min(max(epsilon / target, 2.0), 1e3)
            if z > MOST_NOISE:
                text = f"no noise reaches {target:g} by this accountant"
                raise PrivacyError("epsilon", f"{text}; write a larger one, or larger orders")
            epsilon = epsilon_of(z)
        return too_little, z
    while epsilon <= target:
        if z == LEAST_NOISE:
            return z, z
        enough = z
        z = max(z / 2, LEAST_NOISE)
        epsilon = epsilon_of(z)
    return z, enough


def _six_digits(z: float) -> float:
    return float(f"{z:.6g}")


def _spending(
    section: "Privacy", sampling: Sampling, clients: int, rounds: int
) -> Callable[[float, int], float]:
    """Return (z, t) -> ε after t rounds with noise multiplier z, for t up to `rounds`."""
    if rounds == 0:
        return lambda z, t: 0.0
    count = _count(section, sampling, clients, rounds)

    def spent(z: float, t: int) -> float:
        if t == 0:
            return 0.0
        if z == 0:
            return math.inf
        return count(z, t)

    return spent


def _count(
    section: "Privacy", sampling: Sampling, clients: int, rounds: int
) -> Callable[[float, int], float]:
    """Return the same for z > 0 and t > 0."""
    delta = section.delta
    by_pld = section.accountant == "pld"
    orders = renyi.orders_of(section)

    if section.mechanism.kind in DISTRIBUTED:
        gap, most = pattern_of(sampling, clients)

        def of_shares(z: float, t: int) -> float:
            releases = -(-t // gap)
            if most is not None:
                releases = min(releases, most)
            one = distributed.of_one_round(section, sampling, z, clients)
            return renyi.epsilon_of(section, releases * one)

        return of_shares

    if sampling.kind == "uniform":
        size = min(sampling.size, clients)

        def of_sets(z: float, t: int) -> float:
            return renyi.epsilon_of(section, t * renyi.uniform(orders, z, size, clients))

        return of_sets

    if _is_sampled(sampling):
        releases, norm = releases_of(section.mechanism, sampling)

        def of_samples(z: float, t: int) -> float:
            relative = z / norm
            if by_pld:
                return losses.epsilon_after(relative, sampling.rate, delta, releases(t))
            of_one = renyi.poisson(orders, relative, sampling.rate)
            return renyi.epsilon_of(section, releases(t) * of_one)

        return of_samples

    squared = squared_sensitivities(section.mechanism, sampling, clients, rounds)

    def of_patterns(z: float, t: int) -> float:
        if by_pld:
            return gaussian.epsilon_of(math.sqrt(squared(t)) / z, delta)
        return renyi.epsilon_of(section, renyi.gaussian(orders, squared(t) / z**2))

    return of_patterns

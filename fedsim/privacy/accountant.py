"""ε of a private run after any of its rounds, and the noise that an ε asks for."""

import math
from collections.abc import Callable, Sequence
from typing import Any, overload

from fedsim.errors import PrivacyError
from fedsim.privacy import gaussian, losses, renyi
from fedsim.privacy.extra import dp_accounting
from fedsim.privacy.records import Sampling, Settings
from fedsim.privacy.refusals import require_accountable
from fedsim.privacy.strategies import releases_of, squared_sensitivities

MAX_NOISE_MULTIPLIER = 1e6  # beyond it nothing is left of an update


@overload
def epsilon_after(
    section: Settings, sampling: Sampling | None, *, clients: int, rounds: int
) -> float: ...
@overload
def epsilon_after(
    section: Settings, sampling: Sampling | None, *, clients: int, rounds: Sequence[int]
) -> list[float]: ...
def epsilon_after(
    section: Settings, sampling: Sampling | None, *, clients: int, rounds: int | Sequence[int]
) -> float | list[float]:
    """Return ε after so many rounds, of which empty ones are spent like any other.

    It depends on nothing else: the same rounds have the same ε, whatever was asked for before.
    Under `accountant: pld`, ε after a round of a Poisson sample takes about a hundredth of a
    second; everything else takes less.

    Args:
      section: with its noise multiplier z.
      sampling: how the cohort draws, `Cohort.sampling`.
      clients: how many clients can be drawn.
      rounds: a number of rounds, or several.

    Returns:
      ε, or one for each number of rounds: 0 for no rounds, ∞ without noise.

    Raises:
      PrivacyError: for what cannot be accounted for, or an accountant that is not installed.
    """
    require_accountable(section, sampling, clients)
    assert sampling is not None
    z = section.noise_multiplier
    if z is None:
        text = "is not there; fedsim.noise_multiplier finds the one that privacy.epsilon asks for"
        raise PrivacyError("noise_multiplier", text)
    dp_accounting()
    if isinstance(rounds, Sequence):
        return _epsilons(section, sampling, z, clients, rounds)
    return _epsilons(section, sampling, z, clients, [rounds])[0]


def solve_noise_multiplier(
    section: Settings, sampling: Sampling | None, *, clients: int, rounds: int
) -> float:
    """Return the smallest noise multiplier z of six digits whose ε is at most `section.epsilon`.

    Args:
      section: with a target ε.
      sampling: how the cohort draws, `Cohort.sampling`.
      clients: how many clients can be drawn.
      rounds: how many rounds the run has.

    Raises:
      PrivacyError: for what cannot be accounted for, or an ε that no noise reaches.
    """
    require_accountable(section, sampling, clients)
    assert sampling is not None
    target = section.epsilon
    if target is None:
        text = "is not there; write the epsilon to solve for, and no noise_multiplier"
        raise PrivacyError("epsilon", text)
    dp_accounting()
    if rounds == 0:
        return 0.0

    def excess(z: float) -> float:
        return _epsilons(section, sampling, z, clients, [rounds])[0] - target

    return _least_root(excess, target)


def _least_root(excess: Callable[[float], float], target: float) -> float:
    """Return the smallest z of six digits at which a falling function is not positive."""
    from scipy.optimize import brentq

    enough = 1.0
    while excess(enough) > 0:
        enough *= 2
        if enough > MAX_NOISE_MULTIPLIER:
            text = (
                f"no noise reaches {target:g} by this accountant; raise it, or give larger orders"
            )
            raise PrivacyError("epsilon", text)
    too_little = enough / 2
    while excess(too_little) <= 0:
        enough = too_little
        too_little /= 2

    def finite_excess(log_z: float) -> float:
        return min(excess(math.exp(log_z)), 1e9)

    ends = (math.log(too_little), math.log(enough))
    z = math.exp(float(brentq(finite_excess, *ends, xtol=1e-7)))

    # On the grid of six digits, whose neighbours are next to the root.
    digit = 10.0 ** (math.floor(math.log10(z)) - 5)
    steps = math.ceil(z / digit)
    while excess(_rounded(steps * digit)) > 0:
        steps += 1
    while excess(_rounded((steps - 1) * digit)) <= 0:
        steps -= 1
    return _rounded(steps * digit)


def _rounded(z: float) -> float:
    return float(f"{z:.6g}")


def _epsilons(
    section: Settings, sampling: Sampling, z: float, clients: int, rounds: Sequence[int]
) -> list[float]:
    """Return ε after each of these numbers of rounds, for checked arguments."""
    if z == 0:
        return [math.inf if t > 0 else 0.0 for t in rounds]
    of_round = _accountant(section, sampling, z, clients, max(rounds, default=0))
    return [of_round(t) if t > 0 else 0.0 for t in rounds]


def _accountant(
    section: Settings, sampling: Sampling, z: float, clients: int, rounds: int
) -> Callable[[int], float]:
    """Return ε as a function of the rounds, up to `rounds`."""
    is_pld = section.accountant == "pld"
    orders = renyi.orders_of(section)

    def by_orders(divergences: Any) -> float:
        return renyi.epsilon_of(section, divergences)

    if sampling.kind == "uniform":
        size = min(sampling.size, clients)
        of_one_draw = renyi.uniform(orders, z, size, clients)
        return lambda t: by_orders(t * of_one_draw)

    if sampling.kind in ("poisson", "cyclic_poisson") and sampling.rate < 1:
        releases, norm = releases_of(section.mechanism, sampling)
        relative = z / norm
        if is_pld:
            return lambda t: losses.epsilon_after(
                relative, sampling.rate, section.delta, releases(t)
            )
        of_one_sample = renyi.poisson(orders, relative, sampling.rate)
        return lambda t: by_orders(releases(t) * of_one_sample)

    squared = squared_sensitivities(section.mechanism, sampling, clients, rounds)
    if is_pld:
        return lambda t: gaussian.epsilon_of(math.sqrt(squared(t)) / z, section.delta)
    return lambda t: by_orders(renyi.gaussian(orders, squared(t) / z**2))

"""How much one client can move correlated noise: sens² = max ‖Cu‖² over who may take part when.

The noise of round t is row t of C⁻¹Z · z C / m, with independent rows of Z. A client that takes
part in rounds S moves the release by Cu, where u is 1 in S and 0 elsewhere, in units of the bound.
"""

import math
from collections.abc import Callable

import numpy as np

from fedsim.privacy.records import Mechanism, Sampling


def pattern_of(sampling: Sampling, clients: int) -> tuple[int, int | None]:
    """Return (gap, most): rounds between two of a client at least, and its rounds at most.

    Args:
      sampling: of clients that take part whatever is drawn.
      clients: how many clients can be drawn.
    """
    if sampling.kind == "separated":
        return sampling.gap, sampling.most
    if sampling.kind == "cyclic":
        return max(clients // sampling.size, 1), None
    if sampling.kind == "cyclic_poisson":  # at rate 1, groups take turns
        return sampling.groups, None
    return 1, None


def squared_sensitivities(
    mechanism: Mechanism, sampling: Sampling, clients: int, rounds: int
) -> Callable[[int], float]:
    """Return sens² as a function of the rounds, up to `rounds`.

    Args:
      mechanism: whose matrix C is meant.
      sampling: how the cohort draws.
      clients: how many clients can be drawn.
      rounds: the longest run.
    """
    gap, most = pattern_of(sampling, clients)
    coefficients = np.ones(1)
    totals = np.cumsum(toeplitz_sums(coefficients, rounds, gap, most) ** 2)
    return lambda t: float(totals[t - 1])


def toeplitz_sums(coefficients: np.ndarray, rounds: int, gap: int, most: int | None) -> np.ndarray:
    """Return Cu for the client that moves most `[rounds]`.

    For coefficients that are not negative and do not rise, that is who comes as early and as often
    as it may (Kalinin and Lampert 2024, Banded Square Root Matrix Factorization for Differentially
    Private Model Training, arXiv:2405.13763, theorem 2), whatever the number of rounds.

    Args:
      coefficients: c_0, c_1, ... of the Toeplitz matrix C.
      rounds: T.
      gap: rounds between two of a client at least.
      most: rounds of a client at most; None: as many as `gap` allows.
    """
    sums = np.zeros(rounds)
    for start in range(0, rounds, gap)[:most]:
        length = min(len(coefficients), rounds - start)
        sums[start : start + length] += coefficients[:length]
    return sums


def releases_of(mechanism: Mechanism, sampling: Sampling) -> tuple[Callable[[int], int], float]:
    """Return what a run with Poisson samples releases.

    Args:
      mechanism: `gaussian`, or `banded` with no more bands than groups.
      sampling: `poisson` or `cyclic_poisson`.

    Returns:
      How many samples a client may be in, as a function of the rounds, and the norm ‖c‖₂ that one
      of them moves the release by.
    """
    groups = sampling.groups if sampling.kind == "cyclic_poisson" else 1
    return lambda t: math.ceil(t / groups), 1.0

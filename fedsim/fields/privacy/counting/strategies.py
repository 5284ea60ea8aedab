"""How much one client can move correlated noise: sens² = max ‖Cu‖² over who may take part when.

The noise of round t is row t of C⁻¹Z, times zC/m, with independent rows of Z. A client that takes
part in some rounds moves the release by Cu, where u is 1 in these rounds and 0 in the others, in
units of the bound. Neighbours differ in whether one client sends its updates or nothing.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedsim.errors import PrivacyError
from fedsim.fields.privacy.counting.extra import imported
from fedsim.fields.privacy.counting.records import Mechanism
from fedsim.fields.privacy.counting.tree import TreeSensitivity
from fedsim.fleet.sampling import Sampling


class Buffers(NamedTuple):
    """The matrix C of `blt`: c_0 = 1, c_k = Σ_j ω_j θ_j^(k − 1).

    The noise w of a round is z − Σ_j ω_j s_j, where s_j ← θ_j s_j + w after it, from 0.

    Attributes:
      decay: θ, in [0, 1].
      scale: ω, at least 0.
    """

    decay: tuple[float, ...]
    scale: tuple[float, ...]

    def coefficients(self, rounds: int) -> np.ndarray:
        """Return c_0, c_1, ... `[rounds]`."""
        powers = np.asarray(self.decay) ** np.arange(max(rounds - 1, 0))[:, None]
        return np.concatenate([[1.0], powers @ np.asarray(self.scale)])[:rounds]


def pattern_of(sampling: Sampling, clients: int) -> tuple[int, int | None]:
    """Return (gap, most): how soon a client can come again, and its rounds at most."""
    if sampling.kind == "separated":
        return sampling.gap, sampling.most
    if sampling.kind == "cyclic":
        return max(clients // sampling.size, 1), None
    if sampling.kind == "cyclic_poisson":
        return sampling.groups, None
    return 1, None


def squared_sensitivities(
    mechanism: Mechanism, sampling: Sampling, clients: int, rounds: int
) -> Callable[[int], float]:
    """Return sens² as a function of the rounds, up to `rounds`, for which `blt` is optimised."""
    gap, most = pattern_of(sampling, clients)
    if mechanism.kind == "blt":
        buffers = _buffers_of(mechanism, rounds, gap, most)
        coefficients = falling(buffers.coefficients(rounds), mechanism.buffers)
    else:
        coefficients = banded_coefficients(bands_of(mechanism))
    if most is not None and most >= math.ceil(rounds / gap):
        most = None  # no limit
    if mechanism.kind == "tree":
        tree = TreeSensitivity(gap, most, mechanism.restart)
        return lambda t: float(tree.after(t))
    totals = np.cumsum(toeplitz_sums(coefficients, rounds, gap, most) ** 2)
    return lambda t: float(totals[t - 1])


def _buffers_of(mechanism: Mechanism, rounds: int, gap: int, most: int | None) -> Buffers:
    """Return the matrix C of `blt`: the one that is given, or the best."""
    if mechanism.decay is None or mechanism.scale is None:
        return optimised_buffers(mechanism.buffers, rounds, gap, most)
    return Buffers(tuple(mechanism.decay), tuple(mechanism.scale))


def bands_of(mechanism: Mechanism) -> int:
    """Return the bands of `banded`; the noise of `gaussian` has one."""
    return mechanism.bands if mechanism.kind == "banded" else 1


def banded_coefficients(bands: int) -> np.ndarray:
    """Return c_k = binom(2k, k) / 4^k for k < `bands`: those of the root of the matrix of ones.

    References:
      Fichtenberger, Henzinger and Upadhyay 2023, Constant Matters: Fine-grained Error Bound on
      Differentially Private Continual Observation, arXiv:2202.11205; cut off: Kalinin and Lampert
      2024, arXiv:2405.13763.

    >>> banded_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    k = np.arange(1, bands)
    return np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))


def toeplitz_sums(coefficients: np.ndarray, rounds: int, gap: int, most: int | None) -> np.ndarray:
    """Return Cu for the client that moves the release most `[rounds]`.

    Where the coefficients are not negative and do not rise, that is the one that comes as early and
    as often as it may, whatever the number of rounds (Kalinin and Lampert 2024, Banded Square Root
    Matrix Factorization for Differentially Private Model Training, arXiv:2405.13763, theorem 2).

    Args:
      coefficients: c_0, c_1, ... of the Toeplitz matrix C.
      gap: how soon a client can come again.
      most: its rounds at most; None: as many as `gap` allows.
    """
    sums = np.zeros(rounds)
    for start in range(0, rounds, gap)[:most]:
        length = min(len(coefficients), rounds - start)
        sums[start : start + length] += coefficients[:length]
    return sums


@functools.lru_cache(32)
def optimised_buffers(buffers: int, rounds: int, gap: int, most: int | None) -> Buffers:
    """Return the matrix C of `blt` with the least loss for so many rounds, by jax-privacy.

    It is rounded to six digits, so that other machines find the same. It takes some ten seconds.

    Args:
      most: its rounds at most; None: as many as `gap` allows.

    References:
      Dvijotham et al. 2024, Efficient and Near-Optimal Noise Generation for Streaming Differential
      Privacy, arXiv:2404.16706; McMahan, Xu and Zhang 2024, A Hassle-free Algorithm for Strong
      Differential Privacy in Federated Learning Systems, arXiv:2408.08868.

    Raises:
      PrivacyError: where jax-privacy is not installed, or finds no such matrix.
    """
    buffered_toeplitz = imported(
        "jax_privacy.matrix_factorization.buffered_toeplitz",
        package="jax-privacy",
        key="mechanism",
    )
    import jax

    cpu = jax.local_devices(backend="cpu")[0]
    with jax.enable_x64(True), jax.default_device(cpu):
        matrix = buffered_toeplitz.optimize(
            n=rounds,
            min_sep=gap,
            max_participations=most,
            min_buffers=buffers,
            max_buffers=buffers,
        )
        decay = np.asarray(matrix.buf_decay)
        scale = np.asarray(matrix.output_scale)
    # Decays next to 1 differ in what they lack.
    rounded = Buffers(
        decay=tuple(1 - float(f"{1 - value:.6g}") for value in decay),
        scale=tuple(float(f"{value:.6g}") for value in scale),
    )
    falling(rounded.coefficients(rounds), buffers)
    return rounded


def falling(coefficients: np.ndarray, buffers: int) -> np.ndarray:
    """Return coefficients of which it is known which client moves the release most.

    Raises:
      PrivacyError: for those of `blt` that rise, or are negative.
    """
    if coefficients.min() < 0 or (np.diff(coefficients) > 0).any():
        text = f"{buffers} buffers have coefficients that do not fall, of which ε is not known"
        raise PrivacyError("mechanism.buffers", f"{text}; write another number")
    return coefficients


def releases_of(mechanism: Mechanism, sampling: Sampling) -> tuple[Callable[[int], int], float]:
    """Return what a run with Poisson samples releases of a client.

    Args:
      mechanism: `gaussian`, or `banded` with no more bands than groups, so that no two of a
        client's rounds share a draw of noise (Choquette-Choo et al. 2023, (Amplified) Banded Matrix
        Factorization, arXiv:2306.08153, theorem 4).
      sampling: `poisson` or `cyclic_poisson`.

    Returns:
      The samples that it may be in, as a function of the rounds, and the norm ‖c‖₂ that each moves
      the release by.
    """
    groups = sampling.groups if sampling.kind == "cyclic_poisson" else 1
    norm = float(np.linalg.norm(banded_coefficients(bands_of(mechanism))))
    return lambda t: math.ceil(t / groups), norm

"""Generated writers and speakers, as many and with as many samples as those of LEAF."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from fedsim.compose import dataset
from fedsim.limits import require_memory
from fedsim.sources.arrays import Arrays
from fedsim.sources.generators import Count, Seed
from fedsim.sources.pictures import SCALE
from fedsim.sources.tokens import Length

Mean = Annotated[float, Ge(1), Le(1_000_000)]
Spread = Annotated[float, Ge(0), Le(2)]

# Samples of a user, standard deviation / mean: LEAF's 88.94 / 226.83 and 6,212.26 / 3,743.28.
WRITERS_VARY = 0.392
SPEAKERS_VARY = 1.66

CONTROLS = 5  # points that decide the curve of a class
POINTS = 32  # of the curve, where ink is
EDGE = 1.6  # of an image, whose centre is 0
CHUNK = 4096  # images that are drawn at a time
PREDICTABLE = 0.05  # Dirichlet parameter of what follows a character: few of them are likely


@dataset
def femnist_shaped(
    clients: Count = 3550,
    mean: Mean = 226.83,
    classes: Annotated[int, Ge(2)] = 62,
    pixels: Annotated[int, Ge(4)] = 28,
    style: Spread = 0.2,
    jitter: Spread = 0.1,
    seed: Seed = 0,
) -> Arrays:
    """FEMNIST in its shape: writers who draw the same characters in a style of their own; has ids.

    The numbers are LEAF's, the images are not: 3,550 writers with n_k ~ Gamma of mean 226.83 and
    standard deviation 88.94, rounded, at least 1 (LEAF: 805,263 samples in all; the skewness of a
    Gamma is then 0.78). With another `mean`, the ratio of the two stays 0.392.

    Class c is a smooth curve through 5 points P_c ~ U(0, 1)², stretched to [−1, 1]². Writer k has a
    linear map A_k = I + style·N(0, 1)^{2×2} (slant, size, turn), a shift b_k ~ style·N(0, 1)² and a
    thickness t_k = 0.15·exp(style·N(0, 1)). A sample is drawn along the curve q through
    (P_c + jitter·N(0, 1)) A_k + b_k: x = min(1, Σ_p exp(−‖pixel − q_p‖² / 2t_k²) / 2), in bytes,
    over 32 points, with pixels in [−1.6, 1.6]². Classes are equally likely.

    Args:
      clients: the number of writers.
      mean: the mean number of samples of a writer.
      classes: the number of characters.
      pixels: the height and width of an image.
      style: how much writers differ; 0: not at all.
      jitter: how much the images of a writer and class differ.
      seed: the seed of the draws.

    References:
      Caldas et al. 2018, LEAF: A Benchmark for Federated Settings, arXiv:1812.01097, table 1 (the
      numbers of users and of samples).
    """
    rng = np.random.default_rng(seed)
    sizes = _sizes(clients, mean, WRITERS_VARY, rng)
    n = int(sizes.sum())
    require_memory(
        images=2 * n * pixels**2,
        chunk=8 * CHUNK * POINTS * 2 * pixels,
        curves=16 * CONTROLS * classes,
    )

    curves = rng.random((classes, CONTROLS, 2))
    low = curves.min(axis=1, keepdims=True)
    high = curves.max(axis=1, keepdims=True)
    curves = 2 * (curves - low) / (high - low) - 1
    maps = np.eye(2) + style * rng.standard_normal((clients, 2, 2))
    shifts = style * rng.standard_normal((clients, 1, 2))
    thickness = 0.15 * np.exp(style * rng.standard_normal(clients))

    writer = np.repeat(np.arange(clients), sizes)
    y = rng.integers(0, classes, n)
    x = np.empty((n, pixels, pixels, 1), np.uint8)
    for first in range(0, n, CHUNK):
        rows = slice(first, first + CHUNK)
        k = writer[rows]
        controls = curves[y[rows]]
        controls = controls + jitter * rng.standard_normal(controls.shape)
        controls = controls @ maps[k] + shifts[k]
        x[rows, :, :, 0] = _drawn(controls, thickness[k], pixels)
    return Arrays(x, y, writer, scale=SCALE)


@dataset
def shakespeare_shaped(
    clients: Count = 1129,
    mean: Mean = 3743.28,
    vocabulary: Annotated[int, Ge(2), Le(1000)] = 80,
    length: Length = 80,
    style: Annotated[float, Ge(0), Le(1)] = 0.3,
    seed: Seed = 0,
) -> Arrays:
    """Shakespeare in its shape: speakers, each with a habit of what follows what; has client ids.

    The numbers are LEAF's, the texts are not: 1,129 speakers with n_k ~ Gamma of mean 3,743.28 and
    standard deviation 6,212.26, rounded, at least 1 (LEAF: 4,226,158 samples in all; the skewness
    of a Gamma is then 3.3). With another `mean`, the ratio of the two stays 1.66. As in LEAF, a
    sample is `length` characters of an alphabet of 80, and the label is the next one.

    Speakers share a Markov chain of order 2, and each has one of order 1 as a habit: the character
    that follows a, b is drawn from (1 − style)·P(· | a, b) + style·Q_k(· | b), and every row of P
    and Q_k from Dirichlet(0.05·1). The first two characters of a sample are uniform.

    Args:
      clients: the number of speakers.
      mean: the mean number of samples of a speaker.
      vocabulary: the number of characters.
      length: characters of a sample, before the one that is its label.
      style: how often a speaker follows the habit; 0: speakers do not differ.
      seed: the seed of the draws.

    References:
      Caldas et al. 2018, LEAF: A Benchmark for Federated Settings, arXiv:1812.01097, table 1 (the
      numbers of users and of samples).
    """
    rng = np.random.default_rng(seed)
    sizes = _sizes(clients, mean, SPEAKERS_VARY, rng)
    n = int(sizes.sum())
    require_memory(
        samples=12 * n * length,
        chains=16 * (vocabulary**3 + vocabulary**2),
        draws=24 * int(sizes.max()) * vocabulary,
    )

    shared = _chain(vocabulary**2, vocabulary, rng)
    text = np.empty((n, length + 1), np.int32)
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        habit = _chain(vocabulary, vocabulary, rng)
        text[end - size : end] = _spoken(shared, habit, size, length + 1, style, rng)
    speaker = np.repeat(np.arange(clients), sizes)
    return Arrays(text[:, :-1], text[:, -1], speaker, vocabulary=vocabulary)


def _sizes(users: int, mean: float, variation: float, rng: np.random.Generator) -> np.ndarray:
    """How many samples users have `[users]`, at least 1: from a Gamma distribution, rounded.

    Its standard deviation is `variation` times its mean.
    """
    require_memory(sizes=32 * users)
    shape = variation**-2
    drawn = np.rint(rng.gamma(shape, mean / shape, users))
    require_memory(samples=int(8 * drawn.sum()))
    return np.maximum(drawn, 1).astype(int)


def _drawn(controls: np.ndarray, thickness: np.ndarray, pixels: int) -> np.ndarray:
    """Images `[n, pixels, pixels]` in bytes of curves through points `[n, CONTROLS, 2]`."""
    curve = _between() @ controls  # [n, POINTS, 2]
    places = np.linspace(-EDGE, EDGE, pixels)
    distance = (places - curve[..., None]) / thickness[:, None, None, None]
    ink = np.exp(-(distance**2) / 2)  # [n, POINTS, 2, pixels]: by row and by column
    image = np.swapaxes(ink[:, :, 0], 1, 2) @ ink[:, :, 1]
    return (255 * np.minimum(image / 2, 1)).astype(np.uint8)


def _between() -> np.ndarray:
    """Weights `[POINTS, CONTROLS]` of the points that a curve passes, the polynomial through all.

    Lagrange's, at Chebyshev's nodes, between which it does not swing.
    """
    nodes = np.cos(np.pi * (np.arange(CONTROLS) + 0.5) / CONTROLS)
    at = np.linspace(nodes[0], nodes[-1], POINTS)
    vandermonde = np.vander(nodes, CONTROLS)
    return np.linalg.solve(vandermonde.T, np.vander(at, CONTROLS).T).T


def _chain(states: int, vocabulary: int, rng: np.random.Generator) -> np.ndarray:
    """Cumulative probabilities `[states, vocabulary]` of what follows each state."""
    weights = rng.standard_gamma(PREDICTABLE, (states, vocabulary))
    weights += np.finfo(float).tiny  # all weights of a row may be zero
    cumulative = weights.cumsum(axis=1)
    return cumulative / cumulative[:, -1:]


def _spoken(
    shared: np.ndarray,
    habit: np.ndarray,
    samples: int,
    length: int,
    style: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Characters `[samples, length]` of one speaker.

    The chain of order 2 is that of all speakers `[V², V]`, the habit is one of order 1 `[V, V]`,
    followed with probability `style`.
    """
    vocabulary = len(habit)
    text = rng.integers(0, vocabulary, (samples, length))
    by_habit = rng.random((samples, length)) < style
    uniform = rng.random((samples, length))
    for place in range(2, length):
        one, two = text[:, place - 2], text[:, place - 1]
        cumulative = np.where(by_habit[:, place, None], habit[two], shared[one * vocabulary + two])
        text[:, place] = (cumulative < uniform[:, place, None]).sum(axis=1)
    return text

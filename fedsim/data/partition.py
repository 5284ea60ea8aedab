"""Partitions: labels -> the index list of every client. Constructive: nothing lost, nothing twice, never a retry.

A factory returns `assign(y, classes, clients, rng) -> list of index arrays`, one per client.
"""

from collections.abc import Callable
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from fedsim.compose import partition
from fedsim.data.federation import apportion

Assign = Callable[[np.ndarray, int, int, np.random.Generator], list[np.ndarray]]


class PartitionError(ValueError):
    """Samples that cannot be dealt out as asked."""


@partition
def iid() -> Assign:
    """Shuffle, then deal: every client gets the same number of samples (±1) of the global mix."""

    def assign(y, classes, clients, rng):
        del classes
        if clients > len(y):
            raise PartitionError(f"{clients} clients but only {len(y)} training samples; at most {len(y)}")
        return np.array_split(rng.permutation(len(y)), clients)

    return assign


@partition
def dirichlet(alpha: Annotated[float, Gt(0)] = 0.5, min_samples: Annotated[int, Ge(0)] = 1) -> Assign:
    """Label skew: every class is dealt over the clients in proportions drawn from Dirichlet(α·1).

    q_c ~ Dir_N(α) for every class c; client i receives a share q_{c,i} of its samples (largest remainders). Then clients
    below `min_samples` are filled up with samples of the largest ones, which are cut to a common level. Small α: few
    classes per client; large α: the global mix.

    Args:
      alpha: concentration, > 0.
      min_samples: every client's minimum, met by construction.

    Raises:
      PartitionError: when clients · min_samples exceeds the number of training samples.

    References:
      Yurochkin et al. 2019, arXiv:1905.12022; Hsu, Qi, Brown 2019, arXiv:1909.06335 (per client instead of per class).
    """

    def assign(y, classes, clients, rng):
        if classes == 0:
            raise PartitionError("dirichlet deals out classes, and these targets are no classes; use iid")
        if min_samples * clients > len(y):
            raise PartitionError(
                f"{clients} clients x min_samples {min_samples} needs {clients * min_samples} samples, "
                f"there are {len(y)}; min_samples at most {len(y) // clients}"
            )
        parts = [[] for _ in range(clients)]
        for label in range(classes):
            members = rng.permutation(np.flatnonzero(y == label))
            share = apportion(dirichlet_draw(alpha, clients, rng) * len(members), len(members))
            for part, piece in zip(parts, np.split(members, np.cumsum(share)[:-1]), strict=True):
                part.append(piece)
        return fill_up([np.concatenate(part) for part in parts], min_samples, rng)

    return assign


def dirichlet_draw(alpha: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """One draw from Dir_n(α), in logarithms so that no α is too small: G(α) = G(α+1)·U^{1/α}."""
    with np.errstate(over="ignore"):
        log_power = np.maximum(np.log1p(-rng.random(n)) / alpha, -1e300)
    log_gamma = np.log(rng.gamma(alpha + 1, size=n)) + log_power
    weight = np.exp(log_gamma - log_gamma.max())
    return weight / weight.sum()


def fill_up(parts: list[np.ndarray], least: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Move samples from the largest parts (cut to a common level) to those below `least`."""
    sizes = np.array([len(p) for p in parts])
    needed = int(np.maximum(least - sizes, 0).sum())
    if not needed:
        return parts
    level = _level(sizes, needed)
    surplus = np.maximum(sizes - level, 0)
    surplus[np.flatnonzero(surplus)[: int(surplus.sum()) - needed]] -= 1  # the level is whole: a few give one less
    moved = []
    for k in np.flatnonzero(surplus):
        shuffled = rng.permutation(parts[k])
        parts[k] = shuffled[surplus[k] :]
        moved.append(shuffled[: surplus[k]])
    pool = np.concatenate(moved)
    for k in np.flatnonzero(sizes < least):
        take = least - sizes[k]
        parts[k], pool = np.concatenate([parts[k], pool[:take]]), pool[take:]
    return parts


def _level(sizes: np.ndarray, needed: int) -> int:
    """The largest level such that cutting all sizes to it yields at least `needed`."""
    low, high = 0, int(sizes.max())  # cutting to `low` yields enough, cutting to `high` yields nothing
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if np.maximum(sizes - middle, 0).sum() >= needed else (low, middle)
    return low

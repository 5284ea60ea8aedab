"""Draws from the Dirichlet distribution for any α, and of whole numbers with given margins."""

import numpy as np


def dirichlet_draw(
    alpha: float | np.ndarray, shape: int | tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Draws from Dir(α) along the last axis of `shape`, in logarithms so that no α is too small: G(α) = G(α+1)·U^{1/α}.

    Args:
      alpha: concentration, one number or one per entry of the last axis.
      shape: of the result.
      rng: generator.
    """
    with np.errstate(over="ignore", divide="ignore"):
        log_power = np.maximum(np.log1p(-rng.random(shape)) / alpha, -1e300)
    log_gamma = np.log(rng.gamma(np.asarray(alpha) + 1, size=shape)) + log_power
    weight = np.exp(log_gamma - log_gamma.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True)


def allocate(
    mix: np.ndarray, sizes: np.ndarray, supply: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Samples per client and class `[N, C]`: row sums `sizes`, column sums `supply`, drawn close to the mixes asked for.

    Args:
      mix: share of every class that a client asks for `[N, C]`.
      sizes: samples of every client `[N]`.
      supply: samples of every class `[C]`, as many in all.
      rng: generator.
    """
    allocated, left, supply = np.zeros(mix.shape, np.int64), sizes.copy(), supply.copy()
    for _ in range(len(supply)):
        clients = np.flatnonzero(left)
        if not len(clients):
            return allocated
        weight = mix[clients] * (supply > 0)
        weight = np.where(weight.sum(1, keepdims=True) > 0, weight, supply)
        request = _multinomial(left[clients], weight, rng)
        for label in np.flatnonzero(request.sum(0) > supply):
            refused = int(request[:, label].sum() - supply[label])
            request[:, label] -= rng.multivariate_hypergeometric(request[:, label], refused)
        allocated[clients] += request
        left[clients] -= request.sum(1)
        supply -= request.sum(0)
    # rounding errors in the mixes alone leave places open: the rest is allocated at random
    slots = np.repeat(np.arange(len(left)), left)
    np.add.at(allocated, (slots, rng.permutation(np.repeat(np.arange(len(supply)), supply))), 1)
    return allocated


def _multinomial(n: np.ndarray, weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One multinomial draw per row, class by class; a class of weight 0 is never drawn."""
    tail = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1]
    drawn, left = np.zeros(weight.shape, np.int64), n.copy()
    for label in range(weight.shape[1]):
        share = np.divide(
            weight[:, label], tail[:, label], out=np.zeros(len(n)), where=tail[:, label] > 0
        )
        drawn[:, label] = rng.binomial(left, np.minimum(share, 1))
        left -= drawn[:, label]
    return drawn

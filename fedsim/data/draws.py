"""Draws that survive any α: from the Dirichlet distribution, and of whole numbers with given margins."""

import numpy as np


def dirichlet_draw(alpha: float | np.ndarray, shape: int | tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
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


def allocate(mix: np.ndarray, sizes: np.ndarray, supply: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whole numbers `[N, C]` with row sums `sizes` and column sums `supply`, drawn close to the wishes `mix`."""
    given, left, supply = np.zeros(mix.shape, np.int64), sizes.copy(), supply.copy()
    for _ in range(len(supply)):
        asking = np.flatnonzero(left)
        if not len(asking):
            return given
        wish = mix[asking] * (supply > 0)
        wish = np.where(wish.sum(1, keepdims=True) > 0, wish, supply)
        asked = _multinomial(left[asking], wish, rng)
        for label in np.flatnonzero(asked.sum(0) > supply):
            refused = int(asked[:, label].sum() - supply[label])
            asked[:, label] -= rng.multivariate_hypergeometric(asked[:, label], refused)
        given[asking] += asked
        left[asking] -= asked.sum(1)
        supply -= asked.sum(0)
    # only rounding errors in the wishes leave somebody here: what is left is dealt as it comes
    slots = np.repeat(np.arange(len(left)), left)
    np.add.at(given, (slots, rng.permutation(np.repeat(np.arange(len(supply)), supply))), 1)
    return given


def _multinomial(n: np.ndarray, weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One multinomial draw per row, class by class; a class of weight 0 is never drawn."""
    tail = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1]
    drawn, left = np.zeros(weight.shape, np.int64), n.copy()
    for label in range(weight.shape[1]):
        share = np.divide(weight[:, label], tail[:, label], out=np.zeros(len(n)), where=tail[:, label] > 0)
        drawn[:, label] = rng.binomial(left, np.minimum(share, 1))
        left -= drawn[:, label]
    return drawn

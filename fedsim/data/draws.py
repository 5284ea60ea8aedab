"""Draws from the Dirichlet distribution for any α, and of whole numbers with given sums."""

import numpy as np


def dirichlet_draw(
    alpha: float | np.ndarray, shape: int | tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Draw from Dir(α) along the last axis, for one α or one per entry of that axis.

    Computed in logarithms, so that no α is too small: G(α) = G(α+1)·U^{1/α}.
    """
    with np.errstate(over="ignore", divide="ignore"):
        log_power = np.maximum(np.log1p(-rng.random(shape)) / alpha, -1e300)
    log_gamma = np.log(rng.gamma(np.asarray(alpha) + 1, size=shape)) + log_power
    weight = np.exp(log_gamma - log_gamma.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True)


def allocate(
    mix: np.ndarray, sizes: np.ndarray, supply: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw samples per client and class `[N, C]`, close to the requested mixes `[N, C]`.

    Rows sum to `sizes` `[N]`, columns to `supply` `[C]`, which have the same sum.
    """
    allocated = np.zeros(mix.shape, np.int64)
    left = sizes.copy()  # samples that a client still lacks
    supply = supply.copy()  # samples that a class still has
    for _ in range(len(supply)):  # every turn exhausts a class
        clients = np.flatnonzero(left)
        if not len(clients):
            return allocated

        # Clients request samples of the classes that are left, by their mix or else by supply.
        weight = mix[clients] * (supply > 0)
        has_weight = weight.sum(1, keepdims=True) > 0
        weight = np.where(has_weight, weight, supply)
        request = _multinomial(left[clients], weight, rng)

        # Where a class is requested too often, random requests are refused.
        for label in np.flatnonzero(request.sum(0) > supply):
            refused = int(request[:, label].sum() - supply[label])
            request[:, label] -= rng.multivariate_hypergeometric(request[:, label], refused)

        allocated[clients] += request
        left[clients] -= request.sum(1)
        supply -= request.sum(0)

    # Only rounding errors in the mixes leave anything: it is allocated at random.
    client = np.repeat(np.arange(len(left)), left)
    label = rng.permutation(np.repeat(np.arange(len(supply)), supply))
    np.add.at(allocated, (client, label), 1)
    return allocated


def _multinomial(n: np.ndarray, weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Make one multinomial draw of n per row `[N]`, class by class, by weights `[N, C]`."""
    remaining = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1]  # Σ of this class and all later ones
    drawn = np.zeros(weight.shape, np.int64)
    left = n.copy()
    for label in range(weight.shape[1]):
        total = remaining[:, label]
        share = np.divide(weight[:, label], total, out=np.zeros(len(n)), where=total > 0)
        drawn[:, label] = rng.binomial(left, np.minimum(share, 1))
        left -= drawn[:, label]
    return drawn

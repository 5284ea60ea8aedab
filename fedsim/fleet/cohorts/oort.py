"""Oort: fast clients whose samples still teach the model something."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population


@cohort
def oort(
    size: Annotated[int, Ge(1)] = 10,
    explore: Annotated[float, Ge(0), Le(1)] = 0.9,
    decay: Annotated[float, Gt(0), Le(1)] = 0.98,
    least: Annotated[float, Ge(0), Le(1)] = 0.2,
    preferred: Annotated[float, Gt(0), Le(1)] = 0.3,
    alpha: Annotated[float, Ge(0)] = 2.0,
    cutoff: Annotated[float, Gt(0), Le(1)] = 0.95,
    clip: Annotated[float, Gt(0), Le(1)] = 0.95,
    most: Annotated[int, Ge(1)] | None = None,
) -> Cohort:
    """Fast clients with large losses on many samples, and new clients, the fast ones first.

    In round r, of m = `size` clients, ε_r m are new, with ε_r = max(least, explore · decay^(r−1)).
    New clients are drawn with probabilities proportional to 1/t_k. The others are drawn among the
    clients whose utility is at least `cutoff` times that of the ((1 − ε_r) m)-th best, with
    probabilities proportional to their utility

        U_k = (u_k + √(0.1 · ln r / r_k)) · (T/t_k)^alpha where T < t_k, else without the last
        factor.

    u_k is n_k · loss_k of the last round in which the client took part, cut at the quantile `clip`
    of these numbers and scaled to run from 0 to 1; r_k is the last round that drew the client, t_k
    how long a round takes it, and T the quantile `preferred` of all t_k. If there are too few new
    or too few known clients, the other kind fills the round. Clients whose last loss was not
    finite, and with `most` those drawn in that many rounds, are drawn only when nobody else is
    left.

    Differences from the paper: its |B| √(mean loss²) over samples is n_k times the mean loss over
    the batches of the round, since that is what a client reports; and T is fixed (the paper's pacer
    raises it when utilities fall). The scaling is that of the authors' program.

    Cohorts depend on losses, and so on the method.    Cost: O(N log N) on the host.

    Args:
      size: m, clients per round.
      explore: share of new clients in round 1.
      decay: factor on this share from round to round.
      least: lower bound of the share.
      preferred: quantile of the seconds of all clients up to which a client is not too slow.
      alpha: how much slower clients lose; 0: nothing.
      cutoff: how far a client may lie below the last of the best.
      clip: quantile of the utilities at which they are cut.
      most: number of draws after which a client is left out; left out: there is no limit.
    References:
      Lai et al. 2021, Oort: Efficient Federated Learning via Guided Participant Selection,
      arXiv:2010.06081, Algorithm 1.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        loss = population.loss
        assert loss is not None
        assert population.drawn is not None and population.seconds is not None
        m = min(size, len(loss))

        willing = np.ones(len(loss), bool) if most is None else population.drawn < most
        known = np.flatnonzero(np.isfinite(loss) & willing)
        new = np.flatnonzero(np.isnan(loss) & willing)

        # How many of each; if there are too few of one kind, the other fills the round.
        wanted_new = int(np.rint(max(least, explore * decay ** (round - 1)) * m))
        known_count = min(max(m - wanted_new, m - len(new)), len(known))
        new_count = min(m - known_count, len(new))

        utility = utilities(population, known, round)
        speed = 1 / np.maximum(population.seconds[new], 1e-9)
        best = _draw_best(known, utility, known_count, cutoff, rng)
        explored = _draw_weighted(new, speed, new_count, rng)
        chosen = np.concatenate([best, explored])
        if len(chosen) < m:
            unwilling = np.setdiff1d(np.arange(len(loss)), chosen)
            fill = rng.choice(unwilling, m - len(chosen), replace=False)
            chosen = np.append(chosen, fill)
        return population.ids[chosen]

    def utilities(population: Population, known: np.ndarray, round: int) -> np.ndarray:
        """Return U of the clients at these positions."""
        if not len(known):
            return np.zeros(0)
        assert population.loss is not None and population.last is not None
        assert population.seconds is not None

        # What the client's samples teach, from 0 to 1.
        u = population.samples[known] * population.loss[known]
        u = np.minimum(u, np.quantile(u, clip))
        u = (u - u.min()) / max(float(u.max() - u.min()), 1e-4)

        # A bonus for clients that were not drawn for long.
        u = u + np.sqrt(0.1 * np.log(round) / np.maximum(population.last[known], 1))

        # A penalty for slow clients.
        seconds = population.seconds[known]
        T = np.quantile(population.seconds, preferred)
        slow = seconds > T
        return np.where(slow, u * (T / np.where(slow, seconds, 1)) ** alpha, u)

    return Cohort(draw, lambda N: size, needs=frozenset({"loss", "drawn", "seconds"}))


def _draw_best(
    clients: np.ndarray, utility: np.ndarray, count: int, cutoff: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw clients by utility, among those not far below the `count` best."""
    if not count:
        return clients[:0]
    threshold = cutoff * np.partition(utility, -count)[-count]
    eligible = utility >= threshold
    return _draw_weighted(clients[eligible], utility[eligible], count, rng)


def _draw_weighted(
    clients: np.ndarray, weight: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw clients one after another without replacement, in proportion to their weights.

    These are the first clients whose exponential clocks ring, at rates equal to the weights.
    """
    if not count:
        return clients[:0]
    with np.errstate(divide="ignore"):
        clocks = rng.standard_exponential(len(clients)) / weight
    return clients[np.argpartition(clocks, count - 1)[:count]]

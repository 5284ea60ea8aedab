"""Oort: clients whose samples still teach something, and that are quick about it."""

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
    """Clients with large losses on many samples that are quick, beside some that never took part, the quick ones first.

    In round r, of m = `size` clients, ε_r m are new ones, with ε_r = max(least, explore · decay^(r−1)): drawn with
    probabilities proportional to 1/t_k. The others are drawn, with probabilities proportional to their utility, of
    those whose utility is at least `cutoff` times that of the ((1 − ε_r) m)-th best:

        U_k = (u_k + √(0.1 · ln r / r_k)) · (T/t_k)^alpha where T < t_k, else without the last factor;

    u_k is n_k · loss_k of the last round in which the client took part, cut at the quantile `clip` of these numbers
    and scaled to run from 0 to 1; r_k the last round that drew it; t_k the seconds that a round takes it, T their
    quantile `preferred`. Where new or known clients are too few, the others fill the round. Clients whose last loss
    was not finite, and with `most` those that so many rounds have drawn, come when nobody else is left.

    Different from the paper: its |B| √(mean loss²) over samples is n_k times the mean loss over the batches of the
    round, since that is what a client reports, and T stays where it is (the paper's pacer raises it when utilities
    fall). The scaling is that of the authors' program.

    Cohorts depend on losses, and so on the method.    Cost: O(N log N) on the host.

    Args:
      size: m, clients per round.
      explore: share of new clients in round 1.
      decay: of that share, from round to round.
      least: where its decay ends.
      preferred: quantile of the seconds of all clients up to which nobody is too slow.
      alpha: how much slower clients lose; 0: nothing.
      cutoff: how far below the last of the best somebody may lie.
      clip: quantile of the utilities at which they are cut.
      most: rounds after which a client is left out; left out: it never is.
    References:
      Lai et al. 2021, Oort: Efficient Federated Learning via Guided Participant Selection, arXiv:2010.06081, Algorithm 1.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        loss, drawn = population.loss, population.drawn
        assert loss is not None and drawn is not None and population.seconds is not None
        m, new = min(size, len(loss)), np.isnan(loss)
        willing = np.ones(len(loss), bool) if most is None else drawn < most
        old, new = np.flatnonzero(np.isfinite(loss) & willing), np.flatnonzero(new & willing)
        wanted = int(np.rint(max(least, explore * decay ** (round - 1)) * m))
        known = min(max(m - wanted, m - len(new)), len(old))
        fresh = min(m - known, len(new))
        chosen = np.concatenate(
            [
                _best(old, utilities(population, old, round), known, cutoff, rng),
                _weighted(new, 1 / np.maximum(population.seconds[new], 1e-9), fresh, rng),
            ]
        )
        if len(chosen) < m:
            others = np.setdiff1d(np.arange(len(loss)), chosen)
            chosen = np.append(chosen, rng.choice(others, m - len(chosen), replace=False))
        return population.ids[chosen]

    def utilities(population: Population, old: np.ndarray, round: int) -> np.ndarray:
        """U of some clients."""
        if not len(old):
            return np.zeros(0)
        known = population.subset(old)
        loss, last, seconds, everybody = known.loss, known.last, known.seconds, population.seconds
        assert (
            loss is not None and last is not None and seconds is not None and everybody is not None
        )
        stat = known.samples * loss
        stat = np.minimum(stat, np.quantile(stat, clip))
        u = (stat - stat.min()) / max(float(stat.max() - stat.min()), 1e-4)
        u = u + np.sqrt(0.1 * np.log(round) / np.maximum(last, 1))
        T = np.quantile(everybody, preferred)
        slow = seconds > T
        return np.where(slow, u * (T / np.where(slow, seconds, 1)) ** alpha, u)

    return Cohort(draw, lambda N: size, needs=frozenset({"loss", "drawn", "seconds"}))


def _best(
    old: np.ndarray, utility: np.ndarray, count: int, cutoff: float, rng: np.random.Generator
) -> np.ndarray:
    """So many of the clients that lie not far below the `count` best, by their utilities."""
    if not count:
        return old[:0]
    kept = utility >= cutoff * np.partition(utility, -count)[-count]
    return _weighted(old[kept], utility[kept], count, rng)


def _weighted(
    clients: np.ndarray, weight: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """So many of them without replacement, one after another by weights: the first to ring of clocks at these rates."""
    if not count:
        return clients[:0]
    with np.errstate(divide="ignore"):
        clocks = rng.standard_exponential(len(clients)) / weight
    return clients[np.argpartition(clocks, count - 1)[:count]]

"""Shapley values of a game: what each of K players adds to the value of a coalition, on average.

    φ_i = Σ_{S ⊆ K∖i}  |S|! (K − |S| − 1)! / K!  (V(S ∪ i) − V(S))

They are the only values that sum to V(all) − V(∅), are equal for players that are exchangeable, 0
for one that adds nothing, and additive over games (Shapley 1953, A Value for n-Person Games).
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.errors import Problem, ScenarioError

# Values of coalitions `[n]`, which are the rows of a mask `[n, K]`.
Game = Callable[[np.ndarray], np.ndarray]


class Truncation(NamedTuple):
    """When GTG-Shapley stops, as in its authors' code.

    Attributes:
      between: a round whose gain is at most this gives everybody 0.
      within: a permutation ends where the value is nearer than this to that of all players.
      least: permutations before the estimate can have converged.
      window: estimates, after the last permutations, that have to agree.
      tolerance: the largest mean relative difference among them.
      most: permutations at most.
    """

    between: float = 0.01
    within: float = 0.001
    least: int = 30
    window: int = 10
    tolerance: float = 0.05
    most: int = 1000


class Estimate(NamedTuple):
    """Shapley values that were estimated."""

    values: np.ndarray  # φ `[K]`
    errors: np.ndarray  # standard errors over sweeps `[K]`; NaN where there was only one


def require_possible(truncation: Truncation) -> None:
    """Refuse numbers with which GTG-Shapley would not begin or not end."""
    problems = []
    for name, value in truncation._asdict().items():
        least = 1 if name in ("window", "most") else 0
        if not (math.isfinite(value) and value >= least):
            text = f"should be a number of at least {least}, found {value}"
            problems.append(Problem(f"truncation.{name}", text))
    if problems:
        raise ScenarioError(problems, "contributions")


def coalitions(K: int) -> np.ndarray:
    """Return all coalitions of K players as a mask `[2^K, K]`; row s has the bits of s."""
    return (np.arange(2**K)[:, None] >> np.arange(K)) & 1 == 1


def ends(K: int) -> np.ndarray:
    """Return the empty coalition and that of all K players as a mask `[2, K]`."""
    return np.repeat([[False], [True]], K, axis=1)


def exact(values: np.ndarray) -> np.ndarray:
    """Return the Shapley values `[K]` from the values of all `coalitions` `[2^K]`, in their order.

    >>> exact(np.array([0.0, 1.0, 2.0, 5.0])).tolist()
    [2.0, 3.0]
    """
    K = len(values).bit_length() - 1
    members = coalitions(K)
    sizes = members.sum(axis=1)
    weights = np.array([1 / (K * math.comb(K - 1, size)) for size in range(K)])
    shapley = np.zeros(K)
    for player in range(K):
        without = np.flatnonzero(~members[:, player])
        gains = values[without + 2**player] - values[without]
        shapley[player] = math.fsum(weights[sizes[without]] * gains)
    return shapley


def gtg(game: Game, K: int, draws: np.random.Generator, truncation: Truncation) -> Estimate:
    """Return Shapley values by guided permutations, which are cut off early: GTG-Shapley.

    A sweep has K permutations; each player is the first of one of them, and the others follow in a
    random order. So every position is equally likely for a player over a sweep, and the mean of
    its marginal gains is unbiased, but for what is cut off.

    References:
      Liu, Chen, Liu, Yu, Yang 2022, GTG-Shapley: Efficient and Accurate Participant Contribution
      Evaluation in Federated Learning, ACM TIST 13(4), arXiv:2109.02053, Algorithm 1.
    """
    nobody, everybody = game(ends(K))
    if abs(everybody - nobody) <= truncation.between:
        return Estimate(np.zeros(K), np.zeros(K))

    gains = np.zeros((0, K))  # of every player in every permutation
    while not _has_converged(gains, truncation):
        orders = np.array([_guided(first, K, draws) for first in range(K)])
        sweep = _marginal_gains(game, orders, nobody, everybody, truncation.within)
        gains = np.concatenate([gains, sweep])

    sweeps = gains.reshape(-1, K, K).mean(axis=1)  # [sweeps, K]
    errors = np.full(K, np.nan)
    if len(sweeps) > 1:
        errors = sweeps.std(axis=0, ddof=1) / math.sqrt(len(sweeps))
    return Estimate(gains.mean(axis=0), errors)


def _guided(first: int, K: int, draws: np.random.Generator) -> np.ndarray:
    """Return an order of the players that begins with one of them."""
    others = np.delete(np.arange(K), first)
    return np.concatenate([[first], draws.permutation(others)])


def _marginal_gains(
    game: Game, orders: np.ndarray, nobody: float, everybody: float, within: float
) -> np.ndarray:
    """Return what every player adds where it joins, in each of n permutations `[n, K]`.

    The permutations advance side by side, so that their coalitions are valued together.

    Args:
      nobody: the value of the empty coalition.
      within: distance to it from which on a permutation adds nothing more.
    """
    n, K = orders.shape
    rows = np.arange(n)
    members = np.zeros((n, K), bool)
    gains = np.zeros((n, K))
    before = np.full(n, nobody)
    for joining in orders.T:
        members[rows, joining] = True
        going = np.abs(everybody - before) >= within
        after = before.copy()
        if going.any():
            after[going] = game(members[going])
        gains[rows, joining] = after - before
        before = after
    return gains


def _has_converged(gains: np.ndarray, truncation: Truncation) -> bool:
    """Return whether the last estimates from permutations `[n, K]` agree, or enough is done."""
    n = len(gains)
    if n >= truncation.most:
        return True
    if n <= truncation.least:
        return False
    means = np.cumsum(gains, axis=0) / np.arange(1, n + 1)[:, None]
    last = means[-1]
    differences = np.abs(means[-truncation.window :] - last) / (np.abs(last) + 1e-12)
    return bool(differences.mean(axis=1).max() <= truncation.tolerance)


def remembering(game: Game) -> Game:
    """Return a game that values each coalition once."""
    known: dict[bytes, float] = {}

    def value(members: np.ndarray) -> np.ndarray:
        keys = [row.tobytes() for row in members]
        unknown: dict[bytes, Sequence[bool]] = {}
        for key, row in zip(keys, members, strict=True):
            if key not in known:
                unknown[key] = row
        if unknown:
            values = game(np.array(list(unknown.values()), bool))
            known.update(zip(unknown, values.tolist(), strict=True))
        return np.array([known[key] for key in keys])

    return value

"""Availability: which clients can be reached when a round begins.

A factory returns an `Availability`. All kinds but `markov` are Bernoulli draws, a new one of every client in every round,
with a probability that may depend on the client, the round and the virtual clock.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from jaxtyping import Bool, Float

from fedsim.compose import availability
from fedsim.fleet.clients import Clients

Share = Annotated[float, Ge(0), Le(1)]


class Moment(NamedTuple):
    """When a round begins."""

    round: int  # from 1
    seconds: float  # of the virtual clock, since the start of the run
    uniform: Callable[
        [int], Float[np.ndarray, " N"]
    ]  # round, from 0 -> a number in [0, 1) for every client


class Availability(NamedTuple):
    """A way to decide who can be reached."""

    begin: Callable[
        [Clients, np.random.Generator], Any
    ]  # once for a seed -> what is fixed for every client
    reached: Callable[
        [Any, Moment], Bool[np.ndarray, " N"]
    ]  # (what is fixed, moment) -> who can be reached
    clocked: bool = False  # whether it reads the virtual clock
    share: Callable[[Any], Any] | None = (
        None  # what is fixed -> probability of every client, where it never changes
    )


def independent(
    fixed: Callable[[Clients, np.random.Generator], Float[np.ndarray, " N"]],
    factor: Callable[[Any, Moment], Any] | None = None,
    clocked: bool = False,
) -> Availability:
    """Bernoulli draws with probability `fixed`, or `factor(fixed, moment)`."""

    def reached(known: Any, moment: Moment) -> Bool[np.ndarray, " N"]:
        return moment.uniform(moment.round) < (known if factor is None else factor(known, moment))

    return Availability(fixed, reached, clocked, None if factor else lambda known: known)


@availability
def always() -> Availability:
    """Everybody can be reached in every round.

    References:
      FLGo's `IDL`.
    """
    return independent(lambda clients, rng: np.ones(clients.N))


@availability
def bernoulli(rate: Share = 0.9) -> Availability:
    """Every client can be reached with the same probability, in every round anew.

    Args:
      rate: probability.

    References:
      FLGo's `HOMO` with β = 1 − rate.
    """
    return independent(lambda clients, rng: np.full(clients.N, rate))


@availability
def markov(leave: Share = 0.2, come: Share = 0.1) -> Availability:
    """Clients come and go: each is a Markov chain of two states over the rounds, at the start in its stationary law.

    A client can be reached in a share come / (come + leave) of the rounds; the autocorrelation of two rounds that follow
    each other is 1 − come − leave.

    Args:
      leave: probability that a client that can be reached cannot be in the next round.
      come: probability that one that cannot be reached can be in the next.
    """
    if come + leave == 0:
        raise ValueError("come and leave are both 0, and then nobody ever changes; raise one")
    return Availability(lambda clients, rng: Chain(leave, come), Chain.reached)


class Chain:
    """Two-state chains of all clients, driven by one uniform number a round; the last round is kept."""

    def __init__(self, leave: float, come: float):
        self.leave, self.come = leave, come
        self.round, self.state = -1, np.zeros(0, bool)

    def reached(self, moment: Moment) -> Bool[np.ndarray, " N"]:
        """States in a round, from those of a round before it; from round 0 where there are none."""
        if not 0 <= self.round <= moment.round:
            self.round, self.state = 0, moment.uniform(0) < self.come / (self.come + self.leave)
        for r in range(self.round + 1, moment.round + 1):
            self.state = moment.uniform(r) < np.where(self.state, 1 - self.leave, self.come)
        self.round = moment.round
        return self.state


@availability
def diurnal(
    low: Share = 0.1,
    high: Share = 0.9,
    period: Annotated[float, Ge(1e-6)] = 86_400.0,
    zones: Annotated[int, Ge(1), Le(1000)] = 24,
) -> Availability:
    """Clients live in time zones and can be reached mostly at night.

    p_i(t) = low + (high − low) · (1 + sin(2π (t / period + z_i / zones))) / 2, with the zone z_i drawn uniform once.

    Args:
      low: probability at the worst hour.
      high: probability at the best one.
      period: seconds of a day, of the virtual clock.
      zones: time zones.
    """
    if high < low:
        raise ValueError(f"high {high:g} is below low {low:g}")

    def factor(zone: Any, moment: Moment) -> Any:
        of_zone = np.sin(2 * np.pi * (moment.seconds / period + np.arange(zones) / zones))
        return (low + (high - low) * (1 + of_zone) / 2)[zone]

    return independent(
        lambda clients, rng: rng.integers(zones, size=clients.N), factor, clocked=True
    )


@availability
def label_dependent(
    by: Literal["smallest", "fewest", "cycle"] = "smallest",
    strength: Share = 0.5,
    period: Annotated[int, Ge(1)] = 24,
) -> Availability:
    """How often a client can be reached depends on the labels that it holds.

    p_i = 1 − strength + strength · c_i, with c_i by what it goes by; a client without samples has p_i = 1 − strength.

    Args:
      by: `smallest`: c_i = smallest label / largest label of all; `fewest`: c_i = share of the labels that it holds;
        `cycle`: c_i = 1 while (1 + round mod period) / period lies between its smallest and its largest label over the
        largest label of all, else 0.
      strength: 0: everybody can always be reached.
      period: rounds, of `cycle`.

    References:
      Gu, Huang, Zhang, Huang 2021, Fast Federated Learning in the Presence of Arbitrary Device Unavailability,
      arXiv:2106.04159 (smallest); FLGo's `YMF`, `YFF` (smallest, fewest) and `YC` (cycle).
    """

    def fixed(clients: Clients, rng: np.random.Generator) -> Any:
        held = clients.labels > 0
        C, some = held.shape[1], held.any(axis=1)
        if C == 0:
            raise ValueError(
                "label_dependent needs classes, and these samples have none; take another availability"
            )
        first = np.where(some, held.argmax(axis=1), 0) / max(C - 1, 1)
        last = np.where(some, C - 1 - held[:, ::-1].argmax(axis=1), 0) / max(C - 1, 1)
        if by == "cycle":
            return np.stack([np.where(some, first, 2.0), last])
        return 1 - strength + strength * (first if by == "smallest" else held.mean(axis=1))

    def cycle(ends: Any, moment: Moment) -> Any:
        place = (1 + moment.round % period) / period
        return 1 - strength + strength * ((ends[0] <= place) & (place <= ends[1]))

    return independent(fixed, cycle if by == "cycle" else None)


@availability
def size_dependent(exponent: float = 0.5) -> Availability:
    """How often a client can be reached depends on how many samples it holds: p_i = (n_i / n_best)^exponent.

    n_best is the size with the largest probability; a client without samples cannot be reached.

    Args:
      exponent: above 0 clients with more samples can be reached more often, below 0 those with fewer.

    References:
      FLGo's `MDF` (exponent above 0) and `LDF` (below).
    """

    def fixed(clients: Clients, rng: np.random.Generator) -> Any:
        n = clients.samples.astype(float)
        some = n > 0
        logs = exponent * np.log(np.where(some, n, 1.0))
        return np.where(some, np.exp(logs - logs.max(initial=-np.inf, where=some)), 0.0)

    return independent(fixed)


@availability
def lognormal(
    sigma: Annotated[float, Ge(0), Le(10)] = 0.5, period: Annotated[int, Ge(1)] | None = None
) -> Availability:
    """Every client has a probability of its own, log-normal, relative to the largest; it may rise and fall over the rounds.

    p_i = c_i / max c with log c_i ~ N(0, σ²); with a period T, p_i(r) = (0.4 sin(2π (r mod T) / (T − 1)) + 0.5) p_i.

    Args:
      sigma: standard deviation of the logarithm; FLGo's is −ln(1 − β).
      period: rounds T; left out: probabilities stay.

    References:
      Ribero, Vikalo, de Veciana 2022, Federated Learning Under Intermittent Client Availability and Time-Varying
      Communication Constraints, arXiv:2205.06730; FLGo's `LN` and, with period 24, `SLN`.
    """

    def fixed(clients: Clients, rng: np.random.Generator) -> Any:
        logs = sigma * rng.standard_normal(clients.N)
        return np.exp(logs - logs.max(initial=-np.inf))

    def wave(known: Any, moment: Moment, T: int) -> Any:
        return (0.4 * np.sin(2 * np.pi * (moment.round % T) / max(T - 1, 1)) + 0.5) * known

    return independent(fixed, None if period is None else partial(wave, T=period))

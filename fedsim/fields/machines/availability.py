"""Availability: which clients can be reached when a round begins.

A factory returns an `Availability`. All kinds but `markov` are independent Bernoulli draws, one per
client and round, whose probability may depend on the client, the round and the virtual clock.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from jaxtyping import Bool, Float

from fedsim.compose import availability
from fedsim.fleet.clients import Clients

Share = Annotated[float, Ge(0), Le(1)]


class Moment(NamedTuple):
    """When a round begins.

    Attributes:
      uniform: round, from 0 -> a uniform number in [0, 1) for every client.
    """

    round: int
    seconds: float
    uniform: Callable[[int], Float[np.ndarray, " N"]]


class Availability(NamedTuple):
    """A way to decide which clients can be reached.

    Attributes:
      begin: (clients, rng) -> what is fixed for a seed.
      reached: (what is fixed, moment) -> which clients can be reached.
      clocked: whether `reached` reads the virtual clock.
      share: what is fixed -> probability of every client; None: it changes from round to round.
    """

    begin: Callable[[Clients, np.random.Generator], Any]
    reached: Callable[[Any, Moment], Bool[np.ndarray, " N"]]
    clocked: bool = False
    share: Callable[[Any], Any] | None = None


def independent(begin: Callable[[Clients, np.random.Generator], Any]) -> Availability:
    """Return Bernoulli draws with the same probabilities in all rounds.

    Args:
      begin: (clients, rng) -> probability of every client `[N]`.
    """

    def reached(probability: Any, moment: Moment) -> Bool[np.ndarray, " N"]:
        return moment.uniform(moment.round) < probability

    return Availability(begin, reached, share=lambda probability: probability)


def varying(
    begin: Callable[[Clients, np.random.Generator], Any],
    probability: Callable[[Any, Moment], Any],
    clocked: bool = False,
) -> Availability:
    """Return Bernoulli draws with probabilities that change from round to round.

    Args:
      begin: (clients, rng) -> what is fixed for a seed.
      probability: (what is fixed, moment) -> probability of every client `[N]`.
      clocked: whether `probability` reads the virtual clock.
    """

    def reached(fixed: Any, moment: Moment) -> Bool[np.ndarray, " N"]:
        return moment.uniform(moment.round) < probability(fixed, moment)

    return Availability(begin, reached, clocked)


@availability
def always() -> Availability:
    """All clients can be reached in every round.

    References:
      FLGo's `IDL`.
    """
    return independent(lambda clients, rng: np.ones(clients.N))


@availability
def bernoulli(rate: Share = 0.9) -> Availability:
    """Every client can be reached with the same probability, drawn independently in every round.

    Args:
      rate: the probability.

    References:
      FLGo's `HOMO` with β = 1 − rate.
    """
    return independent(lambda clients, rng: np.full(clients.N, rate))


@availability
def markov(leave: Share = 0.2, come: Share = 0.1) -> Availability:
    """Clients come and go: each is a stationary two-state Markov chain over the rounds.

    A client can be reached in a share come / (come + leave) of the rounds; the autocorrelation of
    successive rounds is 1 − come − leave.

    Args:
      leave: probability that a client that can be reached cannot be reached in the next round.
      come: probability that a client that cannot be reached can be reached in the next round.
    """
    if come + leave == 0:
        raise ValueError("come and leave are both 0, so that no client ever changes; raise one")
    return Availability(lambda clients, rng: Chain(leave, come), Chain.reached)


class Chain:
    """Two-state chains of all clients, driven by one uniform number per client and round.

    The states of the last round are stored, since rounds are mostly asked for in order.
    """

    def __init__(self, leave: float, come: float):
        self.leave = leave
        self.come = come
        self.round = -1
        self.state = np.zeros(0, bool)

    def reached(self, moment: Moment) -> Bool[np.ndarray, " N"]:
        """Return the states in a round, from those of the stored round or else of round 0."""
        if not 0 <= self.round <= moment.round:
            self.round = 0
            self.state = moment.uniform(0) < self.come / (self.come + self.leave)
        for r in range(self.round + 1, moment.round + 1):
            probability = np.where(self.state, 1 - self.leave, self.come)
            self.state = moment.uniform(r) < probability
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

    p_i(t) = low + (high − low) · (1 + sin(2π (t / period + z_i / zones))) / 2, with a zone z_i that
    is drawn uniformly once.

    Args:
      low: probability at the worst hour.
      high: probability at the best hour.
      period: length of a day, in seconds of the virtual clock.
      zones: number of time zones.
    """
    if high < low:
        raise ValueError(f"high {high:g} is below low {low:g}")

    def probability(zone: Any, moment: Moment) -> Any:
        days = moment.seconds / period + np.arange(zones) / zones  # by zone
        by_zone = low + (high - low) * (1 + np.sin(2 * np.pi * days)) / 2
        return by_zone[zone]

    return varying(
        lambda clients, rng: rng.integers(zones, size=clients.N), probability, clocked=True
    )


@availability
def label_dependent(
    by: Literal["smallest", "fewest", "cycle"] = "smallest",
    strength: Share = 0.5,
    period: Annotated[int, Ge(1)] = 24,
) -> Availability:
    """How often a client can be reached depends on the labels that it holds.

    p_i = 1 − strength + strength · c_i, with c_i as chosen by `by`; for a client without samples,
    p_i = 1 − strength.

    Args:
      by: `smallest`: c_i = smallest label / largest label of all; `fewest`: c_i = share of the
        labels that the client holds; `cycle`: c_i = 1 while (1 + round mod period) / period lies
        between its smallest and its largest label, each divided by the largest label of all, else
        0.
      strength: how much labels matter; 0: all clients can always be reached.
      period: number of rounds in a `cycle`.

    References:
      Gu, Huang, Zhang, Huang 2021, Fast Federated Learning in the Presence of Arbitrary Device
      Unavailability, arXiv:2106.04159 (smallest); FLGo's `YMF`, `YFF` (smallest, fewest) and `YC`
      (cycle).
    """

    def probability(clients: Clients, rng: np.random.Generator) -> Any:
        held = _held_labels(clients)
        if by == "smallest":
            c, _ = _label_range(held)
        else:
            c = held.mean(axis=1)
        return 1 - strength + strength * c

    def cycle_range(clients: Clients, rng: np.random.Generator) -> Any:
        held = _held_labels(clients)
        first, last = _label_range(held)
        never = 2.0  # beyond all positions of the cycle
        return np.stack([np.where(held.any(axis=1), first, never), last])  # [2, N]

    def cycle_probability(label_range: Any, moment: Moment) -> Any:
        first, last = label_range
        position = (1 + moment.round % period) / period
        return 1 - strength + strength * ((first <= position) & (position <= last))

    if by == "cycle":
        return varying(cycle_range, cycle_probability)
    return independent(probability)


def _held_labels(clients: Clients) -> Bool[np.ndarray, "N C"]:
    """Return which client holds which labels."""
    held = clients.labels > 0
    if held.shape[1] == 0:
        raise ValueError(
            "label_dependent needs classes, and these samples have none; take another availability"
        )
    return held


def _label_range(held: Bool[np.ndarray, "N C"]) -> tuple[Any, Any]:
    """Return every client's smallest and largest label, each over the largest label of all `[N]`.

    Both are 0 for a client without samples.
    """
    has_samples = held.any(axis=1)
    largest = held.shape[1] - 1
    first = np.where(has_samples, held.argmax(axis=1), 0) / max(largest, 1)
    steps_from_end = held[:, ::-1].argmax(axis=1)
    last = np.where(has_samples, largest - steps_from_end, 0) / max(largest, 1)
    return first, last


@availability
def size_dependent(exponent: float = 0.5) -> Availability:
    """How often a client can be reached depends on its sample count: p_i = (n_i / n_best)^exponent.

    n_best is the sample count with the largest probability; a client without samples cannot be
    reached.

    Args:
      exponent: if positive, clients with more samples can be reached more often; if negative, those
        with fewer.

    References:
      FLGo's `MDF` (positive exponent) and `LDF` (negative).
    """

    def begin(clients: Clients, rng: np.random.Generator) -> Any:
        n = clients.samples.astype(float)
        has_samples = n > 0
        logs = exponent * np.log(np.where(has_samples, n, 1.0))
        best = logs.max(initial=-np.inf, where=has_samples)
        return np.where(has_samples, np.exp(logs - best), 0.0)

    return independent(begin)


@availability
def lognormal(
    sigma: Annotated[float, Ge(0), Le(10)] = 0.5, period: Annotated[int, Ge(1)] | None = None
) -> Availability:
    """Every client has its own log-normal probability, relative to the largest; it may oscillate.

    p_i = c_i / max c with log c_i ~ N(0, σ²). With a period T, the probability rises and falls over
    the rounds: p_i(r) = (0.4 sin(2π (r mod T) / (T − 1)) + 0.5) p_i.

    Args:
      sigma: standard deviation of the logarithm; FLGo's is −ln(1 − β).
      period: number of rounds T; left out: probabilities do not change.

    References:
      Ribero, Vikalo, de Veciana 2022, Federated Learning Under Intermittent Client Availability and
      Time-Varying Communication Constraints, arXiv:2205.06730; FLGo's `LN` and, with period 24,
      `SLN`.
    """

    def begin(clients: Clients, rng: np.random.Generator) -> Any:
        logs = sigma * rng.standard_normal(clients.N)
        return np.exp(logs - logs.max(initial=-np.inf))

    if period is None:
        return independent(begin)
    T = period

    def probability(fixed: Any, moment: Moment) -> Any:
        wave = 0.4 * np.sin(2 * np.pi * (moment.round % T) / max(T - 1, 1)) + 0.5
        return wave * fixed

    return varying(begin, probability)

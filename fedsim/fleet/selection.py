"""Cohorts: which clients take part in a round. Those of a paper with more to say are in `fedsim.fleet.cohorts`.

A factory returns a `Cohort`, whose `draw(population, round, rng) -> ids` may repeat an id: a client that is drawn twice
counts twice. One that looks at more than ids and sample counts says so in `needs`.
"""

import builtins
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le, MinLen

from fedsim.compose import cohort
from fedsim.sources.files import Name
from fedsim.sources.traces import participations_of

FEEDBACK = {
    "loss": "losses",
    "norm": "update norms",
    "sketch": "updates",
}  # of rounds that are over -> in words
HISTORY = "drawn"
COLUMNS = frozenset({*FEEDBACK, HISTORY, "seconds", "labels"})  # that a cohort may have
SKETCH = 64  # numbers that stand for an update


class Population(NamedTuple):
    """Clients that can be drawn: those with samples. A column is None unless the cohort needs it.

    Attributes:
      ids: in order.
      samples: n_k of each.
      loss: of each in its last round, the mean over what it trained on; NaN: it never took part, ∞: not finite.
      norm: ‖Δ_k‖ of its last update, as it left the training; NaN and ∞ alike.
      sketch: of that update, `[n, SKETCH]`: x·y is about that of the updates; NaN and ∞ alike.
      drawn: rounds that have drawn it, whether its message counted or not.
      last: the last of them; 0: none.
      seconds: that a round takes it.
      labels: its samples by class `[n, C]`.
    """

    ids: np.ndarray
    samples: np.ndarray
    loss: np.ndarray | None = None
    norm: np.ndarray | None = None
    sketch: np.ndarray | None = None
    drawn: np.ndarray | None = None
    last: np.ndarray | None = None
    seconds: np.ndarray | None = None
    labels: np.ndarray | None = None

    def part(self, kept: np.ndarray) -> "Population":
        """Some of them, by a mask or by their places."""
        at = (
            np.flatnonzero(kept) if kept.dtype == bool else kept
        )  # a mask of a million clients takes four times as long
        return Population(*(None if column is None else column[at] for column in self))  # type: ignore[arg-type]


class Drawn(NamedTuple):
    """Clients of a round, none of them twice, whose updates count with factors of their own."""

    ids: np.ndarray
    factor: np.ndarray  # by which the weight of each is multiplied, above 0


class Cohort(NamedTuple):
    """A way to choose a round's clients.

    Attributes:
      draw: `(population, round, rng) -> ids`, or `Drawn` where clients have factors.
      nominal: clients in all -> (expected) size.
      names: the clients it names itself.
      repeats: whether a client can be drawn twice: only a rule that is a sum can weigh it.
      needs: of `loss`, `norm`, `sketch` (what clients reported in rounds before; draws at most `nominal` then), `drawn` (who
        was drawn before), `seconds` and `labels`: columns of the population that must be known.
      share: how often a round draws each client, on average, times its factor; None: unknown.
      ordered: whether rounds name clients whether or not they can be reached; those that cannot are left out.
      thinned: `share` where each client can be reached by itself with a probability of its own; None: unknown.
      factors: whether `draw` gives factors, which a rule that is a sum can weigh.
    """

    draw: Callable[[Population, int, np.random.Generator], np.ndarray | Drawn]
    nominal: Callable[[int], int]
    names: tuple[int, ...] = ()
    repeats: bool = False
    needs: frozenset[str] = frozenset()
    share: Callable[[Population], Any] | None = None
    ordered: bool = False
    thinned: Callable[[Population, np.ndarray], Any] | None = None
    factors: bool = False

    @property
    def feedback(self) -> list[str]:
        """What it looks at of what clients reported, which depends on the method."""
        return [name for name in FEEDBACK if name in self.needs]


def equal(size: int) -> Callable[[Population], float]:
    """How often a client is drawn where all are drawn alike."""
    return lambda population: size / len(population.ids)


def _equal_of_reached(size: int) -> Callable[[Population, np.ndarray], Any]:
    """`equal` of those that can be reached, where the probability is the same for all: E min(size, reached) / N."""

    def share(population: Population, reached: np.ndarray) -> Any:
        from scipy.special import bdtrc  # a tenth of a second

        N, rate = len(population.ids), reached[0]
        return (
            None if np.any(reached != rate) else bdtrc(np.arange(min(size, N)), N, rate).sum() / N
        )

    return share


@cohort
def all() -> Cohort:
    """Everybody, every round."""
    draw = lambda population, round, rng: population.ids
    return Cohort(
        draw, lambda N: N, share=lambda population: 1.0, thinned=lambda population, reached: reached
    )


@cohort
def uniform(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """`size` clients, each set equally likely, without replacement.

    With sample-count weights over the cohort the mean is a (slightly) biased estimate of the mean over all clients.

    Args:
      size: clients per round.
    """
    draw = lambda population, round, rng: rng.choice(
        population.ids, min(size, len(population.ids)), replace=False
    )
    return Cohort(draw, lambda N: size, share=equal(size), thinned=_equal_of_reached(size))


@cohort
def poisson(rate: Annotated[float, Gt(0), Le(1)] = 0.1) -> Cohort:
    """Every client by itself with probability `rate`: the sampling that privacy accountants like best.

    The size varies from round to round; an empty round leaves the model as it is.

    Args:
      rate: probability of taking part.
    """
    draw = lambda population, round, rng: population.ids[rng.random(len(population.ids)) < rate]
    nominal, thinned = lambda N: max(round(rate * N), 1), lambda population, reached: rate * reached
    return Cohort(draw, nominal, share=lambda population: rate, thinned=thinned)


@cohort
def weighted(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """`size` draws with replacement, client k with probability n_k / Σ n: with uniform weights an unbiased estimate.

    Args:
      size: draws per round.
    References:
      Li et al. 2020, On the Convergence of FedAvg on Non-IID Data, arXiv:1907.02189, scheme I.
    """

    def draw(population, round, rng):
        return rng.choice(population.ids, size, p=population.samples / population.samples.sum())

    return Cohort(
        draw, lambda N: size, repeats=True, share=lambda p: size * p.samples / p.samples.sum()
    )


@cohort
def cyclic(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """The next `size` clients in the order of ids, again from the first after the last.

    Args:
      size: clients per round.
    References:
      Cho et al. 2023, On the Convergence of Federated Averaging with Cyclic Client Participation, arXiv:2302.03109.
    """

    def draw(population, round, rng):
        return population.ids[((round - 1) * size + np.arange(size)) % len(population.ids)]

    return Cohort(draw, lambda N: size, share=equal(size), ordered=True)


Rounds = Annotated[list[Annotated[list[Annotated[int, Ge(0)]], MinLen(1)]], MinLen(1)]


@cohort
def listed(
    rounds: Rounds | None = None, path: Name | None = None, sha256: str | None = None
) -> Cohort:
    """The clients that are listed, in the scenario or in a file: round r takes the ((r − 1) mod R)-th of R rounds.

    The file is a CSV with the columns `round` and `client` in its header and a row for each time that a client takes part:
    rounds are numbered 1, 2, ..., R, and the clients of a round keep the order of their rows. A client that stands twice in
    a round counts twice. The same lists give the same run, wherever they are written.

    Args:
      rounds: numbers of the clients of each round, cycled; where samples bring ids, k is the one with the k-th smallest.
      path: of the file in place of `rounds`, plain or gzipped, from the scenario's folder, the working directory or a
        `--data-root`; elsewhere none is read.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is no such table, naming file and lines.
    """
    if (rounds is None) == (path is None):
        given = "found both" if path is not None else "found neither"
        raise ValueError(
            f"the clients stand in rounds or in the file at path, {given}; write one of them"
        )
    drawn = rounds_of(path, sha256) if rounds is None else [np.asarray(ids) for ids in rounds]
    draw = lambda population, round, rng: drawn[(round - 1) % len(drawn)]
    clients, counts = np.unique(np.concatenate(drawn).astype(int), return_counts=True)
    repeats = builtins.any(len(np.unique(ids)) < len(ids) for ids in drawn)

    def share(population: Population) -> np.ndarray:
        often = np.zeros(population.ids.max() + 1)
        there = clients < len(often)
        often[clients[there]] = counts[there] / len(drawn)
        return often[population.ids]

    most = lambda N: max(map(len, drawn))
    return Cohort(draw, most, tuple(clients.tolist()), repeats=repeats, share=share, ordered=True)


def rounds_of(path: Any, sha256: str | None) -> list[np.ndarray]:
    """The clients of each round, from a file as `listed` reads it.

    Raises:
      DataError: for a file that is no such table.
    """
    rows = participations_of(path, sha256)
    order = np.argsort(rows.round, kind="stable")
    ends = np.cumsum(np.bincount(rows.round)[1:])
    return np.split(rows.client[order], ends[:-1])


@cohort
def power_of_choice(
    size: Annotated[int, Ge(1)] = 10, candidates: Annotated[int, Ge(1)] = 30
) -> Cohort:
    """The `size` of `candidates` clients whose losses were largest when they last took part.

    Candidates are drawn with probability n_k / Σ n, without replacement. Of them, clients that never took part come first,
    then those with the largest mean loss over the batches of their last round, ties to the lowest id; clients whose last
    loss was not finite come last. This is the variant π_rpow-d, which costs no further pass: π_pow-d asks all candidates
    for their loss at the model of the round.

    Cohorts depend on losses, and so on the method: methods that are compared share the candidates, not the cohorts.

    Args:
      size: clients per round.
      candidates: d, at least `size`; as many as `size` choose by n_k alone.
    References:
      Cho et al. 2020, Client Selection in Federated Learning: Convergence Analysis and Power-of-Choice Selection Strategies,
      arXiv:2010.01243, section 3.
    """
    if candidates < size:
        raise ValueError(f"{candidates} candidates for a cohort of {size}; write at least {size}")

    def draw(population, round, rng):
        p = population.samples / population.samples.sum()
        drawn = np.sort(rng.choice(len(p), min(candidates, len(p)), replace=False, p=p))
        last = population.loss[drawn]
        rank = np.where(np.isnan(last), np.inf, np.where(np.isinf(last), -np.inf, last))
        return population.ids[drawn[np.argsort(-rank, kind="stable")[:size]]]

    return Cohort(draw, lambda N: size, needs=frozenset({"loss"}))

"""Cohorts: which clients take part in a round. More are in `fedsim.fleet.cohorts`.

A factory returns a `Cohort`, whose `draw(population, round, rng) -> ids` may repeat an id: a client
that is drawn twice counts twice. A cohort that looks at more than ids and sample counts says so in
`needs`.
"""

import builtins
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le, MinLen

from fedsim.compose import cohort
from fedsim.fleet.sampling import Sampling
from fedsim.sources.files import Name
from fedsim.sources.traces import participations_of

# What clients report in a round, as a column of the population -> in words.
FEEDBACK = {"loss": "losses", "norm": "update norms", "sketch": "updates"}
HISTORY = "drawn"  # the column that says how often clients were drawn
COLUMNS = frozenset({*FEEDBACK, HISTORY, "seconds", "labels"})  # that a cohort may need
SKETCH_SIZE = 64  # numbers in the sketch of an update


class Population(NamedTuple):
    """The clients that can be drawn: those with samples; arrays `[n]`.

    All columns but `ids` and `samples` are None unless the cohort needs them.

    Attributes:
      ids: client ids, rising.
      samples: training samples n_k.
      loss: mean loss over what the client trained on in its last round; NaN: it never took part,
        ∞: the loss was not finite.
      norm: ‖Δ_k‖ of the client's last update, before it was encoded; NaN and ∞ as for `loss`.
      sketch: a sketch of that update, `[n, SKETCH_SIZE]`, whose inner products approximate those of
        the updates; NaN and ∞ as for `loss`.
      drawn: how many rounds have drawn the client, whether or not its message counted.
      last: the last of these rounds; 0: none.
      seconds: how long a round takes the client.
      labels: its training samples by class `[n, C]`.
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

    def subset(self, selected: np.ndarray) -> "Population":
        """Return the selected clients, given as a mask or as positions."""
        # Indexing every column by a mask takes four times as long, for a million clients.
        if selected.dtype == bool:
            selected = np.flatnonzero(selected)
        columns = [None if column is None else column[selected] for column in self]
        return Population(*columns)  # type: ignore[arg-type]


class Drawn(NamedTuple):
    """Clients of a round, none of them twice, whose weights are multiplied by factors.

    Attributes:
      ids: client ids.
      factor: what each client's weight is multiplied by, above 0.
    """

    ids: np.ndarray
    factor: np.ndarray


class Cohort(NamedTuple):
    """A way to choose a round's clients.

    Attributes:
      draw: `(population, round, rng) -> ids`, or `Drawn` if clients have factors.
      nominal: number of clients -> (expected) size of a cohort.
      names: ids of the clients that the cohort lists by itself.
      repeats: whether a client can be drawn twice, which only a rule that is a sum can weigh.
      needs: columns of the population that must be known: `loss`, `norm`, `sketch` (what clients
        reported in earlier rounds; such a cohort draws at most `nominal` clients), `drawn` (how
        often and when clients were drawn), `seconds` and `labels`.
      share: population -> how often a round draws each client on average, times its factor; None:
        unknown.
      ordered: whether rounds are drawn without regard to who can be reached; clients that cannot be
        are then left out.
      thinned: (population, probability that each client can be reached) -> `share` if clients are
        reached independently; None: unknown.
      factors: whether `draw` returns factors, which only a rule that is a sum can weigh.
      sampling: what an accountant of privacy must know of the draws; None: no accountant knows
        such a cohort.
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
    sampling: Sampling | None = None

    @property
    def feedback(self) -> list[str]:
        """The needed columns that clients report, which depend on the method."""
        return [name for name in FEEDBACK if name in self.needs]


def equal(size: int) -> Callable[[Population], float]:
    """Return the `share` of cohorts that draw `size` clients, each equally often."""
    return lambda population: size / len(population.ids)


def _equal_when_reached(size: int) -> Callable[[Population, np.ndarray], Any]:
    """Return the `thinned` share of such a cohort: E min(size, reached clients) / N.

    It is known where all clients are reached with the same probability.
    """

    def share(population: Population, reached: np.ndarray) -> Any:
        from scipy.special import bdtrc  # takes a tenth of a second to import

        N = len(population.ids)
        rate = reached[0]
        if np.any(reached != rate):
            return None
        return bdtrc(np.arange(min(size, N)), N, rate).sum() / N

    return share


@cohort
def all() -> Cohort:
    """Everybody, every round."""
    return Cohort(
        draw=lambda population, round, rng: population.ids,
        nominal=lambda N: N,
        share=lambda population: 1.0,
        thinned=lambda population, reached: reached,
        sampling=Sampling("all"),
    )


@cohort
def uniform(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """`size` clients without replacement, each set equally likely.

    Weighted by sample counts over the cohort, their mean is a (slightly) biased estimate of the
    mean over all clients.

    Args:
      size: clients per round.
    """

    def draw(population, round, rng):
        return rng.choice(population.ids, min(size, len(population.ids)), replace=False)

    return Cohort(
        draw,
        nominal=lambda N: size,
        share=equal(size),
        thinned=_equal_when_reached(size),
        sampling=Sampling("uniform", size=size),
    )


@cohort
def poisson(rate: Annotated[float, Gt(0), Le(1)] = 0.1) -> Cohort:
    """Every client independently with probability `rate`, as privacy accountants assume.

    The size varies from round to round; an empty round leaves the model unchanged.

    Args:
      rate: probability of taking part.
    """

    def draw(population, round, rng):
        return population.ids[rng.random(len(population.ids)) < rate]

    return Cohort(
        draw,
        nominal=lambda N: max(round(rate * N), 1),
        share=lambda population: rate,
        thinned=lambda population, reached: rate * reached,
        sampling=Sampling("poisson", rate=rate),
    )


@cohort
def weighted(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """`size` draws with replacement, client k with probability n_k / Σ n.

    With uniform weights, the mean over the draws is an unbiased estimate of the mean over all
    samples.

    Args:
      size: draws per round.
    References:
      Li et al. 2020, On the Convergence of FedAvg on Non-IID Data, arXiv:1907.02189, scheme I.
    """

    def draw(population, round, rng):
        return rng.choice(population.ids, size, p=population.samples / population.samples.sum())

    def share(population):
        return size * population.samples / population.samples.sum()

    return Cohort(draw, lambda N: size, repeats=True, share=share)


@cohort
def cyclic(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """The next `size` clients in the order of ids, starting over after the last.

    Args:
      size: clients per round.
    References:
      Cho et al. 2023, On the Convergence of Federated Averaging with Cyclic Client Participation,
      arXiv:2302.03109.
    """

    def draw(population, round, rng):
        turn = (round - 1) * size + np.arange(size)
        return population.ids[turn % len(population.ids)]

    return Cohort(
        draw,
        nominal=lambda N: size,
        share=equal(size),
        ordered=True,
        sampling=Sampling("cyclic", size=size),
    )


Rounds = Annotated[list[Annotated[list[Annotated[int, Ge(0)]], MinLen(1)]], MinLen(1)]


@cohort
def listed(
    rounds: Rounds | None = None, path: Name | None = None, sha256: str | None = None
) -> Cohort:
    """The clients listed for each round, in the scenario or in a file.

    With R listed rounds, round r takes the ((r − 1) mod R)-th of them.

    The file is a CSV with the columns `round` and `client` in its header and a row for each time
    that a client takes part. Rounds are numbered 1, 2, ..., R, and the clients of a round keep the
    order of their rows. A client that is listed twice in a round counts twice. The same lists give
    the same run, whether they are in the scenario or in a file.

    Args:
      rounds: client numbers of each round, cycled; where samples have client ids, number k is the
        k-th smallest id.
      path: a file to use instead of `rounds`, plain or gzipped, in the scenario's folder, the
        working directory or a `--data-root`; files elsewhere are not read.
      sha256: hash of the file; any other file is refused (filled in by the resolved scenario).

    Raises:
      DataError: if the file is not such a table; names the file and the lines.
    """
    if (rounds is None) == (path is None):
        given = "neither" if path is None else "both"
        raise ValueError(
            f"clients are listed in rounds or in the file at path, found {given}; write one of them"
        )
    lists: Any = rounds_of(path, sha256) if rounds is None else rounds
    listed_ids = [np.asarray(ids) for ids in lists]
    R = len(listed_ids)
    clients, counts = np.unique(np.concatenate(listed_ids).astype(int), return_counts=True)

    def draw(population, round, rng):
        return listed_ids[(round - 1) % R]

    def share(population: Population) -> np.ndarray:
        by_id = np.zeros(population.ids.max() + 1)
        exists = clients < len(by_id)
        by_id[clients[exists]] = counts[exists] / R
        return by_id[population.ids]

    return Cohort(
        draw,
        nominal=lambda N: max(map(len, listed_ids)),
        names=tuple(clients.tolist()),
        repeats=builtins.any(len(np.unique(ids)) < len(ids) for ids in listed_ids),
        share=share,
        ordered=True,
    )


def rounds_of(path: Any, sha256: str | None) -> list[np.ndarray]:
    """Return the clients of each round, from a file as `listed` reads it.

    Raises:
      DataError: if the file is not such a table.
    """
    rows = participations_of(path, sha256)
    by_round = np.argsort(rows.round, kind="stable")
    ends = np.cumsum(np.bincount(rows.round)[1:])
    return np.split(rows.client[by_round], ends[:-1])


@cohort
def power_of_choice(
    size: Annotated[int, Ge(1)] = 10, candidates: Annotated[int, Ge(1)] = 30
) -> Cohort:
    """The `size` of `candidates` clients whose losses were largest when they last took part.

    Candidates are drawn without replacement, with probabilities n_k / Σ n. Those that never took
    part come first, then those with the largest mean loss over the batches of their last round
    (ties: the lower id). Clients whose last loss was not finite come last. This is the variant
    π_rpow-d, which needs no extra pass; π_pow-d asks all candidates for their loss at the current
    model.

    Cohorts depend on losses, and so on the method: methods that are compared share the candidates,
    not the cohorts.

    Args:
      size: clients per round.
      candidates: d, at least `size`; if equal to `size`, losses do not matter.
    References:
      Cho et al. 2020, Client Selection in Federated Learning: Convergence Analysis and
      Power-of-Choice Selection Strategies, arXiv:2010.01243, section 3.
    """
    if candidates < size:
        raise ValueError(f"{candidates} candidates for a cohort of {size}; write at least {size}")

    def draw(population, round, rng):
        p = population.samples / population.samples.sum()
        drawn = np.sort(rng.choice(len(p), min(candidates, len(p)), replace=False, p=p))
        loss = population.loss[drawn]
        never_took_part = np.isnan(loss)
        not_finite = np.isinf(loss)
        rank = np.select([never_took_part, not_finite], [np.inf, -np.inf], loss)
        best = np.argsort(-rank, kind="stable")[:size]
        return population.ids[drawn[best]]

    return Cohort(draw, lambda N: size, needs=frozenset({"loss"}))

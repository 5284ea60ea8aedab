"""Laws of cohorts: who is drawn, how often, and with what weight."""

from collections.abc import Iterator

import numpy as np

from fedsim.fleet import Cohort
from fedsim.fleet.selection import SKETCH_SIZE, Drawn, Population
from fedsim.tools.conform.codecs import ALARM, z_limit
from fedsim.tools.conform.findings import Inapplicable, as_law
from fedsim.tools.conform.subjects import Subject

ROUNDS = 3000
FEW = 60
IDS = np.array([0, 2, 3, 4, 7, 8, 9, 11, 12, 14, 15, 17])  # others have no samples


def population_of(cohort: Cohort, seed: int) -> Population:
    """Clients of uneven size, with the columns that a cohort needs."""
    rng = np.random.default_rng([seed, 52])
    n = len(IDS)
    columns = {
        "loss": rng.random(n) + 0.5,
        "norm": rng.random(n) + 0.5,
        "sketch": rng.normal(size=(n, SKETCH_SIZE)),
        "drawn": np.zeros(n, int),
        "last": np.zeros(n, int),
        "seconds": rng.random(n) + 0.5,
        "labels": rng.integers(0, 9, (n, 3)) + 1,
    }
    needed = {name: columns[name] for name in cohort.needs}
    if "drawn" in needed:
        needed["last"] = columns["last"]
    return Population(IDS, rng.integers(1, 30, n), **needed)


def draws(cohort: Cohort, seed: int, rounds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(ids, factors) of rounds one after another, each by a generator of its own."""
    population = population_of(cohort, seed)
    for number in range(1, rounds + 1):
        drawn = cohort.draw(population, number, np.random.default_rng([seed, number]))
        is_weighted = isinstance(drawn, Drawn)
        ids = np.asarray(drawn.ids if is_weighted else drawn)
        yield ids, np.asarray(drawn.factor) if is_weighted else np.ones(len(ids))
        if population.drawn is not None and population.last is not None:
            present = np.isin(IDS, ids)
            last = np.where(present, number, population.last)
            population = population._replace(drawn=population.drawn + present, last=last)


def eligible(subject: Subject) -> str:
    """Only clients that can take part are drawn, and none twice unless the cohort says so."""
    cohort = _free(subject)
    for number, (ids, factor) in enumerate(draws(cohort, subject.seed, FEW), 1):
        strangers = [id for id in ids.tolist() if id not in IDS]
        if strangers:
            return f"round {number} draws client {strangers[0]} of {IDS.tolist()}"
        if len(np.unique(ids)) < len(ids) and not cohort.repeats:
            return f"round {number} draws {sorted(ids.tolist())}, and `repeats` is not set"
        if len(factor) != len(ids) or not (factor > 0).all():
            return f"round {number} has the factors {factor.tolist()}"
    return ""


def size(subject: Subject) -> str:
    """A round has no more clients on average than are told in advance."""
    cohort = _free(subject)
    sizes = np.array([len(ids) for ids, _ in draws(cohort, subject.seed, ROUNDS)])
    nominal = cohort.nominal(len(IDS))
    if cohort.feedback and sizes.max() > nominal:
        return f"draws {sizes.max()} clients where at most {nominal} are declared"
    error = sizes.std(ddof=1) / np.sqrt(len(sizes))
    rounded = 0.51  # `nominal` is an integer
    if sizes.mean() > nominal + rounded + z_limit(ALARM, 1) * error:
        mean = f"{sizes.mean():.3g} ± {error:.2g} clients on average"
        return f"draws {mean} where {nominal} are declared"
    return ""


def same_seed(subject: Subject) -> str:
    """The same seed draws the same clients."""
    cohort = _free(subject)
    pairs = zip(draws(cohort, subject.seed, 9), draws(cohort, subject.seed, 9), strict=True)
    for number, (one, other) in enumerate(pairs, 1):
        if not np.array_equal(one[0], other[0]) or not np.array_equal(one[1], other[1]):
            return f"round {number} draws {one[0].tolist()}, then {other[0].tolist()}"
    return ""


def inclusion_weights(subject: Subject) -> str:
    """Clients are drawn as often as `share` says: Σ 1/share over a cohort is N on average."""
    cohort = _free(subject)
    population = population_of(cohort, subject.seed)
    share = None if cohort.share is None else cohort.share(population)
    if share is None:
        raise Inapplicable("how often clients are drawn is not told")
    declared = np.broadcast_to(np.asarray(share, float), IDS.shape)
    counts = np.zeros((ROUNDS, len(IDS)))
    for row, (ids, factor) in zip(counts, draws(cohort, subject.seed, ROUNDS), strict=True):
        np.add.at(row, np.searchsorted(IDS, ids), factor)

    error = counts.std(axis=0, ddof=1) / np.sqrt(ROUNDS)
    allowed = z_limit(ALARM, len(IDS)) * error + len(IDS) / ROUNDS
    off = np.abs(counts.mean(axis=0) - declared) - allowed
    if (off > 0).any():
        j = int(np.argmax(off))
        text = f"client {IDS[j]} is drawn {counts[:, j].mean():.4g} ± {error[j]:.2g} times a round"
        return f"{text} where {declared[j]:.4g} are declared"
    return ""


def _free(subject: Subject) -> Cohort:
    """The subject's cohort, unless it names its clients by itself."""
    cohort: Cohort = subject.made
    if cohort.names:
        raise Inapplicable("names its clients")
    return cohort


LAWS = (
    as_law(eligible, always=True),
    as_law(size, always=True),
    as_law(same_seed, always=True),
    as_law(inclusion_weights, always=True),
)

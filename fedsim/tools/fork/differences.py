"""A fork next to its original: paired differences by round, and whether they end apart.

Until the round of the fork both are the same run under every seed, so that differences after it
come from what the fork changed. Intervals are pointwise; what a sentence asserts is tested once for
every fork, at the end, after Holm.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.statistics import differences, holm, interval, paired, scored, smallest_p
from fedsim.study.summary import Record, has_score, in_words, larger_is_better, worst
from fedsim.study.words import count, difference_in_words


class PairedRound(NamedTuple):
    """The differences of a fork to its original after one round.

    Attributes:
      round: the round.
      difference: their mean over the seeds.
      low: lower end of Student's 95 % interval of it, for this round alone; None below two seeds.
      high: upper end.
    """

    round: int
    difference: float
    low: float | None
    high: float | None


class Forked(NamedTuple):
    """A fork and what it is compared with.

    Attributes:
      name: of the fork.
      other: of its original, or of another fork after the same round.
      round: the last round that they have in common.
      seeds: the seeds that both have.
      rounds: the differences by round.
    """

    name: str
    other: str
    round: int
    seeds: list[int]
    rounds: list[PairedRound]


def paired_rounds(
    fork: Sequence[Record], original: Sequence[Record], metric: str
) -> tuple[list[int], list[PairedRound]]:
    """Compare a column of two `rounds.csv` -> the seeds that both have, differences by round.

    Rounds at which a seed has no finite value, as one that diverged before, are left out.

    Args:
      fork: rows of one of them.
      original: rows of the other one.
      metric: the column.
    """
    after = _by_seed(fork, metric)
    before = _by_seed(original, metric)
    seeds = sorted(after.keys() & before.keys())
    if not seeds:
        return [], []
    common = set.intersection(*(after[seed].keys() & before[seed].keys() for seed in seeds))
    rounds = []
    for round in sorted(common):
        values = np.array([after[seed][round] for seed in seeds])
        others = np.array([before[seed][round] for seed in seeds])
        d = differences(values, others)
        ends = interval(d) or (None, None)
        rounds.append(PairedRound(round, float(d.mean()), *ends))
    return seeds, rounds


def _by_seed(rows: Sequence[Record], metric: str) -> dict[int, dict[int, float]]:
    """The finite values of a column by seed and round."""
    values: dict[int, dict[int, float]] = {}
    for row in rows:
        value = row.get(metric)
        if value is not None and np.isfinite(value):
            values.setdefault(row["seed"], {})[row["round"]] = float(value)
    return values


def fork_lines(
    forks: Sequence[Forked], summaries: Mapping[str, Sequence[Record]], score: str
) -> list[str]:
    """A sentence for every fork: how it ends next to what it is compared with.

    Holm's adjustment runs over the forks, so that on noise a page is wrong in at most 5 %.

    Args:
      forks: the forks.
      summaries: rows of `summary.csv` by name.
      score: one of `SCORES`.
    """
    pairs = [_scores(summaries[fork.name], summaries[fork.other], score) for fork in forks]
    tests = []
    for metric, one, other in pairs:
        tests.append(paired(one, other, larger_is_better(metric)) if len(one) else None)
    adjusted = holm([None if test is None else test.p_value for test in tests])

    lines = []
    for fork, (metric, one, other), test, p in zip(forks, pairs, tests, adjusted, strict=True):
        if test is None:
            lines.append(f"{fork.name} and {fork.other} have no seed with a score in common.")
            continue
        ends = ""
        if test.difference is not None:
            ends = difference_in_words(test.difference, test.ci_low, test.ci_high)
        numbers = f"{in_words(metric)} {ends}".strip()
        verdict = _verdict(differences(one, other), p, len(forks), larger_is_better(metric))
        seeds = count(test.seeds, "seed")
        lines.append(verdict.format(name=fork.name, other=fork.other, numbers=numbers, seeds=seeds))
    return lines


def _verdict(d: np.ndarray, p: float | None, tests: int, rising: bool) -> str:
    """What may be said of the differences of a fork to another run, as a form to fill in.

    Args:
      d: the differences under every seed `[n]`.
      p: the p-value of their test, after Holm.
      tests: how many tests there are.
      rising: whether a larger score is better.
    """
    n = len(d)
    if not d.any():
        return "{name} ends as {other} does, under each of {seeds}."
    if n < 2 or tests * smallest_p(n) >= SIGNIFICANCE_LEVEL:
        few = "which are too few for a difference to be significant"
        return "{name} against {other} at the end: {numbers} over {seeds}, " + f"{few}."
    assert p is not None  # there are two seeds
    text = f"p = {p:.2g} after Holm" if tests > 1 else f"p = {p:.2g}"
    if p >= SIGNIFICANCE_LEVEL:
        return (
            "{name} is not told apart from {other} at the end: {numbers} over {seeds}, "
            + f"{text}."
        )
    # Where a difference is infinite, the signs alone were tested.
    above = float(np.sign(d).sum() if not np.isfinite(d).all() else d.mean()) > 0
    order = "better" if above == rising else "worse"
    return "{name} ends " + order + " than {other}: {numbers} over {seeds}, " + f"{text}."


def _scores(
    one: Sequence[Record], other: Sequence[Record], score: str
) -> tuple[str, np.ndarray, np.ndarray]:
    """The metric, and the scores of two runs under the seeds that both have, `[n]` each."""
    by_seed = [{row["seed"]: row for row in rows if has_score(row, score)} for rows in (one, other)]
    seeds = sorted(by_seed[0].keys() & by_seed[1].keys())
    metric = str(one[0]["metric"]) if one else ""
    scores = []
    for rows in by_seed:
        values = [rows[seed][score] for seed in seeds]
        diverged = [bool(rows[seed]["diverged"]) for seed in seeds]
        scores.append(scored(values, diverged, worst(metric)))
    return metric, scores[0], scores[1]

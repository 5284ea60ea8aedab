"""A fork next to its original: paired differences by round, and whether they end apart.

Until the round of the fork both are the same run under every seed, so that differences after it
come from what the fork changed. Intervals are pointwise; what a sentence asserts is tested once for
every fork, at the end, after Holm.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.study.pairing import SIGNIFICANCE_LEVEL, against, without_baseline
from fedsim.study.standings import too_few
from fedsim.study.statistics import differences, interval
from fedsim.study.summary import Record, in_words, larger_is_better
from fedsim.study.words import count, difference_in_words

FEW = "which are too few for a difference to be significant"


class PairedRound(NamedTuple):
    """The differences of a fork to its original after one round."""

    round: int
    difference: float  # mean over the seeds
    low: float | None  # of Student's 95 % interval for this round alone; None below two seeds
    high: float | None


class Forked(NamedTuple):
    """A fork."""

    name: str
    round: int  # the last in common with what it is compared with
    rounds: list[PairedRound]


def paired_rounds(fork: pd.DataFrame, original: pd.DataFrame, metric: str) -> list[PairedRound]:
    """Compare a column of two `rounds.csv` under the seeds that both have, round by round.

    Rounds at which a seed has no finite value, as one that diverged before, are left out.
    """
    if metric not in fork or metric not in original:
        return []
    after = fork.pivot(index="round", columns="seed", values=metric)
    before = original.pivot(index="round", columns="seed", values=metric)
    after, before = after.align(before, join="inner")
    rounds = []
    pairs = zip(after.index, after.to_numpy(), before.to_numpy(), strict=True)
    for round, values, others in pairs:
        if len(values) and np.isfinite([values, others]).all():
            d = differences(values, others)
            ends = interval(d) or (None, None)
            rounds.append(PairedRound(int(round), float(d.mean()), *ends))
    return rounds


def fork_lines(summary: Sequence[Record], other: str, score: str) -> list[str]:
    """A sentence for every fork: how it ends next to what it is compared with.

    Holm's adjustment runs over the forks, so that on noise a page is wrong in at most 5 %.

    Args:
      summary: rows of `summary.csv`, with the names of the runs as methods.
    """
    rows = without_baseline(against(summary, other, score))
    return [_line(row, len(rows)) for row in rows]


def _line(row: Record, tests: int) -> str:
    """The sentence of a row of `compare.csv`, of which Holm's adjustment runs over so many."""
    name, other, seeds = row["method"], row["baseline"], row["seeds"]
    if not seeds:
        return f"{name} and {other} have no seed with a score in common."
    ends = ""
    if row["difference"] is not None:
        ends = f" {difference_in_words(row['difference'], row['ci_low'], row['ci_high'])}"
    numbers = f"{in_words(row['metric'])}{ends} over {count(seeds, 'seed')}"
    if too_few(seeds, tests):
        return f"{name} against {other} at the end: {numbers}, {FEW}."

    numbers += f", p = {row['p_adjusted']:.2g}" + (" after Holm" if tests > 1 else "")
    if row["p_adjusted"] >= SIGNIFICANCE_LEVEL:
        return f"{name} is not told apart from {other} at the end: {numbers}."
    return f"{name} ends {'better' if _is_better(row) else 'worse'} than {other}: {numbers}."


def _is_better(row: Record) -> bool:
    """Whether the mean is better; where a score is infinite, whether most seeds are."""
    if row["difference"] is None:
        return row["probability_of_improvement"] > 0.5
    return (row["difference"] > 0) == larger_is_better(row["metric"])

"""Methods against a baseline: the rows of `compare.csv`, `across.csv` and `profiles.csv`."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from fedsim.study.statistics import (
    holm,
    iqm,
    p_different,
    paired,
    profile,
    ranks,
    sample_sd,
    scored,
    stratified,
)
from fedsim.study.summary import (
    NOT_RUN,
    OF_ROUNDS,
    Record,
    common_score,
    distinct,
    grouped,
    has_score,
    larger_is_better,
    metric_of,
    variation_of,
    with_score,
    worst,
)

SIGNIFICANCE_LEVEL = 0.05  # the level of tests, after Holm's adjustment
THRESHOLDS = 51  # of a performance profile

# columns of `compare.csv` that come from the comparison with the baseline
TESTS = (
    "difference",
    "ci_low",
    "ci_high",
    "p_value",
    "p_wilcoxon",
    "effect_size",
    "probability_of_improvement",
)


def against(
    summary: Sequence[Record], baseline: str, score: str, varied: Sequence[str] = ()
) -> list[Record]:
    """Return the rows of `compare.csv`: every method against the baseline under the same seeds.

    Rows of the baseline itself have a mean, a standard deviation and counts, but no comparison.
    Holm's adjustment runs over all other rows; rows with the same scores, as along an axis that
    neither method reads, are one test.

    Args:
      varied: columns that distinguish variations, in addition to `variant`.
    """
    groups = grouped(summary, key=lambda row: (variation_of(row), row["method"]))
    table = []
    p_values = []
    tests = []
    for (variation, _), rows in groups.items():
        base = groups.get((variation, baseline), [])
        keys = {name: rows[0][name] for name in ("method", "variant", *varied) if name in rows[0]}
        row = {**keys, **_row(rows, base, baseline, score)}
        table.append(row)
        p_values.append(row["p_value"])
        tests.append(test_of(rows, base, score))

    for row, p_adjusted in zip(table, holm(p_values, tests), strict=True):
        row["p_adjusted"] = p_adjusted
    return table


def same_runs(runs: Sequence[Record], score: str) -> Hashable:
    """Return a value that is equal for runs with exactly the same scores under the same seeds.

    Runs have the same scores where none of them reads what differs between them.
    """
    scores = []
    for run in runs:
        if has_score(run, score):
            values = [run.get(column) for column in (score, *OF_ROUNDS)]
            scores.append((run["seed"], *values, bool(run.get("diverged"))))
    return frozenset(scores)


def test_of(runs: Sequence[Record], base: Sequence[Record], score: str) -> Hashable:
    """Return what is equal for two methods with the same scores, and baselines with the same."""
    score = common_score(score, runs, base)
    return same_runs(runs, score), same_runs(base, score)


def p_values_against(rows: Sequence[Record], reference: str, score: str) -> dict[str, float | None]:
    """Return the p-value of every other method against a reference, under one variation.

    It is None if the two share no seed. Holm's adjustment runs over all pairs of methods, since the
    reference, such as the best method, is chosen by the scores that it is tested on.
    """
    groups = grouped(with_score(rows, score), key=lambda row: row["method"])
    pairs = list(combinations(groups, 2))
    p_values = []
    tests = []
    for one, other in pairs:
        of_pair = [seed_scores(groups[method], score) for method in (one, other)]
        p_values.append(p_different(*shared_scores(*of_pair)))
        scores = (same_runs(groups[one], score), same_runs(groups[other], score))
        tests.append(frozenset(scores))

    against_reference = {}
    for pair, p in zip(pairs, holm(p_values, tests), strict=True):
        if reference in pair:
            (other,) = set(pair) - {reference}
            against_reference[other] = p
    return against_reference


def _row(rows: list[Record], base: list[Record], baseline: str, score: str) -> Record:
    """A row of `compare.csv`: one method against the baseline, over the seeds that both ran.

    The row of the baseline is over all seeds that it ran.

    Args:
      base: those of the baseline; the same list if the method is the baseline.
    """
    score = common_score(score, rows, base)
    scored_rows = with_score(rows, score)
    metric = scored_rows[0]["metric"] if scored_rows else None
    scores, base_scores = shared_scores(seed_scores(rows, score), seed_scores(base, score))

    numbers: dict[str, Any] = {"mean": None, "sd": sample_sd(scores), **dict.fromkeys(TESTS)}
    if len(scores):
        numbers["mean"] = float(scores.mean())
    if len(scores) and rows is not base:
        tests = paired(scores, base_scores, larger_is_better(metric or ""))
        numbers |= {name: getattr(tests, name) for name in TESTS}

    status = [row.get("status") for row in rows]
    counts = {
        "diverged": sum(row.get("diverged") or 0 for row in rows),
        "failed": status.count("failed"),
    }
    if NOT_RUN in status:
        counts[NOT_RUN] = status.count(NOT_RUN)
    return {
        "baseline": baseline,
        "metric": metric,
        "score": score,
        "seeds": len(scores),
        **numbers,
        **counts,
    }


def without_baseline(table: Sequence[Record]) -> list[Record]:
    """Return the rows of `compare.csv` without those of the baseline."""
    return [row for row in table if row["method"] != row["baseline"]]


class Scores(NamedTuple):
    """Scores of methods over the variations that all of them completed.

    Attributes:
      table: the scores `[methods, variations, seeds]`.
      variations: how many variations the table has.
      left_out: how many variations it has not, because some method lacks scores.
    """

    methods: list[str]
    metric: str
    table: np.ndarray
    variations: int
    left_out: int


def scores_of(summary: Sequence[Record], score: str) -> Scores | None:
    """Return the scores of methods over all variations; None if nothing varies.

    A variation under which some method has fewer scores than there are seeds is left out for all
    methods, and counted.
    """
    methods = distinct(summary, "method")
    variations = list(dict.fromkeys(map(variation_of, summary)))
    scored_rows = with_score(summary, score)
    if len(variations) < 2 or not scored_rows:
        return None
    groups = grouped(scored_rows, key=lambda row: (variation_of(row), row["method"]))
    by_seed = {key: list(seed_scores(rows, score).values()) for key, rows in groups.items()}
    seeds = max(map(len, by_seed.values()))

    complete = []  # [variations, methods, seeds]
    for variation in variations:
        scores = [by_seed.get((variation, method), []) for method in methods]
        if all(len(values) == seeds for values in scores):
            complete.append(scores)
    if not complete:
        return None
    return Scores(
        methods=methods,
        metric=scored_rows[0]["metric"],
        table=np.array(complete).swapaxes(0, 1),
        variations=len(complete),
        left_out=len(variations) - len(complete),
    )


def across(scores: Scores | None, score: str) -> list[Record]:
    """Return the rows of `across.csv`: methods over all variations together.

    They have the interquartile mean with a stratified bootstrap interval, and the mean rank. Scores
    are taken as they are, so the variations should be on one scale, as accuracies are.
    """
    if scores is None:
        return []
    means = scores.table.mean(2)  # [methods, variations]
    mean_ranks = ranks(means, larger_is_better(scores.metric)).mean(1)
    rows = []
    for method, table, rank in zip(scores.methods, scores.table, mean_ranks, strict=True):
        low, high = stratified(table) if np.isfinite(table).all() else (None, None)
        rows.append(
            {
                "method": method,
                "metric": scores.metric,
                "score": score,
                "variations": scores.variations,
                "left_out": scores.left_out,
                "iqm": float(iqm(table)),
                "ci_low": low,
                "ci_high": high,
                "mean_rank": float(rank),
            }
        )
    return rows


def profiles(scores: Scores | None, score: str) -> list[Record]:
    """Return the rows of `profiles.csv`: the share of runs that are better than each threshold."""
    if scores is None:
        return []
    rising = larger_is_better(scores.metric)
    columns = {"metric": scores.metric, "score": score}
    return profiles_of(scores.methods, scores.table, rising, columns)


def profiles_of(
    methods: Sequence[str], scores: np.ndarray, rising: bool, columns: Record
) -> list[Record]:
    """Return the same from scores `[methods, tasks, seeds]`, with further columns.

    Thresholds are evenly spaced from the smallest to the largest score.
    """
    finite = scores[np.isfinite(scores)]
    if not len(finite):
        return []
    thresholds = np.linspace(finite.min(), finite.max(), THRESHOLDS)
    rows = []
    for method, table in zip(methods, scores, strict=True):
        shares = profile(table, thresholds, rising)
        for threshold, share in zip(thresholds.tolist(), shares.tolist(), strict=True):
            rows.append({"method": method, **columns, "threshold": threshold, "share": share})
    return rows


def mean_score(runs: Sequence[Record], score: str) -> float | None:
    """Return the mean score of runs; None if none of them has a score.

    A diverged run has the worst score there is; those that failed or have not run do not count.
    """
    values = score_array(runs, score)
    return float(np.mean(values)) if len(values) else None


def seed_scores(runs: Sequence[Record], score: str) -> dict[int, float]:
    """Return the scores of runs by seed; a diverged run has the worst score there is.

    Runs that failed or have not run are left out, and so are scores that the method has not.
    """
    score = common_score(score, runs)
    scored_runs = with_score(runs, score)
    values = [run.get(score) for run in scored_runs]
    diverged = [bool(run.get("diverged")) for run in scored_runs]
    scores = scored(values, diverged, worst(metric_of(scored_runs)))
    return dict(zip([run["seed"] for run in scored_runs], scores.tolist(), strict=True))


def score_array(runs: Sequence[Record], score: str) -> np.ndarray:
    """Return the scores of runs `[seeds]`, as `seed_scores` has them."""
    return np.array(list(seed_scores(runs, score).values()), float)


def shared_seeds(*scores: Mapping[int, Any]) -> list[int]:
    """Return the seeds that are keys of all mappings, in ascending order."""
    first, *others = scores
    return sorted(set(first).intersection(*others))


def shared_scores(
    one: Mapping[int, float], other: Mapping[int, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores, `[n]` each, under the n seeds that both have."""
    seeds = shared_seeds(one, other)
    first, second = ([scores[seed] for seed in seeds] for scores in (one, other))
    return np.array(first, float), np.array(second, float)

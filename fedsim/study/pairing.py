"""Methods against a baseline, within every variation: the rows of `compare.csv`."""

from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fedsim.study.statistics import differ, holm, iqm, paired, profile, ranks, scored, stratified
from fedsim.study.summary import NOT_RUN, SCORES, Record, larger_is_better, ran, worst

SURE = 0.05
THRESHOLDS = 51  # of a performance profile


def against(
    summary: Sequence[Record], baseline: str, score: str, varied: Sequence[str] = ()
) -> list[Record]:
    """Every method compared with the baseline under the same seeds, and the baseline's own scores; Holm over the others.

    Rows of the baseline have mean, standard deviation and counts, and nothing that a comparison would give. Rows of the
    same scores, as along an axis that neither method reads, are one test.

    Args:
      summary: a row per method, variation and seed, as in `summary.csv`; those that failed or have not run have no score.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
      varied: columns that tell variations apart, beside `variant`.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for row in summary:
        groups.setdefault((row.get("variant", ""), row["method"]), []).append(row)
    table = []
    tests = []
    for (variant, _), rows in groups.items():
        who = {name: rows[0][name] for name in ("method", "variant", *varied) if name in rows[0]}
        base = groups.get((variant, baseline), [])
        table.append({**who, **_row(rows, base, baseline, score)})
        tests.append((same_runs(rows, score), same_runs(base, score)))
    adjusted = holm([row["p_value"] for row in table], tests)
    return [{**row, "p_adjusted": p} for row, p in zip(table, adjusted, strict=True)]


def same_runs(runs: Sequence[Record], score: str) -> Hashable:
    """What is equal for runs whose scores are the same to the bit, as where none of them reads what differs.

    >>> one, other = ([{"seed": s, "final": 0.5, "diverged": 0, "variant": v} for s in (0, 1)] for v in "ab")
    >>> same_runs(one, "final") == same_runs(other, "final"), same_runs(one, "final") == same_runs(one[:1], "final")
    (True, False)
    """
    columns = (score, *SCORES)
    return frozenset(
        (run["seed"], *map(run.get, columns), bool(run.get("diverged"))) for run in runs if ran(run)
    )


def told_apart(rows: Sequence[Record], reference: str, score: str) -> dict[str, float | None]:
    """The p of every other method under one variation against a reference; None where no seed is shared.

    After Holm over all pairs of methods, since the reference, such as the best, is chosen by the scores that it is
    compared by.

    Args:
      rows: of `summary.csv`, of one variation.
      reference: a method.
      score: `final`, `best` or `mean_last_k`.
    """
    groups: dict[str, list[Record]] = {}
    for row in rows:
        if ran(row):
            groups.setdefault(row["method"], []).append(row)
    pairs = list(combinations(groups, 2))
    p_values = [_pair(groups[one], groups[other], score) for one, other in pairs]
    tests = [
        frozenset({same_runs(groups[one], score), same_runs(groups[other], score)})
        for one, other in pairs
    ]
    adjusted = zip(pairs, holm(p_values, tests), strict=True)
    return {
        one if other == reference else other: p
        for (one, other), p in adjusted
        if reference in (one, other)
    }


def _pair(one: list[Record], other: list[Record], score: str) -> float | None:
    """The p of two methods under the seeds that they share; None where there are none."""
    seeds = {row["seed"] for row in one} & {row["seed"] for row in other}
    lowest = worst(one[0]["metric"])
    return (
        differ(_scored(one, seeds, score, lowest), _scored(other, seeds, score, lowest))
        if seeds
        else None
    )


def _row(rows: list[Record], base: list[Record], baseline: str, score: str) -> Record:
    """One method against the baseline, over the seeds that both of them ran; the baseline itself, over all that it ran."""
    shared = {row["seed"] for row in base if ran(row)} & {row["seed"] for row in rows if ran(row)}
    metric = next((row["metric"] for row in rows if ran(row)), None)
    heads = {"baseline": baseline, "metric": metric, "score": score, "seeds": len(shared)}
    counts = _counts(rows)
    if not shared:
        return {**heads, **dict.fromkeys(NUMBERS), **counts}
    better = larger_is_better(metric or "")
    method_scores, base_scores = (
        _scored(part, shared, score, worst(metric or "")) for part in (rows, base)
    )
    tests = {} if rows is base else paired(method_scores, base_scores, better)._asdict()
    tests = {name: tests.get(name) for name in TESTS}
    known = len(method_scores) > 1 and np.isfinite(method_scores).all()
    spread = float(method_scores.std(ddof=1)) if known else None
    return {**heads, "mean": float(method_scores.mean()), "sd": spread, **tests, **counts}


TESTS = (
    "difference",
    "ci_low",
    "ci_high",
    "p_value",
    "p_wilcoxon",
    "effect_size",
    "probability_of_improvement",
)
NUMBERS = ("mean", "sd", *TESTS)


def others(table: Sequence[Record]) -> list[Record]:
    """The rows of `compare.csv` but the baseline's own."""
    return [row for row in table if row["method"] != row["baseline"]]


def _scored(rows: list[Record], seeds: set[int], score: str, lowest: float) -> np.ndarray:
    """Scores under these seeds, in their order."""
    rows = sorted((row for row in rows if row["seed"] in seeds), key=lambda row: row["seed"])
    return scored([row[score] for row in rows], [bool(row["diverged"]) for row in rows], lowest)


def _counts(rows: Sequence[Record]) -> Record:
    """How many runs of a method ended without a result, and how; `not_run` only where there are some."""
    status = [row.get("status") for row in rows]
    counts = {
        "diverged": sum(row.get("diverged") or 0 for row in rows),
        "failed": status.count("failed"),
    }
    return counts | ({NOT_RUN: status.count(NOT_RUN)} if NOT_RUN in status else {})


class Scores(NamedTuple):
    """Scores of methods over variations that all of them completed."""

    methods: list[str]  # labels
    metric: str  # what was scored
    table: np.ndarray  # `[methods, variations, seeds]`; None where there are no two variations
    variations: int  # how many count
    left_out: int  # how many do not, for want of complete scores


def scores_of(summary: Sequence[Record], score: str) -> Scores | None:
    """What methods reached over all variations; None where nothing varies.

    Variations that some method has no complete scores for are left out of all of them, and counted.

    Args:
      summary: a row per method, variation and seed, as in `summary.csv`.
      score: `final`, `best` or `mean_last_k`.
    """
    methods = list(dict.fromkeys(row["method"] for row in summary))
    variants = list(dict.fromkeys(row.get("variant", "") for row in summary))
    metric = next((row["metric"] for row in summary if ran(row)), "")
    scores: dict[tuple[str, str], dict[int, float]] = {}
    for row in summary:
        if ran(row):
            one = scored([row[score]], [bool(row["diverged"])], worst(metric))[0]
            scores.setdefault((row["method"], row.get("variant", "")), {})[row["seed"]] = float(one)
    seeds = max((len(by_seed) for by_seed in scores.values()), default=0)
    whole = [v for v in variants if all(len(scores.get((m, v), {})) == seeds for m in methods)]
    if not whole or len(variants) < 2:
        return None
    table = np.array([[list(scores[m, v].values()) for v in whole] for m in methods])
    return Scores(methods, metric, table, len(whole), len(variants) - len(whole))


def across(scores: Scores | None, score: str) -> list[Record]:
    """Methods over all variations together: interquartile mean with a stratified bootstrap, and mean ranks.

    Scores are taken as they are, so variations should be on one scale, as accuracies are.
    """
    if scores is None:
        return []
    heads = {
        "metric": scores.metric,
        "score": score,
        "variations": scores.variations,
        "left_out": scores.left_out,
    }
    mean_ranks, rows = ranks(scores.table.mean(2), larger_is_better(scores.metric)), []
    for method, table, rank in zip(scores.methods, scores.table, mean_ranks, strict=True):
        low, high = stratified(table) if np.isfinite(table).all() else (None, None)
        numbers = {
            "iqm": float(iqm(table)),
            "ci_low": low,
            "ci_high": high,
            "mean_rank": float(rank),
        }
        rows.append({"method": method, **heads, **numbers})
    return rows


def profiles(scores: Scores | None, score: str) -> list[Record]:
    """Performance profiles: for every threshold from the worst to the best score the share of runs that are better."""
    if scores is None or not np.isfinite(scores.table).any():
        return []
    known = scores.table[np.isfinite(scores.table)]
    thresholds = np.linspace(known.min(), known.max(), THRESHOLDS)
    heads, better = {"metric": scores.metric, "score": score}, larger_is_better(scores.metric)
    return [
        {"method": method, **heads, "threshold": float(threshold), "share": float(share)}
        for method, table in zip(scores.methods, scores.table, strict=True)
        for threshold, share in zip(thresholds, profile(table, thresholds, better), strict=True)
    ]

"""Methods against a baseline, within every variation: the rows of `compare.csv`, and what they say in words."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.study.statistics import holm, iqm, paired, profile, ranks, scored, smallest_p, stratified
from fedsim.study.summary import Record, larger_is_better, worst
from fedsim.study.tuning import sensitivity

SURE = 0.05
THRESHOLDS = 51  # of a performance profile


def against(summary: Sequence[Record], baseline: str, score: str, varied: Sequence[str] = ()) -> list[Record]:
    """Every method but the baseline, compared with it under the same seeds; Holm over all of them.

    Args:
      summary: a row per method, variation and seed, as in `summary.csv`; those that failed have no score.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
      varied: columns that tell variations apart, beside `variant`.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for row in summary:
        groups.setdefault((row.get("variant", ""), row["method"]), []).append(row)
    table = []
    for (variant, method), rows in groups.items():
        if method != baseline:
            who = {name: rows[0][name] for name in ("method", "variant", *varied) if name in rows[0]}
            table.append({**who, **_row(rows, groups.get((variant, baseline), []), baseline, score)})
    adjusted = holm([row["p_value"] for row in table])
    return [{**row, "p_adjusted": p} for row, p in zip(table, adjusted, strict=True)]


def _row(rows: list[Record], base: list[Record], baseline: str, score: str) -> Record:
    """One method against the baseline, over the seeds that both of them ran."""
    shared = {row["seed"] for row in base if _ran(row)} & {row["seed"] for row in rows if _ran(row)}
    metric = next((row["metric"] for row in rows if _ran(row)), None)
    heads = {"baseline": baseline, "metric": metric, "score": score, "seeds": len(shared)}
    counts = {"diverged": sum(r.get("diverged") or 0 for r in rows), "failed": sum(not _ran(r) for r in rows)}
    if not shared:
        return {**heads, **dict.fromkeys(NUMBERS), **counts}
    better = larger_is_better(metric or "")
    method_scores, base_scores = (_scored(part, shared, score, worst(metric or "")) for part in (rows, base))
    tests = paired(method_scores, base_scores, better)._asdict()
    tests.pop("seeds")
    known = len(method_scores) > 1 and np.isfinite(method_scores).all()
    spread = float(method_scores.std(ddof=1)) if known else None
    return {**heads, "mean": float(method_scores.mean()), "sd": spread, **tests, **counts}


NUMBERS = (
    "mean", "sd", "difference", "ci_low", "ci_high", "p_value", "p_wilcoxon", "effect_size", "probability_of_improvement",
)  # fmt: skip


def _scored(rows: list[Record], seeds: set[int], score: str, lowest: float) -> np.ndarray:
    """Scores under these seeds, in their order."""
    rows = sorted((row for row in rows if row["seed"] in seeds), key=lambda row: row["seed"])
    return scored([row[score] for row in rows], [bool(row["diverged"]) for row in rows], lowest)


def _ran(row: Record) -> bool:
    return row.get("status") != "failed"


def verdict(table: Sequence[Record], baseline: str) -> list[str]:
    """What a comparison says, in sentences: who differs, by how much, how sure, and what could not be told apart."""
    lines: list[str] = []
    for variant in dict.fromkeys(row.get("variant", "") for row in table):
        rows = sorted((row for row in table if row.get("variant", "") == variant), key=_benefit, reverse=True)
        where = f"With {variant}: " if variant else ""
        sure = [row for row in rows if row["p_adjusted"] is not None and row["p_adjusted"] < SURE]
        clear = [row for row in rows if row["ci_low"] is not None and (row["ci_low"] > 0 or row["ci_high"] < 0)]
        leaning = [row for row in clear if row not in sure]  # by its interval, which the exact test cannot confirm
        level = [row for row in rows if row["seeds"] and row not in sure and row not in leaning]
        lines += [f"{where}{_sentence(row, baseline)}" for row in sure]
        lines += [f"{where}{_sentence(row, baseline)} Too few seeds to be sure of it." for row in leaning]
        if level:
            listed = ", ".join(f"{row['method']}{_interval(row)}" for row in level)
            lines.append(f"{where}Could not be told apart from {baseline}: {listed}.")
        failed = [row["method"] for row in rows if not row["seeds"]]
        lines += [f"{where}{', '.join(failed)} failed under all seeds, compared with nothing."] if failed else []
    return [*lines, *_power(table)]


def _benefit(row: Record) -> float:
    """How much better than the baseline; where that is no number, how often."""
    if row["difference"] is None:
        return (row["probability_of_improvement"] or 0.5) - 0.5
    return row["difference"] if larger_is_better(row["metric"]) else -row["difference"]


def _sentence(row: Record, baseline: str) -> str:
    better, metric = _benefit(row) > 0, row["metric"].replace("_", " ")
    by = "" if row["difference"] is None else f" by {abs(row['difference']):.3g}"
    if row["ci_low"] is not None:
        ends = sorted((abs(row["ci_low"]), abs(row["ci_high"])))
        by += f" (95 % {ends[0]:.3g} to {ends[1]:.3g})"
    won = row["probability_of_improvement"] * row["seeds"]
    lost = f"; {row['diverged']} of {row['seeds']} runs diverged" if row["diverged"] else ""
    return (
        f"{row['method']} is {'better' if better else 'worse'} than {baseline} in {metric}{by}: "
        f"better under {won:g} of {row['seeds']} seeds, p = {row['p_adjusted']:.2g} after Holm{lost}."
    )


def _interval(row: Record) -> str:
    if row["ci_low"] is None:
        return "" if row["difference"] is None else f" ({row['difference']:+.2g})"
    return f" ({row['difference']:+.2g}, 95 % {row['ci_low']:+.2g} to {row['ci_high']:+.2g})"


def _power(table: Iterable[Record]) -> list[str]:
    """What so few seeds could not have shown, whatever had come out."""
    rows = [row for row in table if row["seeds"]]
    if not rows:
        return []
    seeds, tests = min(row["seeds"] for row in rows), sum(row["p_value"] is not None for row in rows)
    least = smallest_p(seeds) * max(tests, 1)
    if least < SURE:
        return []
    needed = next(n for n in range(2, 64) if smallest_p(n) * max(tests, 1) < SURE)
    of = f"{tests} comparisons" if tests > 1 else "one comparison"
    return [
        f"With {seeds} seed{'s' * (seeds > 1)} no difference can be called sure: of {of} the smallest p that a two-sided "
        f"test can give is {min(least, 1):.3g}. {needed} seeds could."
    ]


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
    metric = next((row["metric"] for row in summary if _ran(row)), "")
    scores: dict[tuple[str, str], dict[int, float]] = {}
    for row in summary:
        if _ran(row):
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
    heads = {"metric": scores.metric, "score": score, "variations": scores.variations, "left_out": scores.left_out}
    mean_ranks, rows = ranks(scores.table.mean(2), larger_is_better(scores.metric)), []
    for method, table, rank in zip(scores.methods, scores.table, mean_ranks, strict=True):
        low, high = stratified(table) if np.isfinite(table).all() else (None, None)
        numbers = {"iqm": float(iqm(table)), "ci_low": low, "ci_high": high, "mean_rank": float(rank)}
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


def conclusions(
    summary: Sequence[Record], tuning: Sequence[Record], baseline: str, score: str, varied: Sequence[str]
) -> dict[str, list[Record]]:
    """The tables that follow from two others: `compare`, `across`, `profiles`.

    Args:
      summary: rows of `summary.csv`.
      tuning: rows of `tuning.csv`, none where nothing was tuned.
      baseline: label of the method that the others are compared with.
      score: column of `summary.csv` that is compared.
      varied: paths that vary.
    """
    compared = [{**row, **sensitivity(row, tuning)} for row in against(summary, baseline, score, varied)]
    scores = scores_of(summary, score)
    return {"compare": compared, "across": across(scores, score), "profiles": profiles(scores, score)}

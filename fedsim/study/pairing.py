"""Methods against a baseline, within every variation: the rows of `compare.csv`, and what they say in words."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedsim.study.statistics import holm, paired, scored, smallest_p

Record = dict[str, Any]
SURE = 0.05


def larger_is_better(metric: str) -> bool:
    """Whether more of a metric is better: of accuracies; of losses less is.

    >>> larger_is_better("test_accuracy"), larger_is_better("validation_loss")
    (True, False)
    """
    return not metric.endswith("loss")


def against(summary: Sequence[Record], baseline: str, score: str) -> list[Record]:
    """Every method but the baseline, compared with it under the same seeds; Holm over all of them.

    Args:
      summary: a row per method, variation and seed, as in `summary.csv`; those that failed have no score.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for row in summary:
        groups.setdefault((row.get("variant", ""), row["method"]), []).append(row)
    found = []
    for (variant, method), rows in groups.items():
        if method != baseline:
            found.append(_row(rows, groups.get((variant, baseline), []), baseline, score))
    adjusted = holm([row["p_value"] for row in found])
    return [{**row, "p_adjusted": p} for row, p in zip(found, adjusted, strict=True)]


def _row(rows: list[Record], base: list[Record], baseline: str, score: str) -> Record:
    """One method against the baseline, over the seeds that both of them ran."""
    shared = {row["seed"] for row in base if _ran(row)} & {row["seed"] for row in rows if _ran(row)}
    mine, theirs = (sorted((r for r in part if r["seed"] in shared), key=lambda r: r["seed"]) for part in (rows, base))
    metric = next((row["metric"] for row in rows if _ran(row)), None)
    who = {name: value for name, value in rows[0].items() if name not in NOT_WHO}
    found = {**who, "baseline": baseline, "metric": metric, "score": score, "seeds": len(shared)}
    counts = {"diverged": sum(r["diverged"] or 0 for r in rows), "failed": sum(not _ran(r) for r in rows)}
    if not shared:
        return {**found, **dict.fromkeys(NUMBERS), **counts}
    better = larger_is_better(metric or "")
    ours, base_scores = (
        scored([r[score] for r in part], [bool(r["diverged"]) for r in part], better) for part in (mine, theirs)
    )
    said = paired(ours, base_scores, better)._asdict()
    said.pop("seeds")
    spread = float(ours.std(ddof=1)) if len(ours) > 1 and np.isfinite(ours).all() else None
    return {**found, "mean": float(ours.mean()), "sd": spread, **said, **counts}


NOT_WHO = {
    "seed", "metric", "final", "best", "mean_last_k", "k", "rounds_to_target", "bytes_to_target",
    "virtual_seconds_to_target", "diverged", "status", "reason",
}  # fmt: skip
NUMBERS = (
    "mean", "sd", "difference", "ci_low", "ci_high", "p_value", "p_wilcoxon", "effect_size", "probability_of_improvement",
)  # fmt: skip


def _ran(row: Record) -> bool:
    return row.get("status") != "failed"


def verdict(table: Sequence[Record], baseline: str) -> list[str]:
    """What a comparison says, in sentences: who differs, by how much, how sure, and what could not be told apart."""
    lines: list[str] = []
    for variant in dict.fromkeys(row.get("variant", "") for row in table):
        rows = [row for row in table if row.get("variant", "") == variant]
        where = f"With {variant}: " if variant else ""
        sure = [row for row in rows if row["p_adjusted"] is not None and row["p_adjusted"] < SURE]
        for row in sorted(sure, key=_benefit, reverse=True):
            lines.append(f"{where}{_sentence(row, baseline)}")
        unsure = [row for row in rows if row not in sure and row["seeds"]]
        if unsure:
            listed = ", ".join(f"{row['method']}{_interval(row)}" for row in sorted(unsure, key=_benefit, reverse=True))
            lines.append(f"{where}Could not be told apart from {baseline}: {listed}.")
        lines += [
            f"{where}{row['method']} failed in all seeds and is compared with nothing."
            for row in rows
            if not row["seeds"]
        ]
    return [*lines, *_power(table)]


def _benefit(row: Record) -> float:
    """How much better than the baseline, in the metric's own sign."""
    difference = row["difference"] or 0.0
    return difference if larger_is_better(row["metric"]) else -difference


def _sentence(row: Record, baseline: str) -> str:
    better = row["probability_of_improvement"] > 0.5 if row["difference"] is None else _benefit(row) > 0
    by = f" by {abs(row['difference']):.4g}" if row["difference"] is not None else ""
    spoken = row["metric"].replace("_", " ")
    won = row["probability_of_improvement"] * row["seeds"]
    lost = f"; {row['diverged']} of {row['seeds']} runs diverged" if row["diverged"] else ""
    which = "better" if better else "worse"
    return (
        f"{row['method']} is {which} than {baseline}{by} in {spoken}{_interval(row)}: better in {won:g} of {row['seeds']} seeds, "
        f"p = {row['p_adjusted']:.2g} after Holm{lost}."
    )


def _interval(row: Record) -> str:
    if row["ci_low"] is None:
        return "" if row["difference"] is None else f" ({row['difference']:+.4g})"
    return f" ({row['difference']:+.4g}, 95 % {row['ci_low']:+.4g} to {row['ci_high']:+.4g})"


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

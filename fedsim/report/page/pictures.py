"""The pictures of the page with a row per method, and the partition: final scores, differences, how clients fare."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsim.report.page import strips
from fedsim.report.page.charts import words_of
from fedsim.report.page.heat_map import HeatMap, heat_map
from fedsim.report.results import Row, by, metric_of
from fedsim.report.series import by_variant
from fedsim.study.label_skew import counts_of_rows
from fedsim.study.pairing import SURE, others
from fedsim.study.standings import Standing, seed_scores
from fedsim.study.statistics import interval
from fedsim.study.summary import is_share, larger_is_better
from fedsim.study.words import variation

SCORES = {"final": "{}", "best": "best {}", "mean_last_k": "{}, mean of the last {k} evaluations"}


def scores(
    summary: Sequence[Row],
    by_variation: Mapping[str, Sequence[Standing]],
    names: Sequence[str],
    baseline: str | None,
    score: str,
    chance: Mapping[str, float],
    scenario: Mapping[str, Any],
) -> strips.Strips | None:
    """The dot plot of final scores: a row per method, a mark per variation; the baseline is a line through all rows.

    Args:
      summary: the rows of `summary.csv`.
      by_variation: the standings of methods.
      names: of methods, in the order of the result.
      baseline: which method the others are compared with, if any.
      score: `final`, `best` or `mean_last_k`.
      chance: what guessing gives, by variation.
      scenario: as in `run.json`.
    """
    runs = by(summary, "method", "variant")
    metric = metric_of(summary)
    variants = list(by_variation)
    standing = {(name, s.method): s for name, group in by_variation.items() for s in group}
    seeds = {key: list(seed_scores(group, score).values()) for key, group in _by_variant_name(runs).items()}
    known = [v for values in seeds.values() for v in values if math.isfinite(v)]
    if not known:
        return None
    ends = [e for values in seeds.values() for e in interval(np.array(values)) or ()]
    levels = {level for level in chance.values() if min(known) - 0.02 <= level}
    x = strips.percent_axis([*known, *ends, *levels], share=is_share(metric))
    rows = []
    for name in names:
        marks = [
            _score_mark(standing.get((v, name)), seeds.get((name, v), []), baseline, variation(v, scenario))
            for v in variants
        ]
        rows.append((name, "baseline" if name == baseline else "", marks))
    lines = [(level, "chance") for level in sorted(levels)]
    for kind, variant in enumerate(variants):
        base = standing.get((variant, baseline or ""))
        if base and base.mean is not None and math.isfinite(base.mean):
            lines.append((base.mean, f"base v{kind % 6}"))
    label = SCORES[score].format(words_of(metric), k=next((row["k"] for row in summary if row.get("k")), ""))
    keys = [(strips.symbol(k), variation(v, scenario)) for k, v in enumerate(variants)] if len(variants) > 1 else []
    if baseline is not None:
        keys.append((strips.symbol(0, False), f"open: not surely different from {baseline}"))
        keys.append((strips.line_symbol("base v0"), f"{baseline}, the baseline"))
    if levels:
        keys.append((strips.line_symbol("chance"), f"guessing, {max(levels):.2g}"))
    return strips.marks_picture(rows, x, label, lines, keys)


def _by_variant_name(runs: Mapping[tuple, list[dict[str, Any]]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    return {(str(method), variant or ""): group for (method, variant), group in runs.items()}


def _score_mark(standing: Standing | None, seeds: Sequence[float], baseline: str | None, where: str) -> strips.Mark:
    if standing is None or standing.mean is None:
        return strips.Mark(None, None, None, [], False, _ending(standing), f"{where} no score".strip())
    ends = interval(np.array(seeds))
    at = standing.mean if math.isfinite(standing.mean) else None
    text = "diverged" if at is None else f"{at:.3f}" if abs(at) < 1000 else f"{at:.3g}"
    between = f", 95 % {ends[0]:.4g} to {ends[1]:.4g}" if ends else ""
    difference = standing.row["difference"] if standing.row else None
    against = "" if difference is None else f"; {difference:+.3g} against {baseline}, {standing.seeds}"
    title = f"{where + ': ' if where else ''}{text}{between} over {len(seeds)} seed{'s' * (len(seeds) > 1)}{against}"
    filled = baseline is None or standing.method == baseline or standing.sure
    low, high = ends or (None, None)
    return strips.Mark(at, low, high, seeds if len(seeds) > 1 else [], filled, text, title)


def _ending(standing: Standing | None) -> str:
    """How the runs of a method without a score ended."""
    if standing is None:
        return ""
    return "not run" if standing.not_run else "failed"


def forests(
    compared: Sequence[Row], names: Sequence[str], scenario: Mapping[str, Any]
) -> list[tuple[str, strips.Strips]]:
    """A picture of the differences per variation; `compared`: the rows of `compare.csv`."""
    forests = []
    for (variant,), group in by(others(compared), "variant").items():
        known = [row[name] for row in group for name in ("difference", "ci_low", "ci_high") if _known(row[name])]
        if not known:  # nor has every method a run then
            continue
        rows = sorted(group, key=lambda row: names.index(row["method"]))
        metric, baseline = next(str(row["metric"]) for row in rows if row["metric"]), rows[0]["baseline"]
        side = "right" if larger_is_better(metric) else "left"
        label = f"difference to {baseline} in {words_of(metric)}; {side} is better"
        marks = [(str(row["method"]), "", [_difference_mark(row)]) for row in rows]
        picture = strips.marks_picture(marks, strips.percent_axis([0.0, *known]), label, [(0.0, "zero")])
        forests.append((variation(variant or "", scenario), picture))
    return forests


def _difference_mark(row: Mapping[str, Any]) -> strips.Mark:
    if not _known(row["difference"]):
        return strips.Mark(None, None, None, [], False, "", f"{row['method']}: no difference that is a number")
    ends = (row["ci_low"], row["ci_high"]) if _known(row["ci_low"]) else (None, None)
    sure = _known(row["p_adjusted"]) and row["p_adjusted"] < SURE
    between = (
        f", 95 % {ends[0]:+.4g} to {ends[1]:+.4g}, p = {row['p_adjusted']:.2g} after Holm"
        if ends[0] is not None
        else ""
    )
    text = f"{row['difference']:+.3f}" if abs(row["difference"]) < 1000 else f"{row['difference']:+.3g}"
    return strips.Mark(row["difference"], *ends, [], sure, text, f"{text}{between}")


def spreads(
    clients: pd.DataFrame | None, names: Sequence[str], scenario: Mapping[str, Any]
) -> list[tuple[str, strips.Strips]]:
    """Per variation how the accuracies of clients spread."""
    if clients is None or "global_accuracy" not in clients:
        return []
    label = "accuracy of the final model on the client's own samples"
    parts = {
        variant: {
            str(name): part["global_accuracy"].dropna().tolist() for name, part in table.groupby("method", sort=False)
        }
        for variant, table in by_variant(clients).items()
    }
    ends = [np.percentile(values, (10, 90)) for part in parts.values() for values in part.values() if values]
    x = strips.percent_axis([float(end) for pair in ends for end in pair], share=True)
    rows = lambda part: [(name, part[name]) for name in names if name in part]
    return [(variation(v, scenario), strips.spread_picture(rows(part), x, label)) for v, part in parts.items()]


def partition(table: pd.DataFrame | None) -> HeatMap | None:
    """The map of the partition."""
    return None if table is None else heat_map(counts_of_rows(next(iter(by_variant(table).values()))))


def _known(value: Any) -> bool:
    return value is not None and math.isfinite(value)

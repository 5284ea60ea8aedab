"""The pictures of the page with a row per method, and the partition: final scores, differences, how
clients fare.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsim.report.about import About
from fedsim.report.page import strips
from fedsim.report.page.charts import words_of
from fedsim.report.page.heat_map import HeatMap, heat_map
from fedsim.report.pictures.differences import Difference, Forest, forests
from fedsim.report.results import Row, by
from fedsim.report.series import by_variant
from fedsim.study.label_skew import counts_of_rows
from fedsim.study.standings import Standing, seed_scores
from fedsim.study.statistics import interval
from fedsim.study.summary import is_share, larger_is_better

SCORES = {"final": "{}", "best": "best {}", "mean_last_k": "{}, mean of the last {k} evaluations"}


def scores(
    summary: Sequence[Row],
    by_variation: Mapping[str, Sequence[Standing]],
    baseline: str | None,
    chance: Mapping[str, float],
    about: About,
) -> strips.Strips | None:
    """The dot plot of final scores: a row per method, a mark per variation; the baseline is a line
    through all rows.

    Args:
      summary: the rows of `summary.csv`.
      by_variation: the standings of methods.
      baseline: which method the others are compared with, if any.
      chance: what guessing gives, by variation.
      about: what is shown.
    """
    runs = by(summary, "method", "variant")
    metric, score = about.metric, about.score
    variants = list(by_variation)
    standing = {(name, s.method): s for name, group in by_variation.items() for s in group}
    seeds = {
        key: list(seed_scores(group, score).values())
        for key, group in _by_variant_name(runs).items()
    }
    known = [v for values in seeds.values() for v in values if math.isfinite(v)]
    if not known:
        return None
    ends = [e for values in seeds.values() for e in interval(np.array(values)) or ()]
    levels = {level for level in chance.values() if min(known) - 0.02 <= level}
    x = strips.percent_axis([*known, *ends, *levels], share=is_share(metric))
    rows = []
    for name in about.order:
        marks = [
            _score_mark(standing.get((v, name)), seeds.get((name, v), []), baseline, about.words(v))
            for v in variants
        ]
        rows.append((name, "baseline" if name == baseline else "", marks))
    lines = [(level, "chance") for level in sorted(levels)]
    for kind, variant in enumerate(variants):
        base = standing.get((variant, baseline or ""))
        if base and base.mean is not None and math.isfinite(base.mean):
            lines.append((base.mean, f"base v{kind % 6}"))
    label = SCORES[score].format(
        words_of(metric), k=next((row["k"] for row in summary if row.get("k")), "")
    )
    keys = (
        [(strips.symbol(k), about.words(v)) for k, v in enumerate(variants)]
        if len(variants) > 1
        else []
    )
    if baseline is not None:
        keys.append((strips.symbol(0, False), f"open: not surely different from {baseline}"))
        keys.append((strips.line_symbol("base v0"), f"{baseline}, the baseline"))
    if levels:
        keys.append((strips.line_symbol("chance"), f"guessing, {max(levels):.2g}"))
    return strips.marks_picture(rows, x, label, lines, keys)


def _by_variant_name(
    runs: Mapping[tuple, list[dict[str, Any]]],
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    return {(str(method), variant or ""): group for (method, variant), group in runs.items()}


def _score_mark(
    standing: Standing | None, seeds: Sequence[float], baseline: str | None, where: str
) -> strips.Mark:
    if standing is None or standing.mean is None:
        return strips.Mark(
            None, None, None, [], False, _ending(standing), f"{where} no score".strip()
        )
    ends = interval(np.array(seeds))
    at = standing.mean if math.isfinite(standing.mean) else None
    text = "diverged" if at is None else f"{at:.3f}" if abs(at) < 1000 else f"{at:.3g}"
    between = f", 95 % {ends[0]:.4g} to {ends[1]:.4g}" if ends else ""
    difference = standing.row["difference"] if standing.row else None
    against = (
        "" if difference is None else f"; {difference:+.3g} against {baseline}, {standing.seeds}"
    )
    start = f"{where}: " if where else ""
    over = f"{len(seeds)} seed{'s' * (len(seeds) > 1)}"
    title = f"{start}{text}{between} over {over}{against}"
    filled = baseline is None or standing.method == baseline or standing.sure
    low, high = ends or (None, None)
    return strips.Mark(at, low, high, seeds if len(seeds) > 1 else [], filled, text, title)


def _ending(standing: Standing | None) -> str:
    """How the runs of a method without a score ended."""
    if standing is None:
        return ""
    return "not run" if standing.not_run else "failed"


def differences(compared: Sequence[Row], about: About) -> list[tuple[str, strips.Strips]]:
    """A picture of the differences per variation in which there are any.

    Args:
      compared: rows of `compare.csv`.
      about: what is shown.
    """
    return [
        (forest.title, _forest(forest)) for forest in forests(compared, about) if forest.numbers
    ]


def _forest(forest: Forest) -> strips.Strips:
    side = "right" if larger_is_better(forest.metric) else "left"
    label = f"difference to {forest.baseline} in {words_of(forest.metric)}; {side} is better"
    marks = [(row.method, "", [_difference_mark(row)]) for row in forest.rows]
    return strips.marks_picture(
        marks, strips.percent_axis([0.0, *forest.numbers]), label, [(0.0, "zero")]
    )


def _difference_mark(row: Difference) -> strips.Mark:
    if row.mean is None:
        return strips.Mark(
            None, None, None, [], False, "", f"{row.method}: no difference that is a number"
        )
    between = (
        ""
        if row.low is None
        else f", 95 % {row.low:+.4g} to {row.high:+.4g}, p = {row.p:.2g} after Holm"
    )
    text = f"{row.mean:+.3f}" if abs(row.mean) < 1000 else f"{row.mean:+.3g}"
    return strips.Mark(row.mean, row.low, row.high, [], row.sure, text, f"{text}{between}")


def spreads(clients: pd.DataFrame | None, about: About) -> list[tuple[str, strips.Strips]]:
    """Per variation how the accuracies of clients spread."""
    if clients is None or "global_accuracy" not in clients:
        return []
    label = "accuracy of the final model on the client's own samples"
    parts = {
        variant: {
            str(name): part["global_accuracy"].dropna().tolist()
            for name, part in table.groupby("method", sort=False)
        }
        for variant, table in by_variant(clients).items()
    }
    ends = [
        np.percentile(values, (10, 90))
        for part in parts.values()
        for values in part.values()
        if values
    ]
    x = strips.percent_axis([float(end) for pair in ends for end in pair], share=True)
    rows = lambda part: [(name, part[name]) for name in about.order if name in part]
    return [
        (about.words(v), strips.spread_picture(rows(part), x, label)) for v, part in parts.items()
    ]


def partition(table: pd.DataFrame | None) -> HeatMap | None:
    """The map of the partition."""
    return (
        None if table is None else heat_map(counts_of_rows(next(iter(by_variant(table).values()))))
    )

"""The table that a paper shows: methods as rows, variations as columns, mean ± spread over the seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from fedsim.report import layout
from fedsim.report.latex import plain, width
from fedsim.report.layout import (
    COLUMN,
    NUMBER,
    PAGE,
    RAISED,
    SIGN,
    THIN,
    Column,
    Part,
    number,
    word,
)
from fedsim.report.ranking import order_of
from fedsim.report.results import by, metric_of
from fedsim.study.pairing import SURE, told_apart
from fedsim.study.statistics import half_width, smallest_p
from fedsim.study.summary import NOT_RUN, in_words, larger_is_better, median_to_target

Row = dict[str, Any]

SPREADS = {"sd": "standard deviation", "interval": "half of Student's 95 % interval of the mean"}
TENS = 10.0  # a mean from which on one decimal may be enough
LARGE = 1e5  # a mean from which on it is written with an exponent


class Score(NamedTuple):
    """The scores of a method under one variation.

    Attributes:
      mean: of the runs that have one; None where no run has.
      spread: standard deviation or half an interval; None of a single run.
      runs: how many there are.
      scored: how many of them have a score.
      best: whether the mean is the best one.
      level: whether it could not be told apart from that.
      diverged: whether some run diverged.
      not_run: whether some run has not run.
    """

    mean: float | None
    spread: float | None
    runs: int
    scored: int
    best: bool = False
    level: bool = False
    diverged: bool = False
    not_run: bool = False


def paper_table(
    summary: Sequence[Row],
    compare: Sequence[Row] | None,
    score: str,
    scenario: Mapping[str, Any],
    spread: str = "sd",
) -> str:
    """LaTeX with booktabs, and a comment above it that says what it is and where it fits.

    Methods stand in the order of `order_of`. The best mean of a column is bold; a dagger marks those that could not be
    told apart from it (sign-flip test under the same seeds, after Holm over all pairs of a column). Where nothing
    varies there are as many columns as fit: difference to the baseline, its p, what was tuned, rounds and bytes to the
    target.

    Args:
      summary: the rows of `summary.csv`.
      compare: those of `compare.csv`, where there is one.
      score: `final`, `best` or `mean_last_k`.
      scenario: resolved, for its name and for what varies.
      spread: `sd` or `interval`.
    """
    baseline = next((row["baseline"] for row in compare or ()), None)
    methods, groups = order_of(summary, baseline, score), by(summary, "variant")
    varied = [*((scenario.get("compare") or {}).get("vary") or {})] if (None,) not in groups else []
    scores = [_scores(methods, rows, score, spread) for rows in groups.values()]
    title = in_words(metric_of(summary))
    heads = [_values(str(variant), varied) or [title] for (variant,) in groups]
    digits = _digits([one for of_one in scores for one in of_one])
    columns = [
        _score_column(head, of_one, digits) for head, of_one in zip(heads, scores, strict=True)
    ]
    more = (
        []
        if varied
        else [*_differences(methods, compare), *_tuned(methods, summary), *_costs(methods, summary)]
    )
    names, blocks = _laid_out(methods, varied or ["method"], columns, more)
    points = layout.points_of(*([names, *block] for block in blocks))
    comment = [
        *_comment(summary, scores, score, scenario, spread),
        *_order(baseline, varied),
        *_place(points),
    ]
    return "\n".join([*(f"% {line}" for line in comment), *layout.tabular(names, blocks), ""])


def _values(variant: str, varied: Sequence[str]) -> list[str]:
    """The values of what varies, from the label of a variation.

    >>> _values("cohort.size=5, fleet.malicious=0", ["cohort.size", "fleet.malicious"])
    ['5', '0']
    """
    starts = [variant.find(f"{path}=") for path in varied] + [len(variant) + 2]
    return [
        variant[a + len(path) + 1 : b - 2]
        for path, (a, b) in zip(varied, pairwise(starts), strict=True)
    ]


def _laid_out(
    methods: Sequence[str], heads: Sequence[str], columns: Sequence[Column], more: Sequence[Column]
) -> tuple[Column, list[list[Column]]]:
    """Names and the columns beside them in blocks; names are broken where more stands beside them then."""
    whole, broken = (layout.names_column(methods, heads, broken) for broken in (False, True))
    if len(columns) == 1:
        fit = layout.fitting(whole, [*columns, *more])
        names = whole if len(fit) > min(len(more), 2) else broken
        return names, [[*columns, *layout.fitting(names, [*columns, *more])[1:]]]
    ways = [(names, layout.blocks_of(names, columns)) for names in (whole, broken)]
    points = lambda way: layout.points_of(*([way[0], *block] for block in way[1]))
    return min(ways, key=lambda way: (points(way) > PAGE, points(way) > COLUMN, len(way[1])))


def _scores(methods: Sequence[str], rows: Sequence[Row], score: str, spread: str) -> list[Score]:
    """Of every method under one variation; the best one and those that could not be told apart from it are marked."""
    scores, sign = [], 1 if larger_is_better(metric_of(rows)) else -1
    for method in methods:
        runs = [row for row in rows if row["method"] == method]
        values = [row[score] for row in runs if row.get(score) is not None]
        known = len(values) > 1 and all(map(math.isfinite, values))
        wide = (
            (statistics.stdev(values) if spread == "sd" else half_width(values)) if known else None
        )
        mean = statistics.fmean(values) if values else None
        lost = any(row.get("diverged") for row in runs)
        idle = any(row.get("status") == NOT_RUN for row in runs)
        scores.append(Score(mean, wide, len(runs), len(values), diverged=lost, not_run=idle))
    means = [sign * one.mean for one in scores if one.mean is not None]
    if len(methods) < 2 or not means:
        return scores
    best = [one.mean is not None and sign * one.mean == max(means) for one in scores]
    p_values = told_apart(rows, methods[best.index(True)], score) if can_tell(rows) else {}
    level = {method for method, p in p_values.items() if p is not None and p >= SURE}
    parts = zip(scores, methods, best, strict=True)
    return [
        one._replace(best=first, level=method in level and not first)
        for one, method, first in parts
    ]


def can_tell(rows: Sequence[Row]) -> bool:
    """Whether the seeds of a variation are so many that a difference of two of its methods can be called sure."""
    seeds = len({row["seed"] for row in rows})
    methods = len({row["method"] for row in rows})
    return seeds > 1 and smallest_p(seeds) * math.comb(methods, 2) < SURE


def _digits(scores: Sequence[Score]) -> int:
    """Decimals of all scores, by which the spread of every best one has a digit."""
    large = any(abs(one.mean or 0) >= TENS for one in scores)
    best = [one.spread for one in scores if one.best] or [one.spread for one in scores]
    return layout.digits_of(best, least=1 if large else 2)


def _score_column(heads: Sequence[str], scores: Sequence[Score], digits: int) -> Column:
    return Column((*NUMBER[:1], "l@{}", "l"), heads, [_score(one, digits) for one in scores])


def _ending(one: Score) -> str:
    """How the runs of a method without a score ended."""
    if one.diverged:
        return "diverged"
    return "not run" if one.not_run else "failed"


def _score(one: Score, digits: int) -> list[Part]:
    """A mean around its point, and behind it the spread, a dagger, and how many runs have a score where some have none."""
    if one.mean is None:
        return word(_ending(one))
    if not abs(one.mean) < LARGE:
        return word(f"{one.mean:.3g}")
    after, points = "", 0.0
    if one.spread is not None:
        after, points = (
            f"\\,$\\pm$\\,{one.spread:.{digits}f}",
            2 * THIN + SIGN + width(f"{one.spread:.{digits}f}"),
        )
    if one.level:
        after, points = f"{after}$^{{\\dagger}}$", points + RAISED
    if one.scored < one.runs:
        some = f"{one.scored}/{one.runs}"
        after, points = f"{after}$^{{{some}}}$", points + RAISED * len(some)
    return [*number(one.mean, digits, bold=one.best), (after, points)]


def _differences(methods: Sequence[str], compare: Sequence[Row] | None) -> list[Column]:
    """Differences to the baseline, and their p; empty for a method of which no run has ended."""
    if not compare or len(methods) < 2:
        return []
    rows = {row["method"]: row for row in compare}
    digits = layout.digits_of([rows[method]["sd"] for method in methods if method in rows])
    differences, p_values = [], []
    for method in methods:
        if method not in rows:
            differences.append(word(""))
            p_values.append(word(""))
            continue
        row = rows[method]
        known = row["difference"] is not None
        first = "baseline" if method == row["baseline"] else ""
        differences.append(number(row["difference"], digits, sign=True) if known else word(first))
        p_values.append(_p(row["p_adjusted"]) if row["p_adjusted"] is not None else word(""))
    return [Column(NUMBER, ["difference"], differences), Column(NUMBER, ["p (Holm)"], p_values)]


def _p(p: float) -> list[Part]:
    """Three decimals."""
    (whole, points), fraction = number(max(p, 0.001), 3)
    return [(f"$<${whole}", points + SIGN), fraction] if p < 0.001 else [(whole, points), fraction]


def _tuned(methods: Sequence[str], summary: Sequence[Row]) -> list[Column]:
    """A column per path that was tuned."""
    settings: dict[str, dict[str, str]] = {}
    for row in summary:
        for text in str(row.get("tuned") or "").split(", "):
            path, _, value = text.partition("=")
            if value:
                settings.setdefault(path, {})[row["method"]] = plain(value)
    return [
        Column(("r",), [path], [word(of.get(method, "")) for method in methods])
        for path, of in settings.items()
    ]


def _costs(methods: Sequence[str], summary: Sequence[Row]) -> list[Column]:
    """Rounds and megabytes to the target, medians over all runs; empty where half of them or more did not reach it."""
    columns = []
    for name, unit, title, form in (("rounds", 1, "rounds", ".0f"), ("bytes", 1e6, "MB", ".3g")):
        cells = []
        for method in methods:
            median, _ = median_to_target(
                [row for row in summary if row["method"] == method], f"{name}_to_target"
            )
            cells.append(word(f"{median / unit:{form}}" if math.isfinite(median) else ""))
        if any(cell[0][0] for cell in cells):
            columns.append(Column(("r",), [title], cells))
    return columns


def _comment(
    summary: Sequence[Row],
    scores: Sequence[Sequence[Score]],
    score: str,
    scenario: Mapping[str, Any],
    spread: str,
) -> list[str]:
    """What the numbers are."""
    seeds = sorted({row["seed"] for row in summary})
    running = seeds == list(range(seeds[0], seeds[-1] + 1))
    which = (
        f"{seeds[0]} to {seeds[-1]}"
        if running
        else f"{', '.join(map(str, seeds[:9]))}{', ...' * (len(seeds) > 9)}"
    )
    metric, over = plain(metric_of(summary)), f"{len(seeds)} seeds, {which}"
    lines = [
        f"{plain(scenario['name'])}: {score} {metric} of {over if len(seeds) > 1 else f'seed {seeds[0]}'}"
        f"{f', mean +- {SPREADS[spread]}' if len(seeds) > 1 else ''}.",
        "From summary.csv by fedsim; again: fedsim export DIR --format latex --spread sd|interval. Needs booktabs.",
    ]
    flat = [one for of_one in scores for one in of_one]
    if len(flat) == len(scores):
        return lines
    marks = "Bold: the best mean of a column."
    if any(one.level for one in flat):
        marks += f" Dagger: could not be told apart from it (p >= {SURE}, sign-flip test, Holm over all pairs)."
    elif not can_tell(summary):
        marks += " So few seeds can call no difference to it sure."
    lines.append(marks)
    if any(one.scored < one.runs for one in flat):
        lines.append(
            "Raised 8/10: of 10 runs 8 have a score, of which the mean is; the others diverged or failed."
        )
    return lines


def _order(baseline: str | None, varied: Sequence[str]) -> list[str]:
    if baseline is None:
        return []
    by_rank = "mean rank over the columns" if varied else "their means"
    return [f"Rows: the baseline, {plain(baseline)}, then the others by {by_rank}, the best first."]


def _place(points: float) -> list[str]:
    """Where it fits."""
    wide = f"{math.ceil(points + 0.5)} pt wide at 8 pt"
    if points <= COLUMN:
        return [
            f"{wide}, fits a column: \\begin{{table}} \\centering \\input{{summary}} \\caption{{...}} \\end{{table}}"
        ]
    if points <= PAGE:
        return [
            f"{wide}, needs both columns: \\begin{{table*}} \\centering \\input{{summary}} \\caption{{...}} \\end{{table*}}"
        ]
    return [f"{wide}, wider than a page: \\resizebox it, or give methods short labels."]

"""Pictures of the page with a row per method, and the map of the partition.

Final scores, differences to the baseline, and how clients fare.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.page import strips
from fedsim.report.page.charts import column_in_words
from fedsim.report.page.clients import OWN, ClientScore, has_both, score_of, scores_of_method
from fedsim.report.page.folding import Split, those_that_differ
from fedsim.report.page.heat_map import HeatMap, heat_map
from fedsim.report.page.strips import Line, Mark, Strips
from fedsim.report.pictures.cut import without_outlier
from fedsim.report.pictures.differences import Difference, Forest, forests
from fedsim.report.pictures.looks import colour_class
from fedsim.report.results import Row, grouped_by
from fedsim.report.series import by_variant
from fedsim.study.label_skew import counts_of_rows
from fedsim.study.standings import Standing, seed_scores
from fedsim.study.statistics import interval
from fedsim.study.summary import is_share, larger_is_better
from fedsim.study.words import count

SCORES = {
    "final": "{}",
    "best": "best {}",
    "mean_last_k": "{}, mean of the last {k} evaluations",
    "own": "{} on the clients' own test samples",
}

TOGETHER = 3  # variations that share a picture

Standings = Mapping[str, Sequence[Standing]]
"""the standings of methods by variation"""


def scores(
    summary: Sequence[Row],
    standings: Standings,
    baseline: str | None,
    chance: Mapping[str, float],
    context: Context,
) -> Split:
    """The dot plots of final scores, each with its title: a row per method, a mark per variation.

    Up to three variations share a picture, in which shapes tell them apart and colours methods; of
    more, each has a picture of its own, on the same axis, of many those that differ most. The
    baseline is a line through all rows, and so is guessing where scores come near to it.

    Args:
      summary: the rows of `summary.csv`.
      standings: the standings of methods.
      baseline: the method that the others are compared with, if any.
      chance: the score of guessing, by variation.
      context: what is shown.
    """
    by_seed = _scores_by_seed(summary, context.score)
    finite: list[float] = []
    for seed_values in by_seed.values():
        finite += filter(math.isfinite, seed_values)
    if not finite:
        return Split([], [])
    parts: list[tuple[str, Standings]] = [("", standings)]
    if len(standings) > TOGETHER:
        parts = [(context.words(name), {name: group}) for name, group in standings.items()]
    rows = [_score_rows(part, by_seed, baseline, context) for _, part in parts]
    numbers = [strips.numbers_of(row.marks) for of_part in rows for row in of_part]
    spanned = without_outlier(numbers)
    lowest = min(spanned) - 0.02
    levels = {level for level in chance.values() if level >= lowest}
    x = strips.percent_axis([*spanned, *levels], share=is_share(context.metric))
    evaluations = [row["k"] for row in summary if row.get("k")]
    k = evaluations[0] if evaluations else ""
    label = SCORES[context.score].format(column_in_words(context.metric), k=k)

    guesses: list[tuple[float, str]] = [(level, "chance") for level in sorted(levels)]
    pictures = []
    for (title, part), of_part in zip(parts, rows, strict=True):
        lines = [*guesses, *_baseline_lines(part, baseline, context)]
        keys = _score_keys(list(part), baseline, levels, context)
        pictures.append((title, strips.marks_picture(of_part, x, label, lines, keys)))
    return those_that_differ(pictures, [_range_of_means(part) for _, part in parts])


def _range_of_means(standings: Standings) -> float:
    """How far apart the mean scores of methods are."""
    means = [one.mean for group in standings.values() for one in group if one.mean is not None]
    finite = list(filter(math.isfinite, means))
    return max(finite) - min(finite) if finite else 0.0


def _score_rows(
    standings: Standings,
    by_seed: Mapping[tuple[str, str], Sequence[float]],
    baseline: str | None,
    context: Context,
) -> list[Line]:
    """The rows of a picture: the means of every method.

    Args:
      standings: the standings of methods under the variations of the picture.
      by_seed: the scores of all seeds by method and variation.
      baseline: the method that the others are compared with, if any.
      context: what is shown.
    """
    rows = []
    for method in context.order:
        marks = []
        for variant, of_variant in standings.items():
            mark = _score_mark(
                standing=_standing_of(method, of_variant),
                seeds=by_seed.get((method, variant), []),
                baseline=baseline,
                variation=context.words(variant),
                metric=context.metric,
            )
            marks.append(mark)
        note = "baseline" if method == baseline else context.note_of(method)
        rows.append(Line(method, note, _colour(method, context), marks))
    return rows


def _standing_of(method: str, standings: Sequence[Standing]) -> Standing | None:
    for standing in standings:
        if standing.method == method:
            return standing
    return None


def _scores_by_seed(summary: Sequence[Row], score: str) -> dict[tuple[str, str], list[float]]:
    """The scores of all seeds by method and variation."""
    scores = {}
    for (method, variant), runs in grouped_by(summary, "method", "variant").items():
        scores[str(method), variant or ""] = list(seed_scores(runs, score).values())
    return scores


def _colour(method: str, context: Context) -> str:
    return colour_class(context.rank_of(method))


def _baseline_lines(
    standings: Standings, baseline: str | None, context: Context
) -> list[tuple[float, str]]:
    """The mean of the baseline under every variation, with the classes of its line."""
    lines = []
    for index, of_variant in enumerate(standings.values()):
        for standing in of_variant:
            mean = standing.mean
            if standing.method == baseline and mean is not None and math.isfinite(mean):
                dash = f"b{index}"
                lines.append((mean, f"base {dash} {_colour(standing.method, context)}"))
    return lines


def _score_keys(
    variants: Sequence[str], baseline: str | None, levels: set[float], context: Context
) -> list[tuple[Markup, str]]:
    """The legend: variations, open marks, and lines."""
    keys = []
    if len(variants) > 1:
        for index, name in enumerate(variants):
            keys.append((strips.symbol(index), context.words(name)))
    # Of an unfinished comparison the baseline may have no row yet.
    if baseline is not None and baseline in context.order:
        open_mark = strips.symbol(0, filled=False)
        keys.append((open_mark, f"open: no clear difference from {baseline}"))
        line = strips.line_symbol(f"base b0 {_colour(baseline, context)}")
        keys.append((line, f"{baseline}, the baseline"))
    if levels:
        keys.append((strips.line_symbol("chance"), f"guessing, {max(levels):.2g}"))
    return keys


def _score_mark(
    standing: Standing | None,
    seeds: Sequence[float],
    baseline: str | None,
    variation: str,
    metric: str,
) -> Mark:
    """The mean of a method under a variation.

    Args:
      standing: of the method; None where it has none.
      seeds: its scores.
      baseline: the method that the others are compared with, if any.
      variation: in words.
      metric: of the scores.
    """
    if standing is None or standing.mean is None:
        return strips.empty_mark(f"{variation} no score".strip(), text=_ending(standing))

    mean = None
    text = "diverged"
    if math.isfinite(standing.mean):
        mean = standing.mean
        text = brief(mean)
    title = f"{variation}: {text}" if variation else text

    low, high = interval(np.array(seeds)) or (None, None)
    if low is not None:
        title += f", 95 % {low:.4g} to {high:.4g}"
    title += f" over {count(len(seeds), 'seed')}"
    if low is not None and high is not None and is_share(metric):
        low = max(low, 0.0)
        high = min(high, 1.0)

    if standing.row and standing.row["difference"] is not None:
        difference = standing.row["difference"]
        title += f"; {difference:+z.3g} against {baseline}, {standing.seeds_in_words}"
    return Mark(
        at=mean,
        low=low,
        high=high,
        dots=seeds if len(seeds) > 1 else [],
        filled=baseline is None or standing.method == baseline or standing.significant,
        text=text,
        title=title,
    )


def _ending(standing: Standing | None) -> str:
    """How the runs of a method without a score ended."""
    if standing is None:
        return ""
    if standing.not_federated:
        return "no score"
    if standing.not_run:
        return "not run"
    return "failed"


def brief(value: float, sign: str = "") -> str:
    """A number with three decimals, a large one with three digits.

    A difference that would be zeros has one digit.

    >>> brief(0.25), brief(0.25, sign="+"), brief(-0.0003, sign="+")
    ('0.250', '+0.250', '-0.0003')
    """
    form = ".3f" if abs(value) < 1000 else ".3g"
    if sign and abs(value) < 0.0005:
        form = ".1g"
    return f"{value:{sign}z{form}}"


def differences(compared: Sequence[Row], context: Context) -> Split:
    """A picture for every variation in which there are differences to the baseline, with its title.

    Of many those with the largest difference are shown.

    Args:
      compared: rows of `compare.csv`.
      context: what is shown.
    """
    pictures = []
    largest = []  # the largest difference of each
    for forest in forests(compared, context):
        if forest.numbers:
            pictures.append((forest.title, _forest(forest, context)))
            largest.append(max(abs(row.mean or 0.0) for row in forest.rows))
    return those_that_differ(pictures, largest)


def _forest(forest: Forest, context: Context) -> Strips:
    side = "right" if larger_is_better(forest.metric) else "left"
    label = f"difference to {forest.baseline} in {column_in_words(forest.metric)}; {side} is better"
    rows = []
    numbers = []
    for row in forest.rows:
        note = context.note_of(row.method)
        marks = [_difference_mark(row)]
        rows.append(Line(row.method, note, _colour(row.method, context), marks))
        numbers.append(strips.numbers_of(marks))
    x = strips.cut_axis(numbers, fixed=[0.0])
    return strips.marks_picture(rows, x, label, [(0.0, "zero")])


def _difference_mark(row: Difference) -> Mark:
    if row.mean is None:
        return strips.empty_mark(f"{row.method}: no finite difference")
    text = brief(row.mean, sign="+")
    title = text
    if row.low is not None:
        title += f", 95 % {row.low:+z.4g} to {row.high:+z.4g}, p = {row.p:.2g} after Holm"
    return Mark(
        at=row.mean,
        low=row.low,
        high=row.high,
        dots=[],
        filled=row.significant,
        text=text,
        title=title,
    )


def spreads(clients: pd.DataFrame | None, context: Context) -> Split:
    """How the scores of clients spread: a picture for every variation, with its title.

    Where clients have models of their own beside the shared one, a method has a row for each. Of
    many those whose medians differ most are shown.

    Args:
      clients: the columns of `clients.csv`.
      context: what is shown.
    """
    score = score_of(clients, context.metric)
    if clients is None or score is None:
        return Split([], [])
    scores = {}
    for variant, table in by_variant(clients).items():
        scores[variant] = _by_method(table, score)

    ends: dict[str, list[float]] = {}  # by method
    for by_method in scores.values():
        for method, values in by_method.items():
            if values:
                ends.setdefault(method, []).extend(np.percentile(values, (10, 90)).tolist())
    x = strips.cut_axis([*ends.values()], share=score.share)

    label = f"{score.words} of the final model on the client's own samples"
    pictures = []
    apart = []  # how far the medians are
    for variant, by_method in scores.items():
        methods = [name for name in by_method if not name.endswith(OWN)]
        rows = []
        for method in context.ordered(methods):
            for name in (method, method + OWN):
                if name in by_method:
                    rows.append((name, _colour(method, context), by_method[name]))
        pictures.append((context.words(variant), strips.spread_picture(rows, x, label)))
        apart.append(_range_of_medians(by_method))
    return those_that_differ(pictures, apart)


def _range_of_medians(by_method: Mapping[str, Sequence[float]]) -> float:
    """How far apart the medians of methods are; 0 where no client has a score."""
    medians = [float(np.median(values)) for values in by_method.values() if values]
    if not medians:
        return 0.0
    return max(medians) - min(medians)


def _by_method(clients: pd.DataFrame, score: ClientScore) -> dict[str, list[float]]:
    """The scores of all clients and seeds by method, without clients that have none.

    Scores of clients' own models beside a shared one are those of the method's name with OWN.
    """
    scores = {}
    for method, rows in clients.groupby("method", sort=False):
        by_name = {str(method): scores_of_method(rows, score)}
        if has_both(rows, score):
            by_name[f"{method}{OWN}"] = np.asarray(rows[score.own], float)
        for name, values in by_name.items():
            scores[name] = values[np.isfinite(values)].tolist()
    return scores


def partition(table: pd.DataFrame | None) -> HeatMap | None:
    """The map of the first variation's partition.

    Args:
      table: the columns of `partition.csv`.
    """
    if table is None:
        return None
    first = next(iter(by_variant(table).values()))
    return heat_map(counts_of_rows(first))

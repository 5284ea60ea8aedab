"""Pictures of the page with a row per method, and that of the partition.

Final scores, differences to the baseline, and how clients fare.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fedsim.report.context import Context
from fedsim.report.figures.rows import rows_on_page
from fedsim.report.page.charts import column_in_words
from fedsim.report.page.clients import OWN, ClientScore, has_both, score_of, scores_of_method
from fedsim.report.page.folding import Split, those_that_differ
from fedsim.report.pictures.cut import without_outlier
from fedsim.report.pictures.differences import forests, rows_of_forest
from fedsim.report.pictures.rows import (
    PERCENTILES,
    SHAPES,
    Key,
    Level,
    Mark,
    Rows,
    Span,
    brief,
    empty_mark,
    in_shares,
    span_of,
)
from fedsim.report.pictures.rows import Row as Line
from fedsim.report.results import Row, grouped_by
from fedsim.report.series import by_variant
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

TOGETHER = 2  # variations that share a picture
# dashes of the baseline's line by variation, and of guessing
BASELINE_DASHES = ((4.0, 2.0), (1.5, 2.0))
GUESSING = (0.7, 2.0)

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

    Two variations share a picture, in which shapes tell them apart and colours methods; of more,
    each has a picture of its own, on the same axis, of many those that differ most. The
    baseline is a line through all rows, and so is guessing where scores come near to it.
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
    all_rows = [row for of_part in rows for row in of_part]
    lowest = min(without_outlier([row.numbers for row in all_rows])) - 0.02
    guesses = sorted({level for level in chance.values() if level >= lowest})
    span = span_of(all_rows, guesses, share=is_share(context.metric))
    evaluations = [row["k"] for row in summary if row.get("k")]
    k = evaluations[0] if evaluations else ""
    label = SCORES[context.score].format(column_in_words(context.metric), k=k)

    pictures = []
    for (title, part), of_part in zip(parts, rows, strict=True):
        levels = [Level(guess, dashes=GUESSING) for guess in guesses]
        levels += _baseline_levels(part, baseline, context)
        keys = _score_keys(list(part), baseline, guesses, context)
        pictures.append((title, rows_on_page(Rows(of_part, span, label, levels, keys))))
    return those_that_differ(pictures, [_range_of_means(part) for _, part in parts])


def _range_of_means(standings: Standings) -> float:
    means = [one.mean for group in standings.values() for one in group if one.mean is not None]
    finite = list(filter(math.isfinite, means))
    return max(finite) - min(finite) if finite else 0.0


def _score_rows(
    standings: Standings,
    by_seed: Mapping[tuple[str, str], Sequence[float]],
    baseline: str | None,
    context: Context,
) -> list[Line]:
    rows = []
    for method in context.order:
        marks = []
        for variant, of_variant in standings.items():
            of_method = (standing for standing in of_variant if standing.method == method)
            mark = _score_mark(
                standing=next(of_method, None),
                seeds=by_seed.get((method, variant), []),
                baseline=baseline,
                variation=context.words(variant),
                metric=context.metric,
            )
            marks.append(mark)
        note = "baseline" if method == baseline else context.note_of(method)
        rows.append(Line(method, note, context.rank_of(method), marks))
    return rows


def _scores_by_seed(summary: Sequence[Row], score: str) -> dict[tuple[str, str], list[float]]:
    """The scores of all seeds by method and variation."""
    scores = {}
    for (method, variant), runs in grouped_by(summary, "method", "variant").items():
        scores[str(method), variant or ""] = list(seed_scores(runs, score).values())
    return scores


def _baseline_levels(standings: Standings, baseline: str | None, context: Context) -> list[Level]:
    """A line at the mean of the baseline under every variation."""
    levels = []
    for dashes, of_variant in zip(BASELINE_DASHES, standings.values(), strict=False):
        for standing in of_variant:
            mean = standing.mean
            if standing.method == baseline and mean is not None and math.isfinite(mean):
                levels.append(Level(mean, context.rank_of(standing.method), dashes))
    return levels


def _score_keys(
    variants: Sequence[str], baseline: str | None, guesses: Sequence[float], context: Context
) -> list[Key]:
    """The legend: variations, hollow marks, and lines."""
    keys = []
    if len(variants) > 1:
        for shape, name in zip(SHAPES, variants, strict=False):
            keys.append(Key(context.words(name), shape))
    # Of an unfinished comparison the baseline may have no row yet.
    if baseline is not None and baseline in context.order:
        level = Level(0.0, context.rank_of(baseline), BASELINE_DASHES[0])
        keys.append(Key(f"hollow: no clear difference from {baseline}", SHAPES[0], filled=False))
        keys.append(Key(f"{baseline}, the baseline", level=level))
    if guesses:
        guessing = Level(0.0, dashes=GUESSING)
        keys.append(Key(f"guessing, {guesses[-1]:.2g}", level=guessing))
    return keys


def _score_mark(
    standing: Standing | None,
    seeds: Sequence[float],
    baseline: str | None,
    variation: str,
    metric: str,
) -> Mark:
    """The mean of a method under a variation."""
    if standing is None or standing.mean is None:
        return empty_mark(f"{variation} no score".strip(), text=_ending(standing))

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
    if is_share(metric):
        low, high = in_shares(low, high)

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


def differences(compared: Sequence[Row], context: Context) -> Split:
    """A picture for every variation in which there are differences to the baseline, with its title.

    Of many those with the largest difference are shown.
    """
    pictures = []
    largest = []  # the largest difference of each
    for forest in forests(compared, context):
        metric = column_in_words(forest.metric)
        side = "right" if larger_is_better(forest.metric) else "left"
        label = f"difference to {forest.baseline} in {metric}; {side} is better"
        picture = rows_of_forest(forest, context, label)
        if any(row.numbers for row in picture.rows):
            pictures.append((forest.title, rows_on_page(picture)))
            marks = [mark for row in picture.rows for mark in row.marks]
            largest.append(max(abs(mark.at or 0.0) for mark in marks))
    return those_that_differ(pictures, largest)


def spreads(clients: pd.DataFrame | None, context: Context) -> Split:
    """How the scores of clients spread: a picture for every variation, with its title.

    Where clients have models of their own beside the shared one, a method has a row for each. Of
    many those whose medians differ most are shown.
    """
    score = score_of(clients, context.metric)
    if clients is None or score is None:
        return Split([], [])
    scores = {}
    for variant, table in by_variant(clients).items():
        scores[variant] = _by_method(table, score)

    rows = {variant: _spread_rows(by_method, context) for variant, by_method in scores.items()}
    span = _span_of_methods([row for of_variant in rows.values() for row in of_variant], score)
    label = f"{score.words} of the final model on the client's own samples"
    pictures = []
    apart = []  # how far the medians are
    for variant, of_variant in rows.items():
        picture = rows_on_page(Rows(of_variant, span, label))
        pictures.append((context.words(variant), picture))
        apart.append(_range_of_medians(scores[variant]))
    return those_that_differ(pictures, apart)


def _spread_rows(by_method: Mapping[str, Sequence[float]], context: Context) -> list[Line]:
    rows = []
    methods = [name for name in by_method if not name.endswith(OWN)]
    for method in context.ordered(methods):
        for name in (method, method + OWN):
            if name in by_method:
                spread: list[float] = []
                if by_method[name]:
                    spread = np.percentile(by_method[name], PERCENTILES).tolist()
                rows.append(Line(name, "", context.rank_of(method), spread=spread))
    return rows


def _span_of_methods(rows: Sequence[Line], score: ClientScore) -> Span:
    """The axis that all variations share, cut where one method would squeeze all others."""
    together: dict[str, list[float]] = {}
    for row in rows:
        together.setdefault(row.name, []).extend(row.numbers)
    ends = [Line(name, "", 0, spread=sorted(numbers)) for name, numbers in together.items()]
    return span_of(ends, share=score.share)


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

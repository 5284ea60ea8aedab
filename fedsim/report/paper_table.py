"""The table of a paper: methods as rows, variations as columns, mean ± spread over the seeds."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from fedsim.report.latex import Column, column, escaped, plain, point_aligned, table_of
from fedsim.report.ranking import order_of
from fedsim.report.results import (
    Errors,
    grouped_by,
    measured,
    metric_of,
    results,
)
from fedsim.study.pairing import SIGNIFICANCE_LEVEL, p_values_against
from fedsim.study.statistics import smallest_p
from fedsim.study.summary import (
    NOT_FEDERATED,
    NOT_RUN,
    as_loss,
    common_score,
    distinct,
    has_score,
    in_words,
    is_federated,
    larger_is_better,
)
from fedsim.types.client import ALONE

Row = dict[str, Any]

SPREADS = {"sd": "standard deviation", "interval": "half of Student's 95 % interval of the mean"}
AGAIN = "fedsim export DIR --format latex --spread sd|interval"  # the command that writes it again
TENS = 10.0  # a mean from which on one decimal may be enough
NO_SCORE = "no score"  # of clients that train alone: there is no shared model
SIDE_BY_SIDE = 5  # variations, at most
ONE_COLUMN = 3  # columns of a table that fits a column of text, at most
MOST_DIGITS = 4  # decimals
# columns of a table of results that a paper has no space for, or has already
SHORT = ("method", "runs", "score", "sd", "best", "95 %", "better in")
LARGE = 1e5  # a mean from which on it is written with an exponent


class Score(NamedTuple):
    """The scores of a method under one variation.

    Attributes:
      mean: of the runs that have one; None where no run has.
      spread: standard deviation or half an interval; None for a single run.
      scored: how many of them have a score.
      level: whether the mean cannot be told apart from the best one.
      ending: how runs without a score ended, in a word or two.
    """

    mean: float | None
    spread: float | None
    runs: int
    scored: int
    best: bool = False
    level: bool = False
    ending: str = "failed"


def paper_table(
    summary: Sequence[Row],
    compare: Sequence[Row] | None,
    score: str,
    scenario: Mapping[str, Any],
    spread: str = "sd",
    errors: Errors | None = None,
) -> str:
    """LaTeX with booktabs, below a comment that says what the table is.

    Methods are in the order of `order_of`. The best mean of a column is bold; a dagger marks those
    that could not be told apart from it (sign-flip test under the same seeds, after Holm over all
    pairs of a column). Variations that do not fit a page beside each other are in several blocks.
    Where nothing varies there are further columns: what was tuned, rounds, bytes and seconds to the
    target, R² and MAE of models that predict numbers, difference to the baseline and its p.

    Args:
      errors: R² and MAE by name, by variation and method; left out: of models of classes.
    """
    errors = errors or {}
    baseline = None
    if compare:
        baseline = compare[0]["baseline"]
    methods = order_of(summary, baseline, score)
    groups = grouped_by(summary, "variant")
    varied: list[str] = []
    if (None,) not in groups:
        varied = list((scenario.get("compare") or {}).get("vary") or {})

    title = in_words(metric_of(summary))
    heads = []
    scores = []
    for (variant,), rows in groups.items():
        heads.append(_values(str(variant), varied) or [title])
        scores.append(scores_of(methods, rows, score, spread))

    names = Column(varied or ["method"], [("l", [escaped(method) for method in methods])])
    columns = _score_columns(heads, scores)
    if not varied:
        columns += _further(methods, summary, compare, score, scenario, errors)
    blocks = _blocks(names, columns) if varied else [[names, *columns]]
    comment = [
        *_description(summary, score, scenario, spread),
        *_marks(summary, scores),
        *_order(baseline, varied),
        *_outside(summary, score),
        _use(bool(varied) or len(columns) > ONE_COLUMN),
    ]
    return "".join(f"% {line}\n" for line in comment) + table_of(blocks)


def _blocks(names: Column, columns: Sequence[Column]) -> list[list[Column]]:
    """As few blocks below each other as a page needs, each with the names."""
    blocks = -(-len(columns) // SIDE_BY_SIDE)
    side_by_side = -(-len(columns) // blocks)
    starts = range(0, len(columns), side_by_side)
    return [[names, *columns[start : start + side_by_side]] for start in starts]


def _further(
    methods: Sequence[str],
    summary: Sequence[Row],
    compare: Sequence[Row] | None,
    score: str,
    scenario: Mapping[str, Any],
    errors: Errors,
) -> list[Column]:
    """The columns of a table of results behind the scores; those without any cell are left out."""
    compared = compare if len(methods) > 1 else None
    rows = results(summary, compared, score, scenario=scenario, errors=errors)
    by_method = {str(row["method"][1]): row for row in rows}
    columns = []
    for title in rows[0]:
        cells = [by_method[method][title][0] for method in methods]
        if title not in SHORT and any(cells):
            columns.append(column(title, cells))
    return columns


def _values(variant: str, varied: Sequence[str]) -> list[str]:
    """The values of what varies, from the label of a variation.

    >>> _values("cohort.size=5, fleet.malicious=0", ["cohort.size", "fleet.malicious"])
    ['5', '0']
    """
    starts = [variant.find(f"{path}=") for path in varied]
    values = []
    for path, (start, end) in zip(varied, pairwise([*starts, len(variant) + 2]), strict=True):
        values.append(variant[start + len(path) + 1 : end - 2])  # without the comma
    return values


def scores_of(methods: Sequence[str], rows: Sequence[Row], score: str, spread: str) -> list[Score]:
    """The scores of methods under one variation; the best is marked, and those level with it."""
    scores = []
    for method in methods:
        runs = [row for row in rows if row["method"] == method]
        scores.append(_score(runs, score, spread))

    # The best is one of the federated methods.
    outside = {row["method"] for row in rows if not is_federated(row)}
    rows = [row for row in rows if row["method"] not in outside]
    means = {}
    for method, entry in zip(methods, scores, strict=True):
        if entry.mean is not None and method not in outside:
            means[method] = entry.mean
    if len(methods) < 2 or not means:
        return scores

    rising = larger_is_better(metric_of(rows))
    best_method = min(means, key=lambda method: as_loss(means[method], rising))
    best = means[best_method]
    level = _level_with(best_method, rows, score)
    marked = []
    for entry, method in zip(scores, methods, strict=True):
        is_best = entry.mean == best and method not in outside
        marked.append(entry._replace(best=is_best, level=method in level and not is_best))
    return marked


def _score(runs: Sequence[Row], score: str, spread: str) -> Score:
    values, mean, half = measured(runs, score, spread)
    return Score(mean, half, len(runs), len(values), ending=_ending(runs))


def _ending(runs: Sequence[Row]) -> str:
    """How the runs of a method without a score ended."""
    if any(row.get("diverged") for row in runs):
        return "diverged"
    if any(row.get(NOT_FEDERATED) == ALONE for row in runs):
        return NO_SCORE
    if any(row.get("status") == NOT_RUN for row in runs):
        return "not run"
    return "failed"


def _level_with(best: str, rows: Sequence[Row], score: str) -> set[str]:
    """Methods that cannot be told apart from the best one; none where seeds are too few to tell."""
    if not can_tell(rows):
        return set()
    level = set()
    for method, p in p_values_against(rows, best, score).items():
        if p is not None and p >= SIGNIFICANCE_LEVEL:
            level.add(method)
    return level


def can_tell(rows: Sequence[Row]) -> bool:
    """Whether there are enough seeds to call a difference of two methods sure."""
    seeds = len(distinct(rows, "seed"))
    methods = len(distinct(rows, "method"))
    return seeds > 1 and smallest_p(seeds) * math.comb(methods, 2) < SIGNIFICANCE_LEVEL


def _score_columns(
    heads: Sequence[Sequence[str]], scores: Sequence[Sequence[Score]]
) -> list[Column]:
    """The columns of scores, all with the same decimals."""
    digits = _digits(_entries(scores))
    columns = []
    for head, column_scores in zip(heads, scores, strict=True):
        cells = [_cells(entry, digits) for entry in column_scores]
        means = [mean for mean, _ in cells]
        behind = [rest for _, rest in cells]
        columns.append(Column(head, [(point_aligned(means) + "@{}", means), ("l", behind)]))
    return columns


def _entries(scores: Sequence[Sequence[Score]]) -> list[Score]:
    return [entry for column in scores for entry in column]


def _digits(scores: Sequence[Score]) -> int:
    """Decimals with which the spread of every best score has a digit."""
    spreads = [entry.spread for entry in scores if entry.best]
    if not spreads:
        spreads = [entry.spread for entry in scores]
    are_large = any(abs(entry.mean or 0) >= TENS for entry in scores)
    positive = [spread for spread in spreads if spread and math.isfinite(spread)]
    if not positive:
        return MOST_DIGITS
    digits = math.ceil(-math.log10(min(positive)))
    return min(max(digits, 1 if are_large else 2), MOST_DIGITS)


def _cells(entry: Score, digits: int) -> tuple[str, str]:
    """The mean of a score, and what is behind it.

    That is the spread, a dagger, and how many runs have a score where some have none; or, without a
    mean that fits the column, how the runs ended or a number with an exponent.
    """
    if entry.mean is None:
        return "", entry.ending
    if not abs(entry.mean) < LARGE:
        return "", f"{entry.mean:.3g}"

    bold = "\\bfseries " if entry.best else ""
    behind = ""
    if entry.spread is not None:
        behind += f"\\,$\\pm$\\,{entry.spread:.{digits}f}"
    if entry.level:
        behind += "$^{\\dagger}$"
    if entry.scored < entry.runs:
        behind += f"$^{{{entry.scored}/{entry.runs}}}$"
    return f"{bold}{entry.mean:z.{digits}f}", behind


def _description(
    summary: Sequence[Row], score: str, scenario: Mapping[str, Any], spread: str
) -> list[str]:
    """What the numbers are, and where they come from."""
    seeds = sorted(distinct(summary, "seed"))
    scores = f"{plain(scenario['name'])}: {score} {plain(metric_of(summary))}"
    if len(seeds) == 1:
        scores = f"{scores} of seed {seeds[0]}."
    else:
        scores = f"{scores} of {len(seeds)} seeds, {_listed(seeds)}, mean +- {SPREADS[spread]}."
    return [scores, f"From summary.csv by fedsim; again: {AGAIN}. Needs booktabs and siunitx."]


def _listed(seeds: Sequence[int]) -> str:
    if list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _marks(summary: Sequence[Row], scores: Sequence[Sequence[Score]]) -> list[str]:
    """What bold, daggers and raised numbers mean; nothing for a single method."""
    entries = _entries(scores)
    if len(entries) == len(scores):
        return []
    marks = "Bold: the best mean of a column."
    if any(entry.level for entry in entries):
        test = f"p >= {SIGNIFICANCE_LEVEL}, sign-flip test, Holm over all pairs"
        marks += f" Dagger: could not be told apart from it ({test})."
    elif not can_tell(summary):
        marks += " There are too few seeds to call any difference sure."
    lines = [marks]
    if any(entry.scored < entry.runs and entry.ending != NO_SCORE for entry in entries):
        lines.append(
            "Raised 8/10: 8 of 10 runs have a score, and the mean is over these; "
            "the others diverged or failed."
        )
    return lines


def _order(baseline: str | None, varied: Sequence[str]) -> list[str]:
    if baseline is None:
        return []
    rank = "mean rank over the columns" if varied else "their means"
    return [f"Rows: the baseline, {plain(baseline)}, then the others by {rank}, the best first."]


def _scored_on(row: Row, score: str) -> str:
    """On which samples the models of clients that train alone are scored."""
    common = common_score(score, [row])
    if not has_score(row, common):
        return "no score"
    if common == score:
        return "scored like the others"
    return "scored on its own test samples"


def _outside(summary: Sequence[Row], score: str) -> list[str]:
    """Which methods are not federated, and so neither bold nor ranked."""
    listed = {}
    for row in summary:
        if not is_federated(row):
            reason = "trained on pooled data"
            if row[NOT_FEDERATED] == ALONE:
                reason = f"every client trained alone, {_scored_on(row, score)}"
            listed[row["method"]] = f"{plain(row['method'])} ({reason})"
    if not listed:
        return []
    return [f"Last, not federated methods: {', '.join(listed.values())}."]


def _use(wide: bool) -> str:
    """How a paper with two columns of text shows the table."""
    use = "\\centering \\input{summary} \\caption{...}"
    if wide:
        return f"Needs both columns: \\begin{{table*}} {use} \\end{{table*}}"
    return f"Fits a column: \\begin{{table}} {use} \\end{{table}}"

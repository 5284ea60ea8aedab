"""Results as a table, a row per method and variation; and any table as LaTeX and as Markdown."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.report.latex import escaped
from fedsim.report.ranking import order_of
from fedsim.report.results import (
    Spent,
    errors_in,
    metric_of,
    reached,
    rows_of,
    spent_to_target,
)
from fedsim.study.statistics import half_width
from fedsim.study.summary import common_score, distinct, in_words, values_of, variation_of


def for_paper(
    summary: pd.DataFrame,
    compare: pd.DataFrame | None = None,
    score: str = "final",
    spread: str = "sd",
    rounds: pd.DataFrame | None = None,
    scenario: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """A row per method and variation: mean ± spread over seeds, costs, and the paired difference.

    In every variation the baseline comes first, then the best.

    Args:
      summary: the columns of `summary.csv`.
      compare: the columns of `compare.csv`, where there is one.
      score: one of `SCORES`.
      spread: `sd`, or `interval`: half of Student's 95 % interval of the mean.
      rounds: the columns of `rounds.csv`; of models that predict numbers it has R² and the mean
        absolute error.
      scenario: resolved; left out: without what virtual seconds show.
    """
    spent = spent_to_target(rows_of(summary), scenario)
    errors = errors_in(rounds, metric_of(rows_of(summary)))
    keys = [name for name in ("method", "variant", "tuned") if name in summary]
    compared = {}
    baseline = None
    if compare is not None and len(compare):
        compared = {_key(row, keys): row for row in compare.to_dict("records")}
        baseline = compare["baseline"].iloc[0]

    positions = _positions(summary, baseline, score)
    rows = []
    for values, runs in summary.groupby(keys, dropna=False, sort=False):
        values = values if isinstance(values, tuple) else (values,)
        names = dict(zip(keys, values, strict=True))
        row = {**names, **_scores(runs, score, spread, spent)}
        means = errors.get((variation_of(names), str(names["method"])), {})
        for name, mean in means.items():
            row[name] = f"{mean:.4g}"
        if baseline is not None:
            is_baseline = names["method"] == baseline
            row |= _difference(compared.get(_key(names, keys)), is_baseline)
        rows.append((positions[names["method"], names.get("variant")], row))
    rows.sort(key=lambda pair: pair[0])
    return pd.DataFrame([row for _, row in rows]).fillna("")


def _scores(runs: pd.DataFrame, score: str, spread: str, spent: Sequence[Spent]) -> dict[str, Any]:
    """The cells of the runs of a method: seeds, score, and what was spent to the target."""
    rows = rows_of(runs)
    metric = in_words(metric_of(rows))
    values = values_of(rows, common_score(score, rows))
    cells: dict[str, Any] = {"seeds": len(runs), metric: _mean(values, spread)}
    if any(row["rounds_to_target"] is not None for row in rows):
        for entry in spent:
            cells[f"{entry.noun} to target"], _ = reached(rows, entry)
    return cells


def _positions(
    summary: pd.DataFrame, baseline: str | None, score: str
) -> dict[tuple, tuple[int, int]]:
    """The position of every method and variation in the table."""
    rows = rows_of(summary)
    positions = {}
    for group, variant in enumerate(distinct(rows, "variant")):
        of_variant = [row for row in rows if row.get("variant") == variant]
        for rank, method in enumerate(order_of(of_variant, baseline, score)):
            positions[method, variant] = (group, rank)
    return positions


def latex(table: pd.DataFrame) -> str:
    """The table as LaTeX with booktabs' rules; names are escaped, numbers rounded."""
    plain = table.rename(columns=escaped).map(_rounded).map(escaped)
    return plain.style.hide(axis="index").to_latex(hrules=True)


def markdown(table: pd.DataFrame) -> str:
    """The table as Markdown; names are escaped, numbers rounded."""
    text = _markdown_row(table.columns)
    text += _markdown_row(["---"] * len(table.columns))
    for row in table.map(_rounded).itertuples(index=False):
        text += _markdown_row(row)
    return text


def _rounded(cell: Any) -> Any:
    """A number as readers need it: six significant digits."""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return cell


def _markdown_row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |\n"


def _escaped(cell: Any) -> str:
    return str(cell).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _key(row: Any, keys: list[str]) -> tuple:
    """What a row of `compare.csv` has in common with runs: they are tuned, it is not."""
    return tuple(row[name] for name in keys if name != "tuned")


def _mean(values: list[float], spread: str) -> str:
    """The mean over the seeds that have a score ± its spread."""
    if not values:
        return ""
    mean = f"{statistics.fmean(values):z.4f}"
    if len(values) == 1 or not math.isfinite(sum(values)):
        return mean
    half = statistics.stdev(values) if spread == "sd" else half_width(values)
    return f"{mean} ± {half:.4f}"


def _difference(row: dict[str, Any] | None, is_baseline: bool) -> dict[str, str]:
    """The cells of a method against the baseline.

    Args:
      row: of `compare.csv`; None where no run of the method has ended.
      is_baseline: whether the method is the baseline.
    """
    cells = {"difference": "", "95 % interval": "", "p (Holm)": ""}
    if is_baseline:
        cells["difference"] = "baseline"
    if row is None or pd.isna(row["difference"]):
        return cells
    cells["difference"] = f"{row['difference']:+z.4f}"
    if not pd.isna(row["ci_low"]):
        cells["95 % interval"] = f"{row['ci_low']:+z.4f} to {row['ci_high']:+z.4f}"
    if not pd.isna(row["p_adjusted"]):
        cells["p (Holm)"] = f"{row['p_adjusted']:.3g}"
    return cells

"""The results of a run or a comparison, a row per method and variation; and any table as LaTeX and as Markdown."""

import math
import statistics
from typing import Any

import pandas as pd

from fedsim.report.latex import escaped
from fedsim.report.ranking import order_of
from fedsim.report.results import reached, rows_of
from fedsim.study.statistics import half_width
from fedsim.study.summary import in_words


def for_paper(
    summary: pd.DataFrame,
    compare: pd.DataFrame | None = None,
    score: str = "final",
    spread: str = "sd",
) -> pd.DataFrame:
    """A row per method (and variation): mean ± spread over seeds, its cost, and the paired difference.

    Within every variation the baseline stands first, then the best.

    Args:
      summary: the columns of `summary.csv`.
      compare: those of `compare.csv`, where there is one.
      score: `final`, `best` or `mean_last_k`.
      spread: `sd`, or `interval`: half of Student's 95 % interval of the mean.
    """
    keys = [name for name in ("method", "variant", "tuned") if name in summary]
    differences = (
        {} if compare is None else {_key(row, keys): row for row in compare.to_dict("records")}
    )
    baseline = None if compare is None or not len(compare) else compare["baseline"].iloc[0]
    rows, places = [], _places(summary, baseline, score)
    for values, runs in summary.groupby(keys, dropna=False, sort=False):
        names = dict(zip(keys, values if isinstance(values, tuple) else (values,), strict=True))
        metric = next((m for m in runs["metric"] if isinstance(m, str)), "")
        row: dict[str, Any] = {
            **names,
            "seeds": len(runs),
            in_words(metric): _spread(list(runs[score]), spread),
        }
        records = rows_of(runs)
        if any(record["rounds_to_target"] is not None for record in records):
            row["rounds to target"] = reached(records, "rounds_to_target", 1, ".0f")[0]
            row["MB to target"] = reached(records, "bytes_to_target", 1e6, ".3g")[0]
        if baseline is not None:
            row |= _difference(
                differences.get(_key(names, keys)), first=names["method"] == baseline
            )
        rows.append((places[names["method"], names.get("variant")], row))
    return pd.DataFrame([row for _, row in sorted(rows, key=lambda one: one[0])]).fillna("")


def _places(
    summary: pd.DataFrame, baseline: str | None, score: str
) -> dict[tuple, tuple[int, int]]:
    """Where a method under a variation stands."""
    rows, places = rows_of(summary), {}
    for v, variant in enumerate(dict.fromkeys(row.get("variant") for row in rows)):
        methods = order_of([row for row in rows if row.get("variant") == variant], baseline, score)
        places |= {(method, variant): (v, m) for m, method in enumerate(methods)}
    return places


def latex(table: pd.DataFrame) -> str:
    """The table with booktabs' rules; names are escaped."""
    plain = table.rename(columns=escaped).map(escaped)
    return plain.style.hide(axis="index").to_latex(hrules=True)


def markdown(table: pd.DataFrame) -> str:
    """The table as Markdown; bars and angle brackets in names are escaped."""
    clean = lambda cell: str(cell).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
    lines = [list(map(clean, table.columns)), ["---"] * len(table.columns)]
    lines += [list(map(clean, row)) for row in table.itertuples(index=False)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _key(row: Any, keys: list[str]) -> tuple:
    return tuple(row[name] for name in keys if name != "tuned")


def _spread(values: list[float], spread: str) -> str:
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return ""
    wide = statistics.stdev if spread == "sd" else half_width
    beside = f" ± {wide(known):.4f}" if len(known) > 1 and math.isfinite(sum(known)) else ""
    return f"{statistics.fmean(known):.4f}{beside}"


def _difference(row: dict[str, Any] | None, first: bool) -> dict[str, str]:
    """Cells of a method against the baseline; `first`: it is the baseline. No row: none of its runs has ended."""
    if row is None or pd.isna(row["difference"]):
        return {"difference": "baseline" if first else "", "95 % interval": "", "p (Holm)": ""}
    interval = "" if pd.isna(row["ci_low"]) else f"{row['ci_low']:+.4f} to {row['ci_high']:+.4f}"
    p = "" if pd.isna(row["p_adjusted"]) else f"{row['p_adjusted']:.3g}"
    return {"difference": f"{row['difference']:+.4f}", "95 % interval": interval, "p (Holm)": p}
